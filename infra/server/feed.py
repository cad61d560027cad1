"""The feed on one machine: a thread that publishes what has a new mark (docs/adr/11)."""

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import Final

from infra.server.board import listener
from shared.model.items import Address
from shared.model.lists.schedule import concerns_trust, tenant_of_mark
from shared.operations.base import tenants
from shared.operations.lists import marks, wake
from shared.operations.lists.journal import Journals
from shared.ports import Ports
from shared.ports.one_machine import News

# Changes that follow one another so quickly are looked at together.
_REST_SECONDS: Final = 0.01
# Between two looks if marks are heard of, in case that news were lost.
_NET_SECONDS: Final = 1.0
# With many marks a look takes longer; looks take a tenth of a processor at most.
_PAUSES_A_LOOK: Final = 9
# The pauses after a failure: the first one, and the longest.
_RETRY_SECONDS: Final = 0.5
_RETRY_SECONDS_MAX: Final = 30.0

_ALL: Final = "all tenants"

_log = logging.getLogger("rescind")


class Feed:
    """Publishes the feed of each tenant when a mark on it is set.

    It remembers the versions of the marks that it has processed, so that a mark that waits for the
    schedule costs nothing. `publish_list` is called with a tenant that needs a list at once,
    `keys_changed` with one whose keys have changed.
    """

    def __init__(
        self,
        ports: Ports,
        publish_list: Callable[[str], object],
        keys_changed: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._ports, self._publish_list = ports, publish_list
        self._keys_changed = keys_changed
        self._stopped, self._news = threading.Event(), listener(ports, News.MARKS)
        self._thread = threading.Thread(target=self._run, name="feed")
        self._done: dict[Address, int] = {}
        self._journals = Journals()
        self._waits = _Waits()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Start no further publication. The one in progress is completed in its thread."""
        self._stopped.set()
        if self._news is not None:
            self._news.ring()

    def join(self) -> None:
        """Wait until what was in progress at `stop` is completed."""
        self._thread.join()
        if self._news is not None:
            self._news.close()

    def is_alive(self) -> bool:
        """Return whether anything may still be published."""
        return self._thread.is_alive()

    def _run(self) -> None:
        self._mend()
        while not self._stopped.wait(self._round()):
            self._hear(self._ports.look_seconds)

    def _hear(self, look_seconds: float) -> None:
        """Wait for news of marks, or until the next look."""
        if self._news is None:
            self._stopped.wait(self._waits.seconds(look_seconds))
        else:
            self._news.wait(self._waits.seconds(max(look_seconds, _NET_SECONDS)))

    def _mend(self) -> None:
        """Write what a process that was killed has published, and not in the journal."""
        tenant_id = _ALL
        try:
            for tenant_id in [each.tenant_id for each in tenants.directory(self._ports)]:
                self._journals.catch_up(self._ports, tenant_id)
        except Exception:  # noqa: BLE001 (the next publication of each tenant writes it)
            self._waits.fail(tenant_id)

    def _round(self) -> float:
        """Publish for each tenant with a new mark; return the seconds of rest after that."""
        # Its own time: while a list is made, a look waits for the processor.
        started = time.thread_time()
        try:
            new = self._new()
        except Exception:  # noqa: BLE001 (without a retry, the feed would stand still)
            return self._waits.fail(_ALL)
        self._waits.end(_ALL)
        rest = max(_REST_SECONDS, _PAUSES_A_LOOK * (time.thread_time() - started))
        self._waits.keep(new)
        for tenant_id, versions in new.items():
            if not (self._stopped.is_set() or self._waits.has(tenant_id)):
                self._publish(tenant_id, versions)
        return rest

    def _new(self) -> dict[str, dict[Address, int]]:
        """Return the marks that were not processed, by tenant, with their versions."""
        current = marks.versions(self._ports)
        self._done = {each: self._done[each] for each in current.keys() & self._done.keys()}
        new: dict[str, dict[Address, int]] = {}
        for each, version in current.items():
            if self._done.get(each) != version:
                new.setdefault(tenant_of_mark(each.sk), {})[each] = version
        return new

    def _publish(self, tenant_id: str, versions: dict[Address, int]) -> None:
        try:
            woken = wake.publish(self._ports, tenant_id)
            self._journals.catch_up(self._ports, tenant_id, woken.done)
        except Exception:  # noqa: BLE001 (what stops one tenant must not stop the rest)
            self._waits.fail(tenant_id)
            return
        self._waits.end(tenant_id)
        if woken.list_due:
            self._publish_list(tenant_id)
        if woken.wait_seconds:
            self._waits.wait(tenant_id, woken.wait_seconds)
        else:
            self._done |= versions
        if any(concerns_trust(each.sk) for each in versions):
            self._keys_changed(tenant_id)


class _Waits:
    """Until when each tenant has to wait: for the end of a window, or after a failure."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._pauses: dict[str, float] = {}

    def has(self, name: str) -> bool:
        return time.monotonic() < self._until.get(name, 0.0)

    def seconds(self, most: float) -> float:
        """Return how long it is until somebody has waited, and `most` at most."""
        return max(0.0, min([most, *(each - time.monotonic() for each in self._until.values())]))

    def keep(self, names: Collection[str]) -> None:
        """Let nobody else wait."""
        self._until = {name: until for name, until in self._until.items() if name in names}

    def wait(self, name: str, seconds: float) -> None:
        self._until[name] = time.monotonic() + seconds

    def fail(self, name: str) -> float:
        """Log the first of several failures; wait longer after each. Return the seconds."""
        if name not in self._pauses:
            _log.exception("the feed of %s could not be published; it is tried again", name)
        pause = min(2 * self._pauses.get(name, _RETRY_SECONDS / 2), _RETRY_SECONDS_MAX)
        self._pauses[name] = pause
        self.wait(name, pause)
        return pause

    def end(self, name: str) -> None:
        self._until.pop(name, None)
        if self._pauses.pop(name, None) is not None:
            _log.warning("the feed of %s is published again", name)
