"""Three servers on one PostgreSQL, beside one on SQLite: what a request and a revocation take."""

import json
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from shared import wiring
from shared.authorizer.answers import parse_answer
from tests.bench.deny import sequence_of
from tests.bench.measure import alternate, processor_seconds
from tests.bench.report import NotMeasured, Row, compared, progress
from tests.bench.revoked import warrant_ids
from tests.kit import processes
from tests.kit.postgresql import PostgresqlServer
from tests.kit.processes import HOST, LocalServer, local_server
from tests.kit.waiting import soon

_MS: Final = ("ms", 1e3)
_MS_CPU: Final = ("ms CPU", 1e3)
_REPLICAS: Final = 3
_IDLE_SECONDS: Final = 20.0
_CHECKS: Final = 500
_REVOCATIONS: Final = 100
_HELD: Final = 10
_CHECK: Final = "/v1/revocations/check?warrant_id=svc_wrt_none"
_FEED: Final = "/v1/revocations/feed"
_PATIENCE: Final = 60.0


class _Taken(NamedTuple):
    """Seconds of processor time, so far or for each request."""

    servers: float
    database: float

    def since(self, began: "_Taken", times: int) -> "_Taken":
        servers, database = self.servers - began.servers, self.database - began.database
        return _Taken(servers / times, database / times)


