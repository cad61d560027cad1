"""The process that publishes, appends and delivers while its server leads (docs/adr/11)."""

import logging
import select
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from infra.server import leader
from infra.server.board import PUBLISHER, ProcessStatus
from infra.server.discovery import Discovery
from infra.server.duties import Duty
from infra.server.feed import FeedPublisher
from infra.server.leader import LeaderElection
from infra.server.publications import PublicationRequests
from infra.server.sealing import Sealing, Witnessing
from infra.server.timer import Scheduler
from infra.server.trust import TrustKeeper
from infra.server.webhooks import WebhookDispatcher
from shared import wiring
from shared.errors import DataCorrupt, Unavailable
from shared.operations.operator import readiness
from shared.ports import Ports

# The seconds between two test writes.
_TEST_SECONDS: Final = 5.0

_log = logging.getLogger("rescind")


def run(stop: int, board: ProcessStatus, publications: PublicationRequests) -> None:
    """Publish, append and deliver while this server leads, until end of file on `stop`.

    `board` is updated once due SRLs are published, most urgent first, or another server leads. At
    the end, work in progress is completed. Requests of this server's workers are always served.
    """
    ports = _wait_for_ports(partial(_is_over, stop, board))
    if ports is None:
        return
    asked = threading.Thread(
        target=publications.take, args=(stop, wiring.from_environment), name="asked", daemon=True
    )
    asked.start()
    tested = threading.Thread(target=_test, args=(stop, ports, board), name="tested", daemon=True)
    tested.start()
    try:
        lead(LeaderElection(leader.lease(ports.store), wants=wiring.may_lead()), ports, stop, board)
    finally:
        asked.join()


def _test(stop: int, ports: Ports, board: ProcessStatus) -> None:
    """Run test writes to the store every few seconds, while readiness is requested."""
    while not select.select([stop], [], [], _TEST_SECONDS)[0]:
        if not board.is_asked():
            continue
        could = board.can_store()
        try:
            board.run_test_write(partial(readiness.write, ports))
        except Exception:  # noqa: BLE001 (the next test follows)
            if could:
                _log.exception("nothing can be stored; it is tested again")


def _wait_for_ports(is_over: Callable[[float], bool]) -> Ports | None:
    """Return the ports once the store responds, or None if this process must end first.

    If the process failed instead, the supervisor would restart it after increasing pauses.
    """
    has_told = False
    while True:
        try:
            return wiring.from_environment()
        except DataCorrupt:
            raise
        except Unavailable:
            if not has_told:
                _log.exception("the store does not answer; it is asked again")
            has_told = True
            if is_over(leader.RENEW_SECONDS):
                return None


def lead(leading: LeaderElection, ports: Ports, stop: int, board: ProcessStatus) -> None:
    """Run the duties whenever this server leads, until end of file on `stop`."""
    is_over, pause = partial(_is_over, stop, board), 0.0
    while not is_over(pause):
        pause = leader.RENEW_SECONDS
        if leading.leads():
            _log.info("this server publishes, seals and sends")
            try:
                _run_duties(leading, ports, is_over, board)
            finally:
                leading.end()
        else:
            board.record_other_leader(leading.seen_at)


def _run_duties(
    leading: LeaderElection, ports: Ports, is_over: Callable[[float], bool], board: ProcessStatus
) -> None:
    webhooks = WebhookDispatcher(ports, wiring.sender_from_environment())
    sink = wiring.audit_sink_from_environment()
    timer, trust = Scheduler(ports, board.record_startup_done), TrustKeeper(ports)
    # The next trust document must name the first signer of a new log.
    sealing = Sealing(ports, webhooks.enqueue_tenant, sink, trust.request)
    parts: list[Duty] = [
        FeedPublisher(ports, timer.request, trust.request),
        timer,
        webhooks,
        sealing,
        trust,
    ]
    parts.append(Discovery(ports))
    if (policy := wiring.witnesses()) is not None:
        parts.append(Witnessing(ports, wiring.witness_client(), policy))
    try:
        for each in parts:
            each.start()
        while leading.leads():
            board.record_leadership(
                leading.seen_at, schedule=timer.round_at, append_time=sealing.whole_at
            )
            if is_over(leader.RENEW_SECONDS):
                break
    finally:
        for each in parts:
            each.stop()
        for each in parts:
            each.join()


def _is_over(stop: int, board: ProcessStatus, seconds: float) -> bool:
    """Wait for the end of this process for up to `seconds`. Return whether it must end."""
    board.record_heartbeat(PUBLISHER)
    return bool(select.select([stop], [], [], seconds)[0])
