"""The source, the pins and the report of an audit log verification."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from functions.transparency_log.checkpoint import Checkpoint
from functions.transparency_log.merkle import TileAddress
from shared.model.audit.witness_policy import NoteKey
from shared.model.items import Item


class Source(Protocol):
    """A verifier's view of a transparency log and its audit log.

    Every method may raise the errors of its transport. The verification then has no result.
    """

    def checkpoint(self) -> str | None:
        """Return the newest checkpoint, a signed note, or None if the service serves none."""
        ...

    def refuses(self) -> bool:
        """Return whether the service refused to serve a checkpoint of a truncated log."""
        ...

    def read_cosigned_checkpoint(self) -> str | None:
        """Return the newest cosigned checkpoint, or None if the service has none."""
        ...

    def verifier_keys(self) -> list[str]:
        """Return the verifier keys that the service lists."""
        ...

    def tile(self, place: TileAddress) -> bytes | None:
        """Return a tile or an entry bundle, or None if it does not exist."""
        ...

    def entries(self) -> Iterator[Item]:
        """Yield the stored entries of the audit log, in any order."""
        ...


@dataclass(slots=True)
class Report:
    """The result of a verification. The log is whole if there are no findings.

    `findings` describe tampering. `late` contains the leaves with entries more than a minute older
    than an earlier leaf. Such entries were appended late, or were backdated. `pending` contains the
    identifiers of entries that are too young to be in the log. `begun` reports that a recovery
    started a new log generation since a pin. Only the owner of the log can confirm that recovery.
    `witnessed` is the number of leaves that a quorum of witnesses has cosigned. `records` counts
    the compared records, and `statements` the compared intervals between two statements.
    """

    origin: str = ""
    size: int = 0
    checked: int = 0
    expired: int = 0
    records: int = 0
    statements: int = 0
    witnessed: int = 0
    findings: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether there are no findings."""
        return not self.findings


@dataclass(frozen=True, slots=True)
class Pin:
    """A verified checkpoint: `note` is signed, and `keys` are verifier keys.

    Without keys, the pin records only the history.
    """

    note: str
    keys: tuple[str, ...] = ()

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint of the note. Raises `ValueError` if it is invalid."""
        return Checkpoint.parse(self.note)

    def to_text(self) -> str:
        """Return the content of a pin file."""
        return json.dumps({"checkpoint": self.note, "keys": self.keys}, indent=1) + "\n"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the pin of a file: a pin, a checkpoint, or the last line of an export.

        Raises `ValueError`.
        """
        if text.startswith("{"):
            stored = json.loads(text)
            pin = cls(str(stored["checkpoint"]), tuple(map(str, stored.get("keys", ()))))
        else:
            pin = cls(text)
        Checkpoint.parse(pin.note)
        for each in pin.keys:
            NoteKey.parse(each)
        return pin

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """Return the pin of a file, or None if the file does not exist. Raises `ValueError`."""
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            return cls.parse(text)
        except (KeyError, TypeError) as error:
            raise ValueError("not a pin") from error
