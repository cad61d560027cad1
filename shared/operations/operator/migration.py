"""Migration of data that earlier releases stored (docs/adr/0023 and 0036).

Seeds that were sealed for a tenant and a key only are sealed for their purpose and version too.
Each revoked key gets a marker; one item named them all. Signed warrants are added to the index by
their ends. Heads of old lists are deleted. Old list signers are archived. Then a list is published
from all records, because lists once relied on expiries that were not signed. Each step skips what
is done, so a migration may be interrupted and repeated.
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

# Keys of these states, signing keys and list signers, need no seed.
_SIGNS_NO_MORE: Final = frozenset({"retired", "revoked"})


@dataclass(slots=True)
class Migrated:
    """What was done for a tenant: numbers of seeds resealed and dropped, version of the new list.

    `failed` has the reason for each key whose seed does not open or must not be resealed.
    """

    resealed: int = 0
    dropped: int = 0
    published: int | None = None
    failed: dict[str, str] = field(default_factory=dict)


def migrate(ports: Ports, operator: Caller) -> Migrated:
    """Migrate the data of one tenant. Raises `Corrupt`, `Unavailable`."""
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
            # Resealed for warrants, it would sign any payload, also one that looks like a list.
            done.failed[entry.sk] = "is a list signer's copy; remove it from the signing keys"
        else:
            _settled(ports, SigningKey, keys.address(entry.sk), done)
    archive.move_all(ports, operator.tenant_id)
    # After the seeds: processes of the earlier release cannot sign warrants from then on.
    signed_by_end.migrate(ports, operator.tenant_id)
    if not done.failed and in_force.head(ports, operator.tenant_id).format != FORMAT:
        done.published = settle(lambda: publication.publish(ports, operator)).version
    return done


def _settled(
    ports: Ports, record: type[SigningKey] | type[ListSigner], address: Address, done: Migrated
) -> None:
    """Migrate one key, and repeat that if its record is written concurrently."""

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
