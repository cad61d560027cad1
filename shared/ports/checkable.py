"""Stores that can look for damage in what they keep."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable


@runtime_checkable
class Checkable(Protocol):
    """A store on this machine's disk. One that a provider keeps has no such check."""

    def problems(self, *, quickly: bool = False) -> Iterator[str]:
        """What is damaged, found by reading everything, as sentences without names of items.

        `quickly` leaves out what takes a look at each item. Raises `Unavailable`.
        """
        ...
