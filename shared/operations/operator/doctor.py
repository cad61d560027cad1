"""Diagnose a deployment or data folder: problems and their remedies."""

import secrets
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from shared.capabilities import INSTALLED
from shared.capabilities.finding import DoctorCheck, Finding, Report
from shared.errors import DataCorrupt, InvalidSrl, RescindError
from shared.model import seeds, signing_keys, times
from shared.model.expiring import ExpiringKind
from shared.model.items import Address, Table
from shared.model.lists.head import SrlHead
from shared.model.lists.schedule import TURNS, PublicationDeadline
from shared.model.lists.signers import SrlSigner, signers_partition
from shared.model.lists.verification import verify
from shared.model.signing_keys import KeyStatus, SigningKey
from shared.model.tenants import DirectoryEntry
from shared.operations.base import seals, tenants
from shared.operations.lists import expiring, in_force, unpublished
from shared.operations.operator import consistency, readiness, restored
from shared.operations.operator.readiness import Probe
from shared.operations.operator.recovery import newest, unknown
from shared.ports import Ports
from shared.ports.one_machine import LocalStore
from shared.ports.store import ConfigurableStore, Delete, Expect, Put

# How many expiring keys of a tenant are named.
_EXPIRING: Final = 10
_REPLACE: Final = "replace it before then: see docs/api-keys.md#keys-that-expire"

_OTHER_TABLES: Final = "docs/restore.md#other-stores"
_GUIDE: Final = "restore the data (docs/restore.md)"


def examine(
    ports: Ports, report: Callable[[str], object] = lambda _line: None
) -> Iterator[Finding]:
    """Examine the stores, then each tenant; yield a finding for each problem.

    Reads all records, and occasionally calls `report` with a line if that takes long. Makes no
    changes, except that it writes and deletes items to test the store. A check that fails is also a
    finding.
    """
    broken = [*_check_ports(ports), *_check_database(ports)]
    yield from broken
    if broken:
        return
    yield from _check_configuration(ports)
    yield from _check_tables(ports)
    for tenant in _list_tenants(ports):
        yield from _examine_tenant(ports, tenant, report)


def _check_ports(ports: Ports) -> Iterator[Finding]:
    def write_and_delete() -> None:
        # The disk may be full, or the tables read-only.
        for table in (Table.KEYS, Table.REVOCATIONS):
            address = Address(table, "doctor", secrets.token_hex(8))
            ports.store.write(Put(address, {}, Expect.ABSENT))
            ports.store.write(Delete(address, Expect.PRESENT))

    write = Probe("RESCIND_STORE", write_and_delete, "written to")
    failed: set[str] = set()
    for probe in (*readiness.read_probes(ports), write):
        if probe.setting in failed:
            continue
        try:
            probe.run()
        except RescindError as error:
            failed.add(probe.setting)
            yield Finding(
                probe.setting,
                f"cannot be {probe.verb}: {_format_cause(error)}",
                "check that it exists and has space, that its name is right, and that this user "
                "may read and write it",
            )


def _check_database(ports: Ports) -> Iterator[Finding]:
    """Yield damage to the store itself, if the store can detect it."""
    if not isinstance(ports.store, LocalStore):
        return
    try:
        for problem in ports.store.problems():
            yield Finding("RESCIND_STORE", f"its database is damaged: {problem}", _GUIDE)
    except RescindError as error:
        yield Finding("RESCIND_STORE", f"cannot check its database: {_format_cause(error)}", _GUIDE)


def _check_configuration(ports: Ports) -> Iterator[Finding]:
    """Yield problems with the configuration of the store's database, if it has one."""
    if not isinstance(ports.store, ConfigurableStore):
        return
    try:
        for each in ports.store.flaws():
            yield Finding("RESCIND_STORE", each.problem, each.remedy, is_remark=each.is_remark)
    except RescindError as error:
        problem = f"cannot read its configuration: {_format_cause(error)}"
        yield Finding("RESCIND_STORE", problem, "run the command again")


def _check_tables(ports: Ports) -> Iterator[Finding]:
    """Find tables that were, or may have been, restored from a copy (OPS-10)."""
    try:
        if not restored.are_other_tables(ports):
            return
    except RescindError as error:
        problem = f"cannot determine whether its tables were restored: {_format_cause(error)}"
        yield Finding("RESCIND_STORE", problem, "run the command again")
        return
    yield Finding(
        "RESCIND_STORE",
        "its tables or its server differ from the ones that an operator last confirmed",
        f"see {_OTHER_TABLES}",
    )


