"""Whether warrants hold, by the live records: their own, and those of the keys that signed them."""

from collections.abc import Collection, Iterable

from shared.errors import Corrupt
from shared.model import revocations, signing_keys, warrants
from shared.model.items import Item
from shared.model.revocations import RevokedWarrant, Verdict
from shared.model.signing_keys import RevokedSigners, Signer, SigningKey
from shared.model.warrants import Warrant
from shared.ports import Ports


def verdicts(ports: Ports, tenant_id: str, warrant_ids: Iterable[str]) -> dict[str, Verdict]:
    """The verdict on each warrant; an unknown one holds.

    Raises `Unavailable` where it cannot be known: a fault is never an answer.
    """
    ids = list(dict.fromkeys(warrant_ids))
    signers_key = signing_keys.revoked_signers_key(tenant_id)
    own = {each: revocations.revoked_key(tenant_id, each) for each in ids}
    signed = {each: warrants.warrant_key(tenant_id, each) for each in ids}
    items = ports.store.get_many([signers_key, *own.values(), *signed.values()])
    signers = RevokedSigners.of(items.get(signers_key))
    found = {each: _own(each, items.get(own[each])) for each in ids}
    # Their own records do not revoke these; the keys that signed them may.
    left = [each for each in ids if not found[each].revoked and signed[each] in items]
    held = [Warrant.from_item(items[signed[each]]) for each in left]
    return found | _by_signers(ports, tenant_id, held, signers)


def revoked_signers(ports: Ports, tenant_id: str) -> RevokedSigners:
    """Which keys of the tenant are revoked."""
    return RevokedSigners.of(ports.store.get(signing_keys.revoked_signers_key(tenant_id)))


def _own(warrant_id: str, item: Item | None) -> Verdict:
    if item is None:
        return Verdict(warrant_id)
    revoked = RevokedWarrant.from_item(item)
    return Verdict(warrant_id, revoked.revoked_at, revoked.reason, revoked.expires_at)


def _by_signers(
    ports: Ports, tenant_id: str, held: list[Warrant], signers: RevokedSigners
) -> dict[str, Verdict]:
    """The verdicts on those whose signer is revoked; each signer is read once, not each warrant."""
    versions = {(warrant.key_id, warrant.key_version) for warrant in held}
    revokers = {each: signers.revoker_of(*each) for each in versions}
    records = _records(ports, tenant_id, {each for each in revokers.values() if each})
    return {
        warrant.warrant_id: _revoked(warrant, records[revoker])
        for warrant in held
        if (revoker := revokers[warrant.key_id, warrant.key_version])
    }


def _revoked(warrant: Warrant, key: SigningKey) -> Verdict:
    if key.revoked_at is None:
        raise Corrupt("a key counts as revoked, but its record does not say so")
    return Verdict(warrant.warrant_id, key.revoked_at, key.revoked_reason, warrant.expires_at)


def _records(ports: Ports, tenant_id: str, signers: Collection[Signer]) -> dict[Signer, SigningKey]:
    if not signers:
        return {}
    keys = signing_keys.keys(tenant_id)
    try:
        ids = _record_ids(ports, tenant_id, signers)
        items = ports.store.get_many(keys.key(each) for each in ids.values())
        return {signer: SigningKey.from_item(items[keys.key(ids[signer])]) for signer in signers}
    except KeyError:
        raise Corrupt("a key counts as revoked, but has no record") from None


def _record_ids(ports: Ports, tenant_id: str, signers: Collection[Signer]) -> dict[Signer, str]:
    """Whose record tells of each signer. Raises `KeyError`."""
    pointers = {
        signer: signing_keys.versions(tenant_id, signer.key_id).key(
            signing_keys.version_sk(signer.key_version)
        )
        for signer in signers
        if signer.key_version is not None
    }
    items = ports.store.get_many(pointers.values()) if pointers else {}
    superseded = {signer: str(items[place]["id"]) for signer, place in pointers.items()}
    return {signer: signer.key_id for signer in signers} | superseded
