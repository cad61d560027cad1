"""Migrations of all data to another store, which then takes over (docs/adr/15).

A pass makes the items and blobs of the target equal to the source. It may be interrupted and
repeated, and writes only differences. The source may be in use during a pass. A pass after the
source was frozen finds the remaining changes. The beginning and the end of a migration record which
store is in charge (OPS-13, OPS-16).
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

import cbor2

from shared.capabilities import INSTALLED, WrappedField, wrapped_seed
from shared.errors import BlobExists, DataCorrupt, InvalidState
from shared.model import deployment, seeds
from shared.model.deployment import FENCED_SECONDS, SCHEMA, Deployment, DeploymentPart
from shared.model.items import Address, Item, Table, Value
from shared.model.lists.signers import SrlSigner
from shared.model.seeds import WrappedKeyRecord
from shared.model.signing_keys import SigningKey
from shared.operations.base import operation, tenants
from shared.operations.base.operation import settle
from shared.operations.lists import in_force, publication
from shared.operations.operator import backup, onboarding
from shared.operations.operator import deployment as notes
from shared.ports import Ports
from shared.ports.store import Change, Delete, Expect, Put

_BATCH: Final = 100
# Less than the 4 MB limit of a DynamoDB transaction.
_WRITE_BYTES: Final = 3_000_000
_BUCKET: Final = "#bucket"
# The records of a store about itself.
_OWN: Final = (deployment.ADDRESS, deployment.LEADER_ADDRESS, deployment.PROBE_ADDRESS)

Report = Callable[[int], object]


@dataclass(slots=True)
class MigrationPass:
    """The numbers of items that a pass read, put and deleted, and of blobs that it copied."""

    read: int = 0
    put: int = 0
    deleted: int = 0
    blobs: int = 0


def copy(source: Ports, target: Ports, *, report: Report = lambda _read: None) -> MigrationPass:
    """Copy differences to the target, and delete items from it that the source lacks.

    Omits items that would not outlive the migration: rate limit buckets, and expired items.
    `report` is called with the number of items read so far. Raises `DataCorrupt`, `Unavailable`.
    """
    done = MigrationPass()
    for tenant in tenants.directory(source):
        of = tenant.tenant_id
        names: list[str] = []
        for head in in_force.read_srl_heads(source, of):
            names += filter(None, (head.blob, head.packed, head.base, head.state))
        for folder in (f"native/{of}", f"checkpoints/{of}"):
            names += source.blobs.names(folder)
        names += backup.blobs(source, of)
        done.blobs += sum(_copy_blob(source, target, name) for name in dict.fromkeys(names))
    for changes in _split_changes(_changes(source, target, done, report)):
        target.store.write(*changes)
    return done


def differences(source: Ports, target: Ports) -> Iterator[Address]:
    """Yield the addresses at which source and target differ, including wrapped secrets.

    Raises `DataCorrupt`, `Unavailable`.
    """
    for change in _changes(source, target, MigrationPass(), lambda _read: None):
        yield change.address
    for address, item in _list_moving_items(source, Table.KEYS):
        if is_sealed(item):
            other = target.store.get(address)
            if other is None or not is_same(source, target, address, item, other):
                yield address


def is_empty(ports: Ports) -> bool:
    """Return whether a store has no data. Raises `Unavailable`."""
    return all(next(_list_moving_items(ports, table), None) is None for table in Table)


def _list_moving_items(ports: Ports, table: Table) -> Iterator[tuple[Address, Item]]:
    now = int(ports.now().timestamp())
    for address, item in ports.store.everything(table):
        expires = item.get("expires")
        is_over = type(expires) is int and expires <= now
        is_own = address in _OWN or address.pk.endswith(_BUCKET)
        if not (is_own or is_over):
            yield address, item


def _changes(
    source: Ports, target: Ports, migration_pass: MigrationPass, report: Report
) -> Iterator[Change]:
    for table in Table:
        for some in _split_items(_list_moving_items(source, table)):
            existing = target.store.get_many(address for address, _ in some)
            migration_pass.read += len(some)
            report(migration_pass.read)
            for address, item in some:
                other = existing.get(address)
                if (
                    other is None
                    or strip_wrapped_secrets(item) != strip_wrapped_secrets(other)
                    or is_sealed(item) != is_sealed(other)
                ):
                    migration_pass.put += 1
                    moved = rewrap_secrets(source, target, address, item)
                    yield Put(address, moved, Expect.ANYTHING)
        for some in _split_items(_list_moving_items(target, table)):
            existing = source.store.get_many(address for address, _ in some)
            for address, _ in some:
                if address not in existing:
                    migration_pass.deleted += 1
                    yield Delete(address, Expect.ANYTHING)


def _split_items(
    items: Iterator[tuple[Address, Item]],
) -> Iterator[list[tuple[Address, Item]]]:
    while some := list(islice(items, _BATCH)):
        yield some


def _split_changes(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """Yield the changes in groups that fit into one write."""
    group: list[Change] = []
    size = 0
    for change in changes:
        own = len(cbor2.dumps(dict(change.item))) if isinstance(change, Put) else 0
        if group and (len(group) == _BATCH or size + own > _WRITE_BYTES):
            yield group
            group, size = [], 0
        group.append(change)
        size += own
    if group:
        yield group


def _copy_blob(source: Ports, target: Ports, name: str) -> bool:
    data = source.blobs.get(name)
    if data is None:
        return False  # An old SRL. Current SRLs are checked before the target takes over.
    try:
        target.blobs.put(name, data)
    except BlobExists:
        if target.blobs.get(name) != data:
            raise DataCorrupt(f"the blob {name} of the target has other content") from None
        return False
    return True


FIELDS: Final = ("sealed_seed", "sealed_secret", "former_secret")

# By the part of a partition's name after the tenant.
_SIGNERS: Final[Mapping[str, Callable[[Item], WrappedKeyRecord]]] = {
    "keys": SigningKey.from_item,
    "srl-keys": SrlSigner.from_item,
    "srl-keys-retired": SrlSigner.from_item,
    "srl-keys-revoked": SrlSigner.from_item,
    "srl-standby": SrlSigner.from_item,
}


def is_sealed(item: Item) -> bool:
    """Return whether an item has a wrapped secret."""
    return any(item.get(name) is not None for name in FIELDS)


def strip_wrapped_secrets(item: Item) -> dict[str, Value]:
    """Return the item without its wrapped secrets, which differ from store to store."""
    return {name: value for name, value in item.items() if name not in FIELDS}


def rewrap_secrets(source: Ports, target: Ports, address: Address, item: Item) -> dict[str, Value]:
    """Return the item with its secrets wrapped for `target`.

    Raises `DataCorrupt` if a secret cannot be unwrapped, has the seed of another key, or is of an
    unknown kind; `Unavailable`.
    """
    rewrapped: dict[str, Value] = dict(item)
    for seal in _list_wrapped_fields(address, item):
        rewrapped[seal.field] = target.sealer.seal(_unwrap(source, seal), context=seal.context)
    return rewrapped


def is_same(source: Ports, target: Ports, address: Address, one: Item, other: Item) -> bool:
    """Return whether two items have the same secrets.

    Raises the same errors as `rewrap_secrets`.
    """
    ours = [_unwrap(source, each) for each in _list_wrapped_fields(address, one)]
    return ours == [_unwrap(target, each) for each in _list_wrapped_fields(address, other)]


def _unwrap(ports: Ports, seal: WrappedField) -> bytes:
    try:
        secret = ports.sealer.unseal(seal.sealed, context=seal.context)
    except DataCorrupt as error:
        raise DataCorrupt(f"cannot unwrap the seed or secret of {seal.context['key']}") from error
    if seal.public_key is not None and seeds.public_key(secret) != seal.public_key:
        raise DataCorrupt(f"the wrapped seed of {seal.context['key']} belongs to another key")
    return secret


def _list_wrapped_fields(address: Address, item: Item) -> Iterator[WrappedField]:
    if not is_sealed(item):
        return
    kind = address.pk.partition("#")[2] if address.table is Table.KEYS else ""
    if kind in _SIGNERS:
        yield from wrapped_seed(_SIGNERS[kind], item)
        return
    added = INSTALLED.wrapped_kinds()
    if kind not in added:
        raise DataCorrupt(f"an item of {address.pk} has a wrapped value of an unknown kind")
    yield from added[kind](item)


def begin(source: Ports, target: Ports) -> None:
    """Take the target out of use until the migration has ended. Repeat it to resume.

    The target must be empty, or have been begun before, or be the store that the source's data came
    from. Raises `InvalidState`, also if the source is of an earlier release; `InvalidSettings` if a
    newer release wrote to either store; `Unavailable`.
    """
    ours, theirs = notes.read_deployment(source), notes.read_deployment(target)
    for each in (ours, theirs):
        each.check_schema()
    if ours.part is DeploymentPart.MOVED and ours.moved_to == theirs.receipt is not None:
        return  # Only the end is missing.
    ours.check_in_charge()
    came_from = theirs.part is DeploymentPart.MOVED and theirs.moved_to == ours.receipt is not None
    if ours.schema < SCHEMA or ours.version == 0:
        # Raising it here would stop processes of that release, which may still serve requests.
        raise InvalidState(
            "The source has the data of an earlier release; update it, and run rescind upgrade on "
            "it."
        )
    if theirs.part is DeploymentPart.RECEIVING:
        notes.mark_schema(target)
        return
    if not came_from and not is_empty(target):
        raise InvalidState("The target is not empty; name an empty store.")
    receipt = secrets.token_hex(16)
    receiving = theirs.next(
        schema=SCHEMA, part=DeploymentPart.RECEIVING, receipt=receipt, moved_to=None
    )
    notes.write(target, theirs, receiving)


def finish(source: Ports, target: Ports, *, user: str | None = None) -> list[tuple[str, int]]:
    """Put the target in charge, after a last pass; the source must be read-only (OPS-14).

    Publishes an SRL for each tenant. Returns their handles and the versions of these SRLs. Raises
    `InvalidState` if the source still changes or the two differ, and the source then stays in
    charge; `DataCorrupt`, `Unavailable`.
    """
    ours, theirs = notes.read_deployment(source), notes.read_deployment(target)
    has_moved = ours.part is DeploymentPart.MOVED
    if theirs.receipt is None or (has_moved and ours.moved_to != theirs.receipt):
        raise InvalidState("No migration between these two stores has begun.")
    if theirs.part is DeploymentPart.RECEIVING:
        copy(source, target)
        for address in differences(source, target):
            raise InvalidState(f"The target differs from the source in {address.pk} {address.sk}.")
        for problem in backup.problems(target):
            raise InvalidState(f"The target is incomplete: {problem}.")
        _transfer_leadership(source, target, ours, theirs)
    elif not has_moved:
        raise InvalidState("No migration between these two stores has begun.")
    published = []
    for tenant in tenants.directory(target):
        operator = onboarding.operator(target, handle=tenant.handle, user=user)
        head = settle(partial(publication.publish, target, operator))
        published.append((tenant.handle, head.version))
    return published


def _transfer_leadership(
    source: Ports, target: Ports, ours: Deployment, theirs: Deployment
) -> None:
    """Take the source out of charge; put the target in charge once the source is unused."""
    moved = ours
    if ours.part is not DeploymentPart.MOVED:
        moved = ours.next(part=DeploymentPart.MOVED, moved_to=theirs.receipt)
        notes.write(source, ours, moved)
    # Wait before the comparison, which finds all writes until then.
    operation.PACING.sleep(FENCED_SECONDS)
    changed = next(differences(source, target), None)
    if changed is not None:
        # The target is not in use yet, so the source may continue.
        back = moved.next(part=DeploymentPart.SERVING, moved_to=ours.moved_to)
        notes.write(source, moved, back)
        raise InvalidState(
            "The source still changes; restart all its processes with RESCIND_MODE=read-only."
        )
    serving = theirs.next(part=DeploymentPart.SERVING)
    notes.write(target, theirs, serving)
