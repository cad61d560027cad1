"""The offline verifier of Signed Revocation Lists, on lists that the service made."""

import base64
import errno
import io
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from functions.srl.schemas import SrlKey, SrlKeyList
from infra.cli import app, srl_verification
from shared.model import times
from shared.model.lists import encoding as srl
from shared.model.lists.verification import verify_next
from shared.operations.changes import list_signers
from shared.operations.lists import in_force
from shared.ports import Ports
from tests.infra.commands import Command
from tests.kit import processes
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock, embedded

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
    command: Command

    def run(self, body: bytes, *options: str) -> tuple[int, str]:
        file = self.folder / "srl.json"
        file.write_bytes(body)
        return self.run_on(str(file), *options)

    def run_on(self, *arguments: str) -> tuple[int, str]:
        return self.command.verdict(*arguments)


@pytest.fixture
def verifier(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Verifier:
    return Verifier(tmp_path, Command(app.main, capsys, monkeypatch, ("list", "verify")))


@pytest.fixture
def signed(tmp_path: Path) -> Signed:
    """Version 2 of a tenant's list, published by the service just now."""
    return _published(tmp_path, Clock(datetime.now(UTC)))


def test_a_valid_list_is_reported_in_one_line(verifier: Verifier, signed: Signed) -> None:
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
        "-m", "infra.cli", "list", "verify", "--key", signed.key, "-", stdin=signed.body.decode()
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


# Of no point of small order, but of nobody's either.
_ANY_KEY = base64.b64encode(b"\x05" * 32).decode()


@pytest.mark.parametrize("y", [0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18, 1 | 1 << 255], ids=hex)
def test_a_key_of_small_order_is_wrong_usage(verifier: Verifier, signed: Signed, y: int) -> None:
    """VERIFY-4, F64b: A verifier refuses to pin a public key of small order."""
    key = base64.b64encode(y.to_bytes(32, "little")).decode()
    code, said = verifier.run(signed.body, "--key", key)
    assert code == 2
    assert "small order" in said


@pytest.mark.parametrize("key", ["", "?", "AAAA", "A" * 43, "A" * 44, "A" * 43 + "=="])
def test_a_key_of_another_form_is_wrong_usage(verifier: Verifier, signed: Signed, key: str) -> None:
    """A key that is not base64 of 32 bytes is wrong usage: exit code 2, the list is not judged."""
    code, said = verifier.run(signed.body, "--key", key)
    assert code == 2
    assert "'--key'" in said


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--key",),
        *(
            ("--key", _ANY_KEY, option, value)
            for option in ("--min-version", "--max-step")
            for value in ("two", "0", "-1", "1.5", "")
        ),
        ("--key", _ANY_KEY, "--warrant", "laptop"),
    ],
)
def test_wrong_options_are_wrong_usage(
    verifier: Verifier, signed: Signed, options: tuple[str, ...]
) -> None:
    """Options that are missing or wrong are wrong usage: exit code 2 and the usage."""
    code, said = verifier.run(signed.body, *options)
    assert code == 2
    assert "╭─ Error" in said


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
    shown = processes.run("-m", "infra.cli", "list", "verify", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "Exit codes: 0 valid, 1 not valid, 2 wrong usage, 3 valid and" in " ".join(
        shown.stdout.split()
    )


# --- several keys, and statements ---


def test_any_one_of_several_keys_may_have_signed(verifier: Verifier, signed: Signed) -> None:
    """`--key` may be repeated."""
    assert verifier.run(signed.body, "--key", _ANY_KEY, "--key", signed.key)[0] == 0
    _assert_refused(verifier.run(signed.body, "--key", _ANY_KEY), "signature")


@dataclass(frozen=True)
class Deployment:
    """A tenant, and what a verifier saves of it."""

    ports: Ports
    tenant: Tenant
    folder: Path

    @property
    def body(self) -> bytes:
        return in_force.body(self.ports, in_force.head(self.ports, self.tenant.id))

    @property
    def key(self) -> str:
        return in_force.signer(self.ports, self.tenant.id).public_key

    def keys(self) -> str:
        """The file with the answer of the endpoint that lists the keys."""
        listed = list_signers.page(self.ports, self.tenant.operator).signers
        body = SrlKeyList(keys=[SrlKey.of(each) for each in listed], cursor=None).model_dump_json()
        file = self.folder / "keys.json"
        file.write_text(body)
        return str(file)

    def rotate(self) -> None:
        list_signers.rotate(self.ports, self.tenant.operator)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    ports = embedded(tmp_path, Clock(datetime.now(UTC)))
    tenant = Tenant.create(ports)
    tenant.revoke(ports, "svc_wrt_a")
    tenant.regenerate(ports)
    return Deployment(ports, tenant, tmp_path)


def test_statements_lead_from_a_pinned_key_to_the_signer(
    verifier: Verifier, deployment: Deployment
) -> None:
    """`--keys`: over several rotations, with the first key pinned."""
    pinned = "--key", deployment.key
    for _ in range(3):
        deployment.rotate()
    _assert_refused(verifier.run(deployment.body, *pinned), "signature")
    assert verifier.run(deployment.body, *pinned, "--keys", deployment.keys())[0] == 0
    page = deployment.folder / "second.json"
    page.write_text('{"keys": [], "cursor": null}')
    for files in ((deployment.keys(), str(page)), (str(page), deployment.keys())):
        options = [option for file in files for option in ("--keys", file)]
        assert verifier.run(deployment.body, *pinned, *options)[0] == 0
    other = "--key", _ANY_KEY
    refused = verifier.run(deployment.body, *other, "--keys", deployment.keys())
    _assert_refused(refused, "signature")


def test_a_revoked_key_is_dropped(verifier: Verifier, deployment: Deployment) -> None:
    """VERIFY-4, F63b: A verifier refuses lists by a key reported as revoked, also if pinned."""
    stolen, body = deployment.key, deployment.body
    options = ["--key", stolen, "--state", str(deployment.folder / "state")]
    assert verifier.run(body, *options)[0] == 0
    signer_id = in_force.signer(deployment.ports, deployment.tenant.id).id
    list_signers.revoke(deployment.ports, deployment.tenant.operator, key_id=signer_id)
    keys = deployment.keys()
    _assert_refused(verifier.run(body, *options, "--keys", keys), "signature")
    # Nobody whom the stolen key could name is believed: the new one must be pinned.
    _assert_refused(verifier.run(deployment.body, *options, "--keys", keys), "signature")
    options += ["--key", deployment.key]
    assert verifier.run(deployment.body, *options, "--keys", keys)[0] == 0
    # It is remembered.
    _assert_refused(verifier.run(body, *options), "signature")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"keys": [{}]}', "\xff"])
