"""A witness of transparency logs, which cosigns consistent checkpoints (C2SP tlog-witness).

It has its own data and shares only formats with the service. One file contains its seed, the known
logs, and the last signed tree of each log. The key therefore never exists without the record of its
signatures.
"""

import asyncio
import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple, Self

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from infra import private_files
from shared.authorizer.formats.ed25519 import is_signed
from shared.errors import InvalidSettings
from shared.model import seeds
from shared.model.audit import checkpoint, merkle, witnesses
from shared.model.audit.checkpoint import Checkpoint, NoteKey
from shared.model.audit.witnesses import BYTES_MAX, AddCheckpointRequest

_FILE: Final = "witness.db"
_BUSY_SECONDS: Final = 5.0
_TABLES: Final = """
CREATE TABLE identity (name TEXT NOT NULL, seed BLOB NOT NULL) STRICT;
CREATE TABLE keys (origin TEXT NOT NULL, key TEXT NOT NULL PRIMARY KEY) STRICT;
CREATE TABLE signed (
    origin TEXT NOT NULL PRIMARY KEY, size INTEGER NOT NULL, root BLOB NOT NULL, note TEXT NOT NULL
) STRICT;
"""

_PATIENCE_SECONDS: Final = 10.0
_SIZE: Final = "text/x.tlog.size"


class SignedTree(NamedTuple):
    """The last tree of a log that the witness signed: its size and root hash."""

    size: int = 0
    root: bytes = merkle.EMPTY


class NotCosigned(Exception):
    """The checkpoint is not signed. The status and the message form the response."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def parse_submission(body: bytes) -> tuple[AddCheckpointRequest, Checkpoint]:
    """Return the request in a body, and its checkpoint. Raises `NotCosigned`."""
    try:
        submission = AddCheckpointRequest.parse(body)
        return submission, Checkpoint.parse(submission.note)
    except ValueError:
        raise NotCosigned(
            HTTPStatus.BAD_REQUEST, "the request is not a tlog-witness request"
        ) from None


def signed_by(note: str, keys: Sequence[NoteKey]) -> str:
    """Return the lines of the note that are signatures by these keys of the log.

    `keys` is empty if the log is unknown. Raises `NotCosigned` if there is no such signature, or if
    any is invalid.
    """
    if not keys:
        raise NotCosigned(HTTPStatus.NOT_FOUND, "the log is unknown to this witness")
    text, lines = checkpoint.text_of(note).encode(), ""
    for key in keys:
        for each in checkpoint.signatures(note, key):
            if not is_signed(text, each, public_key=key.public_key):
                raise NotCosigned(HTTPStatus.FORBIDDEN, "a signature is invalid")
            lines += key.line(each)
    if not lines:
        raise NotCosigned(
            HTTPStatus.FORBIDDEN, "the checkpoint lacks a signature of a known key of the log"
        )
    return lines


def check_extends(
    add_checkpoint_request: AddCheckpointRequest, stated: Checkpoint, last: SignedTree
) -> None:
    """Check that the tree extends the last signed tree. Raises `NotCosigned`."""
    if add_checkpoint_request.old > stated.size:
        raise NotCosigned(HTTPStatus.BAD_REQUEST, "the old size exceeds the new size")
    if add_checkpoint_request.old != last.size:
        raise NotCosigned(HTTPStatus.CONFLICT, f"{last.size}\n")
    unprocessable = HTTPStatus.UNPROCESSABLE_ENTITY
    if not stated.size and stated.root != merkle.EMPTY:
        raise NotCosigned(unprocessable, "the root hash of the empty tree is wrong")
    if not merkle.extends(
        last.size, last.root, stated.size, stated.root, add_checkpoint_request.proof
    ):
        raise NotCosigned(unprocessable, "the tree does not extend the last signed tree")


class WitnessIdentity(NamedTuple):
    """The name of a witness and its seed of 32 bytes."""

    name: str
    seed: bytes

    @property
    def key(self) -> NoteKey:
        """The public key, in the form that verifiers configure."""
        return witnesses.cosigner(self.name, seed=self.seed)


class WitnessStore:
    """The file of a witness. It is safe to share between threads and processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(_connect(path)) as db:
            row = db.execute("SELECT name, seed FROM identity").fetchone()
        self.identity = WitnessIdentity(*row)

    @classmethod
    def open(cls, folder: Path, name: str | None) -> Self:
        """Open the store in a folder, or create it with this name. Raises `InvalidSettings`."""
        path = folder.absolute() / _FILE
        if path.exists():
            private_files.check_file(path)
            store = cls(path)
            if name not in (None, store.identity.name):
                raise InvalidSettings(f"the witness in {folder} is named {store.identity.name}.")
            return store
        if name is None:
            raise InvalidSettings(f"there is no witness in {folder}; to create one, add --name.")
        try:
            NoteKey.parse(str(NoteKey(name, bytes([2]) * 32)))
        except ValueError:
            raise InvalidSettings("the name of a witness must not contain spaces or '+'.") from None
        _create(path, name)
        return cls(path)

    def add(self, key: NoteKey) -> None:
        """Add a log by its key. Adding a key again has no effect."""
        with self._write() as db:
            db.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", (key.name, str(key)))

    def keys(self, origin: str) -> list[NoteKey]:
        """Return the keys of a log. Empty if the log is unknown."""
        with closing(_connect(self._path)) as db:
            rows = db.execute("SELECT key FROM keys WHERE origin = ?", (origin,)).fetchall()
        return [NoteKey.parse(key) for (key,) in rows]

    def note(self, origin: str) -> str | None:
        """Return the newest signed checkpoint of a log, or None."""
        with closing(_connect(self._path)) as db:
            row = db.execute("SELECT note FROM signed WHERE origin = ?", (origin,)).fetchone()
        return None if row is None else str(row[0])

    def origins(self) -> list[str]:
        """Return the origins of the logs that have a signed checkpoint."""
        with closing(_connect(self._path)) as db:
            return [origin for (origin,) in db.execute("SELECT origin FROM signed")]

    def cosign(self, submission: AddCheckpointRequest, tree: Checkpoint, lines: str) -> str:
        """Return the cosignature line for a tree, after the tree is stored durably.

        `lines` are the signatures of the log. The log is locked, so no other tree is signed at the
        same time. Raises `NotCosigned` if the tree does not extend the last one.
        """
        name, seed = self.identity
        with self._write() as db:
            query = "SELECT size, root FROM signed WHERE origin = ?"
            row = db.execute(query, (tree.origin,)).fetchone()
            check_extends(submission, tree, SignedTree() if row is None else SignedTree(*row))
            line = witnesses.cosign(submission.note, name, datetime.now(UTC), seed=seed)
            values = (tree.origin, tree.size, tree.root, f"{tree.text}\n{lines}{line}")
            db.execute("INSERT OR REPLACE INTO signed VALUES (?, ?, ?, ?)", values)
        return line

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with closing(_connect(self._path)) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS)
    db.isolation_level = None
    # A commit returns once the data is on disk.
    db.execute("PRAGMA synchronous = EXTRA")
    return db