def _list_tenants(ports: Ports) -> Iterator[DirectoryEntry]:
    """Yield the tenants in the directory, then tenants that only the scheduler knows."""
    known = set()
    for tenant in tenants.directory(ports):
        known.add(tenant.tenant_id)
        yield tenant
    for turn in PublicationDeadline.from_rows(ports.store.query(TURNS)):
        if turn.tenant_id not in known:
            known.add(turn.tenant_id)
            try:
                handle = tenants.settings(ports, turn.tenant_id).handle
            except RescindError:
                handle = turn.tenant_id  # `consistency` reports the missing records.
            yield DirectoryEntry(turn.tenant_id, handle, turn.due_at)


def _examine_tenant(
    ports: Ports, tenant: DirectoryEntry, report: Callable[[str], object]
) -> Iterator[Finding]:
    findings: dict[str, Finding] = {}
    examined = None
    try:
        tenants.settings(ports, tenant.tenant_id)
        # If an SRL is published during the checks, their results may be wrong: check again.
        while (head := in_force.read_srl_head(ports, tenant.tenant_id)) != examined:
            examined = head
            findings = {each.problem: each for each in _run_checks(ports, tenant, head)}
    except RescindError as error:
        problem = f"cannot read its records: {error}"
        yield Finding(tenant.handle, problem, _restore_and_recover(tenant))
        return
    yield from findings.values()
    for each in chain(_check_consistency(ports, tenant), _run_long_checks(ports, tenant, report)):
        if each.problem not in findings:
            yield each


def _run_checks(ports: Ports, tenant: DirectoryEntry, head: SrlHead) -> Iterator[Finding]:
    checks: tuple[DoctorCheck, ...] = (
        _check_srl,
        _check_srl_version,
        *(check for each in INSTALLED for check in each.doctor_checks()),
        _check_ended_access,
        _check_review,
        _check_deadline,
        _check_feed,
        _check_srl_signer,
        _check_signing_keys,
        _check_expiries,
    )
    for check in checks:
        try:
            yield from check(ports, tenant, head)
        except RescindError as error:
            yield Finding(tenant.handle, str(error), _restore_and_recover(tenant))


def _check_consistency(ports: Ports, tenant: DirectoryEntry) -> Iterator[Finding]:
    try:
        for each in consistency.examine(ports, tenant.tenant_id):
            remedy = _recover(tenant) if each.changes else _restore_and_recover(tenant)
            yield Finding(tenant.handle, each.problem, remedy)
    except RescindError as error:
        problem = f"cannot compare its records: {error}"
        yield Finding(tenant.handle, problem, _restore_and_recover(tenant))


def _recover(tenant: DirectoryEntry) -> str:
    return f"run: rescind recover {tenant.handle}"


def _restore_and_recover(tenant: DirectoryEntry) -> str:
    return f"{_GUIDE}, then {_recover(tenant)}"


def _check_srl(ports: Ports, tenant: DirectoryEntry, head: SrlHead) -> Iterator[Finding]:
    handle = tenant.handle
    item = ports.store.get(signers_partition(tenant.tenant_id).address(head.key_id))
    if item is None:
        problem = "the key that signed the current SRL has no record"
        yield Finding(handle, problem, _restore_and_recover(tenant))
        return
    signer = SrlSigner.from_item(item)
    try:
        verify(in_force.read_srl_body(ports, head), public_key=signer.public_bytes, now=ports.now())
    except InvalidSrl as error:
        clocks = "the clocks are right and " if head.is_ahead(ports.now()) else ""
        remedy = f"check that {clocks}the scheduler runs, or {_recover(tenant)}"
        yield Finding(handle, f"its SRL is not valid: {error}", remedy)


def _check_srl_version(ports: Ports, tenant: DirectoryEntry, head: SrlHead) -> Iterator[Finding]:
    if newest.highest(ports, tenant.tenant_id) > head.version:
        yield Finding(
            tenant.handle,
            "a newer SRL than the current one is stored",
            "ignore it if a publication was interrupted; after a restore, or in doubt, "
            + _recover(tenant),
        )


def _run_long_checks(ports: Ports, tenant: DirectoryEntry, report: Report) -> Iterator[Finding]:
    for capability in INSTALLED:
        for check in capability.long_doctor_checks():
            try:
                yield from check(ports, tenant, report)
            except RescindError as error:
                what = capability.name.replace("_", " ")
                problem = f"cannot verify its {what}: {error}"
                yield Finding(tenant.handle, problem, _restore_and_recover(tenant))