def test_keys_that_cannot_be_read_are_wrong_usage(
    verifier: Verifier, deployment: Deployment, text: str
) -> None:
    """A file that is no answer of the endpoint is named: exit code 2."""
    file = deployment.folder / "keys.json"
    file.write_text(text, encoding="latin-1")
    arguments = ["--key", deployment.key, "--keys"]
    code, said = verifier.run(deployment.body, *arguments, str(file))
    assert (code, str(file) in said) == (2, True)
    code, said = verifier.run(deployment.body, *arguments, str(deployment.folder / "none"))
    assert (code, "No such file" in said) == (2, True)


# --- the state ---


def test_the_state_remembers_what_was_accepted(verifier: Verifier, deployment: Deployment) -> None:
    """VERIFY-3, F62, S5: A verifier with a state refuses lists older than those it accepted."""
    state = deployment.folder / "state"
    options = "--key", deployment.key, "--state", str(state)
    older = deployment.body
    deployment.tenant.regenerate(deployment.ports)
    assert verifier.run(deployment.body, *options)[0] == 0
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert json.loads(state.read_bytes())["version"] == 3
    before = state.read_bytes(), state.stat().st_ino
    assert verifier.run(deployment.body, *options)[0] == 0
    _assert_refused(verifier.run(older, *options), "rollback")
    assert (state.read_bytes(), state.stat().st_ino) == before
    assert [path.name for path in deployment.folder.glob("*state*")] == ["state"]


