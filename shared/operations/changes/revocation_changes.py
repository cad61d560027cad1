"""Build the writes that revoke or unrevoke warrants (REVOKE-1, REVOKE-4)."""

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from shared import logs
from shared.authorizer.formats.cutoffs import subject_of
from shared.errors import InsufficientScope, InvalidRequest
from shared.model import identifiers, times, warrants
from shared.model import revocations as model
from shared.model.callers import Caller, Scope
from shared.model.items import Address, Value
from shared.model.revocations import Revocation, RevokedWarrant
from shared.model.tenants import TenantSettings, UnrevokePolicy
from shared.model.warrant_format import WarrantFormat
from shared.model.warrants import OtherMaker, WarrantState
from shared.operations.base import allowance
from shared.operations.lists import marks
from shared.operations.lists import records as srl_records
from shared.ports import Ports
from shared.ports.store import (
    Change,
    Delete,
    Expect,
    Increment,
    Put,
    VersionIs,
    expect_version,
)

if TYPE_CHECKING:
    from shared.operations.identities.protected_acts import UnrevokeAdmission

_log = logging.getLogger(__name__)

_NOT_OWN: Final = (
    "Another identity created or repeated this revocation, and the tenant's setting "
    "unrevoke_policy is own; unrevoke it with the scope admin."
)

# Allows for a wrong clock, or a time in another zone. A later time is a mistake.
_CUTOFF_AHEAD_SECONDS: Final = 86_400


def standings(ports: Ports, tenant_id: str, warrant_ids: Iterable[str]) -> dict[str, WarrantState]:
    """Read the state of each warrant. Raises `DataCorrupt`, `Unavailable`."""
    addresses = {each: warrants.warrant_address(tenant_id, each) for each in warrant_ids}
    items = ports.store.get_many(addresses.values())
    return {each: WarrantState.of(items.get(address)) for each, address in addresses.items()}


def records(
    ports: Ports, tenant_id: str, revocation_ids: Iterable[str]
) -> dict[str, tuple[Address, Revocation]]:
    """Read the revocations that exist, with their addresses.

    Raises `DataCorrupt`, `Unavailable`.
    """
    items = ports.store.get_many(model.record_address(tenant_id, each) for each in revocation_ids)
    return {address.sk: (address, Revocation.from_item(item)) for address, item in items.items()}


def check_end(ports: Ports, expires_at: datetime | None) -> None:
    """Raise `InvalidRequest` unless `expires_at` is in the future (REVOKE-3)."""
    if times.has_passed(expires_at, ports.now()):
        raise InvalidRequest(
            "warrant_expires_at: must be in the future; omit it to keep the warrant in the SRL."
        )


def end_of_cutoff(ports: Ports, tenant_id: str, warrant_id: str, issuer: str) -> datetime | None:
    """Return the expiry of the last token of a subject cutoff, by the bound issuers (TOKEN-11).

    Returns None if the identifier is no cutoff, or the tenant has not configured the lifetime of
    the issuer's tokens. Raises `InvalidRequest` if all of the tokens have expired.
    """
    subject = subject_of(warrant_id)
    lasts = None if subject is None else longest_lifetime(ports, tenant_id, issuer)
    if subject is None or lasts is None:
        return None
    last = int(warrant_id.removeprefix(subject)) + lasts
    ends_at = times.from_seconds(min(last, identifiers.MOMENT_MAX))
    if times.has_passed(ends_at, ports.now()):
        raise InvalidRequest(
            "issued_before: all such tokens have expired, by the issuer's token_max_seconds. To "
            "revoke them anyway, pass warrant_expires_at."
        )
    return ends_at


def fault_of_cutoff(warrant_id: str, now: datetime) -> InvalidRequest | None:
    """Return an error if a subject cutoff is more than a day in the future (TOKEN-11).

    Such a cutoff would also refuse the tokens that the subject receives until then.
    """
    subject = subject_of(warrant_id)
    if subject is None:
        return None
    latest = now.timestamp() + _CUTOFF_AHEAD_SECONDS
    if int(warrant_id.removeprefix(subject)) <= latest:
        return None
    return InvalidRequest(
        "issued_before: must be at most a day from now, because a later time would refuse future "
        "sign-ins."
    )


def longest_lifetime(ports: Ports, tenant_id: str, issuer: str) -> int | None:
    """Return the longest lifetime of an issuer's tokens in seconds, or None if not configured."""
    # Imported here so that checks and other revocations do not load it.
    from shared.model.identities.providers import IdentityProvider, ProviderUsage, providers  # noqa: PLC0415

    lifetimes = [
        each.token_max_seconds
        for each in IdentityProvider.from_rows(ports.store.query(providers(tenant_id)))
        if (each.usage, each.issuer) == (ProviderUsage.VERIFY_ONLY, issuer)
    ]
    # A cutoff that leaves the SRL too early would make its tokens valid again.
    return max(filter(None, lifetimes), default=None) if all(lifetimes) else None


def fault_of_taking_back(
    caller: Caller, settings: TenantSettings, record: Revocation, standing: WarrantState
) -> InsufficientScope | None:
    """Return an error if the caller may not unrevoke this (REVOKE-9, AUTH-18)."""
    if fault := allowance.fault_of_warrant(caller, record.warrant_id):
        return fault
    is_free = caller.is_admin or settings.unrevoke_policy is UnrevokePolicy.ANY
    if is_free or (record.is_by(caller) and standing.also_by is not OtherMaker.IDENTITY):
        return None
    return InsufficientScope([Scope.ADMIN], _NOT_OWN)


