"""The offline verifier of Signed Revocation Lists, on lists that the service made."""

import base64
import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from functions.srl.schemas import SrlKey, SrlKeyList
from functions.trust import documents, publishing
from infra.cli import __main__ as start
from infra.cli import srl_verification
from shared.authorizer.formats.documents import NotTrusted, answer
from shared.authorizer.formats.trust import RootSet
from shared.model import times
from shared.model.lists.verification import VerifierPolicy, verify_next
from shared.operations.changes import list_signers
from shared.operations.lists import in_force
from shared.ports import Ports
from tests.infra.commands import Command
from tests.kit import processes
from tests.kit.roots import OFFLINE, roots_of, signed_draft
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon
from tests.kit.worlds import Clock, embedded

# Of no point of small order, but of nobody's either.
_ANY_KEY = base64.b64encode(b"\x05" * 32).decode()


@dataclass(frozen=True)
class Verifier:
    """A tenant with a list of one revocation, and who runs the command on what was saved of it."""

    ports: Ports
    tenant: Tenant
    folder: Path
    command: Command

    @property
    def body(self) -> bytes:
        return in_force.read_srl_body(
            self.ports, in_force.read_srl_head(self.ports, self.tenant.id)
        )

    @property
    def key(self) -> str:
        return in_force.read_active_signer(self.ports, self.tenant.id).public_key

    @property
    def payload(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)["payload"]
        return found

    def keys(self) -> str:
        """The file with the answer of the endpoint that lists the keys."""
        listed = list_signers.page(self.ports, self.tenant.operator).entries
        body = SrlKeyList(keys=[SrlKey.of(each) for each in listed], cursor=None).model_dump_json()
        return self.file("keys.json", body)

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text, encoding="latin-1")
        return str(self.folder / name)

    def run(self, body: bytes, *options: str) -> tuple[int, str]:
        (self.folder / "srl.json").write_bytes(body)
        return self.command.verdict(str(self.folder / "srl.json"), *options)

    def accepts(self, body: bytes, *options: str) -> None:
        assert self.run(body, *options)[0] == 0

    def refuses(self, reason: str, body: bytes, *options: str) -> None:
        code, said = self.run(body, *options)
        assert (code, said.split(": ")[0]) == (1, f"not valid ({reason})")


@pytest.fixture
def verifier(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Verifier:
    """Version 2 of a tenant's list, published by the service just now."""
    ports = embedded(tmp_path, Clock(datetime.now(UTC)))
    command = Command(start.main, capsys, monkeypatch, ("srl", "verify"))
    made = Verifier(ports, Tenant.create(ports), tmp_path, command)
    made.tenant.revoke(ports, "svc_wrt_a")
    made.tenant.regenerate(ports)
    return made


def test_a_valid_list_is_reported_in_one_line(verifier: Verifier) -> None:
    """A list in force is valid: exit code 0 and one line with all that matters of it."""
    seen = verifier.payload
    line = f"valid: version 2, issued {seen['IssuedAt']}, expires {seen['ExpiresAt']}, 1 revoked\n"
    assert verifier.run(verifier.body, "--key", verifier.key) == (0, line)


def test_each_reason_is_told(verifier: Verifier) -> None:
    """F06: a list that was altered, is old, or was followed by another, is not valid, and why.

    tests/model/lists has all that is refused.
    """
    key = "--key", verifier.key
    changes: dict[str, Callable[[dict[str, Any]], object]] = {
        "malformed": lambda document: document.pop("srl"),
        "mixed": lambda document: document["payload"].update(Version=3),
        "signature": lambda document: document["srl"].update(Signature="AAAA"),
    }
    for reason, change in changes.items():
        document = json.loads(verifier.body)
        change(document)
        verifier.refuses(reason, json.dumps(document).encode(), *key)
    verifier.accepts(verifier.body, *key, "--min-version", "2")
    verifier.refuses("rollback", verifier.body, *key, "--min-version", "3")
    hours = {"IssuedAt": -2, "ExpiresAt": -1}
    past = {n: times.format_utc(datetime.now(UTC) + timedelta(hours=h)) for n, h in hours.items()}
    old, signer = _sign(verifier.payload | past)
    verifier.refuses("expired", old, "--key", signer)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--key",), "╭─ Error"),
        (("--key", "A" * 43), "'--key'"),
        *(
            (("--key", _ANY_KEY, option, value), "╭─ Error")
            for option in ("--min-version", "--max-version-jump")
            for value in ("two", "0")
        ),
        (("--key", _ANY_KEY, "--warrant", "laptop"), "╭─ Error"),
        (("--key", _ANY_KEY, "--keys", "/none"), "cannot read /none: No such file"),
        ((), ""),
        (("--trust-pin", "0" * 64), ""),
        (("--trust-pin", "0" * 64, "--tenant", "svc_tnt_a"), ""),
        (("--trust-pin", "A", "--tenant", "svc_tnt_a", "--trust", "{file}"), ""),
        (
            (
                "--trust-pin",
                "0" * 64,
                "--tenant",
                "svc_tnt_a",
                "--trust",
                "{file}",
                "--key",
                _ANY_KEY,
            ),
            "",
        ),
        (("--trust-pin", "0" * 64, "--tenant", "svc_tnt_a", "--trust", "absent"), ""),
    ],
)
def test_wrong_options_are_wrong_usage(
    verifier: Verifier, options: tuple[str, ...], said: str
) -> None:
    """F741b: Options that do not say whom to trust are wrong usage, and verify nothing."""
    file = verifier.file("trust.json", '{"documents": []}')
    code, text = verifier.run(verifier.body, *(each.format(file=file) for each in options))
    assert (code, said in text) == (2, True)