def test_another_list_of_the_same_version_is_refused(
    verifier: Verifier, tmp_path: Path, signed: Signed
) -> None:
    """VERIFY-1, F62a, S5: A verifier refuses another list of a version that it has accepted."""
    body, key = _sign(cbor2.dumps(signed.payload.members(), canonical=True))
    options = "--key", key, "--key", signed.key, "--state", str(tmp_path / "state")
    assert verifier.run(signed.body, *options)[0] == 0
    assert verifier.run(body, *options)[0] == 0
    members = signed.payload.members() | {"RevokedIDs": []}
    body, other = _sign(cbor2.dumps(members, canonical=True))
    _assert_refused(verifier.run(body, *options, "--key", other), "equivocation")


def test_too_large_a_step_is_refused(verifier: Verifier, tmp_path: Path, signed: Signed) -> None:
    """VERIFY-1, F62b, S5: A verifier refuses a list whose version is too far ahead."""
    options = ["--key", signed.key, "--state", str(tmp_path / "state")]
    assert verifier.run(signed.body, *options)[0] == 0
    members = signed.payload.members() | {"Version": 999_999_999_999}
    body, other = _sign(cbor2.dumps(members, canonical=True))
    options += ["--key", other]
    _assert_refused(verifier.run(body, *options), "step")
    assert verifier.run(signed.body, *options)[0] == 0
    assert verifier.run(body, *options, "--max-step", "999999999999")[0] == 0


def test_a_chain_goes_on_from_the_state(verifier: Verifier, deployment: Deployment) -> None:
    """What leaves the listing is not needed twice: the state keeps the statements that led on."""
    state = deployment.folder / "state"
    options = "--key", deployment.key, "--state", str(state)
    for _ in range(2):
        deployment.rotate()
        assert verifier.run(deployment.body, *options, "--keys", deployment.keys())[0] == 0
    document = json.loads((deployment.folder / "keys.json").read_bytes())
    document["keys"] = document["keys"][:1]
    (deployment.folder / "short.json").write_text(json.dumps(document))
    short = "--keys", str(deployment.folder / "short.json")
    assert verifier.run(deployment.body, *options, *short)[0] == 0
    _assert_refused(verifier.run(deployment.body, *options[:2], *short), "signature")
    # A key that is pinned no more takes along what it led to.
    unpinned = "--key", _ANY_KEY, *options[2:]
    _assert_refused(verifier.run(deployment.body, *unpinned), "signature")


_STATE = {"version": 2, "sha256": "0" * 64, "signer": _ANY_KEY, "statements": [], "revoked": []}


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        json.dumps(_STATE)[:-9].encode(),
        *(
            json.dumps(_STATE | {name: value}).encode()
            for name, values in {
                "version": ("2", 0, True, 2.0, None),
                "sha256": ("", "0" * 63, "g" * 64, 5),
                "signer": ("", "AAAA", None),
                "statements": (None, [1], 5),
                "revoked": (None, [None], ["AAAA"]),
                "more": (1,),
            }.items()
            for value in values
        ),
    ],
    ids=repr,
)
def test_a_damaged_state_is_said_so(verifier: Verifier, signed: Signed, damage: bytes) -> None:
    """F62e: A verifier with a damaged state refuses to judge and says what to do."""
    state = verifier.folder / "state"
    state.write_bytes(damage)
    state.chmod(0o600)
    code, said = verifier.run(signed.body, "--key", signed.key, "--state", str(state))
    assert code == 2
    assert said.startswith(f"error: {state}: is damaged, or is not a state of a verifier")
    assert "--min-version" in said
    assert state.read_bytes() == damage


def test_a_state_that_others_can_write_is_not_used(verifier: Verifier, signed: Signed) -> None:
    """F62: they could lower the floor."""
    state = verifier.folder / "state"
    arguments = "--key", signed.key, "--state", str(state)
    assert verifier.run(signed.body, *arguments)[0] == 0
    state.chmod(0o666)
    code, said = verifier.run(signed.body, *arguments)
    assert (code, "writable by others" in said) == (2, True)


@pytest.mark.parametrize("name", ["none/state", "srl.json/state"])
def test_a_state_that_cannot_be_written(verifier: Verifier, signed: Signed, name: str) -> None:
    """A list is not called valid if the floor could not be raised: exit code 2."""
    state = verifier.folder / name
    code, said = verifier.run(signed.body, "--key", signed.key, "--state", str(state))
    assert (code, said.startswith(f"error: {state}: ")) == (2, True)


