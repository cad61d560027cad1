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
    ports, is_logged = None, False
    while ports is None:
        try:
            ports = wiring.from_environment()
        except DataCorrupt:
            raise
        except Unavailable:
            # If the process failed instead, the supervisor would restart it after longer pauses.
            if not is_logged:
                _log.exception("the store does not respond; retrying")
            is_logged = True
            if _is_over(stop, board, leader.RENEW_SECONDS):
                return
    requests = threading.Thread(
        target=publications.take, args=(stop, wiring.from_environment), name="asked", daemon=True
    )
    requests.start()
    threading.Thread(target=_test, args=(stop, ports, board), name="tested", daemon=True).start()
    try:
        lead(LeaderElection(leader.lease(ports.store), wants=wiring.may_lead()), ports, stop, board)
    finally:
        requests.join()


def _test(stop: int, ports: Ports, board: ProcessStatus) -> None:
    """Run test writes to the store every few seconds, while readiness is requested."""
    while not select.select([stop], [], [], _TEST_SECONDS)[0]:
        if not board.is_asked():
            continue
        was_writable = board.can_store()
        try:
            board.run_test_write(partial(readiness.write, ports))
        except Exception:  # noqa: BLE001 (the next test follows)
            if was_writable:
                _log.exception("the store cannot be written; retrying")


def lead(leading: LeaderElection, ports: Ports, stop: int, board: ProcessStatus) -> None:
    """Run the duties whenever this server leads, until end of file on `stop`."""
    is_over, pause = partial(_is_over, stop, board), 0.0
    while not is_over(pause):
        pause = leader.RENEW_SECONDS
        if leading.leads():
            _log.info("this server leads: it publishes, appends and delivers")
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
    feed = FeedPublisher(ports, timer.request, trust.request)
    duties: list[Duty] = [feed, timer, webhooks, sealing, trust, Discovery(ports)]
    if (policy := wiring.witnesses()) is not None:
        duties.append(Witnessing(ports, wiring.witness_client(), policy))
    try:
        for each in duties:
            each.start()
        while leading.leads():
            board.record_leadership(
                leading.seen_at, schedule=timer.round_at, append_time=sealing.whole_at
            )
            if is_over(leader.RENEW_SECONDS):
                break
    finally:
        for each in duties:
            each.stop()
        for each in duties:
            each.join()


def _is_over(stop: int, board: ProcessStatus, seconds: float) -> bool:
    """Wait for the end of this process for up to `seconds`. Return whether it must end."""
    board.record_heartbeat(PUBLISHER)
    return bool(select.select([stop], [], [], seconds)[0])
