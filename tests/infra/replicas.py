"""Servers on one PostgreSQL, and callers who go to any and write down what they are told."""

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count, cycle, islice, pairwise
from pathlib import Path
from typing import Any, Final

import httpx2

from shared import wiring
from shared.authorizer import AuthorizerClient, PollPolicy
from shared.authorizer.saved_state import MemoryStateStore
from shared.authorizer.status import Verdict
from shared.operations.operator import onboarding
from shared.ports import Ports
from tests.infra.following import Server
from tests.kit import feeds, postgresql
from tests.kit.processes import HOST, run
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon

HANDLE: Final = "local"
# What it logs once it leads.
_LEADS: Final = "this server leads: it publishes, appends and delivers"
# Only what hangs takes so long, on a busy machine too.
LONG: Final = 120.0
_BATCH: Final = 1000


@dataclass
class Replicas:
    """Servers on the stores of `settings`; `key` is an admin's of the tenant `local`."""

    folder: Path
    settings: dict[str, str]
    key: str
    servers: list[Server] = field(default_factory=list)

    def add(self, *options: str) -> Server:
        """Start one more."""
        made = Server(self.folder / "data", *options, settings=self.settings, key=self.key)
        self.servers.append(made)
        return made

    def leader(self, *, but: Sequence[Server] = ()) -> Server:
        """The one that took the lead last, once one of them did that is not among `but`."""

        def last() -> Server | None:
            found = max(self.servers, key=led_at)
            return found if led_at(found) and found not in but else None

        return soon(last, seconds=LONG)

    @contextmanager
    def ports(self) -> Iterator[Ports]:
        """What the servers work on."""
        with closing(wiring.build(wiring.settings(self.settings))) as opened:
            yield opened

    @contextmanager
    def client(self, url: str) -> Iterator[AuthorizerClient]:
        """A client of the feed at `url`, in this process."""
        settings = self.servers[0].client_settings()
        policy = PollPolicy(max_staleness=5, poll_seconds=0.1)
        made = AuthorizerClient(
            url, **settings, state=MemoryStateStore(), policy=policy, report=False
        )
        with made.start(wait=LONG):
            yield made


@contextmanager
def replicas(folder: Path, url: str, *options: str, number: int = 2) -> Iterator[Replicas]:
    """So many servers on a new database at `url`, made ready as an operator does."""
    keys = f"file:{folder / 'secret.key'}"
    settings = {"RESCIND_STORE": url, "RESCIND_BLOBS": "postgresql:", "RESCIND_KEY_WRAPPER": keys}
    made = run("-m", "infra.cli", "setup", "--tenant", HANDLE, settings=settings)
    assert made.returncode == 0, made.stderr
    found = Replicas(folder, settings, made.stdout.strip())
    try:
        for _ in range(number):
            found.add(*options)
        yield found
    finally:
        for each in found.servers:
            each.group.kill()


def led_at(server: Server) -> str:
    """When it last took the lead, as its log says it; empty if it never did."""
    lines = server.group.output.read_text().splitlines()
    taken = [json.loads(each)["time"] for each in lines if _LEADS in each]
    return max(taken, default="")


