"""A witness of transparency logs, which cosigns consistent checkpoints (C2SP tlog-witness).

It has its own data and shares only formats with the service. One file contains its seed, the known
logs, and the last signed tree of each log. The key therefore never exists without the record of its
signatures.
"""

import asyncio
import hashlib
import os
import sqlite3
from collections.abc import Iterator
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

from functions.transparency_log import checkpoint, merkle, witnesses
from functions.transparency_log.checkpoint import Checkpoint
from functions.transparency_log.witnesses import AddCheckpointRequest
from infra import private_files
from shared.authorizer.formats.ed25519 import is_signed
from shared.errors import InvalidSettings
from shared.model import seeds
from shared.model.audit.witness_policy import NoteKey
from shared.ports.outside import WITNESS_BYTES_MAX

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


class NotCosigned(Exception):
    """The checkpoint is not signed. The status and the message form the response."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


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

    def note(self, log: str) -> str | None:
        """Return the newest signed checkpoint of a log, by the SHA-256 of its origin, or None."""
        with closing(_connect(self._path)) as db:
            for origin, note in db.execute("SELECT origin, note FROM signed"):
                if hashlib.sha256(origin.encode()).hexdigest() == log:
                    return str(note)
        return None

    def cosign(self, submission: AddCheckpointRequest, tree: Checkpoint, lines: str) -> str:
        """Return the cosignature line for a tree, after the tree is stored durably.

        `lines` are the signatures of the log. The log is locked, so no other tree is signed at the
        same time. Raises `NotCosigned` if the tree does not extend the last one.
        """
        name, seed = self.identity
        with self._write() as db:
            query = "SELECT size, root FROM signed WHERE origin = ?"
            last = db.execute(query, (tree.origin,)).fetchone()
            last_size, last_root = last or (0, merkle.EMPTY)
            if submission.old > tree.size:
                raise NotCosigned(HTTPStatus.BAD_REQUEST, "the old size exceeds the new size")
            if submission.old != last_size:
                raise NotCosigned(HTTPStatus.CONFLICT, f"{last_size}\n")
            unprocessable = HTTPStatus.UNPROCESSABLE_ENTITY
            if not tree.size and tree.root != merkle.EMPTY:
                raise NotCosigned(unprocessable, "the root hash of the empty tree is wrong")
            if not merkle.extends(last_size, last_root, tree.size, tree.root, submission.proof):
                raise NotCosigned(unprocessable, "the tree does not extend the last signed tree")
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
        note = await run_in_threadpool(memory.note, request.path_params["log"])
        if note is None:
            return PlainTextResponse("no checkpoint of this log was signed", HTTPStatus.NOT_FOUND)
        return PlainTextResponse(note)

    submissions = Route("/add-checkpoint", add_checkpoint, methods=["POST"])
    return Starlette(routes=[submissions, Route("/{log}/checkpoint", checkpoint)])


def sign(memory: WitnessStore, body: bytes) -> str:
    """Return the cosignature line for a request, after the tree is stored durably.

    Raises `NotCosigned`.
    """
    try:
        submission = AddCheckpointRequest.parse(body)
        tree = Checkpoint.parse(submission.note)
    except ValueError:
        problem = "the request is not a tlog-witness request"
        raise NotCosigned(HTTPStatus.BAD_REQUEST, problem) from None
    keys = memory.keys(tree.origin)
    if not keys:
        raise NotCosigned(HTTPStatus.NOT_FOUND, "the log is unknown to this witness")
    text, lines = checkpoint.text_of(submission.note).encode(), ""
    for key in keys:
        for each in checkpoint.signatures(submission.note, key):
            if not is_signed(text, each, public_key=key.public_key):
                raise NotCosigned(HTTPStatus.FORBIDDEN, "a signature is invalid")
            lines += key.line(each)
    if not lines:
        problem = "the checkpoint lacks a signature of a known key of the log"
        raise NotCosigned(HTTPStatus.FORBIDDEN, problem)
    return memory.cosign(submission, tree, lines)


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > WITNESS_BYTES_MAX:
            raise NotCosigned(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request is too large")
    return body
