"""The status of the list: what waits for the next one, and when that is due (SRL-21)."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest

from shared.model import feed as feed_model
from shared.model import times
from shared.model.lists import schedule
from shared.model.lists.head import head_address
from shared.operations.changes import srl
from shared.operations.lists import in_force, publication, unpublished
from shared.ports import Ports, sequentially
from shared.ports.store import Expect, Put
from tests.kit.api import Tenant
from tests.kit.faults import Script, scripted
from tests.kit.feeds import publish_feed
from tests.kit.reads import reading
from tests.kit.tenants import break_off
from tests.kit.worlds import Clock

PATH = "/v1/revocations/srl/status"


def status(tenant: Tenant) -> dict[str, Any]:
    answer = tenant.read_only.get(PATH)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def waiting(tenant: Tenant) -> tuple[int, bool, str | None]:
    found = status(tenant)
    return found["pending"], found["pending_truncated"], found["oldest_pending_at"]


def text(moment: datetime, **later: float) -> str:
    return times.format_utc(moment + timedelta(**later))


def publish(tenant: Tenant) -> None:
    assert tenant.admin.post("/v1/revocations/srl/regenerate").status_code == 200


def test_what_waits_for_the_list(tenant: Tenant, ports: Ports, clock: Clock) -> None:
    """SRL-21, F436a: A change is pending until a list has it; the feed does not count."""
    assert waiting(tenant) == (0, False, None)
    assert status(tenant)["feed_sequence"] == 0
    first = clock()
    unrevoked = tenant.revoke("svc_wrt_0")
    tenant.revoke("svc_wrt_1")
    clock.advance(seconds=40)
    tenant.revoke("svc_wrt_2")
    assert waiting(tenant) == (3, False, text(first))
    publication.publish_feed(ports, tenant.id)
    # The feed has them from here on, and the list does not.
    assert waiting(tenant) == (3, False, text(clock()))
    assert status(tenant)["feed_sequence"] == 1
    tenant.revoke("svc_wrt_3")
    assert waiting(tenant)[:2] == (4, False)
    publish(tenant)
    assert waiting(tenant) == (0, False, None)
    clock.advance(seconds=5)
    assert tenant.admin.delete(f"/v1/revocations/{unrevoked}").status_code == 204
    assert waiting(tenant) == (1, False, text(clock()))
    publish(tenant)
    assert (status(tenant)["version"], status(tenant)["count"]) == (3, 3)
    assert waiting(tenant) == (0, False, None)


def test_a_warrant_counts_once(tenant: Tenant, ports: Ports) -> None:
    """F436: What was revoked, taken back and revoked again since the list is one warrant."""
    for _ in range(2):
        revocation = tenant.revoke("svc_wrt_a")
        publication.publish_feed(ports, tenant.id)
        tenant.admin.delete(f"/v1/revocations/{revocation}")
    assert waiting(tenant)[:2] == (1, False)


@pytest.mark.slow
@pytest.mark.parametrize("action", ["feed", "list"])
def test_it_is_read_while_something_is_published(tenant: Tenant, ports: Ports, action: str) -> None:
    """F436b: A list is not reported as complete that lacks what was recorded before the request.

    Something is published between any two of the reads.
    """
    done: dict[str, Callable[[], object]] = {
        "feed": lambda: publication.publish_feed(ports, tenant.id),
        "list": lambda: publish(tenant),
    }
    for at in count():
        tenant.revoke(f"svc_wrt_{at}")
        listed = in_force.read_srl_head(ports, tenant.id)
        script = Script(before={at: done[action]})
        watched = replace(scripted(ports, script), gather=sequentially)
        seen = srl.read(watched, tenant.operator)
        assert seen.pending.warrants or seen.head.version > listed.version, f"read {at}"
        publish(tenant)
        if at == len(script.calls):
            break
    assert at > 2 + len(schedule.warrant_marks(tenant.id))


def test_a_revoked_key_counts(tenant: Tenant, ports: Ports) -> None:
    """F436c: The warrants of a revoked key count; before they are known, more than one is said."""
    key_id = tenant.admin.post("/v1/keys", json={"name": "root", "type": "root"}).json()["id"]
    for _ in range(3):
        tenant.admin.post(f"/v1/keys/{key_id}/sign", json={"payload": "aGVsbG8="})
    tenant.admin.post(f"/v1/keys/{key_id}/revoke", json={"reason": "stolen"})
    now = times.format_utc(ports.now())
    assert waiting(tenant) == (1, True, now)
    publish_feed(ports, tenant.id)
    assert waiting(tenant) == (3, False, now)


def test_a_break_of_the_feed_counts(tenant: Tenant, ports: Ports) -> None:
    """F436: A break says that something changed and not what, also after a leap of the sequence."""
    break_off(ports, tenant.id)
    assert waiting(tenant)[:2] == (1, True)
    break_off(ports, tenant.id, above=feed_model.LEAP)
    assert waiting(tenant)[:2] == (1, True)
    publish(tenant)
    assert waiting(tenant) == (0, False, None)


@pytest.mark.parametrize("limit", ["_COUNTED_MAX", "_ENTRIES_MAX"])
def test_many_are_not_all_counted(
    tenant: Tenant, ports: Ports, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """SRL-21, F436d: If more wait than a request reads, the answer says so."""
    monkeypatch.setattr(unpublished, limit, 1)
    for number in range(3):
        tenant.revoke(f"svc_wrt_{number}")
        if limit == "_ENTRIES_MAX":
            publication.publish_feed(ports, tenant.id)
    count, is_truncated, _ = waiting(tenant)
    assert is_truncated
    assert 1 <= count <= 3


def test_when_the_next_list_is_due(tenant: Tenant, clock: Clock) -> None:
    """SRL-21, F437a: A list is due a minute after half of its lifetime or after the oldest change.

    It is due at once if it was issued in the future.
    """
    issued_at = clock()
    assert status(tenant)["next_due_at"] == text(issued_at, minutes=31)
    clock.advance(seconds=100)
    tenant.revoke("svc_wrt_a")
    assert status(tenant)["next_due_at"] == text(clock(), minutes=1)
    # Nobody publishes: the time that has passed stays.
    due = clock() + timedelta(minutes=1)
    clock.advance(minutes=50)
    assert status(tenant)["next_due_at"] == times.format_utc(due)
    publish(tenant)
    clock.advance(minutes=-10)
    assert status(tenant)["next_due_at"] == text(clock(), minutes=1)
    # A change after half of the lifetime does not put it off.
    clock.advance(minutes=45)
    tenant.revoke("svc_wrt_b")
    assert status(tenant)["next_due_at"] == text(clock(), minutes=-4)


def test_the_schedule_keeps_what_is_said(tenant: Tenant, ports: Ports, clock: Clock) -> None:
    """F437b: A schedule that runs each minute publishes by the moment that the status says."""
    tenant.revoke("svc_wrt_a")
    for _ in range(3):
        due_at = times.parse(status(tenant)["next_due_at"])
        clock.moment = due_at - timedelta(seconds=1)
        assert publication.publish_if_due(ports, tenant.id)
        clock.advance(minutes=7)


def test_a_poll_that_nothing_is_new_for(tenant: Tenant, clock: Clock) -> None:
    """SRL-21: The answer is 304 until something in it changes, and HEAD answers as GET does."""
    first = tenant.admin.get(PATH)
    known = {"If-None-Match": first.headers["ETag"]}
    clock.advance(seconds=5)
    again = tenant.admin.get(PATH, headers=known)
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    assert again.headers["Cache-Control"] == "private, no-cache"
    head = tenant.admin.request("HEAD", PATH)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["ETag"] == first.headers["ETag"]
    tenant.revoke("svc_wrt_a")
    assert tenant.admin.get(PATH, headers=known).status_code == 200


def test_what_a_poll_costs(tenant: Tenant, ports: Ports) -> None:
    """F436e: A poll reads two items if nothing waits, however many warrants are on the list."""
    for number in range(30):
        tenant.revoke(f"svc_wrt_{number}")
    publish(tenant)
    with reading(ports) as (watched, reads):
        assert not srl.read(watched, tenant.operator).pending.warrants
    assert (reads.trips, reads.items) == (3 + len(schedule.warrant_marks(tenant.id)), 2)


def test_a_publication_that_is_visible_in_part(tenant: Tenant, ports: Ports) -> None:
    """F436: What the shown list lacks is pending, also if the feed names the next list already."""
    tenant.revoke("svc_wrt_a")
    before = in_force.read_srl_head(ports, tenant.id)
    publish(tenant)
    ports.store.write(Put(head_address(tenant.id), before.to_item(), Expect.PRESENT))
    assert waiting(tenant)[:2] == (1, False)
