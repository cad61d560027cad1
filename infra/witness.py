"""The memory of a witness: its seed, the logs that it knows, and what it signed last of each.

All is in one file, so that the key is never there without what it has signed.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from infra import private_files
from infra.witness.decision import Signed
from shared.errors import InvalidSettings
from shared.model import seeds
from shared.model.audit import cosignatures
from shared.model.audit.checkpoint import NoteKey

_FILE: Final = "witness.db"
_BUSY_SECONDS: Final = 5.0
_TABLES: Final = """
CREATE TABLE identity (name TEXT NOT NULL, seed BLOB NOT NULL) STRICT;
CREATE TABLE keys (origin TEXT NOT NULL, key TEXT NOT NULL PRIMARY KEY) STRICT;
CREATE TABLE signed (
    origin TEXT NOT NULL PRIMARY KEY, size INTEGER NOT NULL, root BLOB NOT NULL, note TEXT NOT NULL
) STRICT;
"""


class WitnessIdentity(NamedTuple):
    """The name of a witness and its seed of 32 bytes."""

    name: str
    seed: bytes

    @property
    def key(self) -> NoteKey:
        """The public key, as those who trust the witness have it."""
        return cosignatures.cosigner(self.name, seed=self.seed)


class Memory:
    """The file of a witness. It is safe to share between threads and processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._read() as db:
            self.identity = WitnessIdentity(
                *db.execute("SELECT name, seed FROM identity").fetchone()
            )

    @classmethod
    def opened(cls, folder: Path, name: str | None) -> Self:
        """Return the memory in a folder, made anew with this name if there is none.

        Raises `InvalidSettings`.
        """
        path = folder.absolute() / _FILE
        if path.exists():
            private_files.check_file(path)
            found = cls(path)
            if name not in (None, found.identity.name):
                raise InvalidSettings(f"the witness in {folder} is named {found.identity.name}.")
            return found
        if name is None:
            raise InvalidSettings(f"there is no witness in {folder}; to make one, add --name.")
        try:
            NoteKey.parse(str(NoteKey(name, bytes([2]) * 32)))
        except ValueError:
            raise InvalidSettings("the name of a witness has no space and no '+'.") from None
        _make(path, name)
        return cls(path)

    def add(self, key: NoteKey) -> None:
        """Know a log by a key of it; again is harmless."""
        with self._write() as db:
            db.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", (key.name, str(key)))

    def keys(self, origin: str) -> list[NoteKey]:
        """Return the keys of a log, none if it is not known."""
        with self._read() as db:
            rows = db.execute("SELECT key FROM keys WHERE origin = ?", (origin,)).fetchall()
        return [NoteKey.parse(key) for (key,) in rows]

    def note(self, origin: str) -> str | None:
        """Return the newest checkpoint that was signed of a log, or None."""
        with self._read() as db:
            row = db.execute("SELECT note FROM signed WHERE origin = ?", (origin,)).fetchone()
        return None if row is None else str(row[0])

    def origins(self) -> list[str]:
        """Return the origins of the logs that have a signed checkpoint."""
        with self._read() as db:
            return [origin for (origin,) in db.execute("SELECT origin FROM signed")]

    @contextmanager
    def of_log(self, origin: str) -> Iterator["LogMemory"]:
        """Hold the memory of a log alone; changes are durable at the end."""
        with self._write() as db:
            yield LogMemory(db, origin)

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        with closing(_connected(self._path)) as db:
            yield db

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with closing(_connected(self._path)) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")


class LogMemory:
    """The tree of one log that was signed last, while nobody else can change it."""

    def __init__(self, db: sqlite3.Connection, origin: str) -> None:
        self._db, self._origin = db, origin

    def last(self) -> Signed:
        """Return the tree that was signed last, the empty one if none was."""
        query = "SELECT size, root FROM signed WHERE origin = ?"
        row = self._db.execute(query, (self._origin,)).fetchone()
        return Signed() if row is None else Signed(*row)

    def keep(self, tree: Signed, note: str) -> None:
        """Note the tree and the checkpoint that are about to be signed."""
        self._db.execute(
            "INSERT OR REPLACE INTO signed VALUES (?, ?, ?, ?)", (self._origin, *tree, note)
        )


def _connected(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS)
    db.isolation_level = None
    # A commit returns once the disk has it.
    db.execute("PRAGMA synchronous = EXTRA")
    return db


def _make(path: Path, name: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    os.close(os.open(part, os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with closing(_connected(part)) as db:
            db.executescript(_TABLES)
            db.execute("INSERT INTO identity VALUES (?, ?)", (name, seeds.new()[0]))
        # Another process may have made one: then that one counts.
        with suppress(FileExistsError):
            os.link(part, path)
    finally:
        part.unlink()
