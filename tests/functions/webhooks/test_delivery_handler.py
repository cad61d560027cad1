"""Webhooks on AWS: what the queue, the stream and the schedule each lead to."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import pytest

from functions.transparency_log import head, sealing
from functions.webhooks import delivery, dispatch
from functions.webhooks import operations as managing
from functions.webhooks.records import DispatchMarker
from functions.webhooks.webhook_delivery_handler import handler
from shared import wiring
from shared.errors import Unavailable
from shared.model.items import Address
from shared.model.outbound import DeliveryOutcome, DeliveryResponse, EventMessage
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.lambda_events import load, queued, streamed
from tests.kit.tenants import Tenant

URL = "https://hooks.example.com/"


class Queue:
    """A queue that keeps what it was sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def send(self, messages: Sequence[str]) -> None:
        self.sent += messages


class Sender:
    """A sender that counts messages, all of which are accepted."""

    sent = 0

    def send(self, _url: str, messages: Sequence[EventMessage]) -> list[DeliveryResponse]:
        self.sent += len(messages)
        return [DeliveryResponse(DeliveryOutcome.RESPONSE, 1, status=200) for _ in messages]


@pytest.fixture
def ports(from_environment: Ports) -> Ports:
    return from_environment


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    made = Queue()
    monkeypatch.setattr(wiring, "queue_from_environment", lambda: made)
    return made


@pytest.fixture
def sender(monkeypatch: pytest.MonkeyPatch) -> Sender:
    made = Sender()
    monkeypatch.setattr(wiring, "sender_from_environment", lambda: made)
    return made


def subscribed(ports: Ports, handle: str = "acme") -> tuple[Tenant, str]:
    """A tenant with a webhook that is not sent yet what was sealed, and the webhook's name."""
    tenant = Tenant.create(ports, handle)
    made = managing.create(ports, tenant.operator, url=URL, events=("*",), description=None)
    sealing.extend(ports, tenant.id)
    return tenant, f"{tenant.id}#{made.webhook.id}"


def from_stream(*addresses: Address) -> dict[str, int]:
    event = streamed(*addresses)
    for each in event["Records"]:
        each["eventSource"] = "aws:dynamodb"
    return handler(event, None)


def test_a_sealed_log_that_grew(ports: Ports, queue: Queue) -> None:
    """F398a: On AWS, each enabled webhook of a tenant is queued when its sealed log has grown."""
    (tenant, name), (other, _) = subscribed(ports), subscribed(ports, "globex")
    (found,) = managing.page(ports, other.operator, before=None, limit=9).entries
    managing.disable(ports, other.operator, webhook_id=found.id)
    heads = [head.address(each.id) for each in (tenant, tenant, other)]
    assert from_stream(*heads) == {"queued": 1}
    assert queue.sent == [name]
    # What else is in the table is no head.
    assert from_stream(Address(heads[0].table, f"{tenant.id}#2026-11", "head")) == {"queued": 0}


def test_a_message(ports: Ports, queue: Queue, sender: Sender) -> None:
    """F398b: A message has one webhook sent what is due; a message too many sends nothing."""
    _, name = subscribed(ports)
    assert handler(queued(name), None) == {"queued": 0}
    assert sender.sent > 0
    sent = sender.sent
    assert handler(queued(name, name), None) == {"queued": 0}
    assert sender.sent == sent
    assert queue.sent == []


def test_more_than_fits_into_a_slice(
    ports: Ports, queue: Queue, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F398c: Work beyond a worker's time is queued again, behind all others."""
    _, name = subscribed(ports)
    in_no_time = partial(delivery.deliver, seconds=0)
    monkeypatch.setattr(delivery, "deliver", in_no_time)
    assert handler(queued(name), None) == {"queued": 1}
    assert (queue.sent, sender.sent) == ([name], 0)


def test_a_tick(ports: Ports, queue: Queue) -> None:
    """F398d: The schedule queues the webhooks whose turn has come, and no others."""
    now = ports.now()
    for webhook_id, minutes in (("svc_whk_a", -1), ("svc_whk_b", 1)):
        turn = DispatchMarker("svc_tnt_a", webhook_id, now + timedelta(minutes=minutes))
        ports.store.write(Put(turn.address, turn.to_item(), Expect.ABSENT))
    tick = load("schedule")
    assert handler(tick, None) == {"queued": 1}
    assert queue.sent == ["svc_tnt_a#svc_whk_a"]


def test_a_failure_comes_again(
    ports: Ports, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F398e: If the store does not answer, the function fails, so that its event comes again."""
    _, name = subscribed(ports)

    def down(*_args: object, **_options: object) -> None:
        raise Unavailable("down")

    monkeypatch.setattr(delivery, "deliver", down)
    with pytest.raises(Unavailable):
        handler(queued(name), None)
    monkeypatch.setattr(dispatch, "due", down)
    with pytest.raises(Unavailable):
        handler(load("schedule"), None)
    assert sender.sent == 0
