"""Independent reads: where each is a trip over the network, they need not wait for each other."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, overload

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class Gather(Protocol):
    """Makes some reads, at once or in turn, and returns their answers in order.

    Raises what the first of them in order raises, once none is under way any more. None of them may
    call it itself.
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
    """One after the other: the fastest way to what is on this machine."""
    return tuple(read() for read in reads)
