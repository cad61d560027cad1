"""The thread of the local server that publishes the feed when a mark is set."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from infra import data_folder
from infra.server import waits
from infra.server.feed import FeedPublisher
from shared.adapters.postgresql.database import PostgresqlDatabase
from shared.adapters.postgresql.store import PostgresqlStore
from shared.errors import Unavailable
from shared.model.tenants import settings_address
from shared.operations.lists import publication
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.infra.folders import opened
from tests.kit.intercepted import Call, Intercepted
from tests.kit.postgresql import borrowed
from tests.kit.tenants import Tenant, break_off, item_at
from tests.kit.waiting import soon
from tests.kit.worlds import embedded


def _now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def running(
    ports: Ports, publish_list: Callable[[str], object] = lambda _: None
) -> Iterator[FeedPublisher]:
    """The server's own thread at work; it has ended at the end."""
    thread = FeedPublisher(ports, publish_list)
    thread.start()
    try:
        yield thread
    finally:
        thread.stop()
        thread.join()


def test_a_change_is_in_the_feed_at_once(tmp_path: Path) -> None:
    """F224a: On one machine a change is in the feed in a moment, without the schedule."""
    ports = embedded(tmp_path, _now)
    tenant = Tenant.create(ports)
    with running(ports):
        for number in (1, 2):
            tenant.revoke(ports, f"svc_wrt_{number}")
            soon(lambda number=number: tenant.feed_sequence(ports) == number)  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize("is_heard", [True, False])
def test_a_mark_wakes_the_feed(tmp_path: Path, is_heard: bool) -> None:
    """F557d: The commit of a change wakes the feed; if that is lost, a slow look finds it."""
    data_folder.prepare(tmp_path)
    with opened(tmp_path) as ports, opened(tmp_path) as others:
        tenant = Tenant.create(others)
        with running(replace(ports, look_seconds=3600 if is_heard else 0.05)):
            for number in (1, 2):
                if not is_heard:
                    shutil.rmtree(tmp_path / "svc.db-news", ignore_errors=True)
                tenant.revoke(others, f"svc_wrt_{number}")
                soon(lambda number=number: tenant.feed_sequence(ports) == number)  # type: ignore[misc]


@pytest.mark.parametrize("is_heard", [True, False])
def test_a_mark_of_another_server_wakes_the_feed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_heard: bool
) -> None:
    """F931c: On PostgreSQL a commit wakes the feed; if none can be heard, quick looks find it."""
    with (
        borrowed() as url,
        closing(PostgresqlDatabase(url)) as database,
        closing(PostgresqlDatabase(url)) as other,
    ):
        if not is_heard:
            monkeypatch.setattr(database, "listening", lambda _: None)
        ports, others = (
            replace(embedded(tmp_path, _now), store=PostgresqlStore(each), look_seconds=3600)
            for each in (database, other)
        )
        # The first look finds the first change, the one after the connection the second.
        tenants = [Tenant.create(others, handle) for handle in ("acme", "globex", "initech")]
        with running(ports):
            for tenant in tenants:
                tenant.revoke(others, "svc_wrt_a")
                soon(lambda tenant=tenant: tenant.feed_sequence(ports) == 1)  # type: ignore[misc]


def test_a_mark_that_waits_for_the_schedule_costs_nothing(tmp_path: Path) -> None:
    """F224b, F930: A mark is processed once; then a round reads the marks alone, in one call."""
    ports = embedded(tmp_path, _now)
    tenant = Tenant.create(ports)
    tenant.revoke(ports, "svc_wrt_a")
    calls: list[str] = []

    def count(call: Call) -> Any:
        calls.append(call.verb)
        return call()

    thread = FeedPublisher(replace(ports, store=Intercepted(ports.store, count)), print)
    thread._round()
    assert tenant.feed_sequence(ports) == 1
    calls.clear()
    thread._round()
    assert calls == ["query_many"]
    publication.publish_due(ports)
    thread._round()
    calls.clear()
    thread._round()
    assert calls == ["query_many"]


def test_a_fault_is_logged_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F224c, F224d: A fault of one tenant is logged once, retried, and stops no other tenant.

    The thread also survives a store that fails as a whole.
    """
    monkeypatch.setattr(waits, "_RETRY_SECONDS", 0.02)
    ports = embedded(tmp_path, _now)
    broken, other = (Tenant.create(ports, handle) for handle in ("acme", "globex"))
    address = settings_address(broken.id)
    item = item_at(ports, address)
    for tenant in (broken, other):
        tenant.revoke(ports, "svc_wrt_a")
    ports.store.write(Delete(address, Expect.PRESENT))
    answers, failed, tried = threading.Event(), list[str](), list[str]()

    def run(call: Call) -> Any:
        if not answers.is_set() and call.verb != "listen":
            failed.append(call.verb)
            raise Unavailable
        tried.extend([call.verb] * (str(address) in str(call.arguments)))
        return call()

    with running(replace(ports, store=Intercepted(ports.store, run))):
        soon(lambda: len(failed) > 3)
        assert len([each for each in caplog.messages if each.startswith("the feed")]) == 1
        answers.set()
        soon(lambda: other.feed_sequence(ports) == 1)
        soon(lambda: len(tried) > 3)
        assert _levels(caplog, broken) == ["ERROR"]
        ports.store.write(Put(address, item, Expect.ABSENT))
        soon(lambda: broken.feed_sequence(ports) == 1)
    assert _levels(caplog, broken) == ["ERROR", "WARNING"]


def _levels(caplog: pytest.LogCaptureFixture, tenant: Tenant) -> list[str]:
    return [each.levelname for each in caplog.records if tenant.id in each.getMessage()]


def test_a_list_that_cannot_wait_is_asked_for(tmp_path: Path) -> None:
    """F222: after a break, the thread has the tenant's list published."""
    ports = embedded(tmp_path, _now)
    tenant = Tenant.create(ports)
    break_off(ports, tenant.id)
    tenant.revoke(ports, "svc_wrt_a")
    asked: list[str] = []
    FeedPublisher(ports, asked.append)._round()
    assert asked == [tenant.id]
