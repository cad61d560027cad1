"""The header `Age`: since when an answer lacks a change that was acknowledged (FEED-12)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.errors import DataCorrupt
from shared.model import feed as feed_model
from shared.model.feed import FeedHead
from shared.model.lists.schedule import OutboxMark, warrant_mark_address, warrant_marks
from shared.operations.lists import publication, storage, unpublished, wake
from shared.operations.lists.decisions import PublicationFacts
from shared.ports.store import Delete, Expect, Put
from tests.kit.api import Client, Tenant, serve
from tests.kit.intercepted import Call, Intercepted
from tests.kit.reads import reading
from tests.kit.worlds import Clock

FEED, LIST = "/v1/revocations/feed", "/v1/revocations/srl"
NATIVE = "/compat/tenuo/v1/revocations/srl/signed"
PATHS = [FEED, LIST, f"{LIST}/signed", NATIVE]


def ages(client: Client) -> list[str]:
    """Those of all answers that say what is revoked, new ones and unchanged ones.

    A native list that is too old is not answered.
    """
    found = []
    for path in PATHS:
        answer = client.get(path)
        if path == NATIVE and answer.status_code == 503:
            continue
        assert answer.status_code == 200, answer.text
        found.append(answer.headers["Age"])
        if path != NATIVE:
            known = {"If-None-Match": answer.headers["ETag"]}
            same = client.get(path, headers=known)
            assert (same.status_code, same.headers["Age"]) == (304, found[-1])
    return found


def sequence(answer: Any) -> int:
    """The sequence of the head that a poll was answered with."""
    return int(answer.headers["ETag"].strip('"').split("-")[0])


def later(clock: Clock, seconds: float = 5) -> None:
    """So much later that no look is shared any more."""
    clock.advance(seconds=seconds)


def marked(tenant: Tenant, warrant_id: str, mark: OutboxMark) -> None:
    address = warrant_mark_address(tenant.id, warrant_id)
    tenant.ports.store.write(Put(address, mark.to_item(), Expect.ANYTHING))


def test_each_answer_says_how_old_the_oldest_change_is_that_it_lacks(
    tenant: Tenant, clock: Clock
) -> None:
    """FEED-12, SRL-23, NATIVE-8, F550a: With the publisher stopped, `Age` grows in each answer.

    Feed, list and native list; 200 and 304. It is 0 again once the change is in the answer. After
    30 seconds there is no native list, because a stock authorizer does not read `Age`.
    """
    assert ages(tenant.authorizer) == ["0"] * 4
    later(clock)
    tenant.revoke("svc_wrt_a")
    clock.advance(seconds=10)
    tenant.revoke("svc_wrt_b")
    later(clock, 20)
    assert ages(tenant.authorizer) == ["30"] * 4
    later(clock, 10)
    assert ages(tenant.authorizer) == ["40"] * 3
    assert wake.publish_feed(tenant.ports, tenant.id).entries == 1
    later(clock)
    # The list does not have the entry, whose change is older than the entry.
    assert ages(tenant.authorizer) == ["0", "45", "45", "0"]
    publication.publish_due(tenant.ports)
    later(clock)
    assert ages(tenant.authorizer) == ["0"] * 4


def test_the_revocation_of_a_key_counts(tenant: Tenant, clock: Clock) -> None:
    """FEED-12, F550b: A revoked key whose warrants the feed does not name yet counts likewise."""
    root = tenant.admin.post("/v1/keys", json={"name": "root", "type": "root"}).json()["id"]
    later(clock)
    tenant.admin.post(f"/v1/keys/{root}/revoke", json={"reason": "stolen"})
    later(clock, 7)
    assert ages(tenant.authorizer) == ["7"] * 4


def test_a_look_that_is_shared_counts_as_old_as_it_is(tenant: Tenant, clock: Clock) -> None:
    """FEED-12, F550c: Polls share a look for 5 seconds, and a change after it counts since then."""
    with reading(tenant.ports) as (ports, reads):
        client = Client(serve(ports), tenant.authorizer.secret)
        etag = client.get(FEED).headers["ETag"]
        clock.advance(seconds=0.2)
        tenant.revoke("svc_wrt_a")
        trips = reads.trips
        polled = []
        for _ in range(4):
            clock.advance(seconds=1.1)
            polled.append(client.get(FEED, headers={"If-None-Match": etag}).headers["Age"])
        # The key and the head of the feed: nothing else is read.
        assert (polled, reads.trips - trips) == (["2", "3", "4", "5"], 8)
        clock.advance(seconds=1)
        assert client.get(FEED).headers["Age"] == "6"
        assert reads.trips - trips == 10 + len(warrant_marks(tenant.id)) + 1


def test_polls_of_an_instance_share_the_head(tenant: Tenant, clock: Clock) -> None:
    """FEED-12, F550k: On Lambda, polls with the newest sequence share a head for 0.2 s."""
    with reading(tenant.ports) as (ports, reads):
        client = Client(serve(ports), tenant.authorizer.secret)
        first = client.get(FEED)
        path = f"{FEED}?after={sequence(first)}"

        def polled(seconds: float = 0.0) -> tuple[int, str, int]:
            clock.advance(seconds=seconds)
            before = reads.trips
            answer = client.get(path, headers={"If-None-Match": first.headers["ETag"]})
            return answer.status_code, answer.headers["Age"], reads.trips - before

        # The key is read for each poll.
        assert [polled(), polled(0.1)] == [(304, "0", 1), (304, "1", 1)]
        tenant.revoke("svc_wrt_a")
        publication.publish_feed(tenant.ports, tenant.id)
        # Only these polls may lack the change, and their `Age` says so.
        assert polled(0.09) == (304, "1", 1)
        assert sequence(client.get(FEED)) == sequence(first) + 1
        assert polled()[::2] == (200, 2)


def test_a_shared_head_is_told_to_nobody_else(tenant: Tenant, clock: Clock) -> None:
    """F550l: A key without the right to poll, and another tenant's, get no shared head."""
    first = tenant.authorizer.get(FEED)
    path = f"{FEED}?after={sequence(first)}"
    same = {"If-None-Match": first.headers["ETag"]}
    assert tenant.authorizer.get(path, headers=same).status_code == 304
    assert tenant.read_only.get(path, headers=same).status_code == 403
    tenant.revoke("svc_wrt_a")
    publication.publish_feed(tenant.ports, tenant.id)
    assert tenant.authorizer.get(path, headers=same).status_code == 304
    clock.moment -= timedelta(seconds=0.1)
    assert tenant.authorizer.get(path, headers=same).json()["entries"]


