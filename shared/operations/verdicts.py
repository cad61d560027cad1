"""Whether warrants hold, by the live records: their own, and those of the keys that signed them."""

from collections.abc import Collection, Iterable, Mapping

from shared.errors import Corrupt
from shared.model import signing_keys, warrants
from shared.model.revocations import Verdict
from shared.model.signing_keys import RevokedSigners, Signer, SigningKey
from shared.model.warrants import Standing
from shared.operations import revoked_signers
from shared.operations.operation import reread
from shared.ports import Ports


def verdicts(ports: Ports, tenant_id: str, warrant_ids: Iterable[str]) -> dict[str, Verdict]:
    """The verdict on each warrant; an unknown one holds.

    Raises `Unavailable` where it cannot be known: a fault is never an answer.
    """
    asked = list(warrant_ids)
    return reread(lambda: _verdicts(ports, tenant_id, asked))


def _verdicts(ports: Ports, tenant_id: str, warrant_ids: Iterable[str]) -> dict[str, Verdict]:
    places = {each: warrants.warrant_key(tenant_id, each) for each in warrant_ids}
    signers_key = signing_keys.revoked_signers_key(tenant_id)
    items = ports.store.get_many([signers_key, *places.values()])
    signers = revoked_signers.completed(ports, tenant_id, items.get(signers_key))
    standings = {each: Standing.of(items.get(key)) for each, key in places.items()}
    own = {each: _own(each, standing) for each, standing in standings.items()}
    if not signers.signers:
        return own
    # Their own records do not revoke these; the keys that signed them may.
    held = {each: standings[each] for each, verdict in own.items() if not verdict.revoked}
    return own | _by_signers(ports, tenant_id, held, signers)


def _own(warrant_id: str, standing: Standing) -> Verdict:
    if (standing.revoked_at is None) != (standing.revocation_id is None):
        raise Corrupt("a warrant has a revocation without a time, or a time without a revocation")
    return Verdict(warrant_id, standing.revoked_at, standing.reason, standing.end)


def _by_signers(
    ports: Ports, tenant_id: str, held: Mapping[str, Standing], signers: RevokedSigners
) -> dict[str, Verdict]:
    """The verdicts on those whose signer is revoked; each signer is read once, not each warrant."""
    versions = {(each.key_id, each.key_version) for each in held.values()}
    revokers = {
        (key_id, version): signers.revoker_of(key_id, version)
        for key_id, version in versions
        if key_id is not None and version is not None
    }
    records = _records(ports, tenant_id, {each for each in revokers.values() if each})
    return {
        warrant_id: _revoked(warrant_id, standing, records[revoker])
        for warrant_id, standing in held.items()
        if (revoker := revokers.get((standing.key_id, standing.key_version)))  # type: ignore[arg-type]
    }


def _revoked(warrant_id: str, standing: Standing, key: SigningKey) -> Verdict:
    if key.revoked_at is None:
        raise Corrupt("a key counts as revoked, but its record does not say so")
    return Verdict(warrant_id, key.revoked_at, key.revoked_reason, standing.end, by_key=True)


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
