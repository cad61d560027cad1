"""What the core needs from the world, and what each part of it promises."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from shared.ports.blobs import BlobStore
from shared.ports.gather import Gather, sequentially
from shared.ports.sealer import Sealer
from shared.ports.store import Store
from shared.ports.token_buckets import TokenBuckets
from shared.ports.usage_counts import UsageCounts


class NewId(Protocol):
    """Makes fresh identifiers."""

    def __call__(self, kind: str, at: datetime | None = None) -> str:
        """An identifier of a kind (`ak`, `rev`, …) that sorts after those made before it.

        With `at` it bears that moment, cut to milliseconds, and sorts after those made before it
        with an earlier moment or the same.
        """
        ...


def _nothing_to_close() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Ports:
    """The world, as one value that every operation takes first.

    `now` is the present time in UTC. `close` lets go of the files and connections that the
    ports hold open; nothing may be asked of them afterwards.
    """

    store: Store
    buckets: TokenBuckets
    usage: UsageCounts
    blobs: BlobStore
    sealer: Sealer
    now: Callable[[], datetime]
    new_id: NewId
    gather: Gather = sequentially
    close: Callable[[], None] = _nothing_to_close