@pytest.mark.parametrize("clock_back", [0, 2])
def test_a_mark_without_a_moment(tenant: Tenant, clock: Clock, clock_back: int) -> None:
    """FEED-12, F550d: A mark whose moment is not known counts since the last look without it.

    Likewise one of the future, which a wrong clock made. Without such a look the answer is 503.
    """
    at = clock() + timedelta(hours=clock_back) if clock_back else None
    marked(tenant, "svc_wrt_a", OutboxMark(1, set_at=at))
    for path in PATHS:
        assert tenant.authorizer.get(path).status_code == 503
    publication.publish_feed(tenant.ports, tenant.id)
    later(clock)
    assert tenant.authorizer.get(FEED).headers["Age"] == "0"
    clock.advance(seconds=1)
    marked(tenant, "svc_wrt_b", OutboxMark(1, set_at=at))
    later(clock, 29)
    assert tenant.authorizer.get(FEED).headers["Age"] == "30"


def test_a_damaged_mark_stops_the_answers_of_its_tenant(
    tenant: Tenant, other_tenant: Tenant, clock: Clock
) -> None:
    """FEED-12, F550e: If a mark is damaged, its tenant's answers are 503, and no other's are."""
    tenant.revoke("svc_wrt_a")
    address = warrant_mark_address(tenant.id, "svc_wrt_a")
    tenant.ports.store.write(Put(address, {"version": "no number"}, Expect.PRESENT))
    for path in PATHS:
        assert tenant.authorizer.get(path).status_code == 503
    assert ages(other_tenant.authorizer) == ["0"] * 4


def test_the_look_fails(tenant: Tenant, clock: Clock) -> None:
    """FEED-12, F550f: If the marks cannot be read, no answer says that nothing waits: 503."""

    def fail(call: Call) -> Any:
        if call.verb == "query_many" and "#srl-changed" in call.arguments[0][0].pk:
            raise DataCorrupt
        return call()

    ports = replace(tenant.ports, store=Intercepted(tenant.ports.store, fail))
    client = Client(serve(ports), tenant.authorizer.secret)
    assert [client.get(path).status_code for path in PATHS] == [503] * 4


def crowd(tenant: Tenant) -> None:
    """More than 16 marks in each partition, as after a large batch."""
    mark = OutboxMark(1, set_at=tenant.ports.now()).to_item()
    names = [f"svc_wrt_{number:05}" for number in range(600)]
    puts = [Put(warrant_mark_address(tenant.id, each), mark, Expect.ABSENT) for each in names]
    for start in range(0, len(puts), 100):
        tenant.ports.store.write(*puts[start : start + 100])


