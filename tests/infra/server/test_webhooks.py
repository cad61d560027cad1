"""Webhooks on one machine: threads that send to receivers that fail in each way (HOOK-12)."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from functions.transparency_log import sealing
from functions.webhooks import dispatch
from functions.webhooks import operations as managing
from infra.server.sealing import Sealing
from infra.server.webhooks import WebhookDispatcher
from shared import wiring
from shared.errors import Unavailable
from shared.model.outbound import DeliveryOutcome, DeliveryResponse, EventMessage
from shared.ports import Ports
from shared.ports.outside import Sender
from tests.kit.receivers import HOST, Received, answer, receiving
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon
from tests.kit.worlds import embedded

URL = f"https://{HOST}/"


class Told:
    """A sender that counts by host, and answers after what is held for a host has ended."""

    def __init__(self, held: dict[str, threading.Event] | None = None) -> None:
        self.held = held or {}
        self.sent: list[str] = []

    def send(self, url: str, messages: Sequence[EventMessage]) -> list[DeliveryResponse]:
        if url in self.held:
            self.held[url].wait(120)
        self.sent += [url] * len(messages)
        return [DeliveryResponse(DeliveryOutcome.RESPONSE, 1, status=200) for _ in messages]


@pytest.fixture
def ports(tmp_path: Path) -> Ports:
    # With a clock that goes on by itself, as the leases of threads need one.
    return embedded(tmp_path, wiring.now)


def webhook(ports: Ports, tenant: Tenant, url: str = URL) -> str:
    events = ("revocation.create",)
    made = managing.create(ports, tenant.operator, url=url, events=events, description=None)
    return made.webhook.id


@contextmanager
def running(ports: Ports, sender: Sender) -> Iterator[WebhookDispatcher]:
    thread = WebhookDispatcher(ports, sender)
    thread.start()
    try:
        yield thread
    finally:
        thread.stop()
        thread._thread.join(60)
        assert not thread.is_alive()


def test_what_is_sealed_is_sent(ports: Ports) -> None:
    """F396a: On one machine, what is sealed reaches a receiver over TLS at once."""
    tenant = Tenant.create(ports)
    webhook(ports, tenant)
    with receiving(answer(200)) as receiver, running(ports, receiver.sender()) as thread:
        sealed = Sealing(ports, thread.enqueue_tenant)
        tenant.revoke(ports, "svc_wrt_a")
        sealed._round()
        soon(lambda: len(receiver.requests) == 1)
        tenant.revoke(ports, "svc_wrt_b")
        sealed._round()
        soon(lambda: len(receiver.requests) == 2)
    assert {each.headers["host"] for each in receiver.requests} == {HOST}


def test_a_slow_receiver_delays_nobody_else(ports: Ports) -> None:
    """HOOK-12, F397a: Ten receivers of a tenant that hang do not delay another tenant's events."""
    slow, other = Tenant.create(ports), Tenant.create(ports, "globex")
    hang = threading.Event()
    urls = [f"https://slow{number}.example.com/" for number in range(10)]
    for url in urls:
        webhook(ports, slow, url)
    webhook(ports, other)
    sender = Told(dict.fromkeys(urls, hang))
    for tenant in (slow, other):
        tenant.revoke(ports, "svc_wrt_a")
        sealing.extend(ports, tenant.id)
    with running(ports, sender) as thread:
        try:
            soon(lambda: sender.sent == [URL])
            soon(lambda: len(thread._running) == 5)
            other.revoke(ports, "svc_wrt_b")
            sealing.extend(ports, other.id)
            thread.enqueue_tenant(other.id)
            soon(lambda: sender.sent == [URL, URL])
        finally:
            hang.set()
        # The other five had their turn.
        soon(lambda: len(sender.sent) == 12)


@pytest.mark.slow
def test_a_failure_is_tried_again(
    ports: Ports, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F396b: If the store fails, what could not be sent is sent when it is back."""
    tenant = Tenant.create(ports)
    webhook(ports, tenant)
    tenant.revoke(ports, "svc_wrt_a")
    sealing.extend(ports, tenant.id)
    calls: list[str] = []

    def down(*_: object) -> list[str]:
        calls.append("")
        raise Unavailable("down")

    sender = Told()
    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "of_tenant", down)
        with running(ports, sender):
            soon(lambda: len(calls) >= 2)
            patch.undo()
            soon(lambda: sender.sent == [URL])
    assert caplog.text.count("failed; retrying") == 1


def test_a_stop_ends_a_slow_delivery_after_its_batch(ports: Ports) -> None:
    """F397b: A stop completes what is on its way, and begins nothing more."""
    tenant = Tenant.create(ports)
    webhook(ports, tenant)
    for number in range(20):
        tenant.revoke(ports, f"svc_wrt_{number}")
    sealing.extend(ports, tenant.id)

    may_answer = threading.Event()

    def slow(_request: Received, connection: socket.socket) -> None:
        may_answer.wait(60)
        answer(200)(_request, connection)

    with receiving(slow) as receiver:
        with running(ports, receiver.sender()) as thread:
            soon(lambda: len(receiver.requests) > 0)
            thread.stop()
            may_answer.set()
        assert len(receiver.requests) <= 8
        with running(ports, receiver.sender()):
            soon(lambda: len({each.headers["webhook-id"] for each in receiver.requests}) == 20)
