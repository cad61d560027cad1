"""From POST /v1/revocations until a client of the feed refuses, and what a day of following costs.

    python -m tests.bench.deny 100000

measures beside so many revoked warrants, and prints the table for it alone. A server on this
machine publishes; lists are published meanwhile, one after another.
"""

import http.client
import json
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Final

from functions.trust import documents, publishing
from shared.authorizer import AuthorizerClient, PollPolicy, Verdict
from shared.authorizer.answers import parse_answer
from shared.authorizer.formats import wire
from shared.authorizer.saved_state import MemoryStateStore
from shared.model.callers import Scope
from shared.operations.access import api_keys
from shared.operations.operator import onboarding
from tests.bench import revoked
from tests.bench.publication import from_all_records
from tests.bench.report import NotMeasured, Row, progress, table
from tests.bench.revoked import warrant_ids
from tests.bench.scratch import scratch
from tests.kit.processes import HOST, local_server

_MILLION: Final = 1_000_000
_REVOCATIONS: Final = 120
_CREATED: Final = 201
_OK: Final = 200
_NOT_MODIFIED: Final = 304
_REGENERATE: Final = "/v1/revocations/srl/regenerate"
_FEED: Final = "/v1/revocations/feed"
_LIST: Final = "/v1/revocations/srl/signed"
# A pause between two lists, so that there is one in most measurements but not in all.
_LISTS_SECONDS: Final = 5.0
_PATIENCE: Final = 30.0
_DAY_CHANGES: Final = 2_000
_DAY_SECONDS: Final = 86_400
_LIST_POLL: Final = 30
_LONG_POLL: Final = 25

_WAYS: Final = {"long poll": (25.0, 1.0), "a poll each second": (0.0, 2.0)}


@dataclass(frozen=True)
class Service:
    """A running server, and who may call it."""

    port: int
    tenant_id: str
    admin: str
    authorizer: str
    pin: str

    def ask(
        self, method: str, path: str, body: object = None, etag: str = ""
    ) -> tuple[int, int, str]:
        """Return the status of an answer, its size in bytes with the head, and its `ETag`."""
        headers = {"Authorization": f"Bearer {self.admin}", "Accept-Encoding": "gzip"}
        if etag:
            headers["If-None-Match"] = etag
        data = None if body is None else json.dumps(body)
        with closing(http.client.HTTPConnection(HOST, self.port, timeout=60)) as connection:
            connection.request(method, path, data, headers | {"Content-Type": "application/json"})
            answer = connection.getresponse()
            size = len(answer.read()) + sum(len(f"{k}: {v}\r\n") for k, v in answer.getheaders())
            return answer.status, size, answer.headers.get("ETag", "")


def run(number: int = _MILLION, *, revocations: int = _REVOCATIONS) -> Iterator[Row]:
    """Refusals by both ways to poll, while lists are published; and the bytes of a day."""
    with scratch() as folder, serving(folder, number) as service:
        names = warrant_ids("d")
        for way, (wait, goal) in _WAYS.items():
            progress(f"refusals by {way}, beside {number:,}")
            with _client(service, wait) as client, _publishing(service):
                seconds = sorted(_refused(service, client, names, revocations))
            percentiles = quantiles(seconds, n=100)
            name = f"from POST to a refusal, {way} ({number:,})"
            for said, value in (("p50", percentiles[49]), ("p99", percentiles[98])):
                goals = ("≤ 1", f"{goal:.0f} s", value / goal) if said == "p99" else ("", "", None)
                yield Row(f"{name}, {said}", value * 1e3, "ms", goals[1], goals[2], goal=goals[0])
        yield from _day(service, names, number)


@contextmanager
def serving(folder: Path, number: int) -> Iterator[Service]:
    with revoked.tenant(folder / "data", revoked=number) as tenant:
        ports, operator = tenant.ports, tenant.operator
        from_all_records(ports, operator)
        admin = api_keys.create(ports, operator, name="bench", scopes=(Scope.ADMIN,)).secret
        key = api_keys.create(ports, operator, name="bench", scopes=(Scope.AUTHORIZER,)).secret
        publishing.keep(ports, operator.tenant_id)
        document = documents.read_head(ports, operator.tenant_id)
        assert document is not None
        _, local = onboarding.create_tenant(ports, handle="local")
        (folder / "data" / "admin.key").write_text(local.secret)
    with local_server(folder / "data", "--log-level", "warning") as server:
        yield Service(server.port, operator.tenant_id, admin, key, document.pin)


