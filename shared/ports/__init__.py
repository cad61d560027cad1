"""The interfaces between the core and the outside, and the guarantees of each."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from shared.errors import Unavailable
from shared.model.audit.witnesses import WitnessPolicy
from shared.ports.blobs import BlobStore
from shared.ports.outside import KeyWrapper, OutboundHttp, RootSigner
from shared.ports.store import Store
from shared.ports.token_buckets import TokenBuckets, UsageCounts

if TYPE_CHECKING:
    from shared.model.identities.key_sets import IssuerKeys

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class Gather(Protocol):
    """Makes some reads, at the same time or one by one, and returns their results in order.

    Raises the first exception in this order, after all reads have ended. A read must not call
    `Gather` itself.
    """

    @overload
    def __call__(self, a: Callable[[], A], b: Callable[[], B], /) -> tuple[A, B]: ...
    @overload
    def __call__(
        self, a: Callable[[], A], b: Callable[[], B], c: Callable[[], C], /
    ) -> tuple[A, B, C]: ...
    @overload
    def __call__(self, *reads: Callable[[], A]) -> tuple[A, ...]: ...


def sequentially(*reads: Callable[[], Any]) -> Any:
    """Make the reads one by one, which is fastest if they do not use the network."""
    return tuple(read() for read in reads)


class NewId(Protocol):
    """Creates identifiers."""

    def __call__(self, kind: str, at: datetime | None = None) -> str:
        """Return an identifier of `kind` (`ak`, `rev`, …) that sorts after those created before it.

        With `at`, its time is that moment, in milliseconds, and it sorts after those created before
        it with the same moment or an earlier one.
        """
        ...


def _nowhere() -> OutboundHttp:
    raise Unavailable("this process asks no identity provider")


@dataclass(frozen=True, slots=True)
class Ports:
    """All ports, as one value that every operation takes as its first argument.

    `now` returns the present time in UTC. A process that waits for news of the store also looks for
    them each `look_seconds`, because some stores announce none. `is_in_charge` returns false if the
    store is the copy of one in another region; its writes then raise `ReadOnly`. `root` is None if
    this process cannot sign trust documents: the roots are offline, or others have the right.
    Trust documents name the `witnesses` of the sealed log. `outbound` returns what asks identity
    providers, which is made at the first call; `issuer_keys` has what this process knows of their
    keys, by URL; `breakers` the failures in a row and the newest request of servers that fail.
    `sleep` waits for seconds. `close` closes the files and connections of the ports, which cannot
    be used afterwards.
    """

    store: Store
    buckets: TokenBuckets
    usage: UsageCounts
    blobs: BlobStore
    sealer: KeyWrapper
    now: Callable[[], datetime]
    new_id: NewId
    gather: Gather = sequentially
    look_seconds: float = 1.0
    is_in_charge: Callable[[], bool] = lambda: True
    root: RootSigner | None = None
    witnesses: WitnessPolicy | None = None
    outbound: Callable[[], OutboundHttp] = _nowhere
    sleep: Callable[[float], object] = time.sleep
    issuer_keys: dict[str, "IssuerKeys"] = field(default_factory=dict)
    breakers: dict[str, tuple[int, datetime]] = field(default_factory=dict)
    close: Callable[[], None] = lambda: None
