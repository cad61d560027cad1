"""The offline verifier of Signed Revocation Lists, on lists that the service made."""

import base64
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from infra import verify_srl
from shared.model import srl, times
from shared.operations import publication
from shared.operations import srl_keys as signers
from tests import processes
from tests.operations.tenants import Tenant
from tests.worlds import Clock, embedded

Change = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class Signed:
    """A published list with one revocation, and the public key of its signer."""

    body: bytes
    key: str
    now: datetime

    @property
    def payload(self) -> srl.Payload:
        members = json.loads(self.body)["payload"]
        issued_at, expires_at = (times.parse(members[name]) for name in ("IssuedAt", "ExpiresAt"))
        return srl.Payload(members["Version"], issued_at, expires_at, members["RevokedIDs"])


@dataclass(frozen=True)
class Verifier:
    """Runs the command in this process on what is given as its file."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def run(self, body: bytes, *options: str) -> tuple[int, str]:
        file = self.folder / "srl.json"
        file.write_bytes(body)
        return self.run_on(str(file), *options)

    def run_on(self, *arguments: str) -> tuple[int, str]:
        self.monkeypatch.setattr(sys, "argv", ["verify_srl", *arguments])
        try:
            code: int | str | None = verify_srl.main()
        except SystemExit as exit_:
            code = exit_.code
        assert isinstance(code, int)
        out, err = self.capsys.readouterr()
        assert (err == "") == (code < 2)
        return code, out or err


@pytest.fixture
def verifier(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Verifier:
    return Verifier(tmp_path, capsys, monkeypatch)


@pytest.fixture
def signed(tmp_path: Path) -> Signed:
    """Version 2 of a tenant's list, published by the service just now."""
    return _published(tmp_path, Clock(datetime.now(UTC)))


def test_a_valid_list_is_told_in_one_line(verifier: Verifier, signed: Signed) -> None:
    """A list in force is valid: exit code 0 and one line with all that matters of it."""
    payload = signed.payload
    issued_at, expires_at = times.text(payload.issued_at), times.text(payload.expires_at)
    line = f"valid: version 2, issued {issued_at}, expires {expires_at}, 1 revoked\n"
    assert verifier.run(signed.body, "--key", signed.key) == (0, line)