def _check_ended_access(ports: Ports, tenant: DirectoryEntry, _head: SrlHead) -> Iterator[Finding]:
    """Find keys and accounts that a restore has made valid again (docs/adr/14)."""
    for problem in unknown.differences(ports, tenant.tenant_id):
        yield Finding(tenant.handle, problem, _recover(tenant))


def _check_review(ports: Ports, tenant: DirectoryEntry, _head: SrlHead) -> Iterator[Finding]:
    """Find a restore without a review of its possible losses (OPS-10)."""
    mark = restored.read_review(ports, tenant.tenant_id)
    if mark is not None:
        problem = (
            f"it was restored at {times.format_utc(mark.restored_at)}, and the restore is not "
            "reviewed"
        )
        first = "" if mark.recovered_at else f"{_recover(tenant)}; "
        command = f"rescind recover {tenant.handle} --complete-review"
        remedy = f"{first}review what it lists, then run: {command}"
        yield Finding(tenant.handle, problem, remedy)


def _check_deadline(ports: Ports, tenant: DirectoryEntry, head: SrlHead) -> Iterator[Finding]:
    if PublicationDeadline.after_publication(head, tenant.tenant_id).is_late(ports.now()):
        remedy = f"check that the scheduler runs; its log has the cause for {tenant.tenant_id}"
        yield Finding(tenant.handle, "its SRL is late", remedy)


def _check_feed(ports: Ports, tenant: DirectoryEntry, _head: SrlHead) -> Iterator[Finding]:
    try:
        waited = unpublished.backlog_age(ports, tenant.tenant_id)
        is_late = unpublished.is_late(ports, tenant.tenant_id, waited)
    except DataCorrupt as error:
        problem = f"cannot read an outbox mark, so no changes are published: {error}"
        yield Finding(tenant.handle, problem, _recover(tenant))
        return
    if is_late:
        seconds = int(waited.total_seconds())
        problem = f"a change that was acknowledged {seconds} seconds ago is not in its feed"
        remedy = f"check that feeds are published; the log has the cause for {tenant.tenant_id}"
        yield Finding(tenant.handle, problem, remedy)


def _check_expiries(ports: Ports, tenant: DirectoryEntry, _head: SrlHead) -> Iterator[Finding]:
    """Find API keys and signing keys that expire within 30 days (APIKEY-11)."""
    keys = expiring.list_expiring(ports, tenant.tenant_id)
    for each in keys[:_EXPIRING]:
        name = "API key" if each.kind is ExpiringKind.API_KEY else "signing key"
        left = "1 day" if each.days == 1 else f"{each.days} days"
        problem = f'its {name} {each.id} "{each.name}" expires within {left}'
        yield Finding(tenant.handle, f"{problem}, at {times.format_utc(each.expires_at)}", _REPLACE)
    if len(keys) > _EXPIRING:
        problem = f"the same is true of {len(keys) - _EXPIRING} more of its keys"
        yield Finding(tenant.handle, problem, _REPLACE)


def _check_srl_signer(ports: Ports, tenant: DirectoryEntry, _head: SrlHead) -> Iterator[Finding]:
    try:
        signer = in_force.read_active_signer(ports, tenant.tenant_id)
    except DataCorrupt:
        return  # `consistency` reports this.
    yield from _check_seed(ports, tenant, signer, "SRL signer")


def _check_signing_keys(ports: Ports, tenant: DirectoryEntry, _head: SrlHead) -> Iterator[Finding]:
    for key in SigningKey.from_rows(ports.store.query(signing_keys.keys(tenant.tenant_id))):
        if key.sealed_seed is None or key.status is KeyStatus.REVOKED:
            continue
        # One finding suffices, because the remedy is the same for all keys.
        if finding := next(_check_seed(ports, tenant, key, f"signing key {key.id}"), None):
            yield finding
            return


def _check_seed(
    ports: Ports, tenant: DirectoryEntry, key: SigningKey | SrlSigner, name: str
) -> Iterator[Finding]:
    handle = tenant.handle
    try:
        if seeds.public_key(seals.unwrap_seed(ports, key)) != key.public_key:
            problem = f"the seed of its {name} belongs to another key"
            yield Finding(handle, problem, _restore_and_recover(tenant))
    except DataCorrupt:
        problem = f"cannot unwrap the seed of its {name}"
        yield Finding(handle, problem, "restore the wrapping key that wrapped it")


def _format_cause(error: Exception) -> str:
    return f"{error} ({error.__cause__})" if error.__cause__ else str(error)
