"""Failover: make the copy of a store in another region writable (OPS-24, docs/adr/14).

A copy contains each item and each blob as of some moment. A write may have arrived only partly, and
the last writes not at all. Partial changes are repaired to the safe side.
"""

import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain, islice
from typing import Final

from shared.capabilities import INSTALLED
from shared.errors import InvalidState, PreconditionFailed, RescindError
from shared.model import api_keys, idempotency, revocations, warrants
from shared.model.api_keys import Credential
from shared.model.audit import audit_log
from shared.model.audit.audit_log import AuditEntry
from shared.model.deployment import FENCED_SECONDS
from shared.model.items import Address, Table
from shared.model.tenants import DirectoryEntry, TenantSettings, settings_address
from shared.model.warrants import WarrantRecord, WarrantState
from shared.operations.base import operation, tenants
from shared.operations.lists import marks
from shared.operations.lists.records import end_index_change, ended_address
from shared.operations.operator import deployment, onboarding
from shared.operations.operator.recovery import recovery
from shared.operations.operator.recovery.recovery import RecoveryResult
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Change, Delete, Expect, Put

Report = Callable[[str], None]

# No region has this name, so all writes are prevented.
NOBODY: Final = "-"
_POLL_SECONDS: Final = 1.0


def fence(original: Ports) -> None:
    """Prevent all writes to the original. Raises `DataCorrupt`, `Unavailable`."""
    deployment.put_in_charge(original, NOBODY)
    operation.PACING.sleep(FENCED_SECONDS)


def wait_until_copied(original: Ports, copy: Ports, *, seconds: float) -> None:
    """Wait until the copy has the current writes to each table of the original.

    It then also has earlier writes, as far as replication preserves the order. Raises
    `InvalidState` if that takes longer than `seconds`; `Unavailable`.
    """
    name, expires = secrets.token_hex(8), int(original.now().timestamp()) + 24 * 3600
    probes = [Address(table, "failover", name) for table in Table]
    for each in probes:
        original.store.write(Put(each, {"expires": expires}, Expect.ABSENT))
    deadline = operation.PACING.clock() + seconds
    while len(copy.store.get_many(probes)) < len(probes):
        if operation.PACING.clock() >= deadline:
            raise InvalidState(
                f"The tables of the two regions differ after {seconds:.0f} s. Check their "
                "replication, and repeat; or give up the missing changes with --source-unavailable."
            )
        operation.PACING.sleep(_POLL_SECONDS)
    # The others expire.
    original.store.write(Delete(Address(Table.REVOCATIONS, "failover", name), Expect.ANYTHING))


@dataclass(frozen=True, slots=True)
class RecoveredCopy:
    """The tenants of a copy by handle: the result of each recovery, and errors of the others."""

    recovered: dict[str, RecoveryResult] = field(default_factory=dict)
    failed: dict[str, RescindError] = field(default_factory=dict)


def recover(
    ports: Ports,
    *,
    user: str | None = None,
    trusted_keys: Collection[bytes] = (),
    report: Report = lambda _line: None,
) -> RecoveredCopy:
    """Recover each tenant of a copy for writes. May be repeated.

    No other process may write at the same time. SRLs and the feed continue far above the original
    ones, and the transparency log begins a generation. A tenant that cannot be recovered does not
    stop the others. `user` and `trusted_keys` are the same as in `recovery.recover`. Raises
    `Unavailable`.
    """
    # The tables of a copy are different, but they were not restored.
    deployment.note_tables(ports)
    _show_standings(ports)
    removed = _remove_unproven(ports)
    report(f"Removed {removed} items that depend on possibly lost changes.")
    done = RecoveredCopy()
    for each in tenants.directory(ports):
        if each.removal_began:
            continue
        try:
            done.recovered[each.handle] = _recover_tenant(ports, each, user, trusted_keys, report)
        except RescindError as error:
            done.failed[each.handle] = error
    return done


