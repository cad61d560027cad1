"""A fleet of thousands of authorizers in simulated time, against the real operations.

Each authorizer has the client's own schedule, and sends the client's own bodies. What it polls and
reports is decided by the service's operations, on a store that counts the writes of each second.
"""

import gzip
import heapq
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final

from functions.authorizers import operations as authorizers
from functions.authorizers import registering
from functions.authorizers.bodies import Pace, RegisteredAuthorizer
from functions.authorizers.records import Heartbeat
from functions.authorizers.schemas import HeartbeatResponse, RegisterAuthorizer, ReportBody
from functions.feed.schemas import FeedAnswer
from shared.authorizer import PollPolicy, reports
from shared.authorizer.answers import parse_answer
from shared.authorizer.policy import BaseRequired
from shared.authorizer.reporter import IdentityKey
from shared.authorizer.reports import ReportSchedule
from shared.authorizer.state import FeedState, StaticVerifier, advance
from shared.authorizer.view import ClockReading, Snapshot
from shared.model.rate_limit import RESERVE, Bucket, microseconds
from shared.operations.changes import feed, revocations
from shared.operations.lists import in_force, publication, wake
from shared.ports import Ports
from shared.ports.store import Check
from tests.kit.api import Tenant, serve
from tests.kit.intercepted import Call, Intercepted
from tests.kit.worlds import Clock

_REGISTRY: Final = "authorizer"
_POLICY: Final = PollPolicy()
# One key signs for all, so that none has to be made.
_KEY: Final = IdentityKey.new()
# From the commit of a revocation to its entry, as on AWS at worst (docs/adr/11).
PUBLICATION_SECONDS: Final = 0.5
# How long a poll or a report may take on its way.
_WAY_SECONDS: Final = 0.2


@dataclass(slots=True)
class Member:
    """An authorizer of the fleet."""

    number: int
    schedule: ReportSchedule
    state: FeedState
    # When it looks whether to report; older plans in the queue do not count.
    looks_at: float = 0.0
    failures: int = 0


