"""The keys that sign the lists, over HTTP (SIGNER-1 to SIGNER-8)."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from shared.errors import InvalidSrl
from shared.model.audit.audit_log import AuditEntry
from shared.model.lists.signers import SuccessionStatement
from shared.model.lists.verification import verify
from shared.operations.lists import in_force
from shared.operations.lists import signers as srl_signers
from shared.ports.store import Expect, Put, Value
from tests.functions.signing import refusal
from tests.kit.api import Tenant
from tests.kit.endpoints import audit_entries, audited
from tests.kit.worlds import Clock

SRL = "/v1/revocations/srl"
KEYS, ROTATE = f"{SRL}/keys", f"{SRL}/keys/rotate"
START = "2026-11-21T12:00:00Z"


def signers(tenant: Tenant) -> Any:
    return tenant.read_only.get(KEYS).json()["keys"]


def statuses(tenant: Tenant) -> list[str]:
    return [signer["status"] for signer in signers(tenant)]


def make(tenant: Tenant) -> Any:
    answer = tenant.admin.post(KEYS)
    assert answer.status_code == 201, answer.text
    return answer.json()


def act(tenant: Tenant, verb: str, signer: Any, **body: Any) -> Any:
    return tenant.admin.post(
        f"{KEYS}/{signer['key_id']}/{verb}", **({"json": body} if body else {})
    )


def done(answer: Any) -> Any:
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def public_bytes(signer: Any) -> bytes:
    return base64.b64decode(signer["public_key"], validate=True)


def version(tenant: Tenant, clock: Clock, signer: Any) -> int:
    """The version of the list in force. Raises `InvalidSrl` if this signer did not sign it."""
    answer = tenant.authorizer.get(SRL)
    payload = verify(answer.content, public_key=public_bytes(signer), now=clock())
    assert answer.headers["x-srl-key-id"] == signer["key_id"]
    return payload.version


def test_a_signer_is_listed_with_its_public_key(tenant: Tenant) -> None:
    """SIGNER-8: A list signer is listed with its 32-byte Ed25519 public key and its state."""
    (signer,) = signers(tenant)
    assert len(public_bytes(signer)) == 32
    assert signer.pop("key_id").startswith("svc_key_")
    del signer["public_key"]
    assert signer == {
        "algorithm": "Ed25519",
        "status": "active",
        "created_at": START,
        "activates_at": START,
        "statement": None,
    }


def test_a_list_names_its_signer(tenant: Tenant) -> None:
    """SRL-17: `X-SRL-Key-Id` names the key that signed the list in the answer."""
    first = signers(tenant)[0]["key_id"]
    answer = tenant.authorizer.get(SRL)
    held = tenant.authorizer.get(SRL, headers={"If-None-Match": answer.headers["etag"]})
    assert (answer.status_code, held.status_code) == (200, 304)
    assert answer.headers["x-srl-key-id"] == held.headers["x-srl-key-id"] == first
    new = done(tenant.admin.post(ROTATE))["key_id"]
    assert tenant.authorizer.get(SRL).headers["x-srl-key-id"] == new != first


def test_a_pending_signer_is_listed_but_does_not_sign(tenant: Tenant, clock: Clock) -> None:
    """SIGNER-2: A pending list signer is listed and does not sign."""
    active = signers(tenant)[0]
    clock.advance(minutes=1)
    pending = make(tenant)
    assert (pending["status"], pending["created_at"]) == ("pending", "2026-11-21T12:01:00Z")
    assert pending["activates_at"] == "2026-11-21T13:01:00Z"
    assert signers(tenant) == [active, pending]
    tenant.admin.post(f"{SRL}/regenerate")
    assert version(tenant, clock, active) == 2


def test_a_statement_by_the_key_in_force(tenant: Tenant) -> None:
    """SIGNER-6: The active list signer signs a statement about the key that follows it."""
    active, pending = signers(tenant)[0], make(tenant)
    statement = SuccessionStatement.parse(pending["statement"])
    assert statement.tenant_id == tenant.id
    assert (statement.number, statement.key_id) == (2, pending["key_id"])
    assert statement.public_key == public_bytes(pending)
    assert statement.previous == public_bytes(active)
    # By hand, so that no library vouches for itself.
    payload = base64.b64decode(pending["statement"]["Payload"], validate=True)
    assert payload == (
        b"\xa6\x65KeyId\x78\x22" + pending["key_id"].encode()
        + b"\x66Number\x02\x66Tenant\x78\x22" + tenant.id.encode()
        + b"\x68IssuedAt\x74" + START.encode()
        + b"\x68Previous\x58\x20" + public_bytes(active)
        + b"\x69PublicKey\x58\x20" + public_bytes(pending)
    )  # fmt: skip


def test_one_signer_is_pending_at_most(tenant: Tenant) -> None:
    """SIGNER-3: A tenant has at most one pending list signer."""
    first = make(tenant)
    before = audited(tenant)
    assert refusal(tenant.admin.post(KEYS)) == (409, "invalid_state")
    assert audited(tenant) == before
    done(act(tenant, "revoke", first))
    second = make(tenant)
    assert SuccessionStatement.parse(second["statement"]).number == 3
    done(act(tenant, "activate", second, force=True))
    make(tenant)
    assert statuses(tenant) == ["active", "pending", "revoked", "retired"]


@pytest.mark.parametrize(("grace", "wait"), [(None, 3600), (0, 0), (90, 90)])
def test_it_is_activated_once_the_grace_is_over(
    tenant: Tenant, clock: Clock, grace: int | None, wait: int
) -> None:
    """SIGNER-4: A pending signer can be activated after its grace period, or earlier if forced."""
    if grace is not None:
        tenant.admin.request("PATCH", "/v1/tenant/settings", json={"rotation_grace_seconds": grace})
    old, pending = signers(tenant)[0], make(tenant)
    if wait:
        clock.advance(seconds=wait - 1)
        before = signers(tenant), audit_entries(tenant)
        assert refusal(act(tenant, "activate", pending)) == (409, "invalid_state")
        assert refusal(act(tenant, "activate", pending, force=False)) == (409, "invalid_state")
        assert (signers(tenant), audit_entries(tenant)) == before
        clock.advance(seconds=1)
    activated = done(act(tenant, "activate", pending))
    assert activated == pending | {"status": "active", "activates_at": activated["activates_at"]}
    assert version(tenant, clock, activated) == 2
    assert signers(tenant)[0] == activated
    with pytest.raises(InvalidSrl, match="signature"):
        version(tenant, clock, old)


def test_activating_publishes_in_the_same_step(tenant: Tenant, clock: Clock) -> None:
    """SIGNER-4: Activating a list signer publishes a list signed by it in the same step.

    Activating the active one changes nothing.
    """
    pending = make(tenant)
    tenant.revoke("svc_wrt_a")
    clock.advance(minutes=1)
    activated = done(act(tenant, "activate", pending, force=True))
    assert activated["activates_at"] == "2026-11-21T12:01:00Z"
    assert version(tenant, clock, activated) == 2
    before = tenant.authorizer.get(SRL).content, audit_entries(tenant)
    assert tenant.authorizer.get(SRL).json()["payload"]["RevokedIDs"] == ["svc_wrt_a"]
    entry = AuditEntry.from_item(before[1][-1])
    assert (entry.action, entry.details["force"]) == ("srl.activate_key", True)
    assert done(act(tenant, "activate", activated)) == activated
    assert (tenant.authorizer.get(SRL).content, audit_entries(tenant)) == before


def test_what_was_pending_once_cannot_be_activated(tenant: Tenant) -> None:
    """SIGNER-4: The service refuses to activate a retired or revoked list signer."""
    first = signers(tenant)[0]
    second = done(tenant.admin.post(ROTATE))
    third = make(tenant)
    done(act(tenant, "revoke", third))
    for signer in (first, third):
        answer = act(tenant, "activate", signer, force=True)
        assert refusal(answer) == (409, "invalid_state")
    assert signers(tenant)[0] == second


def test_a_retired_key_is_listed_until_its_last_list_has_expired(
    tenant: Tenant, clock: Clock
) -> None:
    """SIGNER-8: A retired list signer is listed until the last list that it signed has expired."""
    first = signers(tenant)[0]
    clock.advance(minutes=40)
    tenant.admin.post(f"{SRL}/regenerate")
    clock.advance(minutes=10)
    new = done(tenant.admin.post(ROTATE))
    assert signers(tenant) == [new, first | {"status": "retired"}]
    clock.advance(minutes=49, seconds=59)
    assert len(signers(tenant)) == 2
    clock.advance(seconds=1)
    assert signers(tenant) == [new]


def test_a_rotation_is_both_steps_at_once(tenant: Tenant, clock: Clock) -> None:
    """SIGNER-5: Rotating the list signer creates and activates a new one in one step.

    If one is pending, it activates that.
    """
    made = [signers(tenant)[0]]
    for number in range(2, 5):
        clock.advance(minutes=1)
        answer = tenant.admin.post(ROTATE)
        assert answer.status_code == 201
        assert SuccessionStatement.parse(answer.json()["statement"]).previous == public_bytes(
            made[-1]
        )
        made.append(answer.json())
        assert version(tenant, clock, made[-1]) == number
    pending = make(tenant)
    made.append(done(tenant.admin.post(ROTATE)))
    assert made[-1]["key_id"] == pending["key_id"]
    assert version(tenant, clock, made[-1]) == 5
    listed = signers(tenant)
    assert [signer["key_id"] for signer in listed] == [each["key_id"] for each in made[::-1]]
    assert statuses(tenant) == ["active", *["retired"] * 4]
    assert len({signer["public_key"] for signer in listed}) == 5


# --- stolen keys ---


@pytest.mark.parametrize("path", [ROTATE, f"{KEYS}/{{}}/revoke"])
def test_a_stolen_key_is_replaced(tenant: Tenant, clock: Clock, path: str) -> None:
    """F284a, SIGNER-5, SIGNER-7: The active signer is revoked; the pending or a new one signs.

    Whether by a compromised rotation or by a revocation, the old one states no successor.
    """

    def replace_it() -> Any:
        body = {"json": {"compromised": True}} if path == ROTATE else {}
        return done(tenant.admin.post(path.format(signers(tenant)[0]["key_id"]), **body))

    stolen, pending = signers(tenant)[0], make(tenant)
    tenant.revoke("svc_wrt_a")
    answer = replace_it()
    revoked = stolen | {"status": "revoked", "activates_at": None}
    active = pending | {"status": "active", "activates_at": START, "statement": None}
    assert answer == (active if path == ROTATE else revoked)
    assert signers(tenant) == [active, revoked]
    assert version(tenant, clock, active) == 2
    assert tenant.authorizer.get(SRL).json()["payload"]["RevokedIDs"] == ["svc_wrt_a"]
    replace_it()
    assert statuses(tenant) == ["active", "revoked", "revoked"]
    new = signers(tenant)[0]
    assert new["statement"] is None
    assert version(tenant, clock, new) == 3
    assert done(tenant.admin.post(f"{SRL}/regenerate"))["version"] == 4
    assert version(tenant, clock, new) == 4
    # A usual rotation follows, with a statement.
    assert done(tenant.admin.post(ROTATE, json={"compromised": False}))["statement"]
    assert statuses(tenant) == ["active", "retired", "revoked", "revoked"]


def test_a_compromised_rotation_is_not_held_up(tenant: Tenant) -> None:
    """F284b, SIGNER-5: If the stolen seed is lost as well, the rotation succeeds all the same."""
    tenant.revoke("svc_wrt_a")
    signer = in_force.read_active_signer(tenant.ports, tenant.id)
    tenant.ports.store.write(
        Put(signer.address, replace(signer, sealed_seed=b"lost").to_item(), Expect.ANYTHING)
    )
    done(tenant.admin.post(ROTATE, json={"compromised": True}))
    assert statuses(tenant) == ["active", "revoked"]
    # What could not be stated before is stated with the next list.
    done(tenant.admin.post(f"{SRL}/regenerate"))
    assert tenant.authorizer.get(SRL).json()["payload"]["RevokedIDs"] == ["svc_wrt_a"]


def test_revoking_a_key_that_does_not_sign(tenant: Tenant, clock: Clock) -> None:
    """SIGNER-7: A revoked list signer stays listed as revoked."""
    retired = signers(tenant)[0]
    active, pending = done(tenant.admin.post(ROTATE)), make(tenant)
    before = tenant.authorizer.get(SRL).content
    for signer in (retired, pending):
        assert done(act(tenant, "revoke", signer))["status"] == "revoked"
    assert tenant.authorizer.get(SRL).content == before
    clock.advance(days=400)
    assert [(each["key_id"], each["status"]) for each in signers(tenant)] == [
        (active["key_id"], "active"),
        (pending["key_id"], "revoked"),
        (retired["key_id"], "revoked"),
    ]


def test_a_key_that_signs_no_more_has_no_seed(tenant: Tenant) -> None:
    """SIGNER-2: A list signer that no longer signs has no stored seed."""
    for path in (ROTATE, f"{KEYS}/{{}}/revoke"):
        signer = in_force.read_active_signer(tenant.ports, tenant.id)
        done(tenant.admin.post(path.format(signer.id)))
        item = tenant.ports.store.get(signer.address)
        assert item is not None
        assert "sealed_seed" not in item


# --- a rotation that was not published ---


def _unpublished_rotation(tenant: Tenant) -> tuple[Any, Any]:
    """Two signers that have not signed a list: the second active, the first retired."""
    first = in_force.read_active_signer(tenant.ports, tenant.id)
    old = signers(tenant)[0]
    second = srl_signers.create_signer(tenant.ports, tenant.id)
    items: list[dict[str, Value]] = [
        {"status": "retired", "version": 2, "sealed_seed": first.sealed_seed},
        {"status": "active", "version": 1},
    ]
    for signer, changed in zip((first, second), items, strict=True):
        item = dict(signer.to_item()) | changed
        tenant.ports.store.write(Put(signer.address, item, Expect.ANYTHING))
    new = next(each for each in signers(tenant) if each["status"] == "active")
    return old, new


def test_a_rotation_that_was_left_unpublished(tenant: Tenant, clock: Clock) -> None:
    """SIGNER-8, F60a: After an unfinished rotation, the signer of the list in force is first.

    Once the active one has signed a list, the other one is listed no longer.
    """
    old, new = _unpublished_rotation(tenant)
    assert signers(tenant) == [old | {"status": "retired"}, new]
    assert version(tenant, clock, old) == 1
    tenant.admin.post(f"{SRL}/regenerate")
    assert version(tenant, clock, new) == 2
    assert signers(tenant) == [new]


@pytest.mark.parametrize("stolen", [0, 1])
def test_a_theft_while_a_rotation_is_unpublished(tenant: Tenant, clock: Clock, stolen: int) -> None:
    """F60b: If one of two unpublished list signers is revoked, the other signs the list."""
    pair = _unpublished_rotation(tenant)
    done(act(tenant, "revoke", pair[stolen]))
    active = signers(tenant)[0]
    assert active["status"] == "active"
    assert version(tenant, clock, active) == 2
