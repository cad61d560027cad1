"""No entry point of the client prints an API key, or text of a peer as it came."""

import asyncio
import io
import json
import logging
import sys
import traceback
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path
from typing import Final

import pytest

from shared.authorizer import AsyncAuthorizerClient, AuthorizerClient, NotReady
from shared.authorizer.__main__ import main
from shared.authorizer.conformance import main as conformance
from tests.authorizer.clients import arguments
from tests.authorizer.feeds import TENANT
from tests.authorizer.service import PIN, Response, Service

_SECRET: Final = "SECRETKEY"
_BAD: Final = (
    f"svc_{_SECRET}\n{_SECRET}",
    f"svc_{_SECRET}\r\nX: {_SECRET}",
    f"svc_{_SECRET} {_SECRET}",
    f"svc_{_SECRET}é€",
    f"svc_{_SECRET}\x7f",
    f"svc_\ud800{_SECRET}",
)
_FORGED: Final = "a\r\n2026-11-28 ERROR FORGED\x1b[2J\x85\u2028b"


def _command(name: str, url: str, key: str, folder: Path) -> None:
    options = ["--tenant", TENANT, "--trust-pin", PIN]
    options += ["--state", str(folder), "--listen", "127.0.0.1:0"] if name == "relay" else []
    options += ["--listen", "127.0.0.1:0"] if name == "ext-authz" else []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("os.environ", {"RESCIND_API_KEY": key})
        assert main([name, url, *options]) == 1


def _library(url: str, key: str, _: Path) -> None:
    with AuthorizerClient(url, **arguments(api_key=key)):
        """Never reached."""


def _aio(url: str, key: str, _: Path) -> None:
    async def run() -> None:
        client = AsyncAuthorizerClient(url, **arguments(api_key=key))
        try:
            await client.start(wait=1)
        finally:
            await client.close()

    asyncio.run(run())


def _conformance(url: str, key: str, folder: Path) -> None:
    settings = {"url": url, "api_key": key, "tenant": TENANT, "trust_root": PIN}
    request = {"connect": settings | {"floor": str(folder), "max_staleness": 5}}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdin", io.StringIO(json.dumps(request)))
        conformance()


_ENTRIES: Final[dict[str, Callable[[str, str, Path], None]]] = {
    "library": _library,
    "aio": _aio,
    "conformance": _conformance,
} | {
    name: lambda *given, name=name: _command(name, *given)
    for name in ("status", "watch", "ext-authz", "relay")
}


def _shown(error: BaseException) -> str:
    """Return all that a report about an error may show, with the errors before it."""
    text = "".join(traceback.format_exception(error))
    before: BaseException | None = error
    while before:
        text += repr(before) + repr(before.args) + repr(vars(before))
        before = before.__cause__ or before.__context__
    return text


@pytest.mark.parametrize("key", _BAD)
@pytest.mark.parametrize("entry", _ENTRIES)
def test_a_bad_key_is_an_error_that_does_not_quote_it(
    service: Service,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    entry: str,
    key: str,
) -> None:
    """F1602b: A key with a character that no key has is refused at once, and shown nowhere.

    Not by the commands, the logs, the exceptions, nor the errors from which they arose.
    """
    caplog.set_level(logging.DEBUG)
    shown = ""
    try:
        _ENTRIES[entry](service.url, key, tmp_path)
    except ValueError as error:
        shown = _shown(error)
    out, err = capfd.readouterr()
    shown += out + err + caplog.text
    assert "the API key is empty or contains an invalid character" in shown
    assert _SECRET not in shown
    assert service.asked == []


@pytest.mark.parametrize("space", ["\n", "\r\n", " ", "\t", "\ufeff", "\u00a0", " \ufeff\n"])
def test_white_space_around_a_key_is_ignored(service: Service, space: str) -> None:
    """F1602c: White space and a byte order mark around a key, as files have them, are ignored."""
    with AuthorizerClient(service.url, **arguments(api_key=f"{space}svc_key{space}")):
        assert {each["Authorization"] for _, each in service.asked} == {"Bearer svc_key"}


@pytest.fixture
def _starting_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients give up after a second, and not after ten."""
    monkeypatch.setattr(AuthorizerClient, "start", partialmethod(AuthorizerClient.start, wait=1))


@pytest.mark.usefixtures("_starting_briefly")
@pytest.mark.slow_on(
    *(f"response{number}-{name}" for number in range(4) for name in _ENTRIES if name != "library")
)
@pytest.mark.parametrize("entry", ["library", "aio", "status", "watch", "conformance"])
@pytest.mark.parametrize(
    "response",
    [
        Response(_FORGED.encode(), 503),
        Response(json.dumps({"error": {"message": _FORGED}}).encode(), 401),
        Response(_FORGED.encode(), 200, {"Content-Encoding": "zz\u0085FORGED"}),
        Response(b"", 200, {"Age": "1\x85FORGED"}),
    ],
)
def test_text_of_a_peer_is_shown_as_one_line(
    service: Service,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    entry: str,
    response: Response,
) -> None:
    """F1603b: Bodies and headers of a peer reach logs, events and messages as one escaped line."""
    service.instead = lambda _path: response
    shown = ""
    try:
        _ENTRIES[entry](service.url, "svc_key", tmp_path)
    except NotReady as error:
        shown = f"{error}\n"
    out, err = capfd.readouterr()
    shown += out + err + "".join(f"{each.getMessage()}\n" for each in caplog.records)
    assert "cannot poll the feed" in shown
    lines = shown.split("\n")
    assert all(each.isprintable() for each in lines)
    assert not [each for each in lines if each.startswith(("FORGED", "2026-11-28 ERROR"))]