def test_a_key_of_small_order_is_wrong_usage(verifier: Verifier) -> None:
    """VERIFY-4, F64b: A verifier refuses to pin a public key of small order."""
    key = base64.b64encode((1).to_bytes(32, "little")).decode()
    code, said = verifier.run(verifier.body, "--key", key)
    assert (code, "small order" in said) == (2, True)


# --- several keys, and statements ---


def test_statements_lead_from_a_pinned_key_to_the_signer(verifier: Verifier) -> None:
    """`--keys`: over several rotations, with the first key pinned."""
    pinned = "--key", verifier.key
    for _ in range(3):
        list_signers.rotate(verifier.ports, verifier.tenant.operator)
    keys, page = verifier.keys(), verifier.file("second.json", '{"keys": [], "cursor": null}')
    verifier.refuses("signature", verifier.body, *pinned)
    for options in ((keys,), (keys, "--keys", page), (page, "--keys", keys)):
        verifier.accepts(verifier.body, *pinned, "--keys", *options)
    verifier.refuses("signature", verifier.body, "--key", _ANY_KEY, "--keys", keys)


def test_a_revoked_key_is_dropped(verifier: Verifier) -> None:
    """VERIFY-4, F63b: A verifier refuses lists by a key reported as revoked, also if pinned."""
    stolen, body = verifier.key, verifier.body
    options = ["--key", stolen, "--state", str(verifier.folder / "state")]
    verifier.accepts(body, *options)
    signer_id = in_force.read_active_signer(verifier.ports, verifier.tenant.id).id
    list_signers.revoke(verifier.ports, verifier.tenant.operator, key_id=signer_id)
    keys = verifier.keys()
    verifier.refuses("signature", body, *options, "--keys", keys)
    # Nobody whom the stolen key could name is believed: the new one must be pinned.
    verifier.refuses("signature", verifier.body, *options, "--keys", keys)
    options += ["--key", verifier.key]
    verifier.accepts(verifier.body, *options, "--keys", keys)
    # It is remembered.
    verifier.refuses("signature", body, *options)


# --- the state ---


def test_the_state_remembers_what_was_accepted(verifier: Verifier) -> None:
    """VERIFY-3, F62, S5: A verifier with a state refuses lists older than those it accepted."""
    state = verifier.folder / "state"
    options = "--key", verifier.key, "--state", str(state)
    older = verifier.body
    verifier.tenant.regenerate(verifier.ports)
    verifier.accepts(verifier.body, *options)
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert json.loads(state.read_bytes())["version"] == 3
    before = state.read_bytes(), state.stat().st_ino
    verifier.accepts(verifier.body, *options)
    verifier.refuses("rollback", older, *options)
    assert (state.read_bytes(), state.stat().st_ino) == before
    assert [path.name for path in verifier.folder.glob("*state*")] == ["state"]


