"""How long ago the threads of a server on one machine did their work."""

from collections.abc import Callable
from typing import NamedTuple


class Ages(NamedTuple):
    """Functions that return seconds: since the last round of lists, and since all was sealed.

    Each returns 0 if the server has no such thread.
    """

    schedule: Callable[[], float] = float
    sealed: Callable[[], float] = float