class Balancer:
    """Passes each connection to the next of the servers that are `ready`."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers, self._turn = servers, count()
        self._listener = socket.create_server((HOST, 0), backlog=256)
        self._is_over = threading.Event()
        self.ready = list(servers)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._listener.getsockname()[1]}"

    def watch(self) -> None:
        """Look from now on which servers are ready, as a load balancer does."""
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        """Accept nothing more."""
        self._is_over.set()
        self._listener.close()

    def _watch(self) -> None:
        while not self._is_over.wait(0.05):
            self.ready = [each for each in self._servers if is_ready(each)]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                threading.Thread(target=self._pass, args=(caller,), daemon=True).start()

    def _pass(self, caller: socket.socket) -> None:
        ready = self.ready
        with caller, suppress(OSError, ZeroDivisionError):
            server = ready[next(self._turn) % len(ready)]
            with socket.create_connection((HOST, server.port)) as connection:
                back = threading.Thread(target=_pump, args=(connection, caller), daemon=True)
                back.start()
                _pump(caller, connection)
                back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def is_ready(server: Server) -> bool:
    """Whether a load balancer would send it requests."""
    with suppress(httpx2.TransportError):
        return httpx2.get(f"{server.url}/readyz", timeout=10).status_code == HTTPStatus.OK
    return False


@dataclass
class Revokers:
    """Callers who revoke without end, each at all of the `urls` by turns, and one who checks.

    Whatever is refused must be refused with 503 and a time to come back after, but by the key's
    rate limit. `failed` has any other answer. What got no answer is in `unknown`.
    """

    urls: Sequence[str]
    key: str
    acknowledged: dict[str, float] = field(default_factory=dict)
    refused: list[float] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    # Warrants of which a check denied what had been acknowledged before it.
    stale: list[str] = field(default_factory=list)
    checked: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _names: Iterator[str] = field(default_factory=lambda: map("svc_wrt_{}".format, count()))

    @contextmanager
    def working(self, writers: int = 6) -> Iterator[None]:
        """All at work, until the end; then whatever one of them could not do is raised."""
        with ThreadPoolExecutor(writers + 1) as pool:
            try:
                tasks = [pool.submit(self._work, self._revoke, number) for number in range(writers)]
                tasks.append(pool.submit(self._work, self._check, 0))
                yield
            finally:
                self._over.set()
        for each in tasks:
            each.result()

    def go_on(self, many: int = 20) -> None:
        """Wait until so many more were acknowledged."""
        wanted = len(self.acknowledged) + many
        soon(lambda: len(self.acknowledged) >= wanted, seconds=LONG)

    def longest_gap(self) -> float:
        """The longest time in seconds between two acknowledgements."""
        moments = sorted(self.acknowledged.values())
        return max((after - before for before, after in pairwise(moments)), default=0.0)

    def figures(self) -> str:
        """What was done, in a line."""
        return (
            f"{len(self.acknowledged)} acknowledged, {len(self.refused)} refused,"
            f" {len(self.unknown)} without an answer, {self.checked} checks,"
            f" {len(self.stale)} stale, at most {self.longest_gap():.1f} s without a write"
        )

    def lost(self, server: Server) -> list[str]:
        """What was acknowledged and the server does not know."""
        names, lost = list(self.acknowledged), set(self.acknowledged)
        for first in range(0, len(names), _BATCH):
            body = {"warrant_ids": names[first : first + _BATCH]}
            results = server.call("POST", "/revocations/check-batch", **body)["results"]
            lost -= {each for each, verdict in results.items() if verdict["revoked"]}
        return sorted(lost)

    def _work(self, step: Callable[[httpx2.Client, str], None], number: int) -> None:
        # A connection for each request, which a load balancer may send to another server.
        headers = {"Authorization": f"Bearer {self.key}", "Connection": "close"}
        with httpx2.Client(headers=headers, timeout=60, verify=False) as http:
            for url in islice(cycle(self.urls), number, None):
                if self._over.is_set():
                    return
                step(http, url)

    def _revoke(self, http: httpx2.Client, url: str) -> None:
        name = next(self._names)
        body = {"warrant_id": name, "reason": "a test"}
        answer = self._answer(http, "POST", f"{url}/v1/revocations", name, json=body)
        if answer is not None:
            self.acknowledged[name] = time.monotonic()

    def _check(self, http: httpx2.Client, url: str) -> None:
        names = list(self.acknowledged.copy())
        some = random.sample(names, min(len(names), 20)) + names[-20:]
        body = {"warrant_ids": some or ["svc_wrt_none"]}
        answer = self._answer(http, "POST", f"{url}/v1/revocations/check-batch", "", json=body)
        if answer is not None:
            results = answer.json()["results"]
            self.stale += [each for each in some if not results[each]["revoked"]]
            self.checked += 1
        time.sleep(0.02)

    def _answer(
        self, http: httpx2.Client, method: str, url: str, name: str, **options: Any
    ) -> httpx2.Response | None:
        """The answer, if it is one of success."""
        try:
            answer = http.request(method, url, **options)
        except httpx2.TransportError:
            self.unknown += [name] if name else []
            time.sleep(0.05)
            return None
        if answer.is_success:
            return answer
        if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE and answer.headers["Retry-After"]:
            self.refused.append(time.monotonic())
            return None
        # A fast machine comes to the key's rate limit.
        if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            time.sleep(0.1)
            return None
        self.failed.append(f"{method} {url}: {answer.status_code} {answer.text}")
        return None


def check_whole(found: Replicas, revokers: Revokers) -> None:
    """Nothing acknowledged is lost or counted twice, and the feed and the list have all of it."""
    assert revokers.failed == [], revokers.failed
    assert revokers.stale == [], revokers.stale
    for each in found.servers:
        assert revokers.lost(each) == []
    with found.ports() as ports:
        operator = onboarding.operator(ports, handle=HANDLE)
        tenant = Tenant(operator.tenant_id, operator)
        tenant.check_totals(ports)
        known = set(revokers.acknowledged)
        soon(lambda: known <= feeds.published(ports, tenant.id), seconds=LONG)
        assert known <= set(tenant.regenerate(ports).revoked_ids)
        soon(lambda: postgresql.is_well(ports), seconds=LONG)


def knows_all(client: AuthorizerClient, revokers: Revokers) -> bool:
    """Whether the client of the feed denies whatever was acknowledged."""
    return all(client.check([each]) is Verdict.REVOKED for each in revokers.acknowledged.copy())
