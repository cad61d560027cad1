"""The faults of a database that others run and configure, as the store finds them."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable


class Flaw(NamedTuple):
    """A fault of the database's configuration: sentences without full stops.

    It is a remark if no acknowledged change can be lost or misread by it, or if the store cannot
    know whether one can.
    """

    problem: str
    remedy: str
    is_remark: bool = False


@runtime_checkable
class Configured(Protocol):
    """A store in a database whose configuration it can read."""

    def flaws(self) -> Iterator[Flaw]:
        """Yield what is wrong with the configuration. Raises `Unavailable`."""
        ...