def restoring(ports: Ports, caller: Caller, subject: str | None) -> "UnrevokeAdmission":
    """Return the decision whether a call may unrevoke warrants (APPROVAL-1)."""
    # Imported here so that checks and revocations do not load it.
    from shared.operations.identities import protected_acts  # noqa: PLC0415

    return protected_acts.restoring(ports, caller, subject)


def count_unrevoked(tenant_id: str, number: int) -> None:
    """Log the number of deleted revocations, for the alarm."""
    if number:
        figures = logs.fields(tenant_id=tenant_id, metrics={"Unrevocations": number})
        _log.info("unrevoked", extra=figures)


def fault_of_end(standing: WarrantState, expires_at: datetime | None) -> InvalidRequest | None:
    """Return an error if `expires_at` differs from the signed expiry of the warrant."""
    if expires_at in (None, standing.ends_at) or standing.format is not WarrantFormat.COSE:
        return None
    return InvalidRequest(
        "warrant_expires_at: differs from the signed expiry; omit it for this warrant."
    )


def revoke_changes(
    tenant_id: str, standing: WarrantState, record: Revocation, ends_at: datetime | None
) -> list[Change]:
    """Return the four changes that revoke a warrant. `standing` is its state before them.

    `count_changes` returns the counter of the whole write.
    """
    after = standing.with_revocation(
        record.id, at=record.created_at, reason=record.reason, ends_at=ends_at
    )
    warrant_id = record.warrant_id
    state_address = warrants.warrant_address(tenant_id, warrant_id)
    shard = model.shard_of(tenant_id, warrant_id)
    return [
        Put(state_address, after.to_item(), expect_version(standing.version)),
        Put(shard.address(warrant_id), RevokedWarrant(after.end).to_item(), Expect.ABSENT),
        Put(model.record_address(tenant_id, record.id), record.to_item(), Expect.ABSENT),
        marks.warrant_mark(tenant_id, warrant_id, record.created_at),
    ]


def revoke_again(
    tenant_id: str, standing: WarrantState, after: WarrantState, warrant_id: str, now: datetime
) -> list[Change]:
    """Return the changes of a second revocation: four if the expiry is later or removed, else one.

    The warrant returns to its shard if it was moved, and to the SRL if it had left it.
    """
    address = warrants.warrant_address(tenant_id, warrant_id)
    put = Put(address, after.to_item(), VersionIs(standing.version))
    if after.said_to_end_at == standing.said_to_end_at:
        return [put]
    shard = model.shard_of(tenant_id, warrant_id)
    listed = RevokedWarrant(after.said_to_end_at).to_item()
    return [
        put,
        Put(shard.address(warrant_id), listed, Expect.ANYTHING),
        *_delete_from_ended(tenant_id, warrant_id, standing.end),
        marks.warrant_mark(tenant_id, warrant_id, now),
    ]


def unrevoke_changes(
    tenant_id: str, standing: WarrantState, record: Revocation, address: Address, now: datetime
) -> list[Change]:
    """Return the four or five changes that delete the revocation stored at `address`."""
    warrant_id, expected = record.warrant_id, VersionIs(standing.version)
    state_address = warrants.warrant_address(tenant_id, warrant_id)
    restored: Change = Put(state_address, standing.without_revocation().to_item(), expected)
    if standing.key_id is None:
        # The service did not sign this warrant. Its state contains only the revocation.
        restored = Delete(state_address, expected)
    return [
        Delete(address, Expect.PRESENT),
        restored,
        Delete(model.shard_of(tenant_id, warrant_id).address(warrant_id), Expect.ANYTHING),
        *_delete_from_ended(tenant_id, warrant_id, standing.end),
        marks.warrant_mark(tenant_id, warrant_id, now),
    ]


def count_changes(
    tenant_id: str, warrant_id: str, amount: int, *, is_extension: bool = False
) -> list[Change]:
    """Return two changes that count `amount` warrants of one shard, and mark the tenant.

    `warrant_id` is any of the warrants. A negative amount counts unrevoked warrants. With
    `is_extension`, the warrants count as changes, but not as more revoked warrants.
    """
    counter = model.counter_address(tenant_id, warrant_id)
    amounts = {"count": 0 if is_extension else amount, "changes": abs(amount)}
    # A revocation may have incremented another counter. Only the sum of a shard is read.
    return [Increment(counter, amounts, Expect.ANYTHING), marks.tenant_mark(tenant_id, warrant_id)]


def extension_details(standing: WarrantState, after: WarrantState) -> dict[str, Value]:
    """Return the expiries before and after a second revocation, for an audit entry."""
    was, expires_at = standing.said_to_end_at, after.said_to_end_at
    return {
        "was": None if was is None else times.format_utc(was),
        "warrant_expires_at": None if expires_at is None else times.format_utc(expires_at),
    }


def end_details(expires_at: datetime | None) -> dict[str, Value]:
    """Return the `warrant_expires_at` that the administrator gave, for an audit entry."""
    return {} if expires_at is None else {"warrant_expires_at": times.format_utc(expires_at)}


def _delete_from_ended(tenant_id: str, warrant_id: str, ends_at: datetime | None) -> list[Delete]:
    """Delete a warrant from the partition of warrants past retention."""
    if ends_at is None:
        return []
    return [Delete(srl_records.ended_address(tenant_id, warrant_id, ends_at), Expect.ANYTHING)]
