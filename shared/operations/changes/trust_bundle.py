"""The trust bundle: the signing keys and SRL signers, and which of them are no longer valid.

The revision is read first, and the keys after it. A change that the revision counts is therefore in
the keys, unless its write is still in flight (docs/adr/08).
"""

from dataclasses import dataclass

from shared.model import revocations, signing_keys
from shared.model import trust_bundle as model
from shared.model.callers import Caller, Scope
from shared.model.lists import tombstones
from shared.model.lists.signers import SrlSigner
from shared.model.signing_keys import SigningKey
from shared.model.trust_bundle import TrustedKey
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page
from shared.operations.lists import records, signers
from shared.ports import Ports


@dataclass(frozen=True, slots=True)
class BundleRevision:
    """The revision of a tenant's bundle, the SRL signers, and whether any key is revoked."""

    name: str
    srl_signers: list[SrlSigner]
    has_revoked: bool


@operation(*Scope)
def revision(ports: Ports, caller: Caller) -> BundleRevision:
    """Read the revision of the tenant's bundle (TRUST-3): three items and the SRL signers.

    Raises `DataCorrupt`, `Unavailable`.
    """
    revoked = revocations.marker_count_address(caller.tenant_id)
    addresses = [
        signing_keys.counts_address(caller.tenant_id),
        tombstones.counter_address(caller.tenant_id),
        revoked,
    ]
    counters, records = ports.gather(
        lambda: ports.store.get_many(addresses),
        lambda: signers.read_unarchived(ports, caller.tenant_id),
    )
    listed = signers.filter_listed(records, ports.now())
    return BundleRevision(model.revision(counters, listed), listed, revoked in counters)


@operation(*Scope)
def page(
    ports: Ports, caller: Caller, *, of: BundleRevision, before: str | None
) -> Page[TrustedKey]:
    """Return a page of the tenant's keys and their superseded versions, newest first (TRUST-1).

    Omits a version without a public key, which only a repair leaves. Raises `DataCorrupt`,
    `Unavailable`.
    """
    rows = ports.store.query(
        signing_keys.keys(caller.tenant_id),
        before=before,
        newest_first=True,
        limit=model.PAGE + 1,
    )
    signing = [SigningKey.from_item(row.item) for row in rows]
    # Read after the keys. The record of a revoked key may still look active, but its marker does
    # not.
    markers = records.read_revoked_signers(ports, caller.tenant_id) if of.has_revoked else ()
    shown, revoked = signing[: model.PAGE], frozenset(markers)
    position = shown[-1].id if len(signing) > model.PAGE else None
    keys = [TrustedKey.of(each, markers=revoked) for each in shown if each.public_key]
    return Page(keys, None, position)
