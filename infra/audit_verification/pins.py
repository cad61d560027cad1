"""Pins: the last checkpoint that was verified, and the keys that signed it (LOG-25)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from shared.model.sealed_log.checkpoint import Checkpoint, Key


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
            Key.parse(each)
        return pin

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Return the pin of a file, or None if there is no such file. Raises `ValueError`."""
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            return cls.parse(text)
        except (KeyError, TypeError) as error:
            raise ValueError("not a pin") from error
