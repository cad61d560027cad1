"""The blobs of the feed have a thread of their own, so that a blob store delays no change."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from functions.trust import publishing
from infra.server import journal as server_journal
from infra.server import waits
from infra.server.feed import FeedPublisher
from infra.server.waits import Waits
from shared.errors import DataCorrupt, Unavailable
from shared.model.lists import journal as model
from shared.model.tenants import SettingsChange
from shared.operations.access import tenant_settings
from shared.operations.lists import in_force, journal, marks
from shared.ports import Ports
from tests.kit.intercepted import Call, Intercepted
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon
from tests.kit.worlds import embedded


@dataclass
class BrokenBlobs:
    """A blob store that fails, or does not answer, until it is mended."""

    ports: Ports
    fails: Callable[[], object] | None = None
    mended: threading.Event = field(default_factory=threading.Event)
    calls: list[str] = field(default_factory=list)

    def run(self, call: Call) -> Any:
        self.calls.append(call.verb)
        if not self.mended.is_set():
            if self.fails is None:
                self.mended.wait()
            else:
                self.fails()
        return call()

    def broken(self) -> Ports:
        return replace(self.ports, blobs=Intercepted(self.ports.blobs, self.run))


def _fail() -> None:
    raise Unavailable


@pytest.fixture
def ports(tmp_path: Path) -> Ports:
    return replace(embedded(tmp_path, lambda: datetime.now(UTC)), look_seconds=0.02)


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of the feed and of its journal are short."""
    monkeypatch.setattr(waits, "_RETRY_SECONDS_MAX", 0.05)
    monkeypatch.setattr(server_journal, "_PAUSE_SECONDS", 0.05)


@contextmanager
def running(ports: Ports, broken: BrokenBlobs) -> Iterator[FeedPublisher]:
    """The feed's threads at work on broken blobs, which answer again at the end."""
    feed = FeedPublisher(ports, lambda _: None)
    feed.start()
    try:
        yield feed
    finally:
        broken.mended.set()
        feed.stop()
        feed.join()
    assert not feed.is_alive()


def _is_after(ports: Ports, tenant: Tenant, number: int) -> bool:
    return tenant.feed_sequence(ports) > number


def journaled(ports: Ports, tenant: Tenant) -> set[str]:
    """The warrants that the journal has."""
    found = [
        model.decode_unverified(ports.blobs.get(name) or b"", name)
        for _, name in journal.list_blobs(ports, tenant.id)
    ]
    return {id_ for each in found for entry, _ in model.entries_of(each) for id_ in entry.revoked}


@pytest.mark.slow
@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize("fails", [_fail, None], ids=["fails", "hangs"])
def test_blobs_that_are_away_delay_no_change(
    ports: Ports, fails: Callable[[], object] | None
) -> None:
    """F1680a: Blobs that fail or do not answer delay no change of any tenant in its feed.

    A revoked key is among them. When they answer again, the journal has all, without a new change.
    """
    acme, globex = (Tenant.create(ports, handle) for handle in ("acme", "globex"))
    key = acme.key(ports)
    publishing.keep(ports, acme.id)
    warrant = acme.sign(ports, key)
    broken = BrokenBlobs(ports, fails)
    with running(broken.broken(), broken) as feed:
        soon(lambda: broken.calls)
        acme.revoke_key(ports, key)
        soon(lambda: acme.feed_sequence(ports) >= 1)
        for number in range(3):
            before = acme.feed_sequence(ports)
            acme.revoke(ports, f"svc_wrt_{number}")
            soon(partial(_is_after, ports, acme, before))
        globex.revoke(ports, "svc_wrt_a")
        soon(lambda: globex.feed_sequence(ports) == 1)
        assert journaled(ports, acme) == set()
        # What the signer signed is stated once.
        stated = in_force.read_entries(ports, acme.id, after=0, until=acme.feed_sequence(ports))
        assert [warrant in each.decode()[0].revoked for each in stated].count(True) == 1
        assert marks.read_signer_marks(ports, acme.id, limit=9)
        broken.mended.set()
        wanted = {"svc_wrt_0", "svc_wrt_1", "svc_wrt_2"}
        soon(lambda: journaled(ports, acme) >= wanted and journaled(ports, globex))
        soon(lambda: not marks.read_signer_marks(ports, acme.id, limit=9))
        assert feed.is_alive()
    head = in_force.read_feed_head(ports, acme.id)
    assert head is not None
    assert head.signed_head.keys is not None


def test_a_damaged_journal_stops_no_other(ports: Ports, caplog: pytest.LogCaptureFixture) -> None:
    """F1680b: A damaged journal is logged once, and stops no feed and no other journal."""
    acme, globex = (Tenant.create(ports, handle) for handle in ("acme", "globex"))
    tried = list[str]()

    def run(call: Call) -> Any:
        if acme.id in str(call.arguments):
            tried.append(call.verb)
            raise DataCorrupt
        return call()

    feed = FeedPublisher(replace(ports, blobs=Intercepted(ports.blobs, run)), lambda _: None)
    for tenant in (acme, globex):
        tenant.revoke(ports, "svc_wrt_a")
    feed._round()
    for _ in range(3):
        feed.journaling._round()
    assert (acme.feed_sequence(ports), globex.feed_sequence(ports)) == (1, 1)
    assert journaled(ports, globex) == {"svc_wrt_a"}
    assert tried == ["names"]
    assert [each for each in caplog.messages if "journal" in each] == [
        f"the journal of {acme.id} failed; retrying"
    ]


def test_a_stop_stores_what_is_published(ports: Ports) -> None:
    """F1680c: What was published until a stop is in the journal, though publications are merged."""
    tenant = Tenant.create(ports)
    broken = BrokenBlobs(ports)
    broken.mended.set()
    with running(ports, broken):
        for number in range(3):
            tenant.revoke(ports, f"svc_wrt_{number}")
            soon(partial(_is_after, ports, tenant, number))
    assert journaled(ports, tenant) == {"svc_wrt_0", "svc_wrt_1", "svc_wrt_2"}


def test_a_dependency_that_is_back_is_used_soon() -> None:
    """F1680e: A failure of a port is retried each second, damage of a tenant less often."""
    found = Waits("the feed")
    assert [found.fail("away", Unavailable()) for _ in range(5)] == [0.5, 1, 1, 1, 1]
    damaged = [found.fail("damaged", DataCorrupt()) for _ in range(9)]
    assert damaged == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert found.has("away")
    found.end("away")
    assert not found.has("away")
    assert found.fail("away", Unavailable()) == 0.5


def test_publications_are_merged_in_one_number(ports: Ports) -> None:
    """F1685c: What is published while the journal is written or waits is one number of it."""
    tenant = Tenant.create(ports)
    feed = FeedPublisher(ports, lambda _: None)
    feed.journaling._round()
    before = len([*journal.list_blobs(ports, tenant.id)])
    change = SettingsChange(feed_window_ms=0)
    tenant_settings.update(ports, tenant.operator, change=change)
    for number in range(3):
        tenant.revoke(ports, f"svc_wrt_{number}")
        feed._round()
    assert tenant.feed_sequence(ports) == 3
    feed.journaling._round()
    assert len([*journal.list_blobs(ports, tenant.id)]) == before + 1
    assert journaled(ports, tenant) == {"svc_wrt_0", "svc_wrt_1", "svc_wrt_2"}
