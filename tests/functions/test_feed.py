"""The feed over HTTP: what is in an answer, and what a poll costs (POLL-1 to POLL-6)."""

import base64
import gzip
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from functions.feed import handler as feed_handler
from shared.authorizer.answers import ANSWER_BYTES_MAX, FeedResponse, parse_answer
from shared.authorizer.formats.wire import FeedEntry, SignedHead, base_ids
from shared.model import feed as model
from shared.model.lists.head import sha256_of
from shared.operations.changes import feed as operations
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from shared.web import stored as bodies
from tests.kit.api import Client, Tenant, serve
from tests.kit.endpoints import shape
from tests.kit.feeds import StoredFeed
from tests.kit.intercepted import Call, Intercepted
from tests.kit.lambda_events import FORMATS, Format
from tests.kit.lambda_events import Caller as LambdaCaller
from tests.kit.worlds import Clock

FEED = "/v1/revocations/feed"


@pytest.fixture
def feed(tenant: Tenant) -> StoredFeed:
    """The feed of the tenant, with three entries after an empty base."""
    made = StoredFeed(tenant.ports, tenant.id)
    for name in "abc":
        made.revoke(f"svc_wrt_{name}")
    return made


def poll(tenant: Tenant, query: str = "", **headers: str) -> Any:
    return tenant.authorizer.get(f"{FEED}{query}", headers=headers)


def polled(tenant: Tenant, query: str = "") -> FeedResponse:
    """The answer as a client reads it."""
    answer = poll(tenant, query)
    assert answer.status_code == 200, answer.text
    return parse_answer(answer.content)


def sequences(tenant: Tenant, query: str = "") -> list[int]:
    """Those of the entries; they end at the head."""
    answer = polled(tenant, query)
    found = [FeedEntry.decode(each).sequence for each in answer.entries]
    assert not found or found[-1] == SignedHead.decode(answer.payload).sequence
    return found


def error(answer: Any) -> tuple[int, str]:
    assert shape(answer.json()) == {"error": {"code": ..., "message": ...}}
    return answer.status_code, answer.json()["error"]["code"]


# --- what is in an answer ---


def test_an_answer(tenant: Tenant, feed: StoredFeed) -> None:
    """POLL-1: An answer has the signed head and the entries after `after`, byte for byte."""
    answer = poll(tenant, "?after=1")
    assert shape(answer.json()) == {
        "head": {"Payload": ..., "Signature": ...},
        "entries": [...],
        "poll_seconds": ...,
        "max_wait_seconds": ...,
    }
    parsed = parse_answer(answer.content)
    assert parsed.entries == (feed.entries[2], feed.entries[3])
    texts = [base64.b64encode(each).decode() for each in parsed.entries]
    assert answer.json()["entries"] == texts
    feed.key.public_key().verify(parsed.signature, b"rescind-feed-head-v1\n" + parsed.payload)
    assert SignedHead.decode(parsed.payload).tenant_id == tenant.id
    assert (parsed.poll_seconds, parsed.max_wait_seconds) == (1, 0)
    assert answer.headers["cache-control"] == "private, no-cache"


def test_where_the_entries_begin(tenant: Tenant, feed: StoredFeed) -> None:
    """POLL-2: The entries begin after `after`, and without it after the base.

    A client that has a later sequence than the head gets the head, which it refuses.
    """
    assert sequences(tenant) == [1, 2, 3]
    for base in (0, 2):
        if base:
            feed.rebase(base)
            assert sequences(tenant) == [3]
        # An entry that the base covers is given as long as it is kept.
        found = [sequences(tenant, f"?after={after}") for after in (0, 1, 2, 3, 4, 2**53)]
        assert found == [[1, 2, 3], [2, 3], [3], [], [], []]
    feed.rebase(3)
    assert (sequences(tenant), sequences(tenant, "?after=2")) == ([], [3])


def test_entries_that_were_removed(tenant: Tenant, feed: StoredFeed) -> None:
    """POLL-2, F212a: If an entry after `after` was removed, the entries begin after the base."""
    feed.rebase(2)
    feed.remove(1)
    assert [sequences(tenant, f"?after={after}") for after in range(4)] == [
        [3], [2, 3], [3], []
    ]  # fmt: skip
    feed.remove(2)
    assert [sequences(tenant, f"?after={after}") for after in range(4)] == [
        [3], [3], [3], []
    ]  # fmt: skip


