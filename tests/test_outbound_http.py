"""Responses that every outbound request of the service and the command line can get.

tests/authorizer/test_http1.py has more of each kind, for the HTTP client that all of them use.
"""

import json
import logging
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from infra.cli import sign_in
from infra.cli.client import ApiClient
from infra.cli.connections import Connections
from infra.cli.errors import BadResponse, UsageError
from infra.cli.profiles import Profile
from shared.adapters.https import HttpWitnesses
from shared.adapters.vault.sealer import VaultSealer
from shared.errors import InvalidSettings, Unavailable
from shared.model.outbound import DeliveryOutcome, EventMessage
from tests.kit.receivers import HOST, Receiver, conversing

# Makes one request, and returns the text of the body of a response 200; None without a response.
Call = Callable[[], str | None]
Place = Callable[[Receiver, float, Path], Call]

SECRET = "svc_a-secret"
MESSAGE = EventMessage("svc_evt_a", {"webhook-id": "svc_evt_a"}, b"{}")


def _webhook(receiver: Receiver, seconds: float, _folder: Path) -> Call:
    sender = receiver.sender(patience=seconds)

    def call() -> str | None:
        (found,) = sender.send(f"https://{HOST}/", [MESSAGE])
        return found.body if found.status == 200 else None

    return call


def _provider(receiver: Receiver, seconds: float, _folder: Path) -> Call:
    outbound = receiver.outbound(patience=seconds)

    def call() -> str | None:
        found = outbound.ask(f"https://{HOST}/", {"code": "a"}, user=("a", SECRET))
        return found.body.decode() if found.status == 200 else None

    return call


def _witness(receiver: Receiver, seconds: float, _folder: Path) -> Call:
    witnesses = HttpWitnesses(seconds)

    def call() -> str | None:
        (found,) = witnesses.ask([(f"http://127.0.0.1:{receiver.port}/", b"note")])
        return found.body.decode() if found.status == 200 else None

    return call


def _vault(receiver: Receiver, seconds: float, folder: Path) -> Call:
    token = folder / "token"
    token.write_text(SECRET, encoding="ascii")
    address = f"http://127.0.0.1:{receiver.port}"
    settings = {"VAULT_ADDR": address, "VAULT_TOKEN_FILE": str(token)}
    sealer = VaultSealer("a/b", settings, seconds=seconds)

    def call() -> str | None:
        try:
            return sealer.seal(b"secret", context={"a": "b"}).decode()
        except Unavailable:
            return None

    return call


def _command_line(receiver: Receiver, seconds: float, folder: Path) -> Call:
    profile = Profile(folder, f"http://127.0.0.1:{receiver.port}", SECRET)
    api = ApiClient(profile, connections=Connections(head_seconds=seconds, seconds=seconds))

    def call() -> str | None:
        try:
            with api:
                return json.dumps(api.get("/v1/whoami"))
        except BadResponse:
            return None

    return call


PLACES: dict[str, tuple[Place, bool]] = {
    "webhook": (_webhook, True),
    "provider": (_provider, True),
    "witness": (_witness, False),
    "vault": (_vault, False),
    "command line": (_command_line, False),
}


def final(marker: str, *headers: str, body: bytes = b"") -> bytes:
    """A final response with the marker in its body."""
    body = body or json.dumps({"data": {"ciphertext": f"vault:v1:{marker}"}}).encode()
    lines = ["HTTP/1.1 200 OK", *(headers or [f"Content-Length: {len(body)}"]), "", ""]
    return "\r\n".join(lines).encode() + body


INTERIM = b"HTTP/1.1 103 Wait\r\nLink: </a>; rel=preload\r\n\r\n"


def called(
    name: str, folder: Path, *replies: Sequence[bytes], seconds: float = 20, times: int = 1
) -> list[str | None]:
    """What the calls of a place return when these replies are sent."""
    place, tls = PLACES[name]
    with conversing(*replies, tls=tls) as receiver:
        call = place(receiver, seconds, folder)
        return [call() for _ in range(times)]


@pytest.mark.parametrize("name", PLACES)
def test_an_interim_response_is_not_final(tmp_path: Path, name: str) -> None:
    """F1660a: After interim responses, the final response counts, also for the next request."""
    apart = (INTERIM, INTERIM, final("first"))
    together = (INTERIM + final("second"),)
    first, second = called(name, tmp_path, apart, together, times=2)
    assert "first" in str(first)
    assert "second" in str(second)