@contextmanager
def _client(service: Service, wait: float) -> Iterator[AuthorizerClient]:
    client = AuthorizerClient(
        f"http://{HOST}:{service.port}",
        api_key=service.authorizer,
        tenant=service.tenant_id,
        trust_pin=service.pin,
        state=MemoryStateStore(),
        policy=PollPolicy(wait_seconds=wait),
    )
    with client.start(wait=120):
        yield client


@contextmanager
def _publishing(service: Service) -> Iterator[None]:
    """Publish lists, one after another, until the body is done."""
    stop = threading.Event()

    def publish() -> None:
        while not stop.wait(_LISTS_SECONDS):
            service.ask("POST", _REGENERATE)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _refused(
    service: Service, client: AuthorizerClient, names: Iterator[str], number: int
) -> Iterator[float]:
    """Revoke so many warrants, one after another, and yield the seconds until each is refused."""
    pauses = random.Random(0)
    for _ in range(number):
        time.sleep(pauses.uniform(0.1, 0.7))
        warrant_id = next(names)
        if client.check([warrant_id]) is not Verdict.CLEAR:
            raise NotMeasured("a warrant that is not revoked is not clear")
        began = time.perf_counter()
        body = {"warrant_id": warrant_id, "reason": "bench"}
        status, _, _ = service.ask("POST", "/v1/revocations", body)
        if status != _CREATED:
            raise NotMeasured(f"a revocation was answered with {status}")
        while client.check([warrant_id]) is not Verdict.REVOKED:
            if time.perf_counter() - began > _PATIENCE:
                raise NotMeasured("a revoked warrant was not refused")
            time.sleep(0.001)
        yield time.perf_counter() - began


def _day(service: Service, names: Iterator[str], number: int) -> Iterator[Row]:
    """The bytes that one authorizer is sent in a day with so many changes at random times.

    The sizes of the answers are those of the server; how many there are follows from the times.
    """
    _, _, etag = service.ask("GET", _FEED)
    unchanged = service.ask("GET", _FEED, etag=etag)
    status, whole, etag = service.ask("GET", _LIST)
    same = service.ask("GET", _LIST, etag=etag)
    if (status, unchanged[0], same[0]) != (_OK, _NOT_MODIFIED, _NOT_MODIFIED):
        raise NotMeasured("the server did not answer as a client expects")
    change = _one_change(service, next(names))
    moments = random.Random(0)
    times = [moments.uniform(0, _DAY_SECONDS) for _ in range(_DAY_CHANGES)]
    minutes = len({int(at // 60) for at in times})
    lists = minutes * whole + (_DAY_SECONDS // _LIST_POLL - minutes) * same[1]
    polls = {"long poll": _DAY_SECONDS // _LONG_POLL, "a poll each second": _DAY_SECONDS}
    for way, idle in polls.items():
        fed = _DAY_CHANGES * change + idle * unchanged[1]
        name = f"a day with {_DAY_CHANGES:,} changes ({number:,}), the feed by {way}"
        yield Row(name, fed / 2**20, "MiB", "whole lists", fed / lists)
    yield Row(f"one change ({number:,}), answer", change, "B", "700 B", change / 700, goal="≤ 1")


def _one_change(service: Service, warrant_id: str) -> int:
    """Revoke one more warrant, and return the size of the body with its entry."""
    with closing(http.client.HTTPConnection(HOST, service.port, timeout=60)) as connection:
        headers = {"Authorization": f"Bearer {service.authorizer}"}

        def poll(path: str) -> bytes:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().read()

        # Not the entries since the base: the newest alone.
        held = sequence_of(poll(_FEED))
        service.ask("POST", "/v1/revocations", {"warrant_id": warrant_id, "reason": "bench"})
        return len(poll(f"{_FEED}?after={held}&wait=25"))


def sequence_of(answer: bytes) -> int:
    """The sequence of the head in an answer of the feed."""
    return wire.SignedHead.decode(parse_answer(answer).payload).sequence


def main() -> int:
    """Measure one size."""
    print(table(list(run(int(sys.argv[1]), revocations=20))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
