"""A sealed log with its audit log, whole in memory, for tests of verifiers."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from functions.transparency_log import merkle as tiles
from functions.transparency_log.checkpoint import Checkpoint
from functions.transparency_log.merkle import NOTHING, WIDTH, TileAddress
from shared.model import seeds
from shared.model.audit import records
from shared.model.audit.witness_policy import NoteKey
from shared.wiring import identifiers

TENANT: Final = "svc_tnt_01m7yzmhg0ffxxxxxxxxxxxxxx"
ORIGIN: Final = f"rescind/{TENANT}/1"
SEED: Final = bytes(range(32))
START: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOW: Final = START + timedelta(days=1)
RETENTION: Final = 400 * 86_400
SIZE: Final = 520


def entry(number: int, made: datetime, expires: int | None = None) -> dict[str, Any]:
    """An audit entry as it is stored."""
    return {
        "id": identifiers(lambda: made)("evt", at=made),
        "timestamp": "2026-11-21T12:00:00Z",
        "actor": "admin@acme.svc",
        "action": "revocation.create",
        "resource_id": f"svc_rev_{number}",
        "result": "success",
        "details": {"warrant_id": f"svc_wrt_{number}", "reason": "stolen"},
        "expires": int(made.timestamp()) + RETENTION if expires is None else expires,
    }


@dataclass
class Log:
    """A sealed log and its audit log, as data that a test may tamper with."""

    stored: dict[str, dict[str, Any]]
    data: list[bytes]
    tiles: dict[TileAddress, bytes] = field(default_factory=dict)
    note: str | None = None
    seed: bytes = SEED
    signed_by_witnesses: str | None = None

    def seal(self, size: int | None = None, origin: str = ORIGIN) -> "Log":
        """Make all tiles from the records, and sign the root."""
        self.data = self.data[:size]
        edge, full = NOTHING.append([records.leaf(each) for each in self.data])
        self.tiles = dict(full)
        for level, rest in enumerate(edge.levels):
            number = tiles.count(level, edge.size) // WIDTH
            if rest:
                self.tiles[TileAddress(level, number, len(rest))] = b"".join(rest)
        for start in range(0, edge.size, WIDTH):
            self.bundle(start // WIDTH)
        self.note = Checkpoint(origin, edge.size, edge.root()).sign([self.seed])
        return self

    def bundle(self, number: int) -> None:
        """Store the records of a bundle as they are now."""
        part = self.data[number * WIDTH : (number + 1) * WIDTH]
        self.tiles[TileAddress(None, number, len(part))] = tiles.bundle(part)

    def hash_anew(self, number: int) -> None:
        """Store the hashes of a bundle's records as they are now."""
        part = self.data[number * WIDTH : (number + 1) * WIDTH]
        self.tiles[TileAddress(0, number, len(part))] = b"".join(map(records.leaf, part))

    def id(self, leaf: int) -> str:
        return records.EntryCommitment.parse(self.data[leaf]).id

    # What a verification reads.

    def checkpoint(self) -> str | None:
        return self.note

    def refuses(self) -> bool:
        return False

    def read_cosigned_checkpoint(self) -> str | None:
        return self.signed_by_witnesses

    def verifier_keys(self) -> list[str]:
        return [str(NoteKey(ORIGIN, base64.b64decode(seeds.public_key(self.seed))))]

    def tile(self, place: TileAddress) -> bytes | None:
        return self.tiles.get(place)

    def entries(self) -> Iterator[dict[str, Any]]:
        return iter(self.stored.values())


def of(entries: list[dict[str, Any]]) -> Log:
    """The log of these entries, sealed."""
    data = [records.EntryCommitment.of(each).data for each in entries]
    return Log({each["id"]: each for each in entries}, data).seal()
