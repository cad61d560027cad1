"""The ports: interfaces between the operations and their adapters.

Each interface states the guarantees that its adapters give.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from shared.errors import Unavailable
from shared.model.audit.witness_policy import WitnessPolicy
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
    """Run several reads and return their results in order.

    The reads may run concurrently or sequentially. Raises the first exception in this order, after
    all reads have finished. A read must not call `Gather`.
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
    """Run the reads sequentially, which is fastest without network access."""
    return tuple(read() for read in reads)


class NewId(Protocol):
    """Creates identifiers."""

    def __call__(self, kind: str, at: datetime | None = None) -> str:
        """Return an identifier of `kind` (`ak`, `rev`, …).

        It sorts after all identifiers created earlier. With `at`, its timestamp is `at` in
        milliseconds, and it sorts after the identifiers already created with `at` or an earlier
        time.
        """
        ...


def _nowhere() -> OutboundHttp:
    raise Unavailable("this process sends no requests to identity providers")


@dataclass(frozen=True, slots=True)
class Ports:
    """All ports, as one value that every operation takes as its first argument.

    - `now` returns the current time in UTC.
    - `look_seconds` is the interval at which a process that waits for store notifications also
      polls the store, because some stores send no notifications.
    - `is_in_charge` returns false if the store is the replica of a store in another region. Writes
      then raise `ReadOnly`.
    - `root` is None if this process cannot sign trust documents, because the root keys are offline
      or the process lacks the permission.
    - `witnesses` is the witness policy of the transparency log, which trust documents contain.
    - `outbound` returns the HTTP client for identity providers. The client is created at the first
      call.
    - `issuer_keys` caches the signing keys of identity providers by URL.
    - `breakers` has, by server, the number of consecutive failures and the time of the last
      request.
    - `sleep` waits for a number of seconds.
    - `close` closes the files and connections of the ports. The ports cannot be used after that.
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
