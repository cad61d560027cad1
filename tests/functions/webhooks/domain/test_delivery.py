"""Deliveries to webhooks: in order, at least once, without harm to anybody (HOOK-7 to HOOK-12)."""

import json
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, TypeVar

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from functions.transparency_log import sealing
from functions.webhooks import deliveries as delivery_model
from functions.webhooks import delivery, dispatch
from functions.webhooks import delivery as messages
from functions.webhooks import operations as managing
from functions.webhooks import progress as webhook_progress
from functions.webhooks import records as model
from functions.webhooks.records import DisableReason, Webhook
from shared.errors import Unavailable
from shared.model.audit import audit_log
from shared.model.outbound import DeliveryOutcome, DeliveryResponse, EventMessage
from shared.operations.base import operation
from shared.operations.base.operation import RetryPacing
from shared.ports import Ports
from tests.infra.templates import ALARMS, of_kind
from tests.kit.faults import Crash, Script, meeting, raises, scripted
from tests.kit.log_lines import lines, metrics
from tests.kit.receivers import HOST, answer, receiving
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock

R = TypeVar("R")

URL = f"https://{HOST}/hooks"
OK = DeliveryResponse(DeliveryOutcome.RESPONSE, 5, status=204)
DOWN = DeliveryResponse(DeliveryOutcome.NO_RESPONSE, 5)


def refuses(status: int, **fields: Any) -> DeliveryResponse:
    return DeliveryResponse(DeliveryOutcome.RESPONSE, 5, status=status, **fields)


def always(received: DeliveryResponse) -> Callable[[EventMessage], DeliveryResponse]:
    return lambda _: received


@dataclass
class Recorder:
    """A sender that notes what it is given, and answers as it is told."""

    answers: Callable[[EventMessage], DeliveryResponse] = lambda _: OK
    sent: list[EventMessage] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    def send(self, url: str, messages: Sequence[EventMessage]) -> list[DeliveryResponse]:
        assert url == URL
        self.sent += messages
        self.batches.append(len(messages))
        return [self.answers(each) for each in messages]

    @property
    def indexes(self) -> list[int]:
        return [json.loads(each.body)["data"]["index"] for each in self.sent]


@dataclass
class World:
    """A tenant with a webhook, and who delivers to it."""

    ports: Ports
    clock: Clock
    tenant: Tenant
    webhook_id: str
    secret: str
    recorder: Recorder

    def change(self, count: int = 1) -> None:
        """Make changes of the tenant, and seal them."""
        for _ in range(count):
            self.tenant.revoke(self.ports, self.ports.new_id("wrt"))
        sealing.extend(self.ports, self.tenant.id)

    def deliver(self, ports: Ports | None = None, *, to: Any = None) -> bool:
        to = to or self.recorder
        return delivery.deliver(ports or self.ports, to, self.tenant.id, self.webhook_id)

    def manage(self, act: Callable[..., R], **fields: Any) -> R:
        """Let the operator do this with the webhook."""
        return act(self.ports, self.tenant.operator, webhook_id=self.webhook_id, **fields)

    def wait(self) -> None:
        """Until the webhook is tried again, if it waits."""
        self.clock.moment = self.webhook.next_attempt_at or self.clock.moment

    @property
    def webhook(self) -> Webhook:
        return self.manage(managing.get)

    @property
    def deliveries(self) -> dict[int, tuple[str, int]]:
        """State and attempts, by index."""
        found, _ = self.manage(managing.page_of_deliveries, before=None, limit=100)
        return {each.index: (each.state.value, each.attempts) for each in found}


def webhook_of(ports: Ports, tenant: Tenant, *events: str) -> managing.WebhookAndSecret:
    types = events or ("revocation.create",)
    operator = tenant.operator
    return managing.create(ports, operator, url=URL, events=types, description=None)


