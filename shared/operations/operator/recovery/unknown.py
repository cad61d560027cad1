"""Compare the newest state with the records, without changes (OPS-10, docs/adr/14).

A recovery cannot know some changes, so the operator must review them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from shared.errors import DataCorrupt
from shared.model import api_keys, revocations, service_accounts, signing_keys, times, warrants
from shared.model.api_keys import ApiKey, Usage
from shared.model.deployment import UnreviewedRestore
from shared.model.lists import schedule
from shared.model.lists.head import head_address
from shared.model.lists.schedule import TURNS, PublicationDeadline
from shared.model.lists.signers import ENDED, SrlSigner, SrlSignerStatus, signers_partition
from shared.model.lists.tombstones import Tombstones, TombstoneStatus
from shared.model.records import integer
from shared.model.service_accounts import ServiceAccount
from shared.model.signing_keys import KeyStatus, SigningKey
from shared.model.warrants import WarrantRecord, is_past_retention
from shared.operations.base import counters, tenants
from shared.operations.lists import in_force, records
from shared.operations.lists import signers as srl_signers
from shared.operations.lists.verdicts import read_statuses
from shared.operations.operator.recovery import newest as srl_newest
from shared.operations.operator.recovery.newest import NewestPublication
from shared.ports import Ports


@dataclass(frozen=True, slots=True)
class StaleTables:
    """The tables that are known to be older than the newest SRL."""

    keys: bool
    revocations: bool

    def __bool__(self) -> bool:
        return self.keys or self.revocations

    def __str__(self) -> str:
        names = [name for name in ("keys", "revocations") if getattr(self, name)]
        return " and ".join(names)


@dataclass(frozen=True, slots=True)
class UnknownReason:
    """Reasons why changes may be unknown, and the records to review, one per line."""

    reasons: tuple[str, ...]
    review: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.reasons)

    def lines(self) -> list[str]:
        """Return all lines for the operator, or none if all changes are known."""
        return [
            *(f"Unknown: {reason}" for reason in self.reasons),
            *(f"Review: {line}" for line in self.review),
        ]


def find_stale_tables(ports: Ports, tenant_id: str, newest: NewestPublication) -> StaleTables:
    """Compare the tables with the newest SRL and state. Raises `DataCorrupt`, `Unavailable`."""
    head = ports.store.get(head_address(tenant_id))
    published = 0 if head is None else integer(head, "version")
    counted = counters.of_tombstones(ports, tenant_id)
    try:
        feed = in_force.read_feed_head(ports, tenant_id)
        is_short = feed is not None and feed.sequence < newest.journal.sequence
    except DataCorrupt:
        # The feed may end before the journal.
        is_short = True
    # If there are two SRLs of one version, one was built from restored tables, but it is unknown
    # which.
    forked = len(newest.lists) > 1
    return StaleTables(
        keys=newest_scheduled_version(ports, tenant_id) < newest.version
        or counted < newest.changes
        or forked,
        revocations=published < newest.version or is_short or forked,
    )


def newest_scheduled_version(ports: Ports, tenant_id: str) -> int:
    """Return the version of the newest SRL with a deadline in the table of keys, or 0."""
    own = (each for each in ports.store.query(TURNS) if schedule.tenant_of(each.sk) == tenant_id)
    return max((PublicationDeadline.from_item(each.item).srl_version for each in own), default=0)


def unknown(
    ports: Ports,
    tenant_id: str,
    newest: NewestPublication,
    tables: StaleTables,
    mark: UnreviewedRestore | None,
) -> UnknownReason:
    """Return what to review after the tombstones are applied; empty if all changes are known.

    `mark` is given if the tenant was restored and not reviewed yet.
    """
    reasons = list(_list_reasons(newest, tables, mark, ports.now()))
    if not reasons:
        return UnknownReason((), ())
    lines = chain(
        _list_live(ports, tenant_id),
        _find_disabled(ports, tenant_id, newest) if tables.keys else (),
        _find_unrevoked(ports, tenant_id, newest) if tables.revocations else (),
    )
    return UnknownReason(tuple(reasons), tuple(lines))


def _list_reasons(
    newest: NewestPublication, tables: StaleTables, mark: UnreviewedRestore | None, now: datetime
) -> Iterator[str]:
    horizon = newest.horizon and min(newest.horizon, now)
    if mark is not None:
        copied = "" if mark.copied_at is None else f" to {times.format_utc(mark.copied_at)}"
        yield f"The records were restored{copied}, at {times.format_utc(mark.restored_at)}."
    if tables and horizon is not None:
        what = f"SRL version {newest.version}, issued at"
        if newest.journal.issued_at is not None and not newest.journal.gaps:
            what = "the journal, which ends at"
        yield f"The tables ({tables}) are older than {what} {times.format_utc(horizon)}."
    if mark or tables:
        known = "no SRL exists, so all changes after the backup are unknown"
        if horizon is not None:
            known = (
                f"revocations and ended keys and accounts until {times.format_utc(horizon)} are "
                "known and applied again"
            )
        yield (
            f"Horizon: {known}. Unknown after that time: revocations; ended API keys, service "
            "accounts, signing keys and SRL signers. Lost since the backup: new resources and "
            "changed settings."
        )
    yield from (f"{gap[0].upper()}{gap[1:]}." for gap in newest.journal.gaps)
    for doubt in newest.doubts:
        yield f"Not trusted and ignored: {doubt}."


def _list_live(ports: Ports, tenant_id: str) -> Iterator[str]:
    """Yield the active API keys, accounts and signing keys, and the current SRL signers."""
    keys = list(ApiKey.from_rows(ports.store.query(api_keys.records(tenant_id))))
    active = [key for key in keys if key.status is api_keys.ApiKeyStatus.ACTIVE]
    usage_of = api_keys.usage(tenant_id)
    usages = ports.store.get_many(usage_of.address(key.id) for key in active)
    for key in active:
        usage = Usage.from_optional(usages.get(usage_of.address(key.id))) or Usage()
        scopes, used = key.role or ", ".join(key.scopes), _format_moment(usage.last_used_at)
        yield f'active API key {key.id} "{key.name}" ({scopes}), last used {used}'
    for account in ServiceAccount.from_rows(
        ports.store.query(service_accounts.accounts(tenant_id))
    ):
        if account.status is service_accounts.AccountStatus.ACTIVE:
            name = f'active service account {account.id} "{account.name}"'
            yield f"{name}, API keys: {account.api_key_count}"
    for signing_key in SigningKey.from_rows(ports.store.query(signing_keys.keys(tenant_id))):
        if signing_key.status is KeyStatus.ACTIVE:
            signed = warrants.signed_by(tenant_id, signing_key.id)
            row = next(ports.store.query(signed, newest_first=True, limit=1), None)
            used = _format_moment(
                None if row is None else WarrantRecord.from_item(row.item).signed_at
            )
            name = f'active signing key {signing_key.id} "{signing_key.name}"'
            yield f"{name}, last signed {used}"
    for signer in SrlSigner.from_rows(ports.store.query(signers_partition(tenant_id))):
        if signer.status in (SrlSignerStatus.ACTIVE, SrlSignerStatus.PENDING):
            yield f"{signer.status} SRL signer {signer.id}, public key {signer.public_key}"


def _find_disabled(ports: Ports, tenant_id: str, newest: NewestPublication) -> Iterator[str]:
    """Yield keys and accounts that are suspended or disabled, but not in the newest state."""
    if not newest.states:
        return
    recorded = {key.id for tombstones in newest.tombstones for key in tombstones.keys}
    recorded |= {each.id for tombstones in newest.tombstones for each in tombstones.accounts}
    for key in SigningKey.from_rows(ports.store.query(signing_keys.keys(tenant_id))):
        if key.status is KeyStatus.SUSPENDED and key.id not in recorded:
            yield f'suspended signing key {key.id} "{key.name}", which was enabled after the backup'
    for account in ServiceAccount.from_rows(
        ports.store.query(service_accounts.accounts(tenant_id))
    ):
        if account.status is service_accounts.AccountStatus.DISABLED and account.id not in recorded:
            name = f'disabled service account {account.id} "{account.name}"'
            yield f"{name}, which was enabled after the backup"


def _find_unrevoked(ports: Ports, tenant_id: str, newest: NewestPublication) -> Iterator[str]:
    """Yield warrants with a revocation that the newest SRL should contain but does not."""
    listed = set(newest.revoked_ids)
    walks = (ports.store.query(partition) for partition in revocations.records(tenant_id))
    records = {str(entry.item["warrant_id"]) for entry in chain.from_iterable(walks)}
    ttl = tenants.settings(ports, tenant_id).srl_ttl
    then = newest.issued_at or ports.now()
    for warrant_id, verdict in sorted(read_statuses(ports, tenant_id, records - listed).items()):
        if not is_past_retention(verdict.ends_at, then, ttl=ttl):
            yield f"revoked warrant {warrant_id}, which was unrevoked after the backup"


def _format_moment(moment: datetime | None) -> str:
    return "never" if moment is None else times.format_utc(moment)


def differences(ports: Ports, tenant_id: str) -> Iterator[str]:
    """Yield keys, accounts and signers that ended in the newest state but not in the records.

    Considers the newest valid state. Also yields states that are not valid. Raises `DataCorrupt`,
    `Unavailable`.
    """
    newest = srl_newest.read_newest(ports, tenant_id)
    yield from (f"not trusted: {doubt}" for doubt in newest.doubts)
    yield from newest.journal.gaps
    if not newest.states:
        return
    is_behind = find_stale_tables(ports, tenant_id, newest).keys
    # If there is no deadline at all, `consistency` reports that.
    if is_behind and newest_scheduled_version(ports, tenant_id):
        yield "its table of keys is older than its newest SRL"
    counted = counters.read_counts(ports, tenant_id).tombstones
    now = records.read_tombstones(ports, tenant_id, changes=counted)
    for tombstones in newest.tombstones:
        yield from _compare(tombstones, now, is_behind=is_behind)
    for state in newest.states:
        recorded = {each.id: each for each in state.srl_signers if each.status in ENDED}
        signers = srl_signers.read_by_ids(ports, tenant_id, recorded)
        for each in recorded.values():
            if each.id not in signers or signers[each.id].status not in ENDED:
                yield f"the SRL signer {each.id} was {each.status}, but is not now"
        for each in srl_signers.find_archived(
            in_force.read_signers(ports, tenant_id), state.srl_signers
        ):
            yield f"the SRL signer {each.id} was archived, but is {each.status}"


def _compare(tombstones: Tombstones, now: Tombstones, *, is_behind: bool) -> Iterator[str]:
    """Yield the ended keys and accounts that the tombstones of the records lack."""
    ended = {each.id for each in (*now.api_keys, *now.accounts)}
    for each in tombstones.api_keys:
        if each.id not in ended:
            yield f"the API key {each.id} was {each.status}, but is not now"
    for each in tombstones.accounts:
        if each.id not in ended and (is_behind or each.status is TombstoneStatus.DELETED):
            yield f"the service account {each.id} was {each.status}, but is not now"
    keys = {key.id: key for key in now.keys}
    for key in tombstones.keys:
        if _has_returned(key, keys.get(key.id), is_behind=is_behind):
            was = f"{key.status} in version {key.key_version}"
            yield f"the signing key {key.id} was {was}, but is not now"


def _has_returned(record: SigningKey, now: SigningKey | None, *, is_behind: bool) -> bool:
    if now is None:
        # A key that was suspended and never rotated has no tombstone after it is enabled.
        was_enabled = record.status is KeyStatus.SUSPENDED and record.key_version == 1
        return is_behind or not was_enabled
    if record.status is KeyStatus.REVOKED and now.status is not KeyStatus.REVOKED:
        return True
    if is_behind and record.status is KeyStatus.SUSPENDED and now.status is KeyStatus.ACTIVE:
        return True
    return now.key_version < record.key_version
