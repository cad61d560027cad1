"""Replicas whose database ends, stands still or is away, or that end themselves, under load.

`OUTAGE_SECONDS` is how long backends are ended and the database is stopped again and again; set it
to 60 to look for rare faults.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias

import httpx2
import pytest

from shared.authorizer import AuthorizerClient
from shared.authorizer.status import Verdict
from tests.infra.crowd import Crowd
from tests.infra.following import JUMPING, Server, set_clock
from tests.infra.replicas import (
    LONG,
    Balancer,
    Replicas,
    Revokers,
    check_whole,
    knows_all,
    replicas,
)
from tests.kit import postgresql
from tests.kit.postgresql import PostgresqlServer, execute
from tests.kit.processes import children
from tests.kit.waiting import soon

pytestmark = pytest.mark.slow

_CONTROL: Final = "svc_wrt_never_revoked"
_HOURS: Final = 5 * 3600
# The `max_staleness` of a client, and what a busy machine may add.
_LAG_SECONDS: Final = 5 + 5
_Step: TypeAlias = Callable[[PostgresqlServer], None]
_OUTAGE_SECONDS: Final = float(os.environ.get("OUTAGE_SECONDS", "5"))
_TERMINATE: Final = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = 'rescind' AND pid <> pg_backend_pid()"""


@contextmanager
def _database() -> Iterator[PostgresqlServer]:
    """A server that a test may stop, with a database `rescind`."""
    # Each process of up to three servers may have eight connections, and so may the tests.
    with postgresql.running("-c", "max_connections=100") as made:
        execute(made.url(), "CREATE DATABASE rescind")
        yield made


@dataclass
class _World:
    database: PostgresqlServer
    replicas: Replicas

    def revokers(self, *urls: str) -> Revokers:
        """Callers of these servers, or of all."""
        every = [each.url for each in self.replicas.servers]
        return Revokers(urls or every, self.replicas.key)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_World]:
    """Two servers, which each test leaves running."""
    folder = tmp_path_factory.mktemp("replicas")
    with _database() as database:
        url = database.url("rescind")
        with replicas(folder, url, "--drain", "600") as found:
            yield _World(database, found)


def test_each_write_happens_once_while_the_database_breaks(tmp_path: Path) -> None:
    """F632a: While backends and the database end, each acknowledged write is applied once."""
    with _database() as database, replicas(tmp_path, database.url("rescind")) as found:
        with closing(Balancer(found.servers)) as balancer:
            crowd = Crowd(balancer.url, found.key)
            with crowd.working(writers=6):
                breaks = _break(database, crowd)
                crowd.wait_for(20, lambda crowd: crowd.acknowledged)
            print(f"{breaks} breaks, {crowd.figures()}")
            with found.ports() as ports:
                crowd.check(ports)
        assert "deadlock detected" not in (database.folder / "log").read_text()


def _break(database: PostgresqlServer, crowd: Crowd) -> int:
    """End backends or the database again and again; return how often."""
    end = time.monotonic() + _OUTAGE_SECONDS
    for number in count():
        crowd.wait_for(random.randint(1, 6), lambda crowd: crowd.acknowledged)
        if number >= 4 and time.monotonic() > end:
            return number
        if number % 4 == 3:
            database.stop()
            database.start()
        else:
            execute(database.url(), _TERMINATE)
    raise AssertionError


def _stand_still(database: PostgresqlServer) -> None:
    database.signal(signal.SIGSTOP)


def _go_on(database: PostgresqlServer) -> None:
    database.signal(signal.SIGCONT)


_PAUSE: Final = (_stand_still, _go_on)
_STOP: Final = (PostgresqlServer.stop, PostgresqlServer.start)
_BY_HAND: Final = [(way, length) for way in (_PAUSE, _STOP) for length in (1, 11, 60)]


@pytest.mark.parametrize(
    "outages", [[(_PAUSE, 11), (_STOP, 1)], pytest.param(_BY_HAND, marks=pytest.mark.long)]
)
def test_requests_wait_while_the_database_is_away(
    world: _World, outages: list[tuple[tuple[_Step, _Step], int]]
) -> None:
    """F633a: While the database is away, a request waits or gets 503; then all goes on by itself.

    `/healthz` answers meanwhile, so that nobody restarts the servers.
    """
    revokers = world.revokers()
    with world.replicas.client(world.replicas.servers[1].url) as client:
        with revokers.working():
            for (goes, comes), seconds in outages:
                revokers.go_on()
                goes(world.database)
                slowest = _alive(world.replicas, seconds)
                comes(world.database)
                print(f"away for {seconds} s: /healthz in {slowest:.3f} s at most")
            revokers.go_on()
        print(revokers.figures())
        soon(lambda: knows_all(client, revokers), seconds=LONG)
    assert revokers.unknown == []
    check_whole(world.replicas, revokers)


