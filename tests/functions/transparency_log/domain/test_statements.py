"""Statements of the counters of revocations, and what a verifier makes of them (LOG-29, LOG-30)."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any, Final

import pytest

from functions.batches import operations as revocation_batches
from functions.transparency_log import daily_statements, sealing
from functions.transparency_log import operations as served
from functions.transparency_log import statements as model
from functions.transparency_log.merkle import TileAddress
from infra.audit_verification.source import Report
from infra.audit_verification.verification import verify
from shared.model import revocations, times
from shared.model.audit import audit_log
from shared.model.audit.audit_log import AuditAction, EntryFilters
from shared.model.audit.witness_policy import NoteKey
from shared.model.items import Table
from shared.model.revocation_batches import BatchAction, BatchRequest
from shared.operations.changes import revocations as api
from shared.operations.operator import consistency
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Increment
from tests.kit.intercepted import Call, Intercepted
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.restores import Deployment

YEAR: Final = timedelta(days=365)
NAMES: Final = [f"svc_wrt_{number}" for number in range(60)]
STATED: Final = "audit_log.statement"

pytestmark = pytest.mark.usefixtures("at_once")


@dataclass
class Log:
    """The log and the entries of a tenant, as a verification reads them."""

    ports: Ports
    tenant: Tenant

    def checkpoint(self) -> str | None:
        return served.checkpoint(self.ports, self.tenant.operator)

    def verifier_keys(self) -> list[str]:
        found = served.keys(self.ports, self.tenant.operator)
        return [
            str(NoteKey(found.origin, base64.b64decode(each.public_key))) for each in found.signers
        ]

    def refuses(self) -> bool:
        return False

    def read_cosigned_checkpoint(self) -> None:
        return None

    def tile(self, place: TileAddress) -> bytes | None:
        return served.tile(self.ports, self.tenant.operator, place=place)

    def entries(self) -> Iterator[Any]:
        now = self.ports.now()
        for _, partitions in audit_log.months(self.tenant.id, EntryFilters(now - YEAR, now)):
            for each in partitions:
                yield from (row.item for row in self.ports.store.query(each))


def checked(ports: Ports, tenant: Tenant) -> Report:
    """What a verification says after the last entries are sealed."""
    sealing.extend(ports, tenant.id)
    report, _ = verify(Log(ports, tenant), tenant.id, pins=[], now=ports.now, records=[])
    return report


def stated(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """The daily run, a day later."""
    clock.advance(hours=24)
    daily_statements.sweep(ports, tenant.id)


def batch(ports: Ports, tenant: Tenant, action: BatchAction, names: list[str]) -> None:
    wanted = BatchRequest(action, tuple(names), reason="many")
    revocation_batches.apply(ports, tenant.operator, batch=wanted)


def tear(ports: Ports, tenant: Tenant, warrant_id: str, random: Random) -> None:
    """Lose one of the items of a revocation, or a count, as a torn backup does; repair it."""
    if random.random() < 0.3:
        counter = revocations.counter_address(tenant.id, warrant_id)
        ports.store.write(Increment(counter, {"count": 1}, Expect.ANYTHING))
    else:
        shard = revocations.shard_of(tenant.id, warrant_id)
        ports.store.write(Delete(shard.address(warrant_id), Expect.PRESENT))
    assert consistency.repair(ports, tenant.operator)


def do_something(ports: Ports, tenant: Tenant, live: dict[str, str], random: Random) -> None:
    """One change, or several: of single revocations, batches, keys, or by a repair."""
    free = [name for name in NAMES if name not in live]
    revoked = sorted(live)
    some = random.sample(free, 5)
    match random.choice(["create", "delete", "batch", "back", "cascade", "tear"]):
        case "create":
            live[some[0]] = tenant.revoke(ports, some[0])
        case "batch":
            batch(ports, tenant, BatchAction.REVOKE, [*some, *revoked[:2]])
            live |= dict.fromkeys(some, "")
        case "back" if revoked:
            batch(ports, tenant, BatchAction.UNREVOKE, revoked[:3])
            for each in revoked[:3]:
                del live[each]
        case "delete" if revoked:
            name = random.choice(revoked)
            page = api.page(ports, tenant.operator, before=None, limit=200)
            (found,) = (each.id for each in page.entries if each.warrant_id == name)
            api.delete(ports, tenant.operator, revocation_id=found)
            del live[name]
        case "cascade":
            root = tenant.key(ports)
            child = tenant.key(ports, root)
            tenant.sign(ports, child)
            tenant.revoke_key(ports, root, cascade=True)
        case "tear" if revoked:
            tear(ports, tenant, random.choice(revoked), random)


@pytest.mark.slow_on("1", "2")
@pytest.mark.parametrize("seed", range(3))
def test_an_honest_history_agrees_with_its_statements(
    ports: Ports, tenant: Tenant, clock: Clock, seed: int
) -> None:
    """LOG-30, F350b: The statements agree with all revocations, deletions and repairs."""
    random, live = Random(seed), dict[str, str]()
    days = 4
    for _ in range(days):
        for _ in range(8):
            do_something(ports, tenant, live, random)
            clock.advance(minutes=random.choice([0, 1, 90]))
            if random.random() < 0.3:
                sealing.extend(ports, tenant.id)
        stated(ports, clock, tenant)
    report = checked(ports, tenant)
    assert (report.findings, report.notes) == ([], [])
    assert report.statements == days - 1


def test_an_entry_that_was_kept_from_the_table_is_found(
    ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """LOG-30, F350c: A change whose entry never was in the log is named by its shard."""
    tenant.revoke(ports, "svc_wrt_a")
    stated(ports, clock, tenant)
    for each in ("svc_wrt_b", "svc_wrt_c"):
        tenant.revoke(ports, each)
    (hidden,) = (
        each
        for each in Log(ports, tenant).entries()
        if each["details"].get("warrant_id") == "svc_wrt_b"
    )
    address = audit_log.address(tenant.id, hidden["id"], ports.now())
    ports.store.write(Delete(address, Expect.PRESENT))
    stated(ports, clock, tenant)
    sealing.extend(ports, tenant.id)
    shard = revocations.shard_number("svc_wrt_b")
    first, second = (
        each["id"]
        for each in sorted(Log(ports, tenant).entries(), key=lambda item: item["id"])
        if each["action"] == AuditAction.AUDIT_LOG_STATEMENT
    )
    also = int(revocations.shard_number("svc_wrt_c") == shard)
    expected = (
        f"shard {shard}: {1 + also} changes were counted between the statements {first} and "
        f"{second}, but entries name {also}"
    )
    assert checked(ports, tenant).findings == [expected]


def test_statements_are_made_once_a_day(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """LOG-29, F350d: Changes are stated once a day; no change, no statement."""
    for changes, number in ((0, 0), (1, 1), (0, 1), (2, 2)):
        for _ in range(changes):
            tenant.revoke(ports, f"svc_wrt_{ports.new_id('evt')}")
        for _ in range(2):
            daily_statements.sweep(ports, tenant.id)
        assert tenant.actions(ports).count("audit_log.statement") == number
        clock.advance(hours=21)
    statement = model.AuditStatement.from_item(ports.store.get(model.address(tenant.id)) or {})
    assert sum(statement.changes) == 3
    entries = [each for each in Log(ports, tenant).entries() if each["action"] == STATED]
    assert {each["actor"] for each in entries} == {"system+sealing@acme.svc"}
    assert statement.to_item() in [each["details"] for each in entries]


def test_nothing_is_stated_during_changes(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """LOG-29, F350e: A statement waits until the counters are the same before and after a pass."""
    tenant.revoke(ports, "svc_wrt_a")
    stated(ports, clock, tenant)
    tenant.revoke(ports, "svc_wrt_b")
    left = NAMES[:20]

    def busy(call: Call) -> Any:
        """Between two readings of the counters, something is revoked."""
        reads = call.verb == "query_many" and "#revoked#00" in call.arguments[0][0].pk
        if left and (reads or call.verb == "write"):
            tenant.revoke(ports, left.pop())
        return call()

    clock.advance(hours=24)
    daily_statements.sweep(replace(ports, store=Intercepted(ports.store, busy)), tenant.id)
    assert tenant.actions(ports).count(STATED) == 1
    left.clear()
    daily_statements.sweep(ports, tenant.id)
    assert tenant.actions(ports).count(STATED) == 2
    assert checked(ports, tenant).findings == []


@pytest.mark.parametrize("tables", [(Table.REVOCATIONS,), (Table.AUDIT,), ()])
def test_after_a_restore_statements_begin_anew(
    deployment: Deployment, ports: Ports, tenant: Tenant, clock: Clock, tables: tuple[Table, ...]
) -> None:
    """LOG-29, F350f: After a recovery, the counters of a restore are no difference."""
    tenant.revoke(ports, "svc_wrt_a")
    tenant.regenerate(ports)
    stated(ports, clock, tenant)
    copy = deployment.copy()
    for each in ("svc_wrt_b", "svc_wrt_c"):
        tenant.revoke(ports, each)
    tenant.regenerate(ports)
    stated(ports, clock, tenant)
    deployment.restore(copy, *tables)
    if tables == (Table.REVOCATIONS,):
        stated(ports, clock, tenant)
        assert not any(
            each["timestamp"] == times.format_utc(ports.now())
            for each in Log(ports, tenant).entries()
            if each["action"] == STATED
        )
    recovery.recover(ports, tenant.operator)
    for number in range(2):
        stated(ports, clock, tenant)
        tenant.revoke(ports, f"svc_wrt_after-{number}")
    stated(ports, clock, tenant)
    report = checked(ports, tenant)
    assert report.findings == []
    assert report.statements >= 2
