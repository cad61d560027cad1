"""The service under test: two instances that may crash, on ports that may break.

Every answer that comes out of it is held to what the contract says of all answers.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx2
from ulid import ULID

from shared.model.rate_limit import BURST, RATE_PER_SECOND
from shared.ports import NewId, Ports
from tests.kit.api import Client, Instance, serve
from tests.kit.faults import Crash, Fault, Kind, Storm, stormy
from tests.kit.worlds import Clock, embedded

INSTANCES: Final = 2

# Identifiers and keys that the service makes, and signatures: no two tenants share one.
_OWN: Final = re.compile(
    r"svc_[a-z]+_[0-7][0-9a-hjkmnp-tv-z]{25}|svc_[A-Za-z0-9_-]{43}"
    r'|(?<=")(?:[A-Za-z0-9+/]{43}=|[A-Za-z0-9+/]{86}==)(?=")'
)
_WARRANT: Final = re.compile(r"svc_wrt_\w+")

# After this time an empty bucket is full again, wherever the clock was set.
_PATIENCE_SECONDS: Final = 2 * BURST // RATE_PER_SECOND + 10


@dataclass(frozen=True)
class How:
    """The circumstances of a request: which instance, with which key, and what goes wrong."""

    instance: int = 0
    caller: int = 0
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class Request:
    """A request with a key, of a tenant that is known by its handle."""

    handle: str
    secret: str
    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Tally:
    """What a run did, for the figures."""

    steps: Counter[str] = field(default_factory=Counter)
    succeeded: Counter[str] = field(default_factory=Counter)
    struck: Counter[tuple[str, str]] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    requests: int = 0

    def __str__(self) -> str:
        lines = [
            f"{self.steps.total()} steps, {self.requests} requests, {self.struck.total()} faults",
            f"{self.unknown.total()} unknown outcomes, {self.unknown['done']} found done",
            *(
                f"{number:8} {name}, {self.succeeded[name]} succeeded"
                for name, number in sorted(self.steps.items())
            ),
            *(f"{number:8} {' '.join(fault)}" for fault, number in sorted(self.struck.items())),
        ]
        return "\n".join(lines)


class Service:
    """Two instances on the same ports; None stands for the answer of one that crashed."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.tally = Tally()
        self._numbers = count()
        self.plain = replace(embedded(folder, self.clock), new_id=self._identifiers())
        self.storm = Storm(self.clock)
        self.sent: Counter[str] = Counter()
        self._seen: dict[str, set[str]] = {}
        self._named: defaultdict[str, set[str]] = defaultdict(set)
        self._instances = [self._start() for _ in range(INSTANCES)]

    def restart(self, number: int) -> None:
        """Throw an instance away, with all that it remembers, and start another."""
        self._instances[number] = self._start()

    def meet(self, handle: str, tenant_id: str) -> None:
        """From now on nothing of this tenant may be in an answer to another."""
        self._seen[handle] = {tenant_id}

    def send(self, request: Request, how: How) -> httpx2.Response | None:
        """The answer to one request; a client that is told to wait waits and asks again."""
        answer = self._once(request, how)
        if answer is not None and answer.status_code == httpx2.codes.TOO_MANY_REQUESTS:
            assert int(answer.headers["retry-after"]) >= 1
            self.clock.advance(seconds=_PATIENCE_SECONDS)
            return self._once(request, how)
        return answer

    @property
    def ports(self) -> Ports:
        """Ports in the storm; each process makes identifiers of its own."""
        return replace(stormy(self.plain, self.storm), new_id=self._identifiers())

    @contextmanager
    def storming(self, faults: Iterable[Fault]) -> Iterator[None]:
        """A time with these faults; those that struck are counted."""
        self.storm.begin(faults)
        try:
            yield
        finally:
            self.tally.struck.update((each.kind, each.verb) for each in self.storm.struck)

    def broke(self) -> bool:
        """Whether the last storm did more than delay."""
        return any(each.kind is not Kind.DELAY for each in self.storm.struck)

    def _identifiers(self) -> NewId:
        """What a process makes: in its order, and the same in each run, unlike `wiring`'s."""
        latest = self.clock()

        def new_id(kind: str, at: datetime | None = None) -> str:
            nonlocal latest
            latest = max(latest, self.clock())
            milliseconds = int((at or latest).timestamp() * 1000)
            ulid = ULID.from_bytes(milliseconds.to_bytes(6) + next(self._numbers).to_bytes(10))
            return f"svc_{kind}_{str(ulid).lower()}"

        return new_id

    def _start(self) -> Instance:
        return serve(self.ports)

    def _once(self, request: Request, how: How) -> httpx2.Response | None:
        client = Client(self._instances[how.instance], request.secret)
        options = {} if request.body is None else {"json": request.body}
        self.tally.requests += 1
        self.sent[request.secret] += 1
        # A warrant that is named may be in records from now on, whatever becomes of the answer.
        self._named[request.handle].update(_WARRANT.findall(str(request.body)))
        try:
            with self.storming(how.faults):
                answer: httpx2.Response = client.request(
                    request.method, request.path, headers=request.headers, **options
                )
        except Crash:
            self.restart(how.instance)
            return None
        self._check(request, answer)
        return answer

    def _check(self, request: Request, answer: httpx2.Response) -> None:
        status = answer.status_code
        assert status < 500 or (status == 503 and self.broke()), answer.text
        for header in ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"):
            assert int(answer.headers[header]) >= 0
        assert answer.headers["x-request-id"]
        if status >= 400:
            _check_error(answer)
        self._check_isolation(request, answer.text)

    def _check_isolation(self, request: Request, text: str) -> None:
        """Nothing of another tenant is in an answer, but for what its receiver has named."""
        named = self._named[request.handle] | set(_OWN.findall(f"{request.path} {request.body}"))
        own = set(_OWN.findall(text)) - named
        for handle, seen in self._seen.items():
            if handle != request.handle:
                assert handle not in text
                assert not own & seen, "an answer tells of another tenant"
        self._seen[request.handle] |= own


def _check_error(answer: httpx2.Response) -> None:
    error = answer.json()
    assert set(error) == {"error"}
    assert set(error["error"]) == {"code", "message"}
    assert all(type(each) is str and each for each in error["error"].values())
    if answer.status_code == 503:
        assert error["error"]["code"] == "unavailable"
        assert int(answer.headers["retry-after"]) >= 1


def between(moment: str | datetime, span: tuple[datetime, datetime]) -> bool:
    """Whether a moment, told in whole seconds, lies in a span of the clock."""
    shown = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    first, last = (each.replace(microsecond=0) for each in span)
    return first <= shown <= last
