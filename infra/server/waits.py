"""Pauses of a duty: after a failure for a tenant, or until a window ends."""

import logging
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from shared.errors import DataCorrupt, Unavailable

# The first and the longest pause after a failure, in seconds. A recovered dependency is used within
# seconds, and damaged data of one tenant costs little processor time.
_RETRY_SECONDS: Final = 0.5
_RETRY_SECONDS_MAX: Final = 1.0
_DAMAGED_SECONDS_MAX: Final = 30.0

ALL: Final = "all tenants"

_log = logging.getLogger("rescind")


class Failures:
    """The tenants for which a duty fails. Logs the first failure of each tenant, and its end."""

    def __init__(self, duty: str) -> None:
        self._duty = duty
        self.names: set[str] = set()

    def add(self, name: str, error: Exception) -> None:
        """Record a failure."""
        if name not in self.names:
            _log.error("%s of %s failed; retrying", self._duty, name, exc_info=error)
        self.names.add(name)

    def end(self, name: str) -> None:
        """Record a success."""
        if name in self.names:
            self.names.discard(name)
            _log.warning("%s of %s succeeds again", self._duty, name)

    @contextmanager
    def watch(self, name: str) -> Iterator[None]:
        """Record whether the block succeeds. Its exceptions are logged, not raised."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (what stops one tenant must not stop the rest)
            self.add(name, error)
        else:
            self.end(name)


class Waits:
    """The wait time of each tenant. `duty` names the failed work in the log."""

    def __init__(self, duty: str) -> None:
        self._failures = Failures(duty)
        self._until: dict[str, float] = {}
        self._pauses: dict[str, float] = {}

    def has(self, name: str) -> bool:
        """Return whether this tenant waits."""
        return time.monotonic() < self._until.get(name, 0.0)

    def seconds(self, most: float) -> float:
        """Return the seconds until the first wait ends, at most `most`."""
        return max(0.0, min([most, *(each - time.monotonic() for each in self._until.values())]))

    def keep(self, names: Collection[str]) -> None:
        """Remove the waits of all other tenants."""
        self._until = {name: until for name, until in self._until.items() if name in names}

    def wait(self, name: str, seconds: float) -> None:
        """Make this tenant wait."""
        self._until[name] = time.monotonic() + seconds

    def fail(self, name: str, error: Exception) -> float:
        """Wait longer after each failure. Return the seconds."""
        self._failures.add(name, error)
        is_transient = isinstance(error, Unavailable) and not isinstance(error, DataCorrupt)
        most = _RETRY_SECONDS_MAX if is_transient else _DAMAGED_SECONDS_MAX
        pause = min(2 * self._pauses.get(name, _RETRY_SECONDS / 2), most)
        self._pauses[name] = pause
        self.wait(name, pause)
        return pause

    @contextmanager
    def watch(self, name: str) -> Iterator[None]:
        """Make this tenant wait if the block fails. Its exceptions are logged, not raised."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (what stops one tenant must not stop the rest)
            self.fail(name, error)
        else:
            self.end(name)

    def end(self, name: str) -> None:
        """Remove the wait of this tenant, after a success."""
        self._until.pop(name, None)
        self._pauses.pop(name, None)
        self._failures.end(name)
