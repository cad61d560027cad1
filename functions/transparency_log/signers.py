"""The audit signers of a tenant: read, create, and sign checkpoints (LOG-9)."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from functions.transparency_log import head as model
from functions.transparency_log import log, merkle
from functions.transparency_log.checkpoint import AuditSigner, Checkpoint, PinnedCheckpoint, signers
from functions.transparency_log.head import LogHead
from functions.transparency_log.merkle import BUNDLES, WIDTH, TileAddress
from shared.errors import DataCorrupt
from shared.model.audit import records
from shared.model.audit.audit_log import AuditAction
from shared.model.identifiers import SIGNING_KEY
from shared.model.items import Value
from shared.model.lists.schedule import OutboxMark, trust_mark_address
from shared.operations.audit import audit_log as audit_entries
from shared.operations.base import operation, seals
from shared.operations.base.seals import SeedUnavailable
from shared.ports import Ports
from shared.ports.store import Expect, Put, expect_version

# How many signers may sign one checkpoint.
SIGNING_MAX: Final = 4

_log = logging.getLogger(__name__)


# The most other entries that an entry names.
_NAMED_MAX: Final = 1000


def all_of(ports: Ports, tenant_id: str) -> list[AuditSigner]:
    """Return all audit signers of a tenant, in order of creation. Raises `Unavailable`."""
    return [AuditSigner.from_item(each.item) for each in ports.store.query(signers(tenant_id))]


def read_settled(ports: Ports, tenant_id: str) -> list[AuditSigner]:
    """Return all audit signers. Reads again after a pause if all of them are retired.

    The items of a rotation become visible one by one, possibly the new signer last. Raises
    `Unavailable`.
    """
    known = all_of(ports, tenant_id)
    if not known or any(each.retired_at is None for each in known):
        return known
    operation.wait_for_writes()
    return all_of(ports, tenant_id)


def make(ports: Ports, tenant_id: str) -> AuditSigner:
    """Create a signer with a wrapped seed, without storing it. Raises `Unavailable`."""
    key_id = ports.new_id(SIGNING_KEY)
    public_key, sealed = seals.create(ports, AuditSigner, tenant_id, key_id)
    return AuditSigner(key_id, tenant_id, public_key, ports.now(), sealed)


def mark(tenant_id: str) -> Put:
    """Return the mark on the tenant, for the write that creates or replaces a signer."""
    return Put(trust_mark_address(tenant_id), OutboxMark.new().to_item(), Expect.ANYTHING)


def sign(ports: Ports, checkpoint: Checkpoint, known: list[AuditSigner]) -> str:
    """Return the checkpoint, signed by all signers that sign now.

    Omits the signature of a retired signer if its seed is lost. Raises `SeedUnavailable` if the
    current signer's seed is lost; `Unavailable`.
    """
    opened = []
    for each in known:
        if not each.signs(ports.now()):
            continue
        try:
            opened.append(seals.unwrap_seed(ports, each))
        except SeedUnavailable:
            if each.retired_at is None:
                raise
            _log.warning("cannot unwrap the seed of a replaced audit signer; signing without it")
    return checkpoint.sign(opened)


class UnknownTiles(NamedTuple):
    """The newest generation with tiles, and its bundles that are missing from the log head.

    `generation` is 0 if there are no tiles.
    """

    generation: int
    bundles: list[int]


def find_unknown_tiles(ports: Ports, tenant_id: str) -> UnknownTiles | None:
    """Return the tiles that are newer than the log head, or None if there are none.

    Raises `DataCorrupt`, `Unavailable`.
    """
    stored = list[tuple[int, int]]()
    for name in ports.blobs.names(model.folder(tenant_id)):
        generation, _, path = name.removeprefix(f"{model.folder(tenant_id)}/").partition("/tile/")
        if path.startswith(f"{BUNDLES}/"):
            stored.append((int(generation), TileAddress.parse(path).number))
    # Read after the names, because tiles are stored only from stored log heads.
    head = log.head(ports, tenant_id)
    known = (head.generation, head.size // WIDTH) if head else (0, 0)
    newest = max((each for each, _ in stored), default=0)
    bundles = [number for each, number in stored if each == newest and (each, number) >= known]
    return UnknownTiles(newest, bundles) if bundles else None


def begin(
    ports: Ports, tenant_id: str, entry: Callable[..., Put], *, lower_bound: int = 0
) -> int | None:
    """Begin the next log generation; return its number, or None if the log is empty.

    `entry` creates the audit entry from action, resource and details. `lower_bound` is a generation
    that the newest SRL names, or 0. The next pass appends all retained entries. Raises
    `PreconditionFailed`, `DataCorrupt`, `Unavailable`.
    """
    checkpoint = log.newest_checkpoint(ports, tenant_id)
    head, ahead = log.head(ports, tenant_id), find_unknown_tiles(ports, tenant_id)
    generations = [each.generation for each in (checkpoint, head, ahead) if each is not None]
    generations += [lower_bound] if lower_bound else []
    if not generations and all(each.precedes_log for each in all_of(ports, tenant_id)):
        return None
    before, version = max(generations, default=log.FIRST_GENERATION), head.version if head else 0
    after = replace(LogHead.empty(before + 1, ports.now()), version=version + 1)
    lost = list(_find_lost_entries(ports, tenant_id, ahead)) if ahead else []
    details: dict[str, Value] = {
        "before": head.checkpoint if head else None,
        "lost": [*lost[:_NAMED_MAX]],
        "lost_count": len(lost),
    }
    resource = f"audit_log/{after.generation}"
    put_entry = entry(AuditAction.AUDIT_LOG_START_GENERATION, resource, **details)
    put_head = Put(model.address(tenant_id), after.to_item(), expect_version(version))
    # Kept first: the kept checkpoint must never be older than the generation of a recovery.
    log.keep_checkpoint(ports, tenant_id, PinnedCheckpoint.empty(after.generation))
    ports.store.write(put_head, put_entry)
    return after.generation


def _find_lost_entries(ports: Ports, tenant_id: str, missing: UnknownTiles) -> Iterator[str]:
    """Yield the entries in newer bundles that are not stored."""
    for number in missing.bundles:
        name = model.blob(tenant_id, missing.generation, TileAddress(None, number))
        bundle = merkle.parse_bundle(ports.blobs.get(name) or b"")
        if bundle is None:
            raise DataCorrupt(f"bundle {number} of the transparency log is malformed")
        ids = [records.EntryCommitment.parse(each).id for each in bundle]
        stored = audit_entries.read_entries(ports, tenant_id, ids)
        yield from (each for each in ids if each not in stored)