def test_a_break_that_the_base_covers(tenant: Tenant, feed: StoredFeed) -> None:
    """POLL-2, F212b: No client that starts before a break gets entries across it."""
    feed.break_off()
    # No base covers it yet, so it cannot be left out.
    assert sequences(tenant, "?after=1") == [2, 3, 4]
    feed.rebase(4)
    feed.revoke("svc_wrt_d")
    assert [sequences(tenant, f"?after={after}") for after in (0, 3, 4, 5)] == [[5], [5], [5], []]
    assert sequences(tenant) == [5]


def test_a_leap_of_the_sequence(tenant: Tenant, feed: StoredFeed) -> None:
    """POLL-2, F212c: After a restore, whose break leaps, clients get what the head vouches for."""
    leap = 2**20
    feed.break_off(leap=leap)
    feed.revoke("svc_wrt_d")
    for query in ("", "?after=1", "?after=3"):
        assert sequences(tenant, query) == [leap + 4, leap + 5]
    feed.rebase(leap + 4)
    for query in ("", "?after=1", f"?after={leap + 3}", f"?after={leap + 4}"):
        assert sequences(tenant, query) == [leap + 5]


def test_a_lost_entry_is_unavailable(
    tenant: Tenant, feed: StoredFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """POLL-2, F212d: If an entry is missing that no base covers, the answer is 503, not a gap."""
    feed.rebase(1)
    feed.remove(2)
    for query in ("", "?after=0", "?after=1"):
        assert error(poll(tenant, query)) == (503, "unavailable")
    assert sequences(tenant, "?after=2") == [3]


def test_a_write_that_is_visible_in_part(tenant: Tenant, feed: StoredFeed) -> None:
    """POLL-2, F212e: An entry that is visible before its head is not in the answer."""
    older = tenant.ports.store.get(model.head_address(tenant.id)) or {}
    feed.revoke("svc_wrt_d")
    newer = tenant.ports.store.get(model.head_address(tenant.id)) or {}
    tenant.ports.store.write(Put(model.head_address(tenant.id), older, Expect.ANYTHING))
    assert sequences(tenant, "?after=1") == [2, 3]
    # The head is visible before its entry, and the entry at the second look.
    entry = model.entry_address(tenant.id, 4)
    item = tenant.ports.store.get(entry) or {}
    tenant.ports.store.write(Put(model.head_address(tenant.id), newer, Expect.ANYTHING))
    tenant.ports.store.write(Delete(entry, Expect.PRESENT))
    looks = []

    def late(call: Call) -> Any:
        if call.verb == "query":
            looks.append(call)
        if len(looks) == 2:
            looks.append(call)
            tenant.ports.store.write(Put(entry, item, Expect.ABSENT))
        return call()

    ports = replace(tenant.ports, store=Intercepted(tenant.ports.store, late))
    answer = Client(serve(ports), tenant.authorizer.secret).get(f"{FEED}?after=3")
    assert parse_answer(answer.content).entries == (feed.entries[4],)


@pytest.mark.slow
def test_an_answer_has_a_limit(tenant: Tenant, feed: StoredFeed) -> None:
    """POLL-3, F212f: An answer never has more than 4 MiB, however many entries there are."""
    # In base64 each has more than a quarter of the limit.
    large = [feed.append_bytes(bytes([number]) * 786_432) for number in range(4)]
    answer = poll(tenant)
    assert ANSWER_BYTES_MAX * 3 / 4 < len(answer.content) <= ANSWER_BYTES_MAX
    assert parse_answer(answer.content).entries == tuple(large[-3:])


def test_entries_that_do_not_fit(
    tenant: Tenant, feed: StoredFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """POLL-2, POLL-3, F212g: Of too many entries an answer has those after the base, or fewer."""
    monkeypatch.setattr(operations, "ENTRIES_BYTES_MAX", 4200)
    large = [feed.append_bytes(bytes([number]) * 300) for number in range(12)]
    # Without a base that covers them, only the newest of the entries fit.
    for query in ("", "?after=0"):
        assert polled(tenant, query).entries == tuple(large[-10:])
    # They fit after the base.
    feed.rebase(13)
    for query in ("", "?after=0"):
        assert polled(tenant, query).entries == tuple(large[-2:])
    assert polled(tenant, "?after=12").entries == tuple(large[-3:])


def test_a_tenant_without_a_feed(tenant: Tenant) -> None:
    """POLL-1: Without a feed, the answer is 404."""
    tenant.ports.store.write(Delete(model.head_address(tenant.id), Expect.ANYTHING))
    assert error(poll(tenant)) == error(poll(tenant, "?after=1")) == (404, "not_found")


def test_a_damaged_head_is_unavailable(
    tenant: Tenant, feed: StoredFeed, caplog: pytest.LogCaptureFixture
) -> None:
    """POLL-1, F10: A head or an entry that cannot be read is never an answer."""
    address = model.head_address(tenant.id)
    item = dict(tenant.ports.store.get(address) or {})
    for damaged in ({**item, "payload": b"x"}, {**item, "signature": "x"}, {}):
        tenant.ports.store.write(Put(address, damaged, Expect.ANYTHING))
        with caplog.at_level(logging.ERROR):
            assert error(poll(tenant)) == (503, "unavailable")
    tenant.ports.store.write(Put(address, item, Expect.ANYTHING))
    entry = model.entry_address(tenant.id, 3)
    tenant.ports.store.write(Put(entry, {"entry": "x"}, Expect.PRESENT))
    assert error(poll(tenant)) == (503, "unavailable")


# --- parameters and conditions ---


_NO_NUMBERS = [
    *["", "-1", "%2B1", "1.0", "1e3", "01", "00", "%201", "1%20", "0x1", "1_0", "null", "%D9%A1"],
    *["9007199254740993", "99999999999999999999", "NaN", "true", "1%0a", "1,2"],
]
_NO_QUERIES = ["after=1&after=1", "AFTER=1", "since=1", "after=1&x", "wait", "wait=3601"]


@pytest.mark.parametrize(
    "query",
    [*(f"{name}={value}" for name in ("after", "wait") for value in _NO_NUMBERS), *_NO_QUERIES],
)
def test_a_malformed_query(standing: Tenant, query: str) -> None:
    """POLL-1, F213a: A parameter that is unknown, repeated or no plain number in range is 400."""
    assert error(poll(standing, f"?{query}")) == (400, "invalid_request")


def test_nothing_new(tenant: Tenant, feed: StoredFeed) -> None:
    """POLL-4: 304 means that the signed head is the one that the client has."""
    etag = poll(tenant).headers["etag"]
    for query in ("", "?after=3", "?after=1", "?wait=5"):
        unchanged = poll(tenant, query, **{"If-None-Match": etag})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        assert unchanged.headers["etag"] == etag
        assert unchanged.headers["cache-control"] == "private, no-cache"
    for seen in (f"W/{etag}", f'"x", {etag}', "*"):
        assert poll(tenant, **{"If-None-Match": seen}).status_code == 304
    assert poll(tenant, **{"If-None-Match": '"3"'}).status_code == 200


def test_what_changes_the_validator(
    tenant: Tenant, other_tenant: Tenant, feed: StoredFeed, clock: Clock
) -> None:
    """POLL-4, F213b: A new entry, a new base or a new signature is never 304, nor another feed."""
    other = StoredFeed(tenant.ports, other_tenant.id, key=feed.key)
    for entry in feed.entries.values():
        other.append(FeedEntry.decode(entry))
    assert other.sequence == feed.sequence
    seen = [poll(each).headers["etag"] for each in (tenant, other_tenant)]
    for step in (lambda: feed.revoke("svc_wrt_d"), lambda: feed.rebase(4), feed.sign):
        clock.advance(seconds=1)
        step()
        answer = poll(tenant, "?after=3", **{"If-None-Match": ", ".join(seen)})
        assert answer.status_code == 200
        seen.append(answer.headers["etag"])
    assert len(set(seen)) == 5


# --- the base ---


def head_of(tenant: Tenant) -> SignedHead:
    return SignedHead.decode(polled(tenant).payload)


def base(tenant: Tenant, version: int | str, **headers: str) -> Any:
    return tenant.authorizer.get(f"{FEED}/base/{version}", headers=headers)


def listed(tenant: Tenant, *warrant_ids: str) -> SignedHead:
    """Revoke these, publish a list, and return the head of the feed."""
    for warrant_id in warrant_ids:
        tenant.revoke(warrant_id)
    tenant.admin.post("/v1/revocations/srl/regenerate")
    return head_of(tenant)


def blob_of(tenant: Tenant, version: int) -> Path:
    """The file in which a base is stored."""
    stored = operations.base(tenant.ports, tenant.operator, version=version)
    path = tenant.ports.blobs.get_file(stored.form.blob, sha256=sha256_of(stored.form.blob))
    assert path is not None
    return path


def test_the_base_of_the_head(tenant: Tenant) -> None:
    """POLL-6: The base that the head names is the content of the list in force, in gzip."""
    head = listed(tenant, "svc_wrt_a", "svc_wrt_b")
    answer = base(tenant, head.base.version)
    assert answer.status_code == 200
    # The client of these tests unpacks it, as its header says.
    assert answer.headers["content-encoding"] == "gzip"
    assert base_ids(answer.content, head.base) == ["svc_wrt_a", "svc_wrt_b"]
    signed = tenant.authorizer.get("/v1/revocations/srl").json()["srl"]["Payload"]
    assert answer.content == base64.b64decode(signed)
    assert answer.headers["content-type"] == "application/cbor"
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert answer.headers["vary"] == "Authorization"


def test_a_base_never_changes(tenant: Tenant) -> None:
    """POLL-6: An older base is the same as before, as long as it is stored."""
    first = listed(tenant, "svc_wrt_a")
    before = base(tenant, first.base.version)
    second = listed(tenant, "svc_wrt_b")
    assert second.base.version == first.base.version + 1
    after = base(tenant, first.base.version)
    assert (after.content, after.headers["etag"]) == (before.content, before.headers["etag"])
    unchanged = base(tenant, first.base.version, **{"If-None-Match": before.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert unchanged.headers["cache-control"] == before.headers["cache-control"]


def test_a_base_that_is_gone(tenant: Tenant) -> None:
    """POLL-6, F219a: A base that is not stored is 404; that of the list in force is 503."""
    old, newest = listed(tenant, "svc_wrt_a").base, listed(tenant, "svc_wrt_b").base
    for version in (newest.version + 1, newest.version + 32, 2**53):
        assert error(base(tenant, version)) == (404, "not_found")
    blob_of(tenant, old.version).unlink()
    assert error(base(tenant, old.version)) == (404, "not_found")
    assert base(tenant, newest.version).status_code == 200
    blob_of(tenant, newest.version).unlink()
    assert error(base(tenant, newest.version)) == (503, "unavailable")


@pytest.mark.parametrize("read_max", [0, 2**20])
def test_an_altered_base(tenant: Tenant, read_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """POLL-6, F219b: A base whose bytes have another hash is never served, long or short."""
    monkeypatch.setattr(bodies, "READ_MAX", read_max)
    version = listed(tenant, "svc_wrt_a").base.version
    assert base(tenant, version).status_code == 200
    blob_of(tenant, version).write_bytes(b"x")
    assert error(base(tenant, version)) == (503, "unavailable")


@pytest.mark.parametrize("version", ["0", "-1", "01", "1.0", "x", "9" * 17, "%31x", "1 ", "1%0a"])
def test_a_malformed_version(standing: Tenant, version: str) -> None:
    """API-14, POLL-6, F213c: A version that is no plain decimal number is answered with 404."""
    assert error(base(standing, version)) == (404, "not_found")


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.__name__)
def test_a_base_on_lambda(
    from_environment: Ports, form: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    """POLL-6: On Lambda a base has the same bytes, and a long one is at a signed address."""
    made = Tenant(from_environment, serve(from_environment), handle="acme")
    caller = LambdaCaller(form, made.authorizer.secret)
    head = listed(made, "svc_wrt_a")
    path = f"{FEED}/base/{head.base.version}"
    answer = caller.call(feed_handler.handler, "GET", path)
    assert answer.status == 200
    assert base_ids(gzip.decompress(answer.body), head.base) == ["svc_wrt_a"]
    assert caller.call(feed_handler.handler, "GET", FEED).json()["max_wait_seconds"] == 0
    monkeypatch.setattr(bodies, "ANSWER_MAX", 10)
    moved = caller.call(feed_handler.handler, "GET", path)
    assert (moved.status, moved.headers["cache-control"]) == (307, "no-store")
    assert f"/bases/{head.base.version:012d}-" in moved.headers["location"]
