"""From what earlier versions stored to what this one stores (docs/adr/0023 and 0036).

Seeds were once sealed for a tenant and a key alone. Each is opened so once more, and sealed for its
purpose and version too. Revoked keys were once named in one item; each gets a marker of its own.
What keys signed was not in order of its end, and is put in that order too. The heads of all lists
were kept; those of old ones are removed. Old list signers go to the archive. Then a list is
published from all records, since lists were once made by expiries that nobody had signed. Whatever
is done already is left as it is, so that a migration may be stopped anywhere, and repeated.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from shared.errors import Corrupt
from shared.model import signing_keys
from shared.model.callers import Caller
from shared.model.items import Address
from shared.model.signing_keys import SigningKey
from shared.model.srl import signers as srl_signers
from shared.model.srl.head import FORMAT
from shared.model.srl.signers import ListSigner
from shared.operations.rules import first_edition, seals
from shared.operations.rules.operation import settle
from shared.operations.srl import archive, in_force, publication, signed_by_end
from shared.ports import Ports
from shared.ports.store import At, Put

# A key that signs no more needs no seed, whichever kind of key it is.
_SIGNS_NO_MORE: Final = frozenset({"retired", "revoked"})


@dataclass(slots=True)
class Migrated:
    """What was done for one tenant: seeds sealed anew and dropped, the version of a new list.

    `failed` names the keys whose seeds open neither way, or must not be sealed anew, and why.
    """

    resealed: int = 0
    dropped: int = 0
    published: int | None = None
    failed: dict[str, str] = field(default_factory=dict)


def migrate(ports: Ports, operator: Caller) -> Migrated:
    """Bring one tenant up to date. Raises `Unavailable` if a port cannot answer."""
    done = Migrated()
    first_edition.migrate(ports, operator.tenant_id)
    first_edition.forget_heads(ports, operator.tenant_id)
    signers = srl_signers.signers(operator.tenant_id)
    listed = {entry.sk for entry in ports.store.query(signers)}
    for key_id in sorted(listed):
        _settled(ports, ListSigner, signers.address(key_id), done)
    keys = signing_keys.keys(operator.tenant_id)
    for entry in ports.store.query(keys):
        if entry.sk in listed:
            # Sealed anew, it would sign whatever it is given, and lists are believed under it.
            done.failed[entry.sk] = "is a list signer's copy; remove it from the signing keys"
        else:
            _settled(ports, SigningKey, keys.address(entry.sk), done)
    archive.move_all(ports, operator.tenant_id)
    # After the seeds: what ran before the upgrade signs no more, and so leaves nothing out.
    signed_by_end.migrate(ports, operator.tenant_id)
    if not done.failed and in_force.head(ports, operator.tenant_id).format != FORMAT:
        done.published = settle(lambda: publication.publish(ports, operator)).version
    return done


def _settled(
    ports: Ports, record: type[SigningKey] | type[ListSigner], address: Address, done: Migrated
) -> None:
    """Bring one key up to date, whoever writes its record meanwhile."""

    def attempt() -> None:
        item = ports.store.get(address)
        if item is not None:
            _migrate_key(ports, record.from_item(item), done)

    try:
        settle(attempt)
    except Corrupt as error:
        done.failed[address.sk] = str(error)


def _migrate_key(ports: Ports, key: SigningKey | ListSigner, done: Migrated) -> None:
    if key.sealed_seed is None:
        return
    if key.status in _SIGNS_NO_MORE:
        _write(ports, key, None)
        done.dropped += 1
    elif seals.is_of_earlier_version(ports, key):
        _write(ports, key, seals.resealed(ports, key))
        done.resealed += 1


def _write(ports: Ports, key: SigningKey | ListSigner, sealed_seed: bytes | None) -> None:
    renewed = replace(key, sealed_seed=sealed_seed, version=key.version + 1)
    ports.store.write(Put(key.address, renewed.to_item(), At(key.version)))
