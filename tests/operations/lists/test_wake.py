"""Publishing the feed when a mark wakes it: at once, then not before the window ends."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared import logs
from shared.model import feed as model
from shared.model.lists.head import head_address
from shared.model.tenants import SettingsChange, SrlPublicationPolicy
from shared.operations.access import tenant_settings
from shared.operations.base import operation
from shared.operations.lists import decisions, in_force, marks, publication, wake
from shared.operations.lists.wake import WakeResult
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.kit.tenants import Tenant, break_off
from tests.kit.worlds import Clock


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> list[float]:
    """The pauses that were made; each passes on the clock."""
    made: list[float] = []

    def pause(seconds: float) -> None:
        made.append(seconds)
        clock.advance(seconds=seconds)

    _pausing(monkeypatch, pause)
    return made


def _pausing(monkeypatch: pytest.MonkeyPatch, sleep: Callable[[float], object]) -> None:
    monkeypatch.setattr(operation, "PACING", operation.RetryPacing(pause=0, sleep=sleep))


def _about(seconds: float) -> Any:
    return pytest.approx(seconds)


def _set(ports: Ports, tenant: Tenant, **settings: object) -> None:
    change = SettingsChange(**settings)  # type: ignore[arg-type]
    tenant_settings.update(ports, tenant.operator, change=change)


def stated(ports: Ports, tenant: Tenant) -> list[list[str]]:
    """What each entry of the feed says is revoked."""
    head = in_force.read_feed_head(ports, tenant.id)
    assert head is not None
    found = in_force.read_entries(ports, tenant.id, after=0, until=head.sequence)
    return [list(each.decode()[0].revoked) for each in found]


def test_a_publication_reports_how_long_each_change_waited(
    ports: Ports, tenant: Tenant, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """F1681b: Each publication logs for each change the time from its acknowledgement.

    A clock that was set back gives no negative time.
    """
    caplog.set_level(logging.INFO)
    name = "ChangePublishedSeconds"

    def waited() -> list[float]:
        found = [logs.logged_fields(each) for each in caplog.records if each.msg == "changes"]
        caplog.clear()
        (line,) = found
        assert line.metrics == {name: max(line.gathered[name])}
        return sorted(line.gathered[name])

    key = tenant.key(ports)
    for warrant_id in ("svc_wrt_a", "svc_wrt_b"):
        tenant.revoke(ports, warrant_id)
        clock.advance(seconds=3)
    tenant.revoke_key(ports, key)
    clock.advance(seconds=1)
    woken = wake.publish_feed(ports, tenant.id)
    publication.name_keys(ports, tenant.id, woken.unnamed)
    assert waited() == [1.0, 4.0, 7.0]
    tenant.revoke(ports, "svc_wrt_c")
    clock.advance(seconds=-1)
    tenant.regenerate(ports)
    assert waited() == [0.0]


def test_the_first_change_is_published_at_once(
    ports: Ports, tenant: Tenant, clock: Clock, pauses: list[float]
) -> None:
    """F220a, FEED-5: The first change is published at once, the next when the window ends."""
    tenant.revoke(ports, "svc_wrt_a")
    assert wake.publish_within_window(ports, tenant.id) == WakeResult(entries=1)
    assert pauses == []
    clock.advance(milliseconds=100)
    tenant.revoke(ports, "svc_wrt_b")
    tenant.revoke(ports, "svc_wrt_c")
    assert wake.publish_feed(ports, tenant.id) == WakeResult(0, _about(0.4))
    assert wake.publish_within_window(ports, tenant.id) == WakeResult(entries=1)
    assert pauses == [pytest.approx(0.4)]
    assert stated(ports, tenant) == [["svc_wrt_a"], ["svc_wrt_b", "svc_wrt_c"]]


def test_a_long_window_holds_nobody_up(
    ports: Ports, tenant: Tenant, clock: Clock, pauses: list[float]
) -> None:
    """F220b, FEED-5: The schedule publishes changes that would wait long for their window."""
    _set(ports, tenant, feed_window_ms=5000)
    tenant.revoke(ports, "svc_wrt_a")
    assert wake.publish_within_window(ports, tenant.id).entries == 1
    tenant.revoke(ports, "svc_wrt_b")
    assert wake.publish_within_window(ports, tenant.id) == WakeResult(0, _about(5))
    assert pauses == []
    publication.publish_if_due(ports, tenant.id)
    assert stated(ports, tenant) == [["svc_wrt_a"], ["svc_wrt_b"]]


def test_no_window_is_no_wait(ports: Ports, tenant: Tenant, pauses: list[float]) -> None:
    """F220: with a window of 0, each wake-up publishes."""
    _set(ports, tenant, feed_window_ms=0)
    for warrant_id in ("svc_wrt_a", "svc_wrt_b"):
        tenant.revoke(ports, warrant_id)
        assert wake.publish_feed(ports, tenant.id).entries == 1


@pytest.mark.parametrize("seconds", [0.3, 1, 600])
def test_a_wrong_clock_does_not_stop_the_feed(
    ports: Ports, tenant: Tenant, clock: Clock, pauses: list[float], seconds: float
) -> None:
    """F220c: An entry that was published by a clock ahead of this one does not stop the feed."""
    fast = replace(ports, now=lambda: clock() + timedelta(seconds=seconds))
    tenant.revoke(ports, "svc_wrt_a")
    assert publication.publish_feed(fast, tenant.id) is not None
    tenant.revoke(ports, "svc_wrt_b")
    assert wake.publish_within_window(ports, tenant.id).entries == 1


def test_a_mark_that_is_visible_first_is_looked_at_again(
    ports: Ports, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F221a: A wake-up that finds no change looks again, since its mark may be visible first."""
    looks: list[float] = []

    def show(seconds: float) -> None:
        looks.append(seconds)
        tenant.revoke(ports, "svc_wrt_a")

    _pausing(monkeypatch, show)
    assert wake.publish_within_window(ports, tenant.id).entries == 1
    assert looks == [operation.PACING.in_flight]