@pytest.fixture
def world(ports: Ports, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(
        operation, "PACING", RetryPacing(pause=0, in_flight=0, sleep=lambda _: None)
    )
    tenant = Tenant.create(ports)
    sealing.extend(ports, tenant.id)
    made = webhook_of(ports, tenant)
    sealing.extend(ports, tenant.id)
    return World(ports, clock, tenant, made.webhook.id, made.secret, Recorder())


def test_a_message_verifies(world: World) -> None:
    """HOOK-7, F390a: The library of Standard Webhooks verifies a message by either secret."""
    # Its verifier takes the time of the machine.
    world.clock.moment = datetime.now(UTC)
    rotated = world.manage(managing.rotate_secret, grace_seconds=60)
    world.change()
    assert not world.deliver()
    (message,) = world.recorder.sent
    bodies = [
        Verifier(secret).verify(message.body, message.headers)
        for secret in (world.secret, rotated.secret)
    ]
    assert bodies[0] == bodies[1]
    body = bodies[0]
    assert len(message.headers["webhook-signature"].split(" ")) == 2
    (entry,) = sealed(world, "revocation.create")
    assert (message.id, body["data"]["id"]) == (entry["id"], entry["id"])
    assert body == {
        "type": "revocation.create",
        "timestamp": entry["timestamp"],
        "data": {
            "index": world.webhook.next_index - 1,
            "id": entry["id"],
            "resource_id": entry["resource_id"],
            "actor": "system+operator@acme.svc",
            "actor_name": None,
            "actor_id": None,
            # No reason, which may be about people, and no address.
            "details": {"warrant_id": entry["details"]["warrant_id"]},
        },
    }


def sealed(world: World, action: str) -> list[Any]:
    partitions = audit_log.month(world.tenant.id, world.ports.now())
    rows = [row.item for each in partitions for row in world.ports.store.query(each)]
    return [each for each in rows if each["action"] == action]


def test_each_event_once_in_order(world: World) -> None:
    """HOOK-8, F390b: Events are sent once each, in order, without those of before the webhook."""
    first = world.webhook.next_index
    world.change(20)
    assert not world.deliver()
    world.change(3)
    assert not world.deliver()
    assert not world.deliver()
    indexes = world.recorder.indexes
    assert indexes == sorted(indexes)
    assert (len(indexes), min(indexes) >= first) == (23, True)
    assert {each for each, _ in world.deliveries.values()} == {"delivered"}
    assert max(world.recorder.batches) == delivery.IN_FLIGHT
    assert world.webhook.leased_by is None
    assert not list(world.ports.store.query(model.TURNS))


def test_only_what_was_asked_for(world: World) -> None:
    """HOOK-2, HOOK-11: A webhook gets the types that it asked for, and its own tests alone."""
    other = webhook_of(world.ports, world.tenant, "key.create").webhook
    managing.test(world.ports, world.tenant.operator, webhook_id=other.id)
    world.tenant.key(world.ports)
    world.change()
    assert not world.deliver()
    assert [json.loads(each.body)["type"] for each in world.recorder.sent] == ["revocation.create"]
    world.recorder.sent.clear()
    world.webhook_id = other.id
    assert not world.deliver()
    types = [json.loads(each.body)["type"] for each in world.recorder.sent]
    assert types == ["rescind.test", "key.create"]


def test_all_arrives_after_a_days_outage(world: World) -> None:
    """HOOK-9, HOOK-10, F391a: After an outage of nearly a day all events arrive, in order."""
    world.recorder.answers = lambda _: refuses(500)
    world.change(10)
    started, pauses = world.ports.now(), []
    while world.ports.now() - started < timedelta(hours=20):
        assert not world.deliver()
        # One of them is tried, after the first time.
        next_attempt_at = world.webhook.next_attempt_at
        assert next_attempt_at is not None
        pauses.append((next_attempt_at - world.ports.now()).total_seconds())
        (turn,) = world.ports.store.query(model.TURNS)
        assert dispatch.due(world.ports) == []
        assert turn.item["webhook_id"] == world.webhook_id
        world.clock.moment = next_attempt_at
        assert dispatch.due(world.ports) == [f"{world.tenant.id}#{world.webhook_id}"]
    assert world.recorder.batches[1:] == [1] * (len(pauses) - 1)
    assert all(
        0.79 * steady - 1 <= pause <= 1.21 * steady
        for pause, steady in zip(pauses, [5, 30, 120, 600, 1800, 3600, 7200], strict=False)
    )
    world.recorder.sent.clear()
    world.recorder.answers = lambda _: OK
    assert not world.deliver()
    assert len(world.recorder.indexes) == 10
    assert world.recorder.indexes == sorted(world.recorder.indexes)
    assert world.webhook.failing_since is None
    assert {each for each, _ in world.deliveries.values()} == {"delivered"}


def test_a_webhook_that_fails_for_a_day_is_disabled(world: World) -> None:
    """HOOK-9, F391b: A webhook that accepts nothing for a day is disabled, which is audited."""
    world.recorder.answers = lambda _: DOWN
    world.change()
    began = ended = world.clock.moment
    while world.webhook.is_enabled:
        ended = world.clock.moment
        assert not world.deliver()
        world.wait()
    # The first attempt after a day; the longest pause before it is three hours and a fifth.
    assert timedelta(days=1) <= ended - began <= timedelta(days=1, hours=3, minutes=36)
    assert world.webhook.disabled_reason is DisableReason.FAILING
    (entry,) = sealed(world, "webhook.disable")
    assert entry["details"] == {"host": HOST, "cause": "failing"}
    assert entry["actor"] == "system+webhooks@acme.svc"
    assert not list(world.ports.store.query(model.TURNS))
    assert dispatch.of_tenant(world.ports, world.tenant.id) == []
    # Enabled, it is sent what it was not.
    world.recorder = Recorder()
    world.manage(managing.enable)
    assert not world.deliver()
    assert len(world.recorder.sent) == 1


def _figures(caplog: pytest.LogCaptureFixture) -> dict[str, float]:
    """The metrics that were logged since the last call, those of deliveries by outcome."""
    found: dict[str, float] = defaultdict(float)
    for line in lines(caplog):
        for name, (value, _) in metrics(line).items():
            found[str(line["Outcome"]) if name == "WebhookDeliveries" else name] += value
    caplog.clear()
    return found


def test_deliveries_are_counted(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """F521a: Each attempt to send an event is counted by what follows from it."""
    caplog.set_level(logging.INFO)
    for status, outcome in ((204, "accepted"), (400, "deferred"), (503, "retry"), (410, "gone")):
        world.recorder.answers = always(refuses(status))
        world.change(2)
        world.deliver()
        sent = len(world.recorder.sent)
        world.recorder.sent.clear()
        assert _figures(caplog)[outcome] == sent > 0
        world.wait()


def test_a_webhook_that_fails_fires_alarms(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """F522a: An alarm fires within an hour if a webhook accepts nothing, until it is disabled.

    Attempts become rare, but each finds the alarm on. A failure of some minutes fires none.
    """
    caplog.set_level(logging.INFO)
    alarm = of_kind("AWS::CloudWatch::Alarm", ALARMS)["WebhookFailing"]
    assert (alarm["MetricName"], alarm["Statistic"]) == ("WebhookFailingSeconds", "Maximum")
    assert alarm["DatapointsToAlarm"] == 1
    # A value at the end of a period counts for one period less.
    counts_for = timedelta(seconds=alarm["Period"] * (alarm["EvaluationPeriods"] - 1))
    world.recorder.answers = lambda _: DOWN
    world.change()
    fired: list[timedelta] = []
    began = world.clock()
    while world.webhook.is_enabled:
        world.deliver()
        found, after = _figures(caplog), world.clock() - began
        if found["WebhookFailingSeconds"] >= alarm["Threshold"]:
            fired.append(after)
        world.wait()
    assert timedelta(minutes=15) < fired[0] < timedelta(hours=1)
    assert max(later - earlier for earlier, later in pairwise(fired)) < counts_for


@pytest.mark.parametrize(
    ("received", "cause"), [(DOWN, DisableReason.FAILING), (refuses(410), DisableReason.GONE)]
)
def test_a_webhook_that_is_disabled_fires_an_alarm(
    world: World, caplog: pytest.LogCaptureFixture, received: DeliveryResponse, cause: DisableReason
) -> None:
    """F522b: An alarm fires once if the answers of a webhook disable it, not if a user does."""
    caplog.set_level(logging.INFO)
    alarm = of_kind("AWS::CloudWatch::Alarm", ALARMS)["WebhookDisabled"]
    world.recorder.answers = always(received)
    world.manage(managing.disable)
    world.manage(managing.enable)
    world.change()
    fired = 0.0
    while world.webhook.is_enabled:
        world.deliver()
        fired += _figures(caplog)[alarm["MetricName"]]
        world.wait()
    world.deliver()
    assert world.webhook.disabled_reason is cause
    assert (fired, alarm["Threshold"], alarm["Statistic"]) == (1, 1, "Sum")
    assert not _figures(caplog)[alarm["MetricName"]]


def test_gone_is_disabled_at_once(world: World) -> None:
    """F391c: A receiver that answers 410 gets no second message, and its event is not lost."""
    world.recorder.answers = lambda _: refuses(410)
    world.change(3)
    first = world.webhook.next_index
    assert not world.deliver()
    assert not world.deliver()
    assert world.recorder.batches == [3]
    assert world.webhook.disabled_reason is DisableReason.GONE
    world.manage(managing.enable)
    world.recorder = Recorder()
    assert not world.deliver()
    assert len(world.recorder.indexes) == 3
    assert min(world.recorder.indexes) >= first


@pytest.mark.slow
def test_one_event_that_is_refused(world: World) -> None:
    """HOOK-9, F392a: An event that alone is refused is retried for a day; others go on."""
    world.change(3)
    refused: list[str] = []

    def picky(message: EventMessage) -> DeliveryResponse:
        refused[:] = refused or [message.id]
        return refuses(400, body="what?") if message.id == refused[0] else OK

    world.recorder.answers = picky
    assert not world.deliver()
    (index,) = map(int, world.webhook.deferred)
    assert world.deliveries[index] == ("retrying", 1)
    world.change(2)
    assert not world.deliver()
    assert len(set(world.recorder.indexes)) == 5
    started = world.ports.now()
    while world.webhook.deferred:
        world.clock.advance(minutes=30)
        assert not world.deliver()
        # Others are still accepted.
        world.change()
    assert timedelta(days=1) <= world.ports.now() - started < timedelta(hours=28)
    state, attempts = world.deliveries[index]
    assert (state, attempts >= 10) == ("failed", True)
    assert world.webhook.is_enabled
    assert world.recorder.indexes.count(index) == attempts


@pytest.mark.slow_on("later1")
@pytest.mark.parametrize("later", [DOWN, refuses(500)])
def test_events_that_are_refused_and_then_not_answered(
    world: World, later: DeliveryResponse
) -> None:
    """F504a, HOOK-9: Dead events without a response hold no others back."""
    world.recorder.answers = lambda _: refuses(400)
    world.change(3)
    assert not world.deliver()
    deferred = {int(each) for each in world.webhook.deferred}
    assert len(deferred) == 3
    world.recorder.answers = lambda message: (
        later if json.loads(message.body)["data"]["index"] in deferred else OK
    )
    for _ in range(28 * 2):
        world.change()
        world.clock.advance(minutes=29)
        assert not world.deliver()
        world.clock.advance(minutes=1)
        assert not world.deliver()
        assert world.webhook.is_enabled
        assert world.webhook.next_index - 1 == max(world.recorder.indexes)
    assert world.webhook.deferred == {}
    assert {world.deliveries[each][0] for each in deferred} == {"failed"}


def test_too_many_that_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """F392b: If too many events are deferred, the webhook waits for them, and loses none."""
    monkeypatch.setattr(webhook_progress, "DEFERRED_MAX", 8)
    world.recorder.answers = lambda _: refuses(404)
    world.change(20)
    assert not world.deliver()
    assert (len(world.recorder.sent), len(world.webhook.deferred)) == (8, 8)
    world.recorder.answers = lambda _: OK
    world.clock.advance(seconds=10)
    assert not world.deliver()
    assert len(set(world.recorder.indexes)) == 20
    assert world.webhook.deferred == {}


def test_retry_after_is_followed(world: World) -> None:
    """F392c: A webhook that asks for a pause of an hour is left alone for an hour."""
    world.recorder.answers = lambda _: refuses(429, retry_after=10**9)
    world.change()
    assert not world.deliver()
    assert world.webhook.next_attempt_at == world.ports.now() + timedelta(hours=1)
    world.clock.advance(minutes=59)
    assert not world.deliver()
    assert len(world.recorder.sent) == 1
    # A test, or a change, tries it at once.
    world.manage(managing.test)
    assert not world.deliver()
    assert len(world.recorder.sent) == 2


@pytest.mark.parametrize("error", [Unavailable("down"), Crash()], ids=["fault", "crash"])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_worker_that_ends_anywhere(world: World, error: BaseException, late: bool) -> None:
    """HOOK-8, F393a: If any call of a worker fails, each event arrives, by one identifier."""
    for number in range(60):
        world.change(3)
        world.recorder.sent.clear()
        hooks: Any = {number: raises(error)}
        script = Script(after=hooks) if late else Script(before=hooks)
        try:
            world.deliver(scripted(world.ports, script))
        except (Unavailable, Crash):
            # The next worker waits for the end of the lease; the turn says when.
            world.clock.advance(seconds=91)
        if dispatch.due(world.ports):
            assert not world.deliver()
        # As the sealer does, when a further entry is sealed.
        assert not world.deliver()
        assert len(set(world.recorder.indexes)) == 3
        assert len({each.id for each in world.recorder.sent}) == 3
        if len(script.calls) <= number:
            break
    assert 10 < number < 59


def test_one_worker_at_a_time(world: World) -> None:
    """F393b: While a worker has a webhook, another one sends nothing."""
    world.change(3)

    def meanwhile(_message: EventMessage) -> DeliveryResponse:
        other = Recorder()
        assert not world.deliver(to=other)
        assert other.sent == []
        return OK

    world.recorder.answers = meanwhile
    assert not world.deliver()
    assert len(world.recorder.sent) == 3


def test_a_worker_whose_lease_has_ended_writes_nothing(world: World) -> None:
    """F603b: The outcome of a batch is not written if another worker has taken the webhook."""
    world.change()

    def overtake(_message: EventMessage) -> DeliveryResponse:
        world.clock.advance(seconds=91)
        world.deliver(to=Recorder())
        return DOWN

    world.recorder.answers = overtake
    assert not world.deliver()
    assert list(world.deliveries.values()) == [("delivered", 1)]
    assert world.webhook.failing_since is None


def test_what_is_sealed_meanwhile(world: World) -> None:
    """F393c: An event that is sealed while the last batch is written is sent by the same worker."""
    world.change()
    calls = Script()
    world.deliver(scripted(world.ports, calls))
    last = max(n for n, call in enumerate(calls.calls) if call == "write")
    world.recorder.sent.clear()
    world.change()
    world.deliver(meeting(world.ports, last, world.change))
    assert len(set(world.recorder.indexes)) == 2


def test_a_change_of_the_webhook_meanwhile(world: World) -> None:
    """F393d: A webhook that is disabled, replayed or deleted while it is sent to stays so."""

    def deliver(act: Callable[..., object], **fields: Any) -> None:
        def run(_message: EventMessage) -> DeliveryResponse:
            if len(world.recorder.sent) == 1:
                world.manage(act, **fields)
            return OK

        world.change()
        world.recorder = Recorder(run)
        assert not world.deliver()

    first = world.webhook.next_index
    deliver(managing.disable)
    assert not world.webhook.is_enabled
    assert world.webhook.next_index > first
    world.manage(managing.enable)
    deliver(managing.replay, from_index=first)
    assert len(world.recorder.sent) == 3
    deliver(managing.delete)
    assert not list(world.ports.store.query(model.TURNS))
    assert not world.deliver()


def test_a_replay_sends_the_past(world: World) -> None:
    """HOOK-10, F394a: A replay sends events again by their identifiers, also those of before."""
    world.change(2)
    assert not world.deliver()
    before = [each.id for each in world.recorder.sent]
    world.manage(managing.update, events=("*",))
    world.manage(managing.replay, from_index=0)
    world.recorder.sent.clear()
    assert not world.deliver()
    assert {*before} < {each.id for each in world.recorder.sent}
    assert world.recorder.indexes[0] == 0
    types = {json.loads(each.body)["type"] for each in world.recorder.sent}
    assert "tenant.create" in types


def test_a_log_that_was_restored(world: World) -> None:
    """F394b: In a new generation of the log, a webhook is sent the changes of a day again."""
    world.change(2)
    assert not world.deliver()
    stored = world.webhook
    moved = stored.in_generation(2)
    assert (moved.next_index, moved.generation, moved.deferred) == (0, 2, {})
    assert moved.begins_at == stored.begins_at
    later = replace(stored, passed_at=world.ports.now() + timedelta(days=9))
    assert later.in_generation(2).begins_at == world.ports.now() + timedelta(days=8)
    assert stored.in_generation(1) is stored


def test_entries_that_have_expired(world: World) -> None:
    """F394c: Events whose entries have expired are left out, also deferred ones."""
    world.recorder.answers = lambda _: refuses(400)
    world.change(2)
    assert not world.deliver()
    assert len(world.webhook.deferred) == 2
    world.clock.advance(days=401)
    world.recorder = Recorder()
    assert not world.deliver()
    assert world.recorder.sent == []
    assert world.webhook.deferred == {}


def test_a_long_event_is_cut(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOOK-7: An event that would be longer than 20 KiB has no details."""
    world.change()
    monkeypatch.setattr(messages, "MESSAGE_MAX", 100)
    assert not world.deliver()
    (message,) = world.recorder.sent
    assert json.loads(message.body)["data"]["details"] is None
    assert delivery_model.MESSAGE_MAX == 20 * 1024


def test_a_slice_of_time(world: World) -> None:
    """HOOK-12, F394d: A worker leaves the rest after a while, with a turn for the next one."""
    world.change(30)
    more = delivery.deliver(
        world.ports, world.recorder, world.tenant.id, world.webhook_id, seconds=0
    )
    assert more
    assert world.recorder.sent == []
    assert dispatch.due(world.ports) == [f"{world.tenant.id}#{world.webhook_id}"]
    assert dispatch.parts(dispatch.due(world.ports)[0]) == (world.tenant.id, world.webhook_id)
    assert not world.deliver()
    assert len(world.recorder.sent) == 30


def test_the_same_message_after_a_reset(world: World) -> None:
    """F395a: A receiver that takes a message and resets gets it again, by the same identifier."""
    taken: list[str] = []
    lock = threading.Lock()

    def reset_once(request: Any, connection: Any) -> None:
        with lock:
            taken.append(request.headers["webhook-id"])
        if len(taken) > 1:
            answer(200)(request, connection)

    world.change()
    with receiving(reset_once) as receiver:
        sender = receiver.sender()
        for _ in range(2):
            world.deliver(to=sender)
            world.clock.advance(seconds=10)
    assert len(taken) == 2
    assert len(set(taken)) == 1
    assert [*world.deliveries.values()] == [("delivered", 2)]
