"""Generations of the sealed log: a new one begins after a restore that lost leaves (LOG-10)."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from shared.errors import Corrupt
from shared.model.audit_log import Action
from shared.model.items import Value
from shared.model.sealed_log import head as model
from shared.model.sealed_log import records, tiles
from shared.model.sealed_log.head import LogHead
from shared.model.sealed_log.kept import Kept
from shared.model.sealed_log.tiles import BUNDLES, WIDTH, Place
from shared.operations.audit import log, signers
from shared.operations.rules import checkpoints
from shared.ports import Ports
from shared.ports.store import At, Expect, Put

# An entry names at most so many others.
_NAMED_MAX: Final = 1000


class Beyond(NamedTuple):
    """The newest generation that has tiles, and those of its bundles that the head does not know.

    `generation` is 0 if there are no tiles.
    """

    generation: int
    bundles: list[int]


def beyond(ports: Ports, tenant_id: str) -> Beyond | None:
    """Return which tiles the head does not know, because it is older; None if it knows all.

    Raises `Corrupt`, `Unavailable`.
    """
    found = list(_bundles(ports, tenant_id))
    # Read after the names: tiles are stored from heads that are stored.
    head = log.head(ports, tenant_id)
    known = (head.generation, head.size // WIDTH) if head else (0, 0)
    newest = max((generation for generation, _ in found), default=0)
    bundles = [number for each, number in found if each == newest and (each, number) >= known]
    return Beyond(newest, bundles) if bundles else None


def begin(ports: Ports, tenant_id: str, entry: Callable[..., Put], *, above: int = 0) -> int | None:
    """Begin the next generation; return its number, or None if nothing was ever sealed.

    `entry` makes the audit entry from action, resource and details. `above` is a generation that
    the newest list names, or 0. The next pass seals all entries that are retained. Raises
    `ExpectationLost`, `Corrupt`, `Unavailable`.
    """
    kept = checkpoints.newest(ports, tenant_id)
    head, ahead = log.head(ports, tenant_id), beyond(ports, tenant_id)
    found = [each.generation for each in (kept, head, ahead) if each is not None]
    found += [above] if above else []
    if not found and all(each.precedes_log for each in signers.all_of(ports, tenant_id)):
        return None
    before = max(found, default=log.FIRST_GENERATION)
    empty = LogHead.empty(before + 1, ports.now())
    after = replace(empty, version=head.version + 1 if head else 1)
    lost = list(_lost(ports, tenant_id, ahead)) if ahead else []
    details: dict[str, Value] = {
        "before": head.checkpoint if head else None,
        "lost": [*lost[:_NAMED_MAX]],
        "lost_count": len(lost),
    }
    made = entry(Action.AUDIT_LOG_NEW_GENERATION, f"audit_log/{after.generation}", **details)
    expect = At(head.version) if head else Expect.ABSENT
    # First: what is kept must never be older than what a recovery has begun.
    checkpoints.keep(ports, tenant_id, Kept.begun(after.generation))
    ports.store.write(Put(model.address(tenant_id), after.to_item(), expect), made)
    return after.generation


def _lost(ports: Ports, tenant_id: str, ahead: Beyond) -> Iterator[str]:
    """Yield the entries in bundles that the head does not know, and that are not stored."""
    for number in ahead.bundles:
        name = model.blob(tenant_id, ahead.generation, Place(None, number))
        found = tiles.unbundled(ports.blobs.get(name) or b"")
        if found is None:
            raise Corrupt(f"the bundle {number} of the sealed log is malformed")
        ids = [records.Record.parse(each).id for each in found]
        stored = log.stored(ports, tenant_id, ids)
        yield from (each for each in ids if each not in stored)


def _bundles(ports: Ports, tenant_id: str) -> Iterator[tuple[int, int]]:
    """Yield generation and number of each bundle that is stored."""
    for name in ports.blobs.names(model.folder(tenant_id)):
        generation, _, path = name.removeprefix(f"{model.folder(tenant_id)}/").partition("/tile/")
        if path.startswith(f"{BUNDLES}/"):
            yield int(generation), Place.parse(path).number