def test_a_look_at_many_marks_reads_few(tenant: Tenant, clock: Clock) -> None:
    """FEED-12, F550g: With a backlog, a look reads 16 marks of each partition.

    The age then counts from the last look that read all, so it is never too small.
    """
    assert ages(tenant.authorizer) == ["0"] * 4
    later(clock)
    tenant.revoke("svc_wrt_zz")
    clock.advance(seconds=20)
    crowd(tenant)
    with reading(tenant.ports) as (ports, reads):
        assert not unpublished.read_backlog(ports, tenant.id).is_complete
    assert reads.items <= 17 * 16
    # The oldest change is 20 seconds old, and the look before it 25.
    assert ages(tenant.authorizer) == ["25"] * 4


def test_a_backlog_that_is_worked_off_is_not_old(tenant: Tenant, clock: Clock) -> None:
    """FEED-12, F550h: The head says up to when all is in the feed; no look reads all marks."""
    assert ages(tenant.authorizer) == ["0"] * 4
    for _ in range(3):
        later(clock, 20)
        tenant.revoke(f"svc_wrt_{clock():%H%M%S}")
        assert publication.publish_feed(tenant.ports, tenant.id) is not None
        clock.advance(seconds=3)
        crowd(tenant)
        assert tenant.authorizer.get(FEED).headers["Age"] == "3"
        publication.publish_feed(tenant.ports, tenant.id)


def test_an_entry_that_leaves_marks_does_not_cover_all(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FEED-12: Only the last entry of a publication says that all up to then is in the feed."""
    heads: list[FeedHead] = []
    monkeypatch.setattr(feed_model, "ENTRY_MAX", 4)
    for number in range(10):
        tenant.revoke(f"svc_wrt_{number}")
    append = storage.append_entry

    def noting(*arguments: Any) -> PublicationFacts:
        after = append(*arguments)
        assert after.feed_head is not None
        heads.append(after.feed_head)
        return after

    monkeypatch.setattr(storage, "append_entry", noting)
    publication.publish_feed(tenant.ports, tenant.id)
    assert len(heads) >= 3
    assert [each.covered_at is not None for each in heads] == [False] * (len(heads) - 1) + [True]


def test_an_entry_during_the_making_of_a_list(
    tenant: Tenant, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SRL-23, F550j: Changes during the making of a list count from its beginning."""
    tenant.revoke("svc_wrt_a")
    publication.publish_due(tenant.ports)
    later(clock)
    tenant.revoke("svc_wrt_b")
    made: list[str] = []

    def meanwhile(call: Call) -> Any:
        if call.verb == "put" and not made:
            made.append("an entry")
            tenant.revoke("svc_wrt_c")
            clock.advance(seconds=2)
            publication.publish_feed(tenant.ports, tenant.id)
        return call()

    blobs = Intercepted(tenant.ports.blobs, meanwhile)
    publication.publish_if_due(replace(tenant.ports, blobs=blobs), tenant.id)
    assert made
    later(clock)
    assert ages(tenant.authorizer) == ["0", "7", "7", "0"]


def test_a_list_without_a_feed_is_as_old_as_it_is(tenant: Tenant, clock: Clock) -> None:
    """SRL-23: If the head of the feed is lost, the age of the list counts from its issue.

    A list that is asked for by its version does not change, so it has no `Age`.
    """
    tenant.ports.store.write(Delete(feed_model.head_address(tenant.id), Expect.PRESENT))
    later(clock, 9)
    assert tenant.authorizer.get(LIST).headers["Age"] == "9"
    assert "Age" not in tenant.authorizer.get(f"{LIST}?version=1").headers


def test_a_clock_that_was_set_back(tenant: Tenant, clock: Clock) -> None:
    """FEED-12, F550i: A list that lacks an entry from before has no age until that moment again."""
    clock.advance(minutes=1)
    tenant.revoke("svc_wrt_a")
    publication.publish_feed(tenant.ports, tenant.id)
    assert tenant.authorizer.get(LIST).headers["Age"] == "0"
    clock.moment -= timedelta(seconds=30)
    assert tenant.authorizer.get(LIST).status_code == 503
    assert tenant.authorizer.get(FEED).headers["Age"] == "0"
    clock.advance(seconds=40)
    assert tenant.authorizer.get(LIST).headers["Age"] == "10"