def test_a_look_that_finds_nothing_ends(ports: Ports, tenant: Tenant, pauses: list[float]) -> None:
    """F221: two looks, and no third; a tenant without a feed waits for its next list."""
    assert wake.publish_within_window(ports, tenant.id) == WakeResult()
    assert pauses == [operation.PACING.in_flight]
    ports.store.write(Delete(model.head_address(tenant.id), Expect.PRESENT))
    tenant.revoke(ports, "svc_wrt_a")
    assert wake.publish_within_window(ports, tenant.id) == WakeResult()


def test_a_break_asks_for_a_list(ports: Ports, tenant: Tenant, pauses: list[float]) -> None:
    """F222a, FEED-7: After a break of the feed, each wake-up asks for a list until there is one."""
    break_off(ports, tenant.id)
    for _ in range(2):
        assert wake.publish_within_window(ports, tenant.id).list_due
    assert pauses == []
    assert publication.publish_if_due(ports, tenant.id)
    assert not wake.publish_within_window(ports, tenant.id).list_due


def test_a_key_that_signed_much_asks_for_a_list(
    ports: Ports, tenant: Tenant, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F222: a wake-up that breaks the feed asks for a list itself."""
    monkeypatch.setattr(decisions, "INLINE_MAX", 0)
    key = tenant.key(ports)
    tenant.sign(ports, key)
    tenant.revoke_key(ports, key)
    woken = wake.publish_within_window(ports, tenant.id)
    assert (woken.entries, woken.list_due) == (1, True)


def test_a_list_follows_if_the_tenant_wants_it(
    ports: Ports, tenant: Tenant, clock: Clock, pauses: list[float]
) -> None:
    """F222b: With `immediate` each entry asks for a list, unless the last one is too young."""
    tenant.revoke(ports, "svc_wrt_a")
    clock.advance(seconds=10)
    assert not wake.publish_feed(ports, tenant.id).list_due
    _set(ports, tenant, srl_publication=SrlPublicationPolicy.IMMEDIATE)
    tenant.revoke(ports, "svc_wrt_b")
    clock.advance(seconds=1)
    assert wake.publish_feed(ports, tenant.id).list_due
    assert publication.publish_if_due(ports, tenant.id)
    tenant.revoke(ports, "svc_wrt_c")
    clock.advance(seconds=1)
    assert not wake.publish_feed(ports, tenant.id).list_due


def test_a_long_list_follows_more_rarely(
    ports: Ports, tenant: Tenant, clock: Clock, pauses: list[float]
) -> None:
    """F222c: A list of a million follows an entry at most once in 50 seconds."""
    _set(ports, tenant, srl_publication=SrlPublicationPolicy.IMMEDIATE)
    head = in_force.read_srl_head(ports, tenant.id)
    long = replace(head, count=1_000_000)
    ports.store.write(Put(head_address(tenant.id), long.to_item(), Expect.PRESENT))
    for seconds, due in ((45, False), (10, True)):
        clock.advance(seconds=seconds)
        tenant.revoke(ports, f"svc_wrt_{seconds}")
        assert wake.publish_feed(ports, tenant.id).list_due is due


def test_a_mark_that_is_set_again_stays(ports: Ports, tenant: Tenant) -> None:
    """FEED-4: A mark is not removed for a change that came after it was read."""
    record = tenant.revoke(ports, "svc_wrt_again")
    read, _ = in_force.read_marks(ports, tenant.id)
    tenant.unrevoke(ports, record)
    tenant.revoke(ports, "svc_wrt_again")
    assert marks.remove_published(ports, tenant.id, read.warrants, ids={"svc_wrt_again"}) == 1
    newer, _ = in_force.read_marks(ports, tenant.id)
    assert newer.warrants.keys() == read.warrants.keys()
