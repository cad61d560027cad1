"""Failover to a copy of the store: nothing is lost that arrived, in whatever order."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from functions.authorizers import registrations
from functions.authorizers.records import registered_address
from functions.transparency_log import log, sealing
from shared.model import api_keys, revocations
from shared.model.audit import audit_log
from shared.model.idempotency import IdempotencyKey
from shared.model.items import Address, Table
from shared.model.signing_keys import KeyStatus
from shared.operations.access import api_keys as key_operations
from shared.operations.access.api_key_creation import CreatedKey
from shared.operations.changes import list_signers
from shared.operations.changes import revocations as changes
from shared.operations.lists import in_force
from shared.operations.operator import doctor, failover
from shared.ports import Ports
from tests.functions.trust import clients
from tests.kit.faults import Crash, Script, raises, scripted
from tests.kit.roots import OFFLINE
from tests.kit.tenants import Tenant, opens
from tests.kit.worlds import Clock, close, embedded
from tests.operations.fleets import Fleet
from tests.operations.followers import current
from tests.operations.replicas import Original, put
from tests.world.explore import Start, in_memory

pytestmark = pytest.mark.usefixtures("at_once", "few_partitions")


@pytest.fixture(autouse=True)
def _fewer_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy is read several times: with fewer partitions that takes less time."""
    monkeypatch.setattr(revocations, "RECORD_SHARDS", 2)
    monkeypatch.setattr(revocations, "COUNTERS", 2)
    monkeypatch.setattr(audit_log, "SHARDS", 2)


@dataclass(frozen=True)
class Pair:
    """An original with a tenant, and its copy, which has all of that."""

    original: Original
    copy: Ports
    tenant: Tenant

    def copy_only(self, kept: Callable[[Address], bool], change: Callable[[Ports], object]) -> None:
        """Change the original; of the items that the change writes, only some arrive."""
        before = len(self.original.updates)
        change(self.original.ports)
        news = self.original.updates[before:]
        put(self.copy, {p: now for p, now in news if isinstance(p, Address) and kept(p)})


@pytest.fixture
def pair(tmp_path: Path, clock: Clock) -> Iterator[Pair]:
    for name in ("original", "copy"):
        (tmp_path / name).mkdir()
    original = Original.of(embedded(tmp_path / "original", clock))
    shutil.copy(tmp_path / "original" / "master.key", tmp_path / "copy")
    copy = in_memory(tmp_path / "copy", clock)
    tenant = Tenant.create(original.ports)
    put(copy, dict(original.updates))
    yield Pair(original, copy, tenant)
    close(copy)