def test_what_begins_while_the_database_is_away_waits_for_it(world: _World) -> None:
    """F633b: A process that is started again while the database is away gives 503, and goes on.

    Nobody is told that the service is broken, and the publisher goes on once the database is back.
    """
    first, second = world.replicas.servers
    revokers = world.revokers()
    with world.replicas.client(second.url) as client:
        with revokers.working():
            revokers.go_on()
            world.database.stop()
            for each in (first, second):
                for process in dict(children(each.group.pid)).values():
                    os.kill(process, signal.SIGKILL)
            before = len(revokers.refused)
            soon(lambda: len(revokers.refused) > before + 6, seconds=LONG)
            _alive(world.replicas, 0.1)
            world.database.start()
            revokers.go_on()
        soon(lambda: knows_all(client, revokers), seconds=LONG)
    check_whole(world.replicas, revokers)
    assert not any("publisher failed" in _log_of(each) for each in (first, second))


def _alive(found: Replicas, seconds: float) -> float:
    """Ask each server for so long whether it lives; return the longest time that one took."""
    end, took = time.monotonic() + seconds, [0.0]
    while time.monotonic() < end:
        for each in found.servers:
            asked = time.monotonic()
            assert httpx2.get(f"{each.url}/healthz", timeout=LONG).status_code == 200
            took.append(time.monotonic() - asked)
        time.sleep(0.2)
    return max(took)


def test_a_killed_leader_is_followed(world: _World) -> None:
    """F634a: After `kill -9` of the leader another server leads, and none of its requests fails."""
    first = world.replicas.leader()
    (other,) = (each for each in world.replicas.servers if each is not first)
    revokers = world.revokers(other.url)
    with world.replicas.client(other.url) as client:
        with revokers.working(writers=2):
            revokers.go_on()
            first.group.kill()
            killed_at = time.monotonic()
            assert world.replicas.leader(but=[first]) is other
            print(f"another server leads {time.monotonic() - killed_at:.1f} s after the kill")
            revokers.go_on()
        soon(lambda: knows_all(client, revokers), seconds=LONG)
        print(f"the feed has all {time.monotonic() - killed_at:.1f} s after the kill")
    first.group.start()
    assert (revokers.refused, revokers.unknown) == ([], [])
    check_whole(world.replicas, revokers)


def test_servers_are_replaced_one_by_one(world: _World) -> None:
    """F636a: While servers drain and start again in turn behind a balancer, no request fails."""
    with closing(Balancer(world.replicas.servers)) as balancer:
        balancer.watch()
        revokers = world.revokers(balancer.url)
        with revokers.working(writers=2):
            for each in world.replicas.servers:
                os.kill(each.group.pid, signal.SIGTERM)
                soon(lambda each=each: each not in balancer.ready, seconds=LONG)  # type: ignore[misc]
                revokers.go_on()
                assert each.group.end() == 0
                each.group.start()
                soon(lambda: len(balancer.ready) == 2, seconds=LONG)
            revokers.go_on()
        print(revokers.figures())
    assert (revokers.refused, revokers.unknown) == ([], [])
    check_whole(world.replicas, revokers)


def test_a_leader_whose_clock_is_wrong(world: _World, tmp_path: Path) -> None:
    """F635a: A leader whose clock is wrong by hours misleads no client, and is recovered from.

    Meanwhile all servers know at once what is revoked at any. A client refuses what was issued in
    the future: it says STALE, but never CLEAR of a warrant that was revoked ten seconds ago.
    """
    offset = tmp_path / "offset"
    set_clock(offset, 0)
    right = [*world.replicas.servers]
    wrong = world.replicas.add(program=("-c", JUMPING, str(offset)))
    revokers = world.revokers()
    with ExitStack() as until, world.replicas.client(right[1].url) as client:
        until.callback(world.replicas.servers.remove, wrong)
        until.callback(wrong.group.kill)
        with revokers.working(writers=3), _idle(right):
            assert world.replicas.leader(but=right) is wrong
            for seconds in (-_HOURS, _HOURS):
                set_clock(offset, seconds)
                wrong.publish()
                revokers.go_on()
            _misleads_nobody(client, revokers)
            soon(lambda: client.check([_CONTROL]) is Verdict.STALE, seconds=LONG)
            wrong.group.kill()
        assert world.replicas.leader(but=[wrong]) in right
        soon(lambda: client.check([_CONTROL]) is Verdict.CLEAR, seconds=LONG)
        soon(lambda: knows_all(client, revokers), seconds=LONG)
        soon(lambda: "HeadInFuture" in "".join(map(_log_of, right)), seconds=LONG)
    check_whole(world.replicas, revokers)


def _log_of(server: Server) -> str:
    return server.group.output.read_text()


@contextmanager
def _idle(servers: list[Server]) -> Iterator[None]:
    """Let the publishers of these servers stand still."""
    publishers = [dict(children(each.group.pid))["rescind-publish"] for each in servers]
    for each in publishers:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in publishers:
            os.kill(each, signal.SIGCONT)


def _misleads_nobody(client: AuthorizerClient, revokers: Revokers) -> None:
    """Revoke for longer than the client may lag, and ask it about all that it must know by then."""
    end = time.monotonic() + _LAG_SECONDS + 2
    while time.monotonic() < end:
        revokers.go_on(5)
        now = time.monotonic()
        late = [
            name for name, at in revokers.acknowledged.copy().items() if now > at + _LAG_SECONDS
        ]
        assert Verdict.CLEAR not in {client.check([each]) for each in late}