def test_a_stop_while_the_state_is_written_loses_nothing(
    verifier: Verifier, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F62c: A verifier that is stopped while it writes its state keeps the old or the new state."""
    state = deployment.folder / "state"
    arguments = "--key", deployment.key, "--state", str(state)
    assert verifier.run(deployment.body, *arguments)[0] == 0
    before = state.read_bytes()
    deployment.tenant.regenerate(deployment.ports)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    code, said = verifier.run(deployment.body, *arguments)
    assert (code, said) == (2, f"error: {state}: No space left on device\n")
    assert state.read_bytes() == before
    assert [path.name for path in deployment.folder.glob("*state*")] == ["state"]


def test_two_verifiers_share_a_state(
    verifier: Verifier, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F62d: Two verifiers that share a state never lower its version."""
    state, older = deployment.folder / "state", deployment.body
    options = "--key", deployment.key, "--state", str(state)
    deployment.tenant.regenerate(deployment.ports)
    newer = deployment.folder / "newer.json"
    newer.write_bytes(deployment.body)
    others: list[subprocess.Popen[bytes]] = []

    def meanwhile(*arguments: Any, **options_: Any) -> Any:
        command = [sys.executable, "-m", "infra.cli", "list", "verify", str(newer), *options]
        others.append(subprocess.Popen(command, cwd=processes.ROOT, stdout=subprocess.DEVNULL))
        _wait_until_it_waits(others[0])
        return verify_next(*arguments, **options_)

    monkeypatch.setattr(srl_verification, "verify_next", meanwhile)
    assert verifier.run(older, *options)[0] == 0
    assert others[0].wait(60) == 0
    assert json.loads(state.read_bytes())["version"] == 3


def _wait_until_it_waits(process: "subprocess.Popen[bytes]") -> None:
    """Return once the process has ended or waits for a lock, or after three seconds."""
    end = time.monotonic() + 3
    while process.poll() is None and time.monotonic() < end:
        locks = Path("/proc/locks").read_text().splitlines()
        if any("->" in each and f" {process.pid} " in each for each in locks):
            return
        time.sleep(0.02)


# --- warrants, and answers for programs ---


def test_a_warrant_is_looked_up(verifier: Verifier, signed: Signed) -> None:
    """`--warrant`: exit code 3 if one of them is revoked."""
    absent, listed = ("--warrant", "svc_wrt_b"), ("--warrant", "svc_wrt_a")
    code, said = verifier.run(signed.body, "--key", signed.key, *absent)
    assert (code, said.splitlines()[1:]) == (0, ["svc_wrt_b: not on the list"])
    code, said = verifier.run(signed.body, "--key", signed.key, *absent, *listed)
    assert code == 3
    assert said.splitlines()[1:] == ["svc_wrt_b: not on the list", "svc_wrt_a: revoked"]
    refused = verifier.run(signed.body, "--key", _ANY_KEY, *listed)
    _assert_refused(refused, "signature")


def test_one_json_object_for_programs(verifier: Verifier, signed: Signed) -> None:
    """`--json`: the same, in members."""
    warrants = "--warrant", "svc_wrt_a", "--warrant", "svc_wrt_b"
    code, said = verifier.run(signed.body, "--key", signed.key, "-o", "json", *warrants)
    payload = signed.payload
    assert (code, json.loads(said)) == (
        3,
        {
            "valid": True,
            "version": 2,
            "issued_at": times.text(payload.issued_at),
            "expires_at": times.text(payload.expires_at),
            "revocation_count": 1,
            "warrants": {"svc_wrt_a": {"revoked": True}, "svc_wrt_b": {"revoked": False}},
        },
    )
    code, said = verifier.run(signed.body, "--key", _ANY_KEY, "-o", "json")
    document = json.loads(said)
    assert (code, document.pop("message") != "") == (1, True)
    assert document == {"valid": False, "reason": "signature"}


def _published(folder: Path, clock: Clock) -> Signed:
    ports = embedded(folder, clock)
    tenant = Tenant.create(ports)
    tenant.revoke(ports, "svc_wrt_a")
    tenant.regenerate(ports)
    body = in_force.body(ports, in_force.head(ports, tenant.id))
    return Signed(body, in_force.signer(ports, tenant.id).public_key, clock())


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