PARTS: dict[str, Callable[[Address], bool]] = {
    "standing": lambda at: "#warrant#" in at.pk,
    "entry in its shard": lambda at: "#revoked#" in at.pk,
    "record": lambda at: "#revocations" in at.pk,
    "audit entry": lambda at: at.table is Table.AUDIT,
    "mark": lambda at: "#srl-changed" in at.pk,
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_each_part_of_a_revocation_revokes(pair: Pair, part: Callable[[Address], bool]) -> None:
    """OPS-24, F643b: A revocation of which any one item arrived is in force, but for its mark."""
    pair.copy_only(part, lambda ports: pair.tenant.revoke(ports, "svc_wrt_a"))
    assert not failover.recover(pair.copy).failed
    is_known = part is not PARTS["mark"]
    assert pair.tenant.is_revoked(pair.copy, "svc_wrt_a") is is_known
    assert pair.tenant.published(pair.copy).revoked_ids == ["svc_wrt_a"] * is_known
    assert list(doctor.examine(pair.copy)) == []


@pytest.mark.parametrize("part", ["#revoked-keys", "#keys", "#srl-changed-signers", "audit"])
def test_each_part_of_a_key_s_revocation_revokes(pair: Pair, part: str) -> None:
    """OPS-24, F643c: A revocation of a signing key of which any one item arrived is in force."""
    key = pair.tenant.key(pair.original.ports)
    pair.tenant.sign(pair.original.ports, key, "svc_wrt_a")
    put(pair.copy, dict(pair.original.updates))

    def is_part(at: Address) -> bool:
        return at.table is Table.AUDIT if part == "audit" else at.pk.endswith(part)

    pair.copy_only(is_part, lambda ports: pair.tenant.revoke_key(ports, key))
    assert not failover.recover(pair.copy).failed
    assert pair.tenant.status(pair.copy, key) is KeyStatus.REVOKED
    assert pair.tenant.published(pair.copy).revoked_ids == ["svc_wrt_a"]
    assert list(doctor.examine(pair.copy)) == []


@pytest.mark.parametrize("part", ["record", "credential", "note", "audit"])
def test_each_part_of_an_api_key_s_revocation_revokes(pair: Pair, part: str) -> None:
    """OPS-24, F643d: An API key of whose revocation any one item arrived is not accepted."""
    created = pair.tenant.api_key(pair.original.ports)
    put(pair.copy, dict(pair.original.updates))
    digest = created.api_key.digest
    places = {
        "record": lambda at: at == created.api_key.address,
        "credential": lambda at: at == api_keys.credential_address(digest),
        "note": lambda at: at == api_keys.revocation_note_address(digest),
        "audit": lambda at: at.table is Table.AUDIT,
    }
    pair.copy_only(
        places[part],
        lambda ports: key_operations.revoke(ports, pair.tenant.operator, key_id=created.api_key.id),
    )
    assert not failover.recover(pair.copy).failed
    assert not opens(pair.copy, created)
    assert list(doctor.examine(pair.copy)) == []


def test_what_never_arrived_is_exceeded(pair: Pair) -> None:
    """OPS-24, F643e: Lists, feed and sealed log exceed those of which nothing arrived."""
    tenant, original = pair.tenant, pair.original.ports
    for number in range(3):
        tenant.revoke(original, f"svc_wrt_{number}")
        tenant.regenerate(original)
    sealing.extend(original, tenant.id)
    failover.recover(pair.copy)
    head, sealed = in_force.read_srl_head(pair.copy, tenant.id), log.head(pair.copy, tenant.id)
    assert head.version > in_force.read_srl_head(original, tenant.id).version
    assert current(pair.copy, tenant.id).sequence > current(original, tenant.id).sequence
    assert sealed is not None
    assert sealed.generation > 1


def test_a_key_that_nobody_could_revoke_is_not_accepted(pair: Pair) -> None:
    """F644a: A credential whose API key did not arrive is removed: no list has it."""
    made: list[CreatedKey] = []
    pair.copy_only(
        lambda at: at.pk.startswith("api-key#"),
        lambda ports: made.append(pair.tenant.api_key(ports)),
    )
    assert opens(pair.copy, made[0])
    failover.recover(pair.copy)
    assert not opens(pair.copy, made[0])


def test_a_trust_document_that_did_not_arrive(pair: Pair) -> None:
    """OPS-24, TRUST-16, F1120a: A copy that has the head of a document and not its blob goes on.

    The next document follows from the newest that arrived, under a higher version than the lost
    one, so that a client that holds the lost one follows it.
    """
    tenant, original = pair.tenant, replace(pair.original.ports, root=OFFLINE)
    clients.keep(original, tenant)
    put(pair.copy, dict(pair.original.updates))
    list_signers.rotate(original, tenant.operator)
    clients.keep(original, tenant)
    client = clients.PinnedClient(original, tenant)
    assert client.polls().document.version == 2
    put(pair.copy, {p: now for p, now in pair.original.updates if isinstance(p, Address)})
    said = list[str]()
    copy = replace(pair.copy, root=OFFLINE)
    assert not failover.recover(copy, report=said.append).failed
    assert any("the trust document of version 2 is missing" in line for line in said)
    moved = clients.PinnedClient(copy, tenant)
    moved.state = client.state
    assert moved.polls().document.version > 2


def test_signing_keys_that_did_not_arrive(pair: Pair) -> None:
    """OPS-24, TRUST-16, F1120b: A copy that has a document, and not the keys it covers, goes on.

    The next document covers the signing keys of the records.
    """
    tenant, original = pair.tenant, replace(pair.original.ports, root=OFFLINE)
    key = tenant.key(original)
    clients.keep(original, tenant)
    arrived = dict(pair.original.updates)
    put(
        pair.copy,
        {p: now for p, now in arrived.items() if not (isinstance(p, str) and "/keys/" in p)},
    )
    copy = replace(pair.copy, root=OFFLINE)
    assert not failover.recover(copy).failed
    client = clients.PinnedClient(copy, tenant)
    assert client.polls().document.version > 1
    assert [each.key_id for each in client.keys.keys] == [key.id]


def test_a_repeated_request_is_done_again(pair: Pair) -> None:
    """F644b, API-32: A request whose outcome alone arrived is done when it is repeated."""
    request = IdempotencyKey.of(pair.tenant.operator, method="POST", path="/", key="k", body=b"{}")

    def ask(ports: Ports) -> object:
        return changes.create.run_once(
            ports, pair.tenant.operator, request, warrant_id="svc_wrt_a", reason="stolen"
        )

    pair.copy_only(lambda at: "#once#" in at.pk, ask)
    failover.recover(pair.copy)
    ask(pair.copy)
    assert pair.tenant.is_revoked(pair.copy, "svc_wrt_a")


def test_a_tenant_that_arrived_in_part_stops_no_other_one(pair: Pair) -> None:
    """F645a: A tenant that cannot be recovered is named, and all others are recovered."""
    pair.copy_only(
        lambda at: at.pk.startswith("tenant") or at.sk == "settings",
        lambda ports: Tenant.create(ports, "globex"),
    )
    done = failover.recover(pair.copy)
    assert set(done.recovered) == {"acme"}
    assert set(done.failed) == {"globex"}


def test_registrations_that_arrived_are_counted(pair: Pair) -> None:
    """FLEET-3, F2913a: Registrations whose count did not arrive count in the copy."""
    address = registered_address(pair.tenant.id)
    pair.copy_only(lambda at: at != address, lambda ports: Fleet(ports, pair.tenant).add("edge"))
    assert pair.copy.store.get(address) is None
    failover.recover(pair.copy)
    assert registrations.count_registered(pair.copy, pair.tenant.id) == 1


def test_a_tenant_that_is_not_in_the_directory_is_recovered(pair: Pair) -> None:
    """F645b: A tenant whose entry in the directory did not arrive is recovered too."""
    pair.copy_only(lambda at: at.pk != "tenants", lambda ports: Tenant.create(ports, "globex"))
    put(pair.copy, {p: now for p, now in pair.original.updates if isinstance(p, str)})
    assert set(failover.recover(pair.copy).recovered) == {"acme", "globex"}


@pytest.mark.slow
def test_stopped_anywhere_it_may_be_repeated(pair: Pair) -> None:
    """F646a: Wherever a failover dies, the next one ends well, and nothing is lost."""
    for warrant_id, part in (("svc_wrt_a", "standing"), ("svc_wrt_b", "entry in its shard")):
        pair.copy_only(PARTS[part], partial(pair.tenant.revoke, warrant_id=warrant_id))
    start = Start(pair.copy)
    rehearsal = Script()
    failover.recover(scripted(pair.copy, rehearsal))
    steps = [step for step, verb in enumerate(rehearsal.calls) if verb in ("write", "put")]
    for step in steps:
        start.restore()
        # It may take a few calls less than the rehearsal, since identifiers are random.
        with suppress(Crash):
            failover.recover(scripted(pair.copy, Script(after={step: raises(Crash())})))
        assert not failover.recover(pair.copy).failed
        assert len(pair.tenant.published(pair.copy).revoked_ids) == 2
        assert list(doctor.examine(pair.copy)) == []


def test_the_last_change_that_arrived(pair: Pair) -> None:
    """OPS-24, F647a: The newest entry that arrived is named, not one of the failover itself."""
    pair.tenant.revoke(pair.original.ports, "svc_wrt_a")
    caller = replace(pair.tenant.operator, identity="a@acme.svc")
    changes.create(pair.original.ports, caller, warrant_id="svc_wrt_b", reason="r")
    put(pair.copy, dict(pair.original.updates))
    failover.recover(pair.copy)
    found = failover.newest_arrived(pair.copy, pair.tenant.id)
    assert found is not None
    assert found.details["warrant_id"] == "svc_wrt_b"