@dataclass
class Fleet:
    """Authorizers of one tenant, who start one after another within `starting` seconds.

    They share so many `relays`, or poll and report by themselves.
    """

    ports: Ports
    clock: Clock
    size: int
    starting: float
    relays: int = 0
    seed: int = 1
    writes: Counter[int] = field(default_factory=Counter)
    holding: list[float] = field(default_factory=list)
    refused_polls: int = 0
    now: float = 0.0

    def __post_init__(self) -> None:
        self._began: datetime = self.clock.moment
        self._random = random.Random(self.seed)
        self._full_at = self._published = 0
        self._longest = 0.0
        self._counting = replace(self.ports, store=Intercepted(self.ports.store, self._count))
        tenant = Tenant(self.ports, serve(self.ports), handle="fleet")
        self.tenant, self.caller = tenant, tenant.operator
        publication.publish_due(self.ports)
        signer = in_force.read_active_signer(self.ports, tenant.id)
        self._trusted = StaticVerifier(tenant.id, [signer.public_bytes])
        self._advanced: dict[tuple[int | None, bytes], FeedState] = {}
        self._queue: list[tuple[float, int, Member, Callable[[Member], None]]] = []
        self._numbers = count()
        first = self._polled(None)
        self._members = [self._member(number, first) for number in range(self.size)]

    def run(self, until: float) -> None:
        """Let time pass until so many seconds after the beginning."""
        while self._queue and self._queue[0][0] <= until:
            at, _, member, act = heapq.heappop(self._queue)
            self._set(at)
            act(member)
        self._set(until)

    def revoke(self, warrant_id: str) -> str:
        """Revoke a warrant, and publish the entry. Return the id of the revocation."""
        revocation, _ = revocations.create(
            self.ports, self.caller, warrant_id=warrant_id, reason="stolen"
        )
        self._set(self.now + PUBLICATION_SECONDS)
        assert wake.publish_feed(self.ports, self.tenant.id).entries == 1
        self._published = 1
        if self.relays:
            self._relay_news()
        return revocation.id

    def poll(self) -> None:
        """Let the authorizers poll from now on, unless relays do."""
        self._longest = _POLICY.pause(self.poll_seconds)
        for member in () if self.relays else self._members:
            at = self.now + self._random.uniform(0, self._longest)
            self._plan(at, member, self._poll)

    def busiest(self, since: float, until: float, *, seconds: int = 1) -> float:
        """The most writes of the registry per second, in any so many seconds of this time."""
        starts = range(int(since), int(until) - seconds + 1)
        return (
            max(sum(self.writes[at + each] for each in range(seconds)) for at in starts) / seconds
        )

    @property
    def poll_seconds(self) -> float:
        """The pause between polls for which the service asks."""
        document = self.tenant.authorizer.get("/v1/revocations/feed").json()
        return float(document["poll_seconds"])

    def _member(self, number: int, state: FeedState) -> Member:
        own = random.Random(f"{self.seed} {number}")
        member = Member(number, ReportSchedule(own.uniform), state)
        self._plan_report(member, self._random.uniform(0, self.starting))
        return member

    def _report(self, member: Member) -> None:
        """Do what the client's thread does when it wakes."""
        if self.now != member.looks_at:
            return
        due = member.schedule.due(member.state.sequence, self.now)
        if due <= self.now:
            self._send(member)
            due = member.schedule.due(member.state.sequence, self.now)
        self._plan_report(member, max(due, self.now))

    def _send(self, member: Member) -> None:
        schedule = member.schedule
        if schedule.id is None:
            name = f"gate-{member.number}"
            proof = _KEY.proof(self.caller.tenant_id, name, self.clock.moment)
            said = json.loads(reports.registration(name, "1.0.0", proof))
            # As the relay passes it on.
            said |= {"relay": self._relay(member)} if self.relays else {}
            read = RegisterAuthorizer.model_validate(said)
            made = registering.register(
                self._counting, self.caller, description=read.description(), proof=read.statement()
            )
            body = RegisteredAuthorizer.of(made).model_dump_json().encode()
            schedule.record_registration(reports.ReportResponse.parse(body, has="id"), self.now)
            return
        view = Snapshot.of(
            member.state, self._moment(), _POLICY.max_staleness, end=member.state.head.expires_at
        )
        number = int(self.clock.moment.timestamp() * 1000)
        by = reports.ReporterIdentity(self.caller.tenant_id, schedule.id, number)
        stated = reports.statement(view, _POLICY, {}, by)
        beat = ReportBody.model_validate(_KEY.sign_report(stated)).beat()
        answer = reports.ReportResponse.parse(self._taken(member, schedule.id, beat), has="status")
        assert answer.status == "ok"
        schedule.record_success(answer, member.state.sequence, self.now)
        if member.state.sequence:
            self.holding.append(self.now)

    def _taken(self, member: Member, authorizer_id: str, beat: Heartbeat) -> bytes:
        """Return the answer to a report, which a relay passes on in its own request."""
        ports, caller = self._counting, self.caller
        if not self.relays:
            taken = authorizers.heartbeat(ports, caller, authorizer_id=authorizer_id, beat=beat)
            return HeartbeatResponse.of(taken).model_dump_json().encode()
        beats = {authorizer_id: beat}
        passed = authorizers.report(ports, caller, relay=self._relay(member), beats=beats)
        (outcome,), pace = passed.outcomes, Pace.of(passed).model_dump()
        return json.dumps({"status": outcome.value, **pace}).encode()

    def _relay(self, member: Member) -> str:
        return f"relay-{member.number % self.relays}"

    def _poll(self, member: Member) -> None:
        """Poll as the client does, which backs off if the rate limit is exceeded."""
        if self._is_admitted():
            member.failures, pause = 0, self._longest * self._random.uniform(0.5, 1)
            if member.state.sequence < self._published:
                self._learn(member)
        else:
            member.failures += 1
            self.refused_polls += 1
            pause = max(min(2.0**member.failures, 5.0) * self._random.uniform(0.5, 1), 1.0)
        pause += self._random.uniform(0, 2 * _WAY_SECONDS)
        self._plan(self.now + pause, member, self._poll)

    def _is_admitted(self) -> bool:
        """Take a token of the tenant's bucket for polls, if there is one (AUTH-11)."""
        bucket = Bucket(self._full_at, microseconds(self.clock.moment))
        if not bucket.available_above(RESERVE):
            return False
        self._full_at = bucket.take(1).full_at
        return True

    def _relay_news(self) -> None:
        """Let each relay learn by its poll of this second; its authorizers wait for that."""
        polls = [self._random.uniform(0, 1) for _ in range(self.relays)]
        for member in self._members:
            wait = polls[member.number % self.relays] + self._random.uniform(0, 2 * _WAY_SECONDS)
            self._plan(self.now + wait, member, self._learn)

    def _learn(self, member: Member) -> None:
        member.state = self._polled(member.state)
        self._plan_report(member, self.now)

    def _polled(self, state: FeedState | None) -> FeedState:
        """Return the state after a poll. Clients that are told the same verify it once."""
        after = state.sequence if state else None
        news = feed.news(self.ports, self.caller, after_sequence=after)
        body = FeedAnswer.of(news, poll_seconds=1, max_wait_seconds=0).model_dump_json().encode()
        if (after, body) not in self._advanced:
            self._advanced[after, body] = self._verified(state, body)
        return self._advanced[after, body]

    def _verified(self, state: FeedState | None, body: bytes) -> FeedState:
        answer = parse_answer(body)
        try:
            return advance(state, answer, now=self.clock.moment, verifier=self._trusted)
        except BaseRequired as needs:
            found = feed.base(self.ports, self.caller, version=needs.base.version)
            base = gzip.decompress(feed.base_body(self.ports, self.caller, of=found))
            return advance(state, answer, base=base, now=self.clock.moment, verifier=self._trusted)

    def _moment(self) -> ClockReading:
        return ClockReading(self.now, self.clock.moment.timestamp())

    def _plan_report(self, member: Member, at: float) -> None:
        if self.relays:
            # The next time at which its relay passes reports on, once a second.
            place = member.number % self.relays / self.relays
            at = math.ceil(at - place) + place
        member.looks_at = at
        self._plan(at, member, self._report)

    def _plan(self, at: float, member: Member, act: Callable[[Member], None]) -> None:
        # The number of the plan decides between two of the same moment.
        heapq.heappush(self._queue, (at, next(self._numbers), member, act))

    def _set(self, now: float) -> None:
        self.now = now
        self.clock.moment = self._began + timedelta(seconds=now)

    def _count(self, call: Call) -> Any:
        if call.verb == "write":
            changed = [each for each in call.arguments if not isinstance(each, Check)]
            self.writes[int(self.now)] += sum(_REGISTRY in each.address.pk for each in changed)
        return call()