_STATE = {"version": 2, "sha256": "0" * 64, "signer": _ANY_KEY, "statements": [], "revoked": []}


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        "null",
        json.dumps(_STATE)[:-9],
        *(
            json.dumps(_STATE | {name: value})
            for name, values in {
                "version": ("2", 0, True),
                "sha256": ("0" * 63, "g" * 64, 5),
                "signer": ("AAAA", None),
                "statements": (None, [1]),
                "revoked": (None, ["AAAA"]),
                "more": (1,),
            }.items()
            for value in values
        ),
    ],
    ids=repr,
)
def test_a_damaged_state_is_said_so(verifier: Verifier, damage: str) -> None:
    """F62e: A verifier with a damaged state refuses to judge and says what to do."""
    state = Path(verifier.file("state", damage))
    state.chmod(0o600)
    code, said = verifier.run(verifier.body, "--key", verifier.key, "--state", str(state))
    assert code == 2
    assert said.startswith(f"error: {state}: is damaged, or is not a state of a verifier")
    assert "--min-version" in said
    assert state.read_text() == damage


def test_a_stop_while_the_state_is_written_loses_nothing(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F62c: A verifier that is stopped while it writes its state keeps the old or the new state."""
    state = verifier.folder / "state"
    arguments = "--key", verifier.key, "--state", str(state)
    verifier.accepts(verifier.body, *arguments)
    before = state.read_bytes()
    verifier.tenant.regenerate(verifier.ports)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    said = verifier.run(verifier.body, *arguments)
    assert said == (2, f"error: {state}: No space left on device\n")
    assert state.read_bytes() == before
    assert [path.name for path in verifier.folder.glob("*state*")] == ["state"]


@pytest.mark.slow
def test_two_verifiers_share_a_state(verifier: Verifier, monkeypatch: pytest.MonkeyPatch) -> None:
    """F62d: Two verifiers that share a state never lower its version."""
    state, older = verifier.folder / "state", verifier.body
    options = "--key", verifier.key, "--state", str(state)
    verifier.tenant.regenerate(verifier.ports)
    newer = verifier.folder / "newer.json"
    newer.write_bytes(verifier.body)
    others: list[subprocess.Popen[bytes]] = []

    def meanwhile(*arguments: Any, **options_: Any) -> Any:
        command = [sys.executable, "-m", "infra.cli", "srl", "verify", str(newer), *options]
        others.append(subprocess.Popen(command, cwd=processes.ROOT, stdout=subprocess.DEVNULL))
        soon(lambda: others[0].poll() is not None or _waits(others[0].pid))
        return verify_next(*arguments, **options_)

    monkeypatch.setattr(srl_verification, "verify_next", meanwhile)
    verifier.accepts(older, *options)
    assert others[0].wait(60) == 0
    assert json.loads(state.read_bytes())["version"] == 3


def _waits(process: int) -> bool:
    """Whether a process waits for a lock."""
    locks = Path("/proc/locks").read_text().splitlines()
    return any("->" in each and f" {process} " in each for each in locks)


# --- warrants, and answers for programs ---


def test_a_warrant_is_looked_up(verifier: Verifier) -> None:
    """`--warrant`: exit code 3 if one of them is revoked."""
    absent, listed = ("--warrant", "svc_wrt_b"), ("--warrant", "svc_wrt_a")
    key = "--key", verifier.key
    code, said = verifier.run(verifier.body, *key, *absent)
    assert (code, said.splitlines()[1:]) == (0, ["svc_wrt_b: not on the SRL"])
    code, said = verifier.run(verifier.body, *key, *absent, *listed)
    assert code == 3
    assert said.splitlines()[1:] == ["svc_wrt_b: not on the SRL", "svc_wrt_a: revoked"]
    verifier.refuses("signature", verifier.body, "--key", _ANY_KEY, *listed)


def test_one_json_object_for_programs(verifier: Verifier) -> None:
    """`--json`: the same, in members."""
    warrants = "--warrant", "svc_wrt_a", "--warrant", "svc_wrt_b"
    code, said = verifier.run(verifier.body, "--key", verifier.key, "-o", "json", *warrants)
    assert (code, json.loads(said)) == (
        3,
        {
            "valid": True,
            "version": 2,
            "issued_at": verifier.payload["IssuedAt"],
            "expires_at": verifier.payload["ExpiresAt"],
            "revocation_count": 1,
            "warrants": {"svc_wrt_a": {"revoked": True}, "svc_wrt_b": {"revoked": False}},
        },
    )
    code, said = verifier.run(verifier.body, "--key", _ANY_KEY, "-o", "json")
    document = json.loads(said)
    assert (code, document.pop("message") != "") == (1, True)
    assert document == {"valid": False, "reason": "signature"}


def _sign(members: dict[str, Any]) -> tuple[bytes, str]:
    """A response body with these members, and the public key that it verifies under."""
    private, encoded = Ed25519PrivateKey.generate(), cbor2.dumps(members, canonical=True)
    form = {"Payload": encoded, "Signature": private.sign(encoded)}
    document = {
        "payload": members,
        "srl": {name: base64.b64encode(value).decode() for name, value in form.items()},
    }
    key = private.public_key().public_bytes_raw()
    return json.dumps(document).encode(), base64.b64encode(key).decode()


# --- by the pin of the roots ---


def _rooted(verifier: Verifier, after: int = 0) -> tuple[str, ...]:
    """The options for the roots of the service, with the documents of now."""
    ports, tenant = verifier.ports, verifier.tenant
    publishing.keep(ports, tenant.id)
    head = documents.newest(ports, tenant.operator)
    found = documents.read_since(ports, tenant.operator, of=head, after=after)
    file = verifier.file("trust.json", answer(found).decode())
    root = ports.root
    assert root is not None
    pin = RootSet((root.public_key,), 1).pin
    return "--trust-pin", pin, "--tenant", tenant.id, "--trust", file


def test_a_list_is_verified_by_the_pin_of_the_roots(verifier: Verifier) -> None:
    """TRUST-12, F741a: One pin verifies lists through a rotation and a theft of the list signer.

    A document that is older than what the state keeps is refused, and so is another pin or tenant.
    """
    state = ("--state", str(verifier.folder / "state.json"))
    old = _rooted(verifier)
    verifier.accepts(verifier.body, *old, *state)
    older = verifier.file("older.json", Path(old[-1]).read_text())
    for compromised in (False, True):
        list_signers.rotate(verifier.ports, verifier.tenant.operator, compromised=compromised)
        verifier.accepts(verifier.body, *_rooted(verifier), *state)
    verifier.refuses("rollback", verifier.body, *old[:-1], older, *state)
    verifier.refuses("signature", verifier.body, *old[:-1], older)
    verifier.refuses("root", verifier.body, "--trust-pin", "0" * 64, *_rooted(verifier)[2:])
    verifier.refuses("tenant", verifier.body, *old[:2], "--tenant", "svc_tnt_b", "--trust", older)
    verifier.refuses("malformed", verifier.body, *old[:-1], verifier.file("no.json", "{}"))
    empty = verifier.file("empty.json", '{"documents": []}')
    verifier.refuses("root", verifier.body, *old[:-1], empty)
    verifier.accepts(verifier.body, *old[:-1], empty, *state)


def test_the_state_of_a_pin_survives_other_roots(verifier: Verifier) -> None:
    """TRUST-12, F920a: After other roots took over, the state and the first pin go on together.

    The state of another tenant, or one that is damaged, is said so.
    """
    ports, operator = verifier.ports, verifier.tenant.operator
    file = verifier.folder / "state.json"
    options, state = _rooted(verifier), ("--state", str(file))
    assert ports.root is not None
    made = signed_draft(ports, operator, ports.root, OFFLINE, roots=roots_of(OFFLINE))
    publishing.publish(ports, operator, payload=made.payload, signatures={**made.signatures})
    for _ in range(2):
        verifier.accepts(verifier.body, *_rooted(verifier), *state)
    other = *options[:2], "--tenant", "svc_tnt_b", *options[4:]
    assert verifier.run(verifier.body, *other, *state)[0] == 2
    file.write_text(json.dumps(json.loads(file.read_text()) | {"trust": "{}"}))
    code, said = verifier.run(verifier.body, *options, *state)
    assert (code, "the saved trust document is not usable" in said) == (2, True)


def test_a_document_that_has_expired_vouches_for_no_list(verifier: Verifier) -> None:
    """TRUST-13, F741c: From `ExpiresAt` of the newest document on, no list is accepted by it."""
    _, pin, _, tenant_id, _, file = _rooted(verifier)
    given = srl_verification.GivenTrust(tenant_id, pin, Path(file).read_bytes())
    now = datetime.now(UTC)
    named, _, _ = given.policy(VerifierPolicy(()), None, now)
    assert base64.b64decode(verifier.key) in named.pinned
    with pytest.raises(NotTrusted, match="trust_expired"):
        given.policy(VerifierPolicy(()), None, now + timedelta(days=15))