@dataclass
class _Site:
    """Servers on the same data: one is called, and another one's feed is followed.

    `database` is the first process of the database, unless the servers contain it.
    """

    servers: list[LocalServer]
    key: str
    database: int | None = None
    names: Iterator[str] = field(default_factory=warrant_ids)
    _etag: str = '""'
    _sequence: int = 0

    def __post_init__(self) -> None:
        self._called = HTTPConnection(HOST, self.servers[0].port)

    def close(self) -> None:
        """Close the connection, as the server does if it is idle. The next call opens another."""
        self._called.close()

    def check(self) -> None:
        """Check a warrant."""
        self._ask(HTTPStatus.OK, "GET", _CHECK)

    def revoke(self, name: str) -> None:
        """Revoke a warrant."""
        body = json.dumps({"warrant_id": name, "reason": "bench"})
        self._ask(HTTPStatus.CREATED, "POST", "/v1/revocations", body)

    def _ask(self, status: int, method: str, path: str, body: str | None = None) -> None:
        headers = self._headers | {"Content-Type": "application/json"}
        self._called.request(method, path, body, headers)
        with self._called.getresponse() as answer:
            said = answer.read()
            if answer.status != status:
                raise NotMeasured(f"{path} was answered {answer.status}: {said[:200]!r}")

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def follow(self, name: str) -> float:
        """Wait for the feed's entry of a warrant; return when it came."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            entries = self.poll()
            came = time.perf_counter()
            if any(name.encode() in each for each in entries):
                return came
        raise NotMeasured(f"the feed does not tell of {name}")

    def poll(self) -> tuple[bytes, ...]:
        """The next entries of the feed, as soon as there are any."""
        headers = self._headers | {"If-None-Match": self._etag}
        # A server closes a connection that is idle.
        with closing(HTTPConnection(HOST, self.servers[-1].port)) as connection:
            connection.request("GET", f"{_FEED}?after={self._sequence}&wait=25", headers=headers)
            answer = connection.getresponse()
            said = answer.read()
            if answer.status == HTTPStatus.OK:
                self._etag, self._sequence = answer.headers["ETag"], sequence_of(said)
                return parse_answer(said).entries
        return ()

    def begin(self) -> None:
        """Wait until there is a feed, and until what is made once has been made."""
        soon(lambda: self.poll() or self._sequence or self._etag != '""', seconds=_PATIENCE)
        for _ in range(100):
            self.check()
        name = next(self.names)
        self.revoke(name)
        self.follow(name)

    def taken(self, *, workers: bool) -> _Taken:
        """What all processes of the servers took, or the workers; and the database."""
        pids = [each.process.pid for each in self.servers]
        if workers:
            pids = [pid for each in self.servers for pid in each.serving()]
        database = processor_seconds(self.database) if self.database else 0.0
        return _Taken(sum(map(processor_seconds, pids)), database)


def run(
    server: PostgresqlServer, url: str, folder: Path, *, share: float, rounds: int
) -> Iterator[Row]:
    """Checks, revocations, and the way of a revocation from one server to another."""
    with _on_postgresql(server, url, folder) as many, _on_sqlite(folder) as one:
        progress("leader")
        yield _idle(many, _IDLE_SECONDS * share)
        progress("checks over HTTP")
        times = max(1, round(_CHECKS * share))
        sides = partial(_checks, many, times), partial(_checks, one, times)
        yield from _rows("check over HTTP", *alternate(*sides, rounds=rounds), goal="≤ 2.3")
        progress("revocations")
        times = max(1, round(_REVOCATIONS * share))
        sides = partial(_revocations, many, times), partial(_revocations, one, times)
        ours, theirs = alternate(*sides, rounds=rounds)
        yield from _rows(f"revocation with {_REPLICAS} replicas", ours, theirs, goal="≤ 2.5")
        alone = median(map(sum, theirs)) * 1e3
        yield Row("revocation on one machine", alone, _MS_CPU[0], "2 ms", alone / 2, goal="≤ 1")
        progress("held polls")
        yield _held_polls(many, one, max(1, round(_HELD * share)), rounds)


@contextmanager
def _on_postgresql(server: PostgresqlServer, url: str, folder: Path) -> Iterator[_Site]:
    key_file = folder / "secret.key"
    wiring.create_master_key(key_file)
    settings = {
        "RESCIND_STORE": url,
        "RESCIND_BLOBS": "postgresql:",
        "RESCIND_KEY_WRAPPER": f"file:{key_file}",
    }
    made = processes.run("-m", "infra.cli", "setup", "--tenant", "bench", settings=settings)
    if made.returncode:
        raise NotMeasured(made.stderr)
    with ExitStack() as stack:
        servers = [
            stack.enter_context(local_server(folder / f"{n}", *_QUIET, settings=settings))
            for n in range(_REPLICAS)
        ]
        site = stack.enter_context(closing(_Site(servers, made.stdout.strip(), server.pid)))
        site.begin()
        yield site


_QUIET: Final = ("--log-level", "warning")


@contextmanager
def _on_sqlite(folder: Path) -> Iterator[_Site]:
    with (
        local_server(folder / "data", *_QUIET) as server,
        closing(_Site([server], server.admin_key)) as site,
    ):
        site.begin()
        yield site


def _idle(site: _Site, seconds: float) -> Row:
    """What the server that leads takes while nobody calls: the first one."""
    leader = site.servers[0].process.pid
    before = processor_seconds(leader)
    time.sleep(seconds)
    taken = (processor_seconds(leader) - before) / seconds * 100
    return Row("PostgreSQL: idle leader", taken, "%", "0.6 %", taken / 0.6, goal="≤ 1")


def _checks(site: _Site, times: int) -> _Taken:
    """What a check takes in the process that answers, and in the database."""
    site.close()
    before = site.taken(workers=True)
    for _ in range(times):
        site.check()
    return site.taken(workers=True).since(before, times)


def _revocations(site: _Site, times: int) -> _Taken:
    """What a revocation takes in all processes until it is in the feed."""
    site.close()
    before = site.taken(workers=False)
    for name in islice(site.names, times):
        site.revoke(name)
    site.follow(name)
    return site.taken(workers=False).since(before, times)


def _rows(name: str, ours: list[_Taken], theirs: list[_Taken], *, goal: str) -> Iterator[Row]:
    """The row of processor time against SQLite, and that of the part of the database."""
    name = f"PostgreSQL: {name}"
    both = [[sum(each) for each in side] for side in (ours, theirs)]
    yield compared(name, both[0], "SQLite", both[1], unit=_MS_CPU, goal=goal)
    yield Row(f"{name}, in the database", median(each.database for each in ours) * 1e3, _MS_CPU[0])


def _held_polls(many: _Site, one: _Site, times: int, rounds: int) -> Row:
    pauses = random.Random(0)

    def side(site: _Site) -> Callable[[], float]:
        return lambda: median(_seconds(site, pauses.uniform(0.1, 0.3)) for _ in range(times))

    ours, theirs = alternate(side(many), side(one), rounds=rounds)
    name = "PostgreSQL: revoked at a replica, a poll held at another answered, p50"
    return compared(name, ours, "one machine", theirs, unit=_MS, goal="≤ 2")


def _seconds(site: _Site, pause: float) -> float:
    """From the request for a revocation until the feed tells of it, to whom waits for it."""
    name = next(site.names)
    site.close()
    with ThreadPoolExecutor(1) as pool:
        came = pool.submit(site.follow, name)
        # Long enough that the poll waits, and at no fixed moment between two looks.
        time.sleep(pause)
        began = time.perf_counter()
        site.revoke(name)
        return came.result() - began