def _create(path: Path, name: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with closing(_connect(partial)) as db:
            db.executescript(_TABLES)
            db.execute("INSERT INTO identity VALUES (?, ?)", (name, seeds.new()[0]))
        # If another process has created the file, that file is used.
        with suppress(FileExistsError):
            os.link(partial, path)
    finally:
        partial.unlink()


def application(memory: WitnessStore) -> Starlette:
    """Return the ASGI application of a witness with this store."""

    async def add_checkpoint(request: Request) -> Response:
        try:
            body = await asyncio.wait_for(_body(request), _PATIENCE_SECONDS)
            line = await run_in_threadpool(sign, memory, body)
        except NotCosigned as refusal:
            kind = _SIZE if refusal.status is HTTPStatus.CONFLICT else "text/plain"
            return Response(str(refusal), refusal.status, {"Content-Type": kind})
        except (TimeoutError, ClientDisconnect):
            return PlainTextResponse("the request took too long", HTTPStatus.REQUEST_TIMEOUT)
        return PlainTextResponse(line)

    async def checkpoint(request: Request) -> Response:
        note = await run_in_threadpool(_newest, memory, request.path_params["log"])
        if note is None:
            return PlainTextResponse("no checkpoint of this log was signed", HTTPStatus.NOT_FOUND)
        return PlainTextResponse(note)

    submissions = Route("/add-checkpoint", add_checkpoint, methods=["POST"])
    return Starlette(routes=[submissions, Route("/{log}/checkpoint", checkpoint)])


def sign(memory: WitnessStore, body: bytes) -> str:
    """Return the cosignature line for a request, after the tree is stored durably.

    Raises `NotCosigned`.
    """
    submission, stated = parse_submission(body)
    lines = signed_by(submission.note, memory.keys(stated.origin))
    return memory.cosign(submission, stated, lines)


def _newest(memory: WitnessStore, log: str) -> str | None:
    for origin in memory.origins():
        if hashlib.sha256(origin.encode()).hexdigest() == log:
            return memory.note(origin)
    return None


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BYTES_MAX:
            raise NotCosigned(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request is too large")
    return body
