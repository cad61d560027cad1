"""Whether warrants are revoked, by themselves or by the keys that signed them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from shared.errors import Corrupt
from shared.model import revoked_signers as signer_model
from shared.model import warrants
from shared.model.items import Item
from shared.model.revocations import Verdict
from shared.model.signing_keys import Signer
from shared.model.warrants import Standing
from shared.operations.rules import revoked_signers
from shared.ports import Ports


def verdicts(ports: Ports, tenant_id: str, warrant_ids: Iterable[str]) -> dict[str, Verdict]:
    """Return the verdict on each warrant; an unknown warrant is not revoked.

    Reads the store once, and a second time only if a key of the tenant is revoked and a key of the
    tenant signed one of the warrants. The end that was given with a revocation does not count if
    the key is revoked too. Raises `Corrupt`, `Unavailable`: a fault is never reported as "not
    revoked".
    """
    addresses = {each: warrants.warrant_address(tenant_id, each) for each in warrant_ids}
    count_address = signer_model.count_address(tenant_id)
    items = ports.store.get_many([count_address, *addresses.values()])
    standings = {each: Standing.of(items.get(address)) for each, address in addresses.items()}
    own = {each: _own(each, standing) for each, standing in standings.items()}
    # These are not revoked themselves; the keys that signed them may be.
    held = {each: standings[each] for each, verdict in own.items() if not verdict.revoked}
    told = {each: standing for each, standing in standings.items() if standing.said_to_end_at}
    found = _by_signers(ports, tenant_id, held | told, items.get(count_address))
    # A key was not told of an end, so its warrants are revoked until their signed end.
    also = {each: replace(own[each], ends_at=told[each].ends_at) for each in told if each in found}
    return own | found | also


def _own(warrant_id: str, standing: Standing) -> Verdict:
    if (standing.revoked_at is None) != (standing.revocation_id is None):
        raise Corrupt("a warrant has a revocation without a time, or a time without a revocation")
    return Verdict(warrant_id, standing.revoked_at, standing.reason, standing.end)


def _by_signers(
    ports: Ports, tenant_id: str, held: Mapping[str, Standing], count: Item | None
) -> dict[str, Verdict]:
    """Return the verdicts on warrants whose signer is revoked; `count` is the count item."""
    signers = {
        warrant_id: Signer(each.key_id, each.key_version)
        for warrant_id, each in held.items()
        if each.key_id is not None
    }
    # A warrant is revoked with the version of the key that signed it, or with the whole key.
    wanted = {*signers.values(), *(Signer(each.key_id, None) for each in signers.values())}
    markers = revoked_signers.found(ports, tenant_id, count, wanted)
    return {
        warrant_id: Verdict(
            warrant_id, revoker.revoked_at, revoker.reason, held[warrant_id].end, by_key=True
        )
        for warrant_id, signer in signers.items()
        if (revoker := signer_model.revoker_of(markers, signer)) is not None
    }
