"""No secret gets out: what a test run shows is searched for the secrets that it made (F17).

A pytest plugin. Each secret is noted where it is born: key strings, private seeds, master keys, and
seals, which are for the store alone. From then on all that the service logs, raises, answers or
stores, and every `repr` of what holds a secret, is searched for all of them, as they are and in
hex, base64 and escapes. A find fails the test in which it happened, and says where, but not what.

The wrappers only look on: what passes is neither changed nor delayed until later.
"""

import base64
import functools
import json
import logging
import os
import re
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from starlette.types import Message, Receive, Scope, Send

from functions.api_keys.schemas import CreatedApiKey
from functions.webhooks import records as webhooks
from functions.webhooks.operations import WebhookAndSecret
from functions.webhooks.records import Webhook
from functions.webhooks.schemas import WebhookWithSecret
from shared.adapters.aws.dynamodb import DynamoStore
from shared.adapters.aws.kms import KmsSealer
from shared.adapters.aws.s3 import S3Blobs
from shared.adapters.local.file_sealer import FileSealer
from shared.adapters.local.filesystem import FileBlobs
from shared.adapters.local.sqlite import SqliteStore
from shared.errors import RescindError
from shared.logs import JsonFormatter
from shared.model import api_keys, seeds
from shared.model.lists.signers import SrlSigner
from shared.model.signing_keys import SigningKey
from shared.operations.access.api_key_creation import CreatedKey
from shared.ports.store import Change
from shared.web import gate
from tests.kit.endpoints import ENDPOINTS

# The field with a secret, of the answers that show one.
_SHOWING: Final = {
    (method, re.sub(r"{\w+}", "{}", path)): endpoint.secret
    for (method, path), endpoint in ENDPOINTS.items()
}
# So many characters of a secret, in whatever form, are taken for the whole. Base64 shows as many of
# 32 bytes wherever they stand among others.
_WINDOW: Final = 40
# Only each fourth place of a text is looked up: a piece of each window begins at such a place.
_STEP: Final = 4
_PIECE: Final = _WINDOW - _STEP + 1
_RUNS: Final = re.compile(rf"(?<![\w+/-])[\w+/-]{{{_WINDOW},}}", re.ASCII)
_URL_SAFE: Final = str.maketrans("-_", "+/")
# Also those of a text that was escaped more than once.
_ESCAPES: Final = re.compile(r"\\+(?:x([0-9a-f]{2})|([nrt'\"\\]))")
_LETTERS: Final = {"n": "\n", "r": "\r", "t": "\t"}

_FORMATTERS: Final = (
    logging.Formatter("%(levelname)s %(name)s: %(message)s"),
    JsonFormatter(stage="test"),
)


@dataclass
class Watch:
    """What must not get out, and where it did."""

    leaks: list[str] = field(default_factory=list)
    _secrets: dict[str, str] = field(default_factory=dict)
    _sealed: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, secret: str | bytes) -> None:
        """Look out for this secret, of 32 bytes or more, from now on."""
        self._secrets |= dict.fromkeys(_pieces(secret), name)

    def note_sealed(self, name: str, sealed: bytes) -> None:
        """Look out for what may be stored, but nothing else."""
        # A seal may begin like any other; its end is its own.
        self._sealed |= dict.fromkeys(_pieces(sealed[-32:]), name)

    def search(self, place: str, shown: object, *, stored: bool = False) -> None:
        """Look through texts, bytes, and whatever holds them."""
        texts, binaries = _contents(shown)
        places = _places("\n".join(texts), binaries)
        for known in (self._secrets,) if stored else (self._secrets, self._sealed):
            if not known.keys().isdisjoint(places):
                found = next(known[each] for each in places if each in known)
                self.leaks.append(f"{found} in {place}, {os.environ.get('PYTEST_CURRENT_TEST')}")
                return

    @contextmanager
    def expecting(self) -> Iterator[list[str]]:
        """The leaks found inside, which are no one's fault."""
        known = len(self.leaks)
        found: list[str] = []
        yield found
        found += self.leaks[known:]
        del self.leaks[known:]


