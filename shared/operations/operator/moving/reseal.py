"""Seals of an item that is moved: opened with one sealer, and made again with the other.

A secret is in memory only. It is sealed in the same context, so that it stays bound to its tenant,
its key, its purpose and its version.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from shared.errors import Corrupt
from shared.model import seeds
from shared.model.audit.signers import AuditSigner
from shared.model.fleet.native import NativeSigner
from shared.model.items import Address, Item, Table, Value
from shared.model.lists.signers import ListSigner
from shared.model.signing_keys import SigningKey
from shared.model.webhooks import webhooks
from shared.ports import Ports

_Signer: TypeAlias = type[SigningKey] | type[ListSigner] | type[NativeSigner] | type[AuditSigner]

FIELDS: Final = ("sealed_seed", "sealed_secret", "former_secret")

# By the part of a partition's name after the tenant.
_SIGNERS: Final[Mapping[str, _Signer]] = {
    "keys": SigningKey,
    "srl-keys": ListSigner,
    "srl-keys-retired": ListSigner,
    "srl-keys-revoked": ListSigner,
    "native-signer": NativeSigner,
    "audit-keys": AuditSigner,
}
_WEBHOOKS: Final = "webhooks"


class _Seal(NamedTuple):
    """A sealed field, the context that it is bound to, and the public key of the seed in it."""

    field: str
    sealed: bytes
    context: dict[str, str]
    public_key: str | None = None


def is_sealed(item: Item) -> bool:
    """Return whether an item has a seal."""
    return any(item.get(name) is not None for name in FIELDS)


def unsealed(item: Item) -> dict[str, Value]:
    """Return the item without its seals, which differ from store to store."""
    return {name: value for name, value in item.items() if name not in FIELDS}


def resealed(source: Ports, target: Ports, address: Address, item: Item) -> dict[str, Value]:
    """Return the item with its seals made by the sealer of `target`.

    Raises `Corrupt` if a seal does not open, has the seed of another key, or is of no known kind;
    `Unavailable`.
    """
    made: dict[str, Value] = dict(item)
    for seal in _seals(address, item):
        made[seal.field] = target.sealer.seal(_opened(source, seal), context=seal.context)
    return made


def is_same(source: Ports, target: Ports, address: Address, one: Item, other: Item) -> bool:
    """Return whether the seals of two items have the same secrets. Raises as `resealed` does."""
    ours = [_opened(source, each) for each in _seals(address, one)]
    return ours == [_opened(target, each) for each in _seals(address, other)]


def _opened(ports: Ports, seal: _Seal) -> bytes:
    try:
        secret = ports.sealer.unseal(seal.sealed, context=seal.context)
    except Corrupt as error:
        raise Corrupt(f"the seal of {seal.context['key']} does not open") from error
    if seal.public_key is not None and seeds.public_key(secret) != seal.public_key:
        raise Corrupt(f"the seal of {seal.context['key']} has the seed of another key")
    return secret


def _seals(address: Address, item: Item) -> Iterator[_Seal]:
    if not is_sealed(item):
        return
    kind = address.pk.partition("#")[2] if address.table is Table.KEYS else ""
    if kind == _WEBHOOKS:
        yield from _webhook_seals(item)
    elif kind in _SIGNERS:
        signer = _SIGNERS[kind].from_item(item)
        if signer.sealed_seed is not None:
            context = signer.seal_context
            yield _Seal("sealed_seed", signer.sealed_seed, context, signer.public_key)
    else:
        raise Corrupt(f"an item of {address.pk} has a seal of a kind that is not known")


def _webhook_seals(item: Item) -> Iterator[_Seal]:
    webhook = webhooks.Webhook.from_item(item)
    sealed = (
        ("sealed_secret", webhook.sealed_secret, webhook.secret_number),
        ("former_secret", webhook.former_secret, webhook.secret_number - 1),
    )
    for name, seal, number in sealed:
        if seal is not None:
            context = webhooks.seal_context(webhook.tenant_id, webhook.id, number)
            yield _Seal(name, seal, context)