def _recover_tenant(
    ports: Ports,
    tenant: DirectoryEntry,
    user: str | None,
    trusted_keys: Collection[bytes],
    report: Report,
) -> RecoveryResult:
    operator = onboarding.operator(ports, handle=tenant.handle, user=user)
    for step in (step for each in INSTALLED for step in each.failover_steps()):
        step(ports, tenant.tenant_id)
    return recovery.recover(
        ports,
        operator,
        report=lambda line: report(f"{tenant.handle}: {line}"),
        trusted_keys=trusted_keys,
        is_copy=True,
    )


def _remove_unproven(ports: Ports) -> int:
    """Delete idempotency records, and credentials of API keys without a record; count them.

    A caller that repeats a request would otherwise get its outcome, although its changes may not
    have arrived. A key without a record is not listed, so it could not be revoked.
    """
    removed = 0
    for address, item in ports.store.everything(Table.KEYS):
        is_unproven = idempotency.is_outcome_at(address)
        if not is_unproven and api_keys.is_credential_at(address):
            credential = Credential.from_item(item)
            record = api_keys.records(credential.tenant_id).address(credential.key_id)
            is_unproven = ports.store.get(record) is None
        if is_unproven:
            ports.store.write(Delete(address, Expect.ANYTHING))
            removed += 1
        if address == settings_address(address.pk):
            settings = TenantSettings.from_item(item)
            entry = DirectoryEntry(settings.tenant_id, settings.handle, settings.created_at)
            # The tenant may be missing from the directory.
            with suppress(PreconditionFailed):
                ports.store.write(Put(entry.address, entry.to_item(), Expect.ABSENT))
    return removed


_BATCH: Final = 100


def _show_standings(ports: Ports) -> None:
    """Make warrants visible to the repairs if only their state has arrived.

    A check reads the state. SRLs, the feed and the repairs start from the records written here.
    """
    standings = (
        (*name, WarrantState.from_item(item))
        for address, item in ports.store.everything(Table.REVOCATIONS)
        if (name := warrants.of_warrant_address(address))
    )
    while batch := list(islice(standings, _BATCH)):
        changes: list[Change] = []
        # Revoked warrants that are not in any SRL get a mark.
        places: dict[tuple[str, str], list[Address]] = {}
        for tenant_id, warrant_id, standing in batch:
            if standing.revocation_id:
                shard = revocations.shard_of(tenant_id, warrant_id)
                places[tenant_id, warrant_id] = [shard.address(warrant_id)]
                if (end := standing.end) is not None:
                    moved = ended_address(tenant_id, warrant_id, end)
                    places[tenant_id, warrant_id].append(moved)
        listed = ports.store.get_many(chain.from_iterable(places.values())) if places else {}
        for (tenant_id, warrant_id), addresses in places.items():
            if not any(each in listed for each in addresses):
                changes.append(marks.warrant_mark(tenant_id, warrant_id))
        # Signed warrants must be in the index by expiry.
        puts = [
            end_index_change(
                tenant_id, WarrantRecord(warrant_id, key_id, version, ports.now(), standing.ends_at)
            )
            for tenant_id, warrant_id, standing in batch
            if (key_id := standing.key_id) and (version := standing.key_version)
        ]
        indexed = ports.store.get_many(each.address for each in puts) if puts else {}
        changes += [each for each in puts if each.address not in indexed]
        for start in range(0, len(changes), MOST_CHANGES):
            ports.store.write(*changes[start : start + MOST_CHANGES])


def newest_arrived(ports: Ports, tenant_id: str) -> AuditEntry | None:
    """Return the newest audit entry of a tenant that is not by an operator, or None.

    It is from this month or the last one. Raises `DataCorrupt`, `Unavailable`.
    """
    now = ports.now()
    months = {moment.strftime("%Y-%m"): moment for moment in (now, now - timedelta(days=28))}
    partitions = chain.from_iterable(
        audit_log.month(tenant_id, moment) for moment in months.values()
    )
    newest = []
    for partition in partitions:
        entries = AuditEntry.from_rows(ports.store.query(partition, newest_first=True))
        entry = next((each for each in entries if not onboarding.is_of_operator(each)), None)
        if entry is not None:
            newest.append(entry)
    return max(newest, key=lambda entry: entry.id, default=None)
