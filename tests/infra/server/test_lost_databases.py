"""Replicas whose database ends, stands still or is away, or that end themselves, under load.

`OUTAGE_SECONDS` is how long backends are ended and the database is stopped again and again; set it
to 60 to look for rare faults.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias

import httpx2
import pytest

from tests.infra.crowd import Crowd
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
from tests.kit.waiting import soon

pytestmark = pytest.mark.slow

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
        with replicas(folder, url, "--drain-seconds", "600") as found:
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


_PAUSE: Final[tuple[_Step, _Step]] = (
    lambda database: database.signal(signal.SIGSTOP),
    lambda database: database.signal(signal.SIGCONT),
)
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
