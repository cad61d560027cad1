"""Where a verification reads a log and its entries."""

from collections.abc import Iterator
from typing import Protocol

from shared.model.items import Item
from shared.model.sealed_log.tiles import Place


class Source(Protocol):
    """A sealed log and the audit log that it is about, as a verifier reads them.

    Every method may raise what its transport raises; the verification then has no result.
    """

    def checkpoint(self) -> str | None:
        """Return the newest checkpoint, a signed note, or None if the service shows none."""
        ...

    def verifier_keys(self) -> list[str]:
        """Return the verifier keys that the service lists."""
        ...

    def tile(self, place: Place) -> bytes | None:
        """Return a tile or bundle, or None if there is none."""
        ...

    def entries(self) -> Iterator[Item]:
        """Yield the entries of the audit log as they are stored, in any order."""
        ...