AMBIGUOUS = {
    "two lengths": final("first", "Content-Length: 9", "Content-Length: 42"),
    "another protocol": b"ICY 200 OK\r\nContent-Length: 1\r\n\r\n1",
    "endless interim responses": INTERIM * 99 + final("first"),
    "more than a body": final("first", "Transfer-Encoding: chunked", body=b"zz\r\n{}\r\n0\r\n\r\n"),
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("kind", AMBIGUOUS)
def test_an_ambiguous_response_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    """F1660b: A response whose end is ambiguous, or that is not HTTP, is no response.

    Of a webhook the status counts if the head is valid.
    """
    (found,) = called(name, tmp_path, (AMBIGUOUS[kind],))
    assert found == ("" if (name, kind) == ("webhook", "more than a body") else None)


@pytest.mark.parametrize("name", PLACES)
def test_a_response_without_a_length(tmp_path: Path, name: str) -> None:
    """F1660c: A body that ends with the connection counts if it shows that it was not cut.

    The command line refuses it, because it also reads bodies that do not show this.
    """
    (found,) = called(name, tmp_path, (final("first", "A: b"), b""))
    assert ("first" in str(found)) == (name != "command line")


@pytest.mark.parametrize("headers", [[], ["Transfer-Encoding: chunked"], ["Content-Length: 99"]])
def test_a_response_that_was_cut(tmp_path: Path, headers: list[str]) -> None:
    """F1913a: A body that was cut is no answer of Vault, with a length or without."""
    cut = final("first", *(headers or ["A: b"]))[:-9]
    assert called("vault", tmp_path, *[(cut, b"")] * 3) == [None]


@pytest.mark.parametrize("name", PLACES)
def test_an_empty_content_coding_is_none(tmp_path: Path, name: str) -> None:
    """F1913b: `Content-Encoding` without a value changes nothing; another coding is refused."""
    length = f"Content-Length: {len(final('first').partition(b'{')[2]) + 1}"
    answers = [final("first", length, f"Content-Encoding:{each}") for each in ("", " br")]
    assert "first" in str(called(name, tmp_path, (answers[0],))[0])
    (found,) = called(name, tmp_path, *[(answers[1],)] * 3)
    assert found == ("" if name == "webhook" else None)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("part", ["head", "body"])
def test_a_response_that_drips_is_given_up(tmp_path: Path, name: str, part: str) -> None:
    """F388a, F1181d, F1660d: The head and the body of a response together have one deadline."""
    whole = final("first", "Content-Length: 200", body=b" " * 200)
    at = 0 if part == "head" else whole.index(b"\r\n\r\n") + 4
    drip = (whole[:at], *(whole[each : each + 1] for each in range(at, len(whole))))
    (found,) = called(name, tmp_path, drip, seconds=0.5)
    if (name, part) == ("webhook", "body"):
        assert found is not None
        assert len(found) < 200
    else:
        assert found is None


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("extra", [final("extra"), b"x"])
def test_extra_bytes_are_of_no_response(tmp_path: Path, name: str, extra: bytes) -> None:
    """F1660e: Bytes after a response never become the response to the next request."""
    first, second = called(name, tmp_path, (final("first") + extra,), (final("second"),), times=2)
    assert "first" in str(first)
    assert "second" in str(second)


def _all_text(error: BaseException | None, caplog: pytest.LogCaptureFixture) -> str:
    chain = "".join(traceback.format_exception(error)) if error else ""
    return chain + caplog.text


@pytest.mark.parametrize("secret", [f"{SECRET}\n", f"a\r\n{SECRET}", f"{SECRET}\u00fc", SECRET])
def test_no_message_contains_a_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, secret: str
) -> None:
    """F1661a: A secret that cannot be sent, or is refused, is in no error and in no log."""
    caplog.set_level(logging.DEBUG)
    error: BaseException | None = None
    (token := tmp_path / "token").write_text(secret, encoding="utf-8")
    bad = (b"HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\n",)
    with conversing(bad) as plain, conversing(bad, tls=True) as tls:
        address = f"http://127.0.0.1:{plain.port}"
        signed = EventMessage("svc_evt_a", {"webhook-signature": secret}, b"{}")
        (answer,) = tls.sender().send(f"https://{HOST}/", [signed])
        assert answer.outcome is DeliveryOutcome.NO_RESPONSE
        assert SECRET not in repr(answer)
        tls.outbound().ask(f"https://{HOST}/", {"code": secret}, user=("a", secret))
        try:
            settings = {"VAULT_ADDR": address, "VAULT_TOKEN_FILE": str(token)}
            VaultSealer("a/b", settings).seal(b"secret", context={"a": "b"})
        except (InvalidSettings, Unavailable) as caught:
            error = caught
        assert SECRET not in _all_text(error, caplog)
        with (
            pytest.raises(BadResponse) as refused,
            ApiClient(Profile(tmp_path, address, secret)) as api,
        ):
            api.get("/v1/whoami")
        assert SECRET not in _all_text(refused.value, caplog)
        job = {"ACTIONS_ID_TOKEN_REQUEST_URL": address, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": secret}
        with pytest.raises((BadResponse, UsageError)) as failed:
            sign_in.token_of_program(None, "svc_idp_a", job)
        assert SECRET not in _all_text(failed.value, caplog)


def test_text_of_a_peer_is_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """F1661b: A log line shows the text of a peer escaped and cut."""
    body = json.dumps({"errors": ["no\n\x1b[31mERROR forged " + "x" * 9999]}).encode()
    reply = b"HTTP/1.1 403 No\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    assert called("vault", tmp_path, (reply,)) == [None]
    (line,) = [each.getMessage() for each in caplog.records if "Vault" in each.getMessage()]
    assert line.isprintable()
    assert r"no\n\x1b[31mERROR forged" in line
    assert len(line) < 300


def test_repeated_headers_are_joined(tmp_path: Path) -> None:
    """F1662a: Two `Retry-After` of one response are no pause, and not the first or the last."""
    head = (
        "HTTP/1.1 429 Wait\r\nRetry-After: 17\r\nRetry-After: 3600\r\nContent-Length: 2\r\n\r\n{}"
    )
    waited: list[float] = []
    with conversing((head.encode(),), tls=True) as receiver:
        (found,) = receiver.sender().send(f"https://{HOST}/", [MESSAGE])
    assert (found.status, found.retry_after) == (429, None)
    with conversing((head.encode(),), (final("first"),)) as receiver:
        profile = Profile(tmp_path, f"http://127.0.0.1:{receiver.port}", SECRET)
        with ApiClient(profile, wait=waited.append) as api:
            api.get("/v1/whoami")
    assert waited == [1.0]
