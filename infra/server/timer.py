"""The scheduler on one machine: a thread that publishes due SRLs."""

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from functions.authorizers import propagation, stale
from infra.server.duties import RequestedDuty
from shared import logs
from shared.operations.access import unused_keys
from shared.operations.lists import expiring, publication, schedule
from shared.ports import Ports
from shared.ports.one_machine import ExpiringStore, LocalBlobs

_READINGS: Final = 60
_BATCHES: Final = 10


_PUBLISH_SECONDS: Final = 60
# Far longer than any write takes.
_LEFTOVER_SECONDS: Final = 24 * 3600

_log = logging.getLogger("rescind")


class Retention:
    """Removes expired audit entries and items of the table `keys`, in parts.

    Removal is final, and a clock may be wrong for some time. The first `readings` calls therefore
    remove no items. Later calls use the earliest time of the last `readings` calls.
    """

    def __init__(self, ports: Ports, *, readings: int = _READINGS) -> None:
        self._ports = ports
        self._readings: deque[int] = deque(maxlen=readings)

    def apply(self) -> None:
        """Remove some expired items. Failures are logged."""
        self._readings.append(int(self._ports.now().timestamp()))
        store = self._ports.store
        if len(self._readings) < (self._readings.maxlen or 0) or not isinstance(
            store, ExpiringStore
        ):
            return
        try:
            for _ in range(_BATCHES):
                if not store.remove_expired(before=min(self._readings)):
                    break
        except Exception:  # noqa: BLE001 (the caller must go on)
            _log.exception("cannot remove expired items; retrying in a minute")


class Scheduler(RequestedDuty):
    """Publishes all due SRLs at the start and every minute, and requested SRLs at once.

    After a downtime, all SRLs may have expired, and verifiers refuse expired SRLs. The most urgent
    SRLs come first, and `on_start` is called after the first round. A failure is logged, and
    retried in the next round.
    """

    def __init__(self, ports: Ports, on_start: Callable[[], object] = lambda: None) -> None:
        super().__init__("timer")
        self._ports, self._on_start = ports, on_start
        # The end of the last round, by the monotonic clock.
        self.round_at = -math.inf

    def _run(self) -> None:
        retention = Retention(self._ports)
        self._round()
        self._on_start()
        round_at = time.monotonic() + _PUBLISH_SECONDS
        while not self._stopped.is_set():
            if time.monotonic() >= round_at:
                self._round()
                retention.apply()
                round_at = time.monotonic() + _PUBLISH_SECONDS
            tenant_id = self._take(round_at - time.monotonic())
            if tenant_id is None:
                continue
            try:
                publication.publish_if_due(self._ports, tenant_id)
            except Exception as error:  # noqa: BLE001 (the next round tries again)
                _log_failure(tenant_id, error)

    def _round(self) -> None:
        """Remove files of crashed writers, publish due SRLs, and announce expiring keys.

        Also announces lagging authorizers. Removal comes first because it may free space for an
        SRL. Each step runs even if another step fails.
        """
        for step in (
            self._remove_leftovers,
            self._publish_due,
            self._announce_expiring,
            self._announce_stale,
        ):
            try:
                step()
            except Exception:  # noqa: BLE001 (without a retry, lists would expire)
                _log.exception("%s failed; retrying in a minute", step.__name__.strip("_"))
        self.round_at = time.monotonic()

    def _remove_leftovers(self) -> None:
        if isinstance(self._ports.blobs, LocalBlobs):
            self._ports.blobs.remove_leftovers(older_than_seconds=_LEFTOVER_SECONDS)

    def _publish_due(self) -> None:
        tick = publication.publish_due(self._ports, is_over=self._stopped.is_set)
        for tenant_id, error in tick.failed.items():
            _log_failure(tenant_id, error)

    def _announce_expiring(self) -> None:
        expiring.announce_due(self._ports)
        expiring.run_due(self._ports, unused_keys.revoke_unused)

    def _announce_stale(self) -> None:
        if not schedule.is_survey_due(self._ports.now()):
            return
        survey = propagation.survey(self._ports)
        if survey is not None:
            counts = {
                "AuthorizersEnforced": survey.enforced,
                "AuthorizersFailClosed": survey.fail_closed_count,
                "AuthorizersUnknown": survey.unknown,
            }
            _log.info("authorizers", extra=logs.fields(metrics=counts))
            stale.announce_all(self._ports, survey.settled)


def _log_failure(tenant_id: str, error: Exception) -> None:
    _log.error("cannot publish the SRL of tenant %s; retrying", tenant_id, exc_info=error)
