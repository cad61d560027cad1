"""The feed on one machine: a thread that publishes new outbox marks (docs/adr/11)."""

import time
from collections.abc import Callable
from typing import Final

from infra.server.board import listener
from infra.server.duties import Duty
from infra.server.journal import Journaling
from infra.server.waits import ALL, Waits
from shared.model.items import Address
from shared.model.lists.schedule import concerns_trust, tenant_of_mark
from shared.operations.lists import marks, wake
from shared.ports import Ports
from shared.ports.one_machine import CommitKind

# Changes in quick succession are read together after this pause.
_REST_SECONDS: Final = 0.01
# The longest time between reads if marks are notified, because a notification can be lost.
_LISTEN_SECONDS: Final = 1.0
# Reads of many marks take longer. This ratio limits reads to a tenth of a processor.
_REST_RATIO: Final = 9


class FeedPublisher(Duty):
    """Publishes the feed of each tenant that has a new outbox mark.

    It caches the versions of processed marks, so a mark that waits for the scheduler costs no work.
    `publish_list` is called when the SRL of a tenant is due, and `keys_changed` when signing keys
    of a tenant have changed.
    """

    def __init__(
        self,
        ports: Ports,
        publish_list: Callable[[str], object],
        keys_changed: Callable[[str], object] = lambda _: None,
    ) -> None:
        super().__init__("feed")
        self._ports, self._publish_list = ports, publish_list
        self._keys_changed = keys_changed
        self._listener = listener(ports, CommitKind.MARKS)
        self._processed: dict[Address, int] = {}
        self.journaling = Journaling(ports)
        self._waits = Waits("the feed")

    def start(self) -> None:
        """Start this thread and the thread that stores blobs."""
        self.journaling.start()
        super().start()

    def stop(self) -> None:
        """Prevent further publications."""
        super().stop()
        if self._listener is not None:
            self._listener.notify()

    def join(self) -> None:
        """Wait for the work that was in progress at `stop`."""
        super().join()
        # The journal stops last, because it stores the publications of this thread.
        self.journaling.stop()
        self.journaling.join()
        if self._listener is not None:
            self._listener.close()

    def _run(self) -> None:
        while not self._stopped.wait(self._round()):
            # Wait for a notification or for the next read.
            pause = self._ports.look_seconds
            if self._listener is None:
                self._stopped.wait(self._waits.seconds(pause))
            else:
                self._listener.wait(self._waits.seconds(max(pause, _LISTEN_SECONDS)))

    def _round(self) -> float:
        """Publish for each tenant with a new mark. Return the seconds to rest."""
        # Thread time excludes the wait for a processor while an SRL is built.
        started = time.thread_time()
        try:
            current = marks.read_versions(self._ports)
            self._processed = {
                each: self._processed[each] for each in current.keys() & self._processed.keys()
            }
            new: dict[str, dict[Address, int]] = {}
            for each, version in current.items():
                if self._processed.get(each) != version:
                    new.setdefault(tenant_of_mark(each.sk), {})[each] = version
        except Exception as error:  # noqa: BLE001 (without a retry, the feed would stand still)
            return self._waits.fail(ALL, error)
        self._waits.end(ALL)
        rest = max(_REST_SECONDS, _REST_RATIO * (time.thread_time() - started))
        self._waits.keep(new)
        for tenant_id, versions in new.items():
            if not (self._stopped.is_set() or self._waits.has(tenant_id)):
                self._publish(tenant_id, versions)
        return rest

    def _publish(self, tenant_id: str, versions: dict[Address, int]) -> None:
        try:
            result = wake.publish_feed(
                self._ports, tenant_id, self.journaling.unnamed_marks(tenant_id)
            )
        except Exception as error:  # noqa: BLE001 (what stops one tenant must not stop the rest)
            self._waits.fail(tenant_id, error)
            return
        self._waits.end(tenant_id)
        self.journaling.add(tenant_id, result)
        if result.list_due:
            self._publish_list(tenant_id)
        if result.wait_seconds:
            self._waits.wait(tenant_id, result.wait_seconds)
        else:
            self._processed |= versions
        if any(concerns_trust(each.sk) for each in versions):
            self._keys_changed(tenant_id)
