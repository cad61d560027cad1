"""The newest checkpoint, kept outside the store in the name of a blob (LOG-12)."""

from typing import Final, NamedTuple, Self

from shared.authorizer.formats.trust import LogAnchor
from shared.errors import Corrupt
from shared.model.audit import checkpoint, merkle
from shared.model.audit.head import LogHead

_GENERATIONS: Final = 10**8
_SIZES: Final = 10**16


class Kept(NamedTuple):
    """A statement of a log: its generation, its number of leaves, and the root over them.

    They compare as the log grows.
    """

    generation: int
    size: int
    root: bytes

    @classmethod
    def of(cls, head: LogHead) -> Self:
        """Return what a head states."""
        return cls(head.generation, head.size, head.root)

    @classmethod
    def begun(cls, generation: int) -> Self:
        """Return what is stated of a generation that has no leaf yet."""
        return cls(generation, 0, merkle.EMPTY)

    @classmethod
    def named(cls, anchor: LogAnchor, tenant_id: str) -> Self:
        """Return what an anchor of this tenant's log states. Raises `Corrupt` for another log."""
        generation = anchor.origin.rpartition("/")[2]
        if not generation.isdecimal() or anchor.origin != checkpoint.origin(
            tenant_id, int(generation)
        ):
            raise Corrupt(f"it names the sealed log {anchor.origin}, which is not of {tenant_id}")
        return cls(int(generation), anchor.size, anchor.root)

    def anchor(self, tenant_id: str) -> LogAnchor:
        """Return the statement as trust documents and journals name it (TRUST-6)."""
        return LogAnchor(checkpoint.origin(tenant_id, self.generation), self.size, self.root)

    def name(self, tenant_id: str) -> str:
        """Return the name of the blob. The newest one is the first or the second of its folder."""
        generation, size = _GENERATIONS - self.generation, _SIZES - self.size
        return f"{folder(tenant_id)}/{generation:08d}-{size:016d}-{self.root.hex()}"

    @classmethod
    def parse(cls, name: str) -> Self:
        """Return what the blob of this name states. Raises `Corrupt`."""
        try:
            generation, size, root = name.rpartition("/")[2].split("-")
            return cls(_GENERATIONS - int(generation), _SIZES - int(size), bytes.fromhex(root))
        except ValueError:
            raise Corrupt("a blob among the checkpoints of a log has another name") from None


def folder(tenant_id: str) -> str:
    """Return the folder of a tenant's checkpoints."""
    return f"checkpoints/{tenant_id}"