WATCH: Final = Watch()
_PATCH: Final = pytest.MonkeyPatch()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin to watch."""
    _watch_births()
    _watch_stores()
    _watch_reprs()
    _watch_errors()
    _watch_logs(session.config)
    _PATCH.setattr(gate.ApiMiddleware, "__call__", _watched_answers(gate.ApiMiddleware.__call__))


def pytest_unconfigure() -> None:
    """Leave all as it was."""
    _PATCH.undo()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None]:
    """Fail the test in which a secret got out."""
    yield
    if WATCH.leaks:
        leaks = sorted(set(WATCH.leaks))
        WATCH.leaks.clear()
        pytest.fail("\n".join(["Secrets got out (F17):", *leaks]), pytrace=False)


def _observe(owner: Any, name: str, report: Callable[..., None]) -> None:
    """Have `report` hear of each call that returned: the result, then the arguments."""
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def observed(*args: Any, **kwargs: Any) -> Any:
        result = inner(*args, **kwargs)
        report(result, *args, **kwargs)
        return result

    bound = hasattr(inner, "__self__")  # a class method, which knows its class already
    _PATCH.setattr(owner, name, staticmethod(observed) if bound else observed)


def _watch_births() -> None:
    _observe(api_keys, "new_secret", lambda secret: WATCH.note("an API key", secret))
    _observe(webhooks, "new_secret", lambda secret: WATCH.note("a webhook's secret", secret))
    _observe(seeds, "new", lambda made: WATCH.note("a private seed", made[0]))
    _observe(FileSealer, "create", _note_master_key)
    for wrapper in (FileSealer, KmsSealer):
        _observe(wrapper, "seal", _note_sealed)


def _note_master_key(_keys: FileSealer, path: Path) -> None:
    WATCH.note("a master key", path.read_bytes())


def _note_sealed(sealed: bytes, *_args: object, **_kwargs: object) -> None:
    WATCH.note_sealed("a sealed seed", sealed)


def _watch_stores() -> None:
    for store in (SqliteStore, DynamoStore):
        _observe(store, "write", _search_changes)
    for blobs in (FileBlobs, S3Blobs):
        _observe(blobs, "put", _search_blob)


def _search_changes(_result: None, _store: object, *changes: Change, **_kwargs: object) -> None:
    parts = ("key", "item", "amounts", "assign")
    shown = [getattr(change, part, None) for change in changes for part in parts]
    WATCH.search("a stored item", shown, stored=True)


def _search_blob(_result: None, _blobs: object, name: str, data: bytes) -> None:
    WATCH.search("a blob", [name, data])


def _watch_reprs() -> None:
    for holder in (
        *(CreatedKey, CreatedApiKey, SigningKey, SrlSigner),
        *(Webhook, WebhookAndSecret, WebhookWithSecret),
    ):
        _observe(holder, "__init__", _search_repr)


def _search_repr(_result: None, held: object, *_args: object, **_kwargs: object) -> None:
    WATCH.search(f"the repr of {type(held).__name__}", repr(held))


def _watch_errors() -> None:
    _observe(RescindError, "__init__", _search_error)
    _observe(gate, "report", lambda _result, error, _request_id: _search_chain(error))


def _search_error(_result: None, error: RescindError, *args: object) -> None:
    WATCH.search(f"the text of {type(error).__name__}", args)


def _search_chain(error: BaseException) -> None:
    """The words of an error and of all its causes; the lines of code between them have none."""
    words = traceback.TracebackException.from_exception(error, limit=0).format()
    WATCH.search(f"the traceback of {type(error).__name__}", list(words))


def _watch_logs(config: pytest.Config) -> None:
    _observe(logging.Logger, "callHandlers", _search_record)
    # As in Lambda; the tests are told as much as they would be without.
    config.pluginmanager.getplugin("logging-plugin").caplog_handler.setLevel(logging.WARNING)
    logging.getLogger().setLevel(logging.INFO)


def _search_record(_result: None, logger: logging.Logger, record: logging.LogRecord) -> None:
    lines = [formatter.format(record) for formatter in _FORMATTERS]
    WATCH.search(f"the log {logger.name}", lines)


def _watched_answers(serve: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(serve)
    async def watched(self: gate.ApiMiddleware, scope: Scope, receive: Receive, send: Send) -> None:
        sent: list[Message] = []

        async def report(message: Message) -> None:
            sent.append(message)
            await send(message)

        try:
            await serve(self, scope, receive, report)
        finally:
            if scope["type"] == "http" and sent:
                _search_answer(scope, sent)

    return watched


def _search_answer(scope: Scope, sent: list[Message]) -> None:
    body = b"".join(message.get("body", b"") for message in sent)
    name = _SHOWING.get((scope["method"], re.sub("svc_[a-z]+_[0-9a-z]+", "{}", scope["path"])))
    if name and sent[0]["status"] in {200, 201}:
        # The answers that show a secret, in one field of it.
        shown = json.loads(body)
        del shown[name]
        body = json.dumps(shown).encode()
    WATCH.search("an answer", [sent[0]["headers"], body])


def _forms(secret: str | bytes) -> Iterator[str]:
    """The windows by which a secret is known."""
    if isinstance(secret, str):
        # Without its prefix, so that it is known without it too.
        yield secret.removeprefix("svc_").removeprefix("whsec_")[:_WINDOW].translate(_URL_SAFE)
        secret = secret.encode()
    yield secret.hex()[:_WINDOW]
    yield secret.hex().upper()[:_WINDOW]
    for shift in range(3):
        # Past the group of characters that the bytes before it have a part in.
        start = 4 if shift else 0
        encoded = base64.b64encode(bytes(shift) + secret).decode()
        yield encoded[start : start + _WINDOW]


def _pieces(secret: str | bytes) -> set[str]:
    """The pieces of its windows that a text may have where it is looked up."""
    return {window[start : start + _PIECE] for window in _forms(secret) for start in range(_STEP)}


def _contents(shown: object) -> tuple[list[str], list[bytes]]:
    """All that can be read in it, and what of it is no text."""
    texts, binaries = list[str](), list[bytes]()
    left = [shown]
    while left:
        match left.pop():
            case str() as text:
                texts.append(text)
            case bytes() as data:
                texts.append(data.decode("latin-1"))
                if not data.isascii():
                    binaries.append(data)
            case None | int():
                pass
            case dict() as mapping:
                left += mapping.keys()
                left += mapping.values()
            case list() | tuple() as several:
                left += several
            case other:
                texts.append(repr(other))
    return texts, binaries


def _places(text: str, binaries: list[bytes]) -> list[str]:
    """The pieces of texts and bytes that are looked up."""
    runs = [each.translate(_URL_SAFE) for each in _RUNS.findall(text)]
    if "\\x" in text:
        undone = _ESCAPES.sub(lambda found: _unescaped(*found.groups()), text)
        runs.append(undone.encode("latin-1", "replace").hex())
    runs += map(bytes.hex, binaries)
    return [
        run[start : start + _PIECE]
        for run in runs
        for start in range(0, len(run) - _PIECE + 1, _STEP)
    ]


def _unescaped(code: str | None, letter: str | None) -> str:
    return chr(int(code, 16)) if code else _LETTERS.get(letter or "", letter or "")