def test_a_list_comes_from_a_pipe_too(
    verifier: Verifier, signed: Signed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-` reads the list from standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(signed.body)))
    assert verifier.run_on("-", "--key", signed.key)[0] == 0
    piped = processes.run(
        "-m", "infra.verify_srl", "--key", signed.key, "-", stdin=signed.body.decode()
    )
    assert (piped.returncode, piped.stderr) == (0, "")


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("malformed", lambda document: document.pop("srl")),
        ("malformed", lambda document: document.update(more=1)),
        ("malformed", lambda document: document["srl"].update(Payload="?")),
        ("mixed", lambda document: document["payload"].update(Version=3)),
        ("mixed", lambda document: document["payload"]["RevokedIDs"].clear()),
        ("signature", lambda document: document["srl"].update(Signature="AAAA")),
        ("signature", lambda document: document["srl"].update(Payload="AAAA")),
    ],
)
def test_a_list_altered_on_its_way_is_refused(
    verifier: Verifier, signed: Signed, reason: str, change: Change
) -> None:
    """F06: a list that was altered anywhere is not valid: exit code 1 and why."""
    document = json.loads(signed.body)
    change(document)
    _assert_refused(verifier.run(json.dumps(document).encode(), "--key", signed.key), reason)


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"\xff", b"svc_wrt_a"])
def test_what_is_no_list_at_all_is_refused(verifier: Verifier, signed: Signed, body: bytes) -> None:
    """F06: a file that holds something else is not valid: exit code 1 and why."""
    _assert_refused(verifier.run(body, "--key", signed.key), "malformed")


def test_the_list_of_another_signer_is_refused(
    verifier: Verifier, signed: Signed, tmp_path: Path
) -> None:
    """F06: a list that another tenant's signer signed is not valid under this key."""
    other = _published(tmp_path / "other", Clock(datetime.now(UTC)))
    _assert_refused(verifier.run(other.body, "--key", signed.key), "signature")


@pytest.mark.parametrize(
    ("reason", "members"),
    [
        ("content", {"Version": 0}),
        ("content", {"Version": True}),
        ("content", {"IssuedAt": "today"}),
        ("content", {"RevokedIDs": ["svc_rev_a"]}),
        ("order", {"RevokedIDs": ["svc_wrt_b", "svc_wrt_a"]}),
        ("order", {"RevokedIDs": ["svc_wrt_a", "svc_wrt_a"]}),
        ("times", {"ExpiresAt": "2026-01-01T00:00:00Z"}),
    ],
)
def test_a_list_that_was_signed_wrongly_is_refused(
    verifier: Verifier, signed: Signed, reason: str, members: dict[str, Any]
) -> None:
    """F06: a signature does not make a list right that says what none may say."""
    body, key = _sign(cbor2.dumps(signed.payload.members() | members, canonical=True))
    _assert_refused(verifier.run(body, "--key", key), reason)


def test_another_encoding_is_refused(verifier: Verifier, signed: Signed) -> None:
    """F06: signed bytes that are not deterministic CBOR are not valid."""
    members = dict(reversed(signed.payload.members().items()))
    body, key = _sign(cbor2.dumps(members))
    _assert_refused(verifier.run(body, "--key", key), "encoding")


@pytest.mark.parametrize(
    ("reason", "moved"), [("expired", -timedelta(hours=1)), ("future", timedelta(minutes=10))]
)
def test_a_list_of_another_time_is_refused(
    verifier: Verifier, tmp_path: Path, reason: str, moved: timedelta
) -> None:
    """F06: a list that has run out, or is not yet in force, is not valid."""
    other = _published(tmp_path, Clock(datetime.now(UTC) + moved))
    _assert_refused(verifier.run(other.body, "--key", other.key), reason)


def test_an_older_version_is_refused(verifier: Verifier, signed: Signed) -> None:
    """F06: `--min-version` refuses a list older than one seen before, and no other."""
    for seen in ("1", "2"):
        assert verifier.run(signed.body, "--key", signed.key, "--min-version", seen)[0] == 0
    refused = verifier.run(signed.body, "--key", signed.key, "--min-version", "3")
    _assert_refused(refused, "rollback")


@pytest.mark.parametrize("key", ["", "?", "AAAA", "A" * 43, "A" * 44, "A" * 43 + "=="])
def test_a_key_of_another_form_is_wrong_usage(verifier: Verifier, signed: Signed, key: str) -> None:
    """A key that is not base64 of 32 bytes is wrong usage: exit code 2, the list is not judged."""
    code, said = verifier.run(signed.body, "--key", key)
    assert code == 2
    assert "argument --key" in said


@pytest.mark.parametrize(
    "options", [(), ("--key", "A" * 43 + "=", "--min-version", "two"), ("--key",)]
)
def test_wrong_options_are_wrong_usage(
    verifier: Verifier, signed: Signed, options: tuple[str, ...]
) -> None:
    """Options that are missing or wrong are wrong usage: exit code 2 and the usage."""
    code, said = verifier.run(signed.body, *options)
    assert code == 2
    assert said.startswith("usage: python -m infra.verify_srl")


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_a_file_that_cannot_be_read_is_wrong_usage(
    verifier: Verifier, signed: Signed, tmp_path: Path, name: str
) -> None:
    """A file that is missing or none is named, with exit code 2."""
    code, said = verifier.run_on(str(tmp_path / name), "--key", signed.key)
    assert code == 2
    assert str(tmp_path / name) in said


def test_help_explains_the_exit_codes() -> None:
    """`--help` succeeds and says what the exit codes mean."""
    shown = processes.run("-m", "infra.verify_srl", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "Exit codes: 0 valid, 1 not valid, 2 wrong usage" in shown.stdout


def _published(folder: Path, clock: Clock) -> Signed:
    ports = embedded(folder, clock)
    tenant = Tenant.create(ports)
    tenant.revoke(ports, "svc_wrt_a")
    tenant.regenerate(ports)
    body = publication.read(ports, publication.current(ports, tenant.id))
    return Signed(body, signers.current(ports, tenant.id).public_key, clock())


def _sign(encoded: bytes) -> tuple[bytes, str]:
    """A response body over these signed bytes, and the public key that they verify under."""
    private = Ed25519PrivateKey.generate()
    form = {"Payload": encoded, "Signature": private.sign(encoded)}
    document = {
        "payload": cbor2.loads(encoded),
        "srl": {name: base64.b64encode(value).decode() for name, value in form.items()},
    }
    key = private.public_key().public_bytes_raw()
    return json.dumps(document).encode(), base64.b64encode(key).decode()


def _assert_refused(answer: tuple[int, str], reason: str) -> None:
    code, said = answer
    assert code == 1
    assert said.startswith(f"not valid ({reason}): ")
