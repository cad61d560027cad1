"""Verify the Merkle tree: bundles against tiles, tiles against the level above, root, and pin.

The records of all bundles are kept in memory, 56 bytes each, with the hashes above level 0.
"""

from dataclasses import dataclass, field
from itertools import pairwise

from functions.transparency_log import merkle
from functions.transparency_log.checkpoint import Checkpoint
from functions.transparency_log.merkle import NOTHING, WIDTH, TileAddress, TreeFrontier
from infra.audit_verification.source import Report, Source
from shared.model.audit import records


@dataclass(slots=True)
class Leaves:
    """The records of a log in order, 56 bytes each. `is_complete` is false if any is missing."""

    data: list[bytes] = field(default_factory=list)
    is_complete: bool = True


def read_leaves(source: Source, checkpoint: Checkpoint, report: Report) -> Leaves:
    """Return the records of the log, after checking every tile against its neighbours."""
    levels = _levels(source, checkpoint.size, report)
    leaves = Leaves()
    for number in range(-(-checkpoint.size // WIDTH)):
        first = number * WIDTH
        place = TileAddress(None, number, min(WIDTH, checkpoint.size - first))
        bundle = merkle.parse_bundle(source.tile(place) or b"")
        if bundle is None or len(bundle) != place.width:
            span = f"leaves {first}..{first + place.width - 1}"
            report.findings.append(f"bundle {number} ({span}) is missing or malformed")
            leaves.is_complete = False
            bundle = [bytes(records.SIZE)] * place.width
        else:
            for index, data in enumerate(bundle, first):
                if records.leaf(data) != levels[0][index]:
                    report.findings.append(f"leaf {index}: bundle and tile differ ({name(data)})")
        leaves.data += bundle
    # The number of hashes of each level that the level above covers.
    covered = [*(len(each) * WIDTH for each in levels[1:]), 0]
    partial = (tuple(each[end:]) for each, end in zip(levels, covered, strict=True))
    edge = TreeFrontier(checkpoint.size, tuple(partial))
    findings = len(report.findings)
    for level, (hashes, above) in enumerate(pairwise(levels)):
        for number, expected in enumerate(above):
            if merkle.perfect(hashes[number * WIDTH : (number + 1) * WIDTH]) != expected:
                span = WIDTH ** (level + 1)
                report.findings.append(
                    f"tile {level}/{number} (leaves {number * span}..{(number + 1) * span - 1}) "
                    "differs from the level above"
                )
    if edge.root() != checkpoint.root and len(report.findings) == findings:
        report.findings.append("the root of the tiles differs from the checkpoint")
    return leaves


def check_history(leaves: Leaves, checkpoint: Checkpoint, pin: Checkpoint, report: Report) -> None:
    """Check that the log extends the pin's log, which has the same origin."""
    if checkpoint.size < pin.size:
        report.findings.append(
            f"the log has {checkpoint.size} leaves, smaller than the pinned one of {pin.size}"
        )
        return
    pinned_tree, _ = NOTHING.append([records.leaf(each) for each in leaves.data[: pin.size]])
    if pinned_tree.root() != pin.root:
        report.findings.append(f"history before {pin.size} was rewritten")


def _levels(source: Source, size: int, report: Report) -> list[list[bytes]]:
    """Return the hashes of all levels, leaves first. A missing hash is 32 zero bytes."""
    levels, level = list[list[bytes]](), 0
    while level == 0 or merkle.count(level, size):
        count = merkle.count(level, size)
        hashes: list[bytes] = []
        for number in range(-(-count // WIDTH)):
            place = TileAddress(level, number, min(WIDTH, count - number * WIDTH))
            data = source.tile(place) or b""
            if len(data) != place.width * merkle.HASH_BYTES:
                report.findings.append(f"tile {level}/{number} is missing or has another length")
                data = bytes(place.width * merkle.HASH_BYTES)
            hashes += merkle.hashes(data)
        levels.append(hashes)
        level += 1
    return levels


def name(data: bytes) -> str:
    """Return the identifier of the entry of a record."""
    return records.EntryCommitment.parse(data).id
