"""Check whether warrants are revoked, directly or through the keys that signed them.

A revoked signer is a signing key, or superseded versions of a key. Each revoked signer has a marker
item, and one item counts the markers (docs/adr/07). A check reads only the markers of the keys that
signed its warrants. It reads no marker if the count is zero.
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
    """Return the revocation status of each warrant. An unknown warrant is not revoked.

    Reads the store once. It needs a second read only if the tenant has a revoked key and one of its
    keys signed one of the warrants. The expiry given with a revocation does not count if the key is
    revoked, too. Raises `DataCorrupt`, `Unavailable`: a fault is never reported as "not revoked".
    """
    addresses = {each: warrants.warrant_address(tenant_id, each) for each in warrant_ids}
    count_address = model.marker_count_address(tenant_id)
    items = ports.store.get_many([count_address, *addresses.values()])
    states = {each: WarrantState.of(items.get(address)) for each, address in addresses.items()}
    statuses, signers = dict[str, WarrantStatus](), dict[str, WarrantSigner]()
    for warrant_id, state in states.items():
        if (state.revoked_at is None) != (state.revocation_id is None):
            raise DataCorrupt(
                "a warrant state has a revocation without a time, or a time without a revocation"
            )
        status = WarrantStatus(warrant_id, state.revoked_at, state.reason, state.end)
        statuses[warrant_id] = status
        # The key that signed the warrant may be revoked.
        if state.key_id is not None and (not status.revoked or state.said_to_end_at):
            signers[warrant_id] = WarrantSigner(state.key_id, state.key_version)
    # A warrant is revoked together with its key version, or with the whole key.
    wanted = {*signers.values(), *(WarrantSigner(each.key_id, None) for each in signers.values())}
    markers = read_signer_revocations(ports, tenant_id, items.get(count_address), wanted)
    for warrant_id, signer in signers.items():
        state, revoker = states[warrant_id], model.revoker_of(markers, signer)
        if revoker is None:
            continue
        if statuses[warrant_id].revoked:
            # A key does not have the expiry that was given, so its warrants are revoked until the
            # signed expiry.
            statuses[warrant_id] = replace(statuses[warrant_id], ends_at=state.ends_at)
        else:
            statuses[warrant_id] = WarrantStatus(
                warrant_id, revoker.revoked_at, revoker.reason, state.end, by_key=True
            )
    return statuses


def token_verdicts(
    ports: Ports, tenant_id: str, warrant_ids: Iterable[str]
) -> dict[str, WarrantStatus]:
    """Return the status of warrants for callers, including later cutoffs of a token's subject.

    A later cutoff of the subject also revokes a token. Each subject cutoff that is not revoked
    directly costs one more query. Raises the same errors as `read_statuses`.
    """
    statuses = read_statuses(ports, tenant_id, warrant_ids)
    asked = [each for each, status in statuses.items() if not status.revoked and subject_of(each)]
    later = ports.gather(*(partial(_by_later_cutoff, ports, tenant_id, each) for each in asked))
    return statuses | {each.warrant_id: each for each in later if each}


def _by_later_cutoff(ports: Ports, tenant_id: str, cutoff: str) -> WarrantStatus | None:
    """Return the status of a cutoff by the latest later cutoff of its subject, or None."""
    shard = model.shard_of(tenant_id, cutoff)
    end = f"{subject_of(cutoff)}:"  # sorts after all digits
    for row in ports.store.query(shard, after=cutoff, before=end, newest_first=True):
        # Another write may have unrevoked it since.
        verdict = read_statuses(ports, tenant_id, [row.sk])[row.sk]
        if verdict.revoked:
            return replace(verdict, warrant_id=cutoff)
    return None


def read_signer_revocations(
    ports: Ports, tenant_id: str, item: Item | None, signers: Collection[WarrantSigner]
) -> dict[WarrantSigner, SignerRevocation]:
    """Return the markers of the revoked `signers`.

    `item` is the stored count. Reads at most one item for each signer. Raises `DataCorrupt`,
    `Unavailable`.
    """
    if item is None:
        return {}
    count = RevokedSignerCount.from_item(item)
    whole = count.signers - count.versions
    # Most tenants have no revoked versions, or no revoked keys at all. This avoids reading markers.
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
    """Return the writes that mark signers as revoked, for the write that revokes their keys.

    The first write is the count. Another follows for each signer without a marker. A signer may
    already have a marker after a restore. Raises `Unavailable`.
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
    """Return the write that stores a marker, if the signer has none."""
    return Put(model.marker_address(tenant_id, signer), marker.to_item(), Expect.ABSENT)
