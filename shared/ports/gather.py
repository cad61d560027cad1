"""Independent reads, which can be made at the same time if each uses the network."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, overload

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
