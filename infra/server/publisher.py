"""The process that publishes, seals and sends, one for all servers on the same data.

It holds a lock as long as it lives, so the kernel knows whether there is one (docs/adr/11).
"""

import fcntl
import os
import select
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from infra.server.board import PUBLISHER, Board
from infra.server.feed import Feed
from infra.server.publications import Publications
from infra.server.sealing import Sealing
from infra.server.timer import Timer
from infra.server.webhooks import Webhooks
from shared import wiring

# Names the file that the publisher keeps locked, for the processes that serve requests.
LOCK_VARIABLE: Final = "RESCIND_PUBLISHER_LOCK"

# How often it says that it goes on.
_TICK_SECONDS: Final = 1.0
# How often it tries to take over from the publisher of another server.
_STANDBY_SECONDS: Final = 0.5


def run(stop: int, lock: Path, board: Board, publications: Publications) -> None:
    """Publish, seal and send until the descriptor `stop` is at its end.

    Due lists are published first, the most urgent one before the others; `board` says when that is
    over. At the stop, what is under way is completed. While the publisher of another server on the
    data has the lock, this one stands by, but for what this server's workers ask for.
    """
    is_over = partial(_is_over, stop, board)
    asked = threading.Thread(
        target=publications.take, args=(stop, wiring.from_environment), name="asked", daemon=True
    )
    asked.start()
    with lock.open("ab") as file:
        if _stand_by(file, is_over, board):
            _publish(is_over, board)
        asked.join()


def _publish(is_over: Callable[[float], bool], board: Board) -> None:
    ports = wiring.from_environment()
    webhooks = Webhooks(ports, wiring.sender_from_environment())
    sink = wiring.audit_sink_from_environment()
    timer, sealing = Timer(ports), Sealing(ports, webhooks.sealed, sink)
    feed = Feed(ports, timer.publish)
    parts = (timer, feed, webhooks, sealing)
    try:
        for each in parts:
            each.start()
        board.begun()
        while not is_over(_TICK_SECONDS):
            board.publishing(schedule=timer.round_at(), sealed=sealing.whole_at())
    finally:
        for each in parts:
            each.stop()
        for each in parts:
            each.join()


def is_missing() -> bool:
    """Return whether no server publishes, seen from any process of this server.

    Returns False for a server that must not publish.
    """
    path = os.environ.get(LOCK_VARIABLE)
    if path is None:
        return False
    try:
        with Path(path).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _stand_by(file: BinaryIO, is_over: Callable[[float], bool], board: Board) -> bool:
    """Take the lock, which ends with this process; return False if the process has to end first."""
    pause = 0.0
    while not is_over(pause):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pause = _STANDBY_SECONDS
            board.begun()
            board.publishing(schedule=time.monotonic(), sealed=time.monotonic())
        else:
            return True
    return False


def _is_over(stop: int, board: Board, seconds: float) -> bool:
    """Wait so long for the end of this process; return whether it has to end."""
    board.beat(PUBLISHER)
    return bool(select.select([stop], [], [], seconds)[0])
