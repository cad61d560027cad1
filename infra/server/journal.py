"""The blobs of the feed on one machine: a thread that stores them after publications.

The feed does not need these blobs, so a failing blob store does not delay it (docs/adr/12).
"""

import threading
from typing import Final

from infra.server.duties import Duty
from infra.server.waits import ALL, Waits
from shared.model.items import Address
from shared.operations.base import tenants
from shared.operations.lists import publication
from shared.operations.lists.journal import FeedRun, Journals
from shared.operations.lists.wake import WakeResult
from shared.ports import Ports

# The seconds between two records of a journal. A record covers all publications in between.
_PAUSE_SECONDS: Final = 1.0
_IDLE_SECONDS: Final = 3600.0


class Journaling(Duty):
    """Publishes references to key bundles in the feed, and writes the journal (TRUST-9, OPS-23).

    The first round also writes publications that a killed process had not written. Each task is
    retried for each tenant until it succeeds, even without a new change.
    """

    def __init__(self, ports: Ports) -> None:
        super().__init__("journal")
        self._ports, self._requested = ports, threading.Event()
        self._journals = Journals()
        # Only the newest publication of a tenant, because it includes all earlier ones.
        self._publications: dict[str, FeedRun | None] = {}
        # Signer marks that the feed covers. Two threads use each set, only by atomic operations.
        self._unnamed: dict[str, set[Address]] = {}
        self._waits, self._naming = Waits("the journal"), Waits("naming the signing keys")
        self._has_queued_all = False

    def stop(self) -> None:
        """Store all earlier publications, then stop."""
        super().stop()
        self._requested.set()

    def unnamed_marks(self, tenant_id: str) -> frozenset[Address]:
        """Return the covered signer marks with keys that no key bundle contains yet."""
        return frozenset(self._unnamed.get(tenant_id, ()))

    def add(self, tenant_id: str, result: WakeResult) -> None:
        """Request storage of a feed publication."""
        self._publications[tenant_id] = result.done
        self._unnamed.setdefault(tenant_id, set()).update(result.unnamed)
        self._requested.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._requested.clear()
            self._round()
            self._stopped.wait(_PAUSE_SECONDS)
            self._requested.wait(self._naming.seconds(self._waits.seconds(_IDLE_SECONDS)))
        for each in (self._waits, self._naming):
            each.keep(())
        self._round()

    def _round(self) -> None:
        """Store publications of each tenant that is not in a retry pause."""
        if not (self._has_queued_all or self._waits.has(ALL)):
            with self._waits.watch(ALL):
                for each in tenants.directory(self._ports):
                    self._publications.setdefault(each.tenant_id, None)
                self._has_queued_all = True
        for tenant_id in [*self._unnamed]:
            unnamed = self.unnamed_marks(tenant_id)
            if unnamed and not self._naming.has(tenant_id):
                with self._naming.watch(tenant_id):
                    publication.name_keys(self._ports, tenant_id, unnamed)
                    self._unnamed[tenant_id].difference_update(unnamed)
        for tenant_id in [*self._publications]:
            if self._waits.has(tenant_id):
                continue
            with self._waits.watch(tenant_id):
                run = self._publications.pop(tenant_id)
                try:
                    self._journals.write_missing_records(self._ports, tenant_id, run)
                except Exception:
                    # Drop the publication, because it contains an unwrapped seed. The records
                    # suffice for a retry.
                    self._publications.setdefault(tenant_id, None)
                    raise
