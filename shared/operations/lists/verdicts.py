"""Whether warrants are revoked, by themselves or by the keys that signed them.

Each revoked signer (a signing key, or superseded versions of one) has a marker item, and one item
counts them (docs/adr/07). A check of warrants reads only the markers of the keys that signed
them, and none if the count is zero.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial

from shared.authorizer.formats.cutoffs import subject_of
from shared.errors import DataCorrupt
from shared.model import revocations as model
from shared.model import warrants
from shared.model.items import Item
from shared.model.revocations import RevokedSignerCount, SignerRevocation, WarrantStatus
from shared.model.signing_keys import WarrantSigner
from shared.model.warrants import WarrantState
from shared.ports import Ports
from shared.ports.store import Change, Expect, Increment, Put


def read_statuses(
    ports: Ports, tenant_id: str, warrant_ids: Iterable[str]
) -> dict[str, WarrantStatus]:
    """Return the verdict on each warrant; an unknown warrant is not revoked.

    Reads the store once, and a second time only if a key of the tenant is revoked and a key of the
    tenant signed one of the warrants. The end that was given with a revocation does not count if
    the key is revoked too. Raises `DataCorrupt`, `Unavailable`: a fault is never reported as "not
    revoked".
    """
    addresses = {each: warrants.warrant_address(tenant_id, each) for each in warrant_ids}
    count_address = model.marker_count_address(tenant_id)
    items = ports.store.get_many([count_address, *addresses.values()])
    standings = {each: WarrantState.of(items.get(address)) for each, address in addresses.items()}
    own = {each: _own_status(each, standing) for each, standing in standings.items()}
    # These are not revoked themselves; the keys that signed them may be.
    held = {each: standings[each] for each, verdict in own.items() if not verdict.revoked}
    told = {each: standing for each, standing in standings.items() if standing.said_to_end_at}
    found = _statuses_by_signer(ports, tenant_id, held | told, items.get(count_address))
    # A key was not told of an end, so its warrants are revoked until their signed end.
    also = {each: replace(own[each], ends_at=told[each].ends_at) for each in told if each in found}
    return own | found | also


def token_verdicts(
    ports: Ports, tenant_id: str, warrant_ids: Iterable[str]
) -> dict[str, WarrantStatus]:
    """Return the verdicts that callers see: a later cutoff of its subject revokes a token too.

    Costs one query more for each subject cutoff that is not revoked itself. Raises as
    `read_statuses`.
    """
    found = read_statuses(ports, tenant_id, warrant_ids)
    asked = [each for each, verdict in found.items() if not verdict.revoked and subject_of(each)]
    later = ports.gather(*(partial(_by_later_cutoff, ports, tenant_id, each) for each in asked))
    return found | {each.warrant_id: each for each in later if each}


def _by_later_cutoff(ports: Ports, tenant_id: str, cutoff: str) -> WarrantStatus | None:
    """Return the verdict on a cutoff by the latest one of its subject; None if none is later."""
    shard = model.shard_of(tenant_id, cutoff)
    end = f"{subject_of(cutoff)}:"  # sorts after all digits
    for row in ports.store.query(shard, after=cutoff, before=end, newest_first=True):
        # Another write may have restored it since.
        verdict = read_statuses(ports, tenant_id, [row.sk])[row.sk]
        if verdict.revoked:
            return replace(verdict, warrant_id=cutoff)
    return None


def _own_status(warrant_id: str, standing: WarrantState) -> WarrantStatus:
    if (standing.revoked_at is None) != (standing.revocation_id is None):
        raise DataCorrupt(
            "a warrant has a revocation without a time, or a time without a revocation"
        )
    return WarrantStatus(warrant_id, standing.revoked_at, standing.reason, standing.end)


def _statuses_by_signer(
    ports: Ports, tenant_id: str, standings: Mapping[str, WarrantState], count: Item | None
) -> dict[str, WarrantStatus]:
    """Return the verdicts on warrants whose signer is revoked; `count` is the count item."""
    signers = {
        warrant_id: WarrantSigner(each.key_id, each.key_version)
        for warrant_id, each in standings.items()
        if each.key_id is not None
    }
    # A warrant is revoked with the version of the key that signed it, or with the whole key.
    wanted = {*signers.values(), *(WarrantSigner(each.key_id, None) for each in signers.values())}
    found = read_signer_revocations(ports, tenant_id, count, wanted)
    return {
        warrant_id: WarrantStatus(
            warrant_id, revoker.revoked_at, revoker.reason, standings[warrant_id].end, by_key=True
        )
        for warrant_id, signer in signers.items()
        if (revoker := model.revoker_of(found, signer)) is not None
    }


def read_signer_revocations(
    ports: Ports, tenant_id: str, item: Item | None, signers: Collection[WarrantSigner]
) -> dict[WarrantSigner, SignerRevocation]:
    """Return the markers of those of `signers` that are revoked.

    `item` is the stored count. Reads at most one item for each signer. Raises `DataCorrupt`,
    `Unavailable`.
    """
    if item is None:
        return {}
    count = RevokedSignerCount.from_item(item)
    whole = count.signers - count.versions
    # Most tenants revoke no versions, or no keys at all: this saves reading their markers.
    asked = [each for each in signers if (whole if each.key_version is None else count.versions)]
    addresses = {each: model.marker_address(tenant_id, each) for each in asked}
    items = ports.store.get_many(addresses.values()) if addresses else {}
    return {
        each: SignerRevocation.from_item(items[address])
        for each, address in addresses.items()
        if address in items
    }


def signer_revocation_changes(
    ports: Ports, tenant_id: str, markers: Mapping[WarrantSigner, SignerRevocation]
) -> list[Change]:
    """Return the changes that mark these signers as revoked, for the write that revokes their keys.

    The first is the count; another follows for each signer without a marker (after a restore, a
    signer may have one). Raises `Unavailable`.
    """
    address = model.marker_count_address(tenant_id)
    addresses = {each: model.marker_address(tenant_id, each) for each in markers}
    items = ports.store.get_many([address, *addresses.values()])
    new = {each: marker for each, marker in markers.items() if addresses[each] not in items}
    expected = Expect.PRESENT if address in items else Expect.ABSENT
    count = Increment(address, asdict(RevokedSignerCount.counting(new)), expected)
    return [
        count,
        *(signer_revocation_change(tenant_id, each, marker) for each, marker in new.items()),
    ]


def signer_revocation_change(
    tenant_id: str, signer: WarrantSigner, marker: SignerRevocation
) -> Put:
    """Return the change that stores a marker; it expects that the signer has none."""
    return Put(model.marker_address(tenant_id, signer), marker.to_item(), Expect.ABSENT)
