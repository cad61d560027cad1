"""The source, the pins and the report of a verification of the audit log."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from shared.model.audit.checkpoint import Checkpoint, NoteKey
from shared.model.audit.merkle import TileAddress
from shared.model.items import Item


class Source(Protocol):
    """A sealed log and the audit log that it is about, as a verifier reads them.

    Every method may raise what its transport raises; the verification then has no result.
    """

    def checkpoint(self) -> str | None:
        """Return the newest checkpoint, a signed note, or None if the service shows none."""
        ...

    def refuses(self) -> bool:
        """Return whether the service refused to show a checkpoint, as if the log was cut."""
        ...

    def read_cosigned_checkpoint(self) -> str | None:
        """Return the newest checkpoint that witnesses signed, or None if the service has none."""
        ...

    def verifier_keys(self) -> list[str]:
        """Return the verifier keys that the service lists."""
        ...

    def tile(self, place: TileAddress) -> bytes | None:
        """Return a tile or bundle, or None if there is none."""
        ...

    def entries(self) -> Iterator[Item]:
        """Yield the entries of the audit log as they are stored, in any order."""
        ...


@dataclass(slots=True)
class Report:
    """The result of a verification: the log is whole if there are no findings.

    `findings` name what was tampered with. `late` has the leaves whose entries are more than a
    minute older than one before them: they were sealed late, or were backdated. `pending` has the
    identifiers of entries that are too young to be sealed. `begun` says that the log began anew
    since a pin, by a recovery that the log names: only its owner knows whether there was one.
    `witnessed` is the number of leaves that a quorum of witnesses signed. `records` counts those
    compared, and `statements` the times between two statements that were.
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
        """Whether nothing was found."""
        return not self.findings


@dataclass(frozen=True, slots=True)
class Pin:
    """A checkpoint that was verified: `note` is signed, `keys` are verifier keys.

    Without keys, the pin only says what the history was.
    """

    note: str
    keys: tuple[str, ...] = ()

    @property
    def checkpoint(self) -> Checkpoint:
        """The statement of the checkpoint. Raises `ValueError` if it is none."""
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
        """Return the pin of a file, or None if there is no such file. Raises `ValueError`."""
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            return cls.parse(text)
        except (KeyError, TypeError) as error:
            raise ValueError("not a pin") from error
