"""The client, against a service on loopback that signs a real feed."""

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cbor2
import pytest

from shared.authorizer import (
    AsyncAuthorizerClient,
    AuthorizerClient,
    FileStateStore,
    NotReady,
    PollPolicy,
    SavedStateCorrupt,
    Verdict,
    events,
    state,
    token_id,
    view,
)
from shared.authorizer.formats import wire
from shared.authorizer.formats.ids import of_base
from tests.authorizer.clients import Made, arguments
from tests.authorizer.feeds import HOUR, Feed, public, signer
from tests.authorizer.service import Response, Service
from tests.kit.asgi import run
from tests.kit.waiting import soon

CLEAR, REVOKED, STALE = Verdict


def never_ready(client: AuthorizerClient, why: str) -> None:
    """Start a client that has nothing to decide by, and wait until it says why."""
    with pytest.raises(NotReady):
        client.start(wait=0)
    soon(lambda: why in client._problem)


def test_a_revocation_reaches_the_client(service: Service, made: Made) -> None:
    """F180a: A client refuses a chain of warrants as soon as one of them is revoked."""
    service.revoke("svc_wrt_a")
    client = made().start()
    assert client.check(["svc_wrt_root", "svc_wrt_a"]) is REVOKED
    assert client.check(["svc_wrt_root", "svc_wrt_b"]) is CLEAR
    service.revoke("svc_wrt_b")
    assert client.wait_for(2, timeout=60)
    assert client.check(["svc_wrt_root", "svc_wrt_b"]) is REVOKED
    assert not client.wait_for(3, timeout=0.01)
    status = client.status
    assert (status.sequence, status.revoked, status.stale) == (2, 2, False)
    assert (status.failures, status.refusals) == (0, {})


def test_subject_cutoffs(service: Service, made: Made) -> None:
    """F2400a, TOKEN-11: A client refuses tokens of a subject up to the latest cutoff in force."""
    earlier, later = (_of_ann(each) for each in (100, 200))
    service.revoke(earlier)
    client = made().start()
    assert client.check([_of_ann(100)]) is client.check(["svc_wrt_a", _of_ann(0)]) is REVOKED
    assert client.check([_of_ann(101)]) is CLEAR
    service.revoke(later)
    assert client.wait_for(2, timeout=60)
    assert client.check([_of_ann(101)]) is REVOKED
    with service.changing:
        service.feed.publish(removed=(later,))
        service.sign()
    assert client.wait_for(3, timeout=60)
    assert (client.check([_of_ann(101)]), client.check([_of_ann(99)])) == (CLEAR, REVOKED)


def test_cutoffs_stay_when_a_set_is_folded() -> None:
    """F2400b: A set that is folded, or has its base in another form, has the same cutoffs."""
    ids = {_of_ann(100), "svc_wrt_a", "svc_wrt_t", *(f"svc_wrt_sub-{each}" for each in range(9))}
    feed = Feed(ids=ids)
    found = of_base(feed.data, feed.base)
    assert found.cutoffs == {_of_ann(0)[:-12]: [f"{100:012d}"]}
    entry = wire.FeedEntry(1, (_of_ann(7),), (_of_ann(100),))
    assert found.apply([entry]).compact().cutoffs == {_of_ann(0)[:-12]: [f"{7:012d}"]}
    # The name of the member occurs twice, so it is not read in place.
    data = cbor2.dumps(cbor2.loads(feed.data) | {"A": "RevokedIDs"}, canonical=True)
    base = replace(feed.base, sha256=hashlib.sha256(data).digest())
    assert of_base(data, base).cutoffs == found.cutoffs


def _of_ann(issued_before: int) -> str:
    return token_id("jwt-subject", "https://as.example", "ann", issued_before)


def test_what_is_no_chain_is_an_error(made: Made) -> None:
    """F180b: A client raises an error for an empty chain, a bare text and an identifier in bytes.

    Each would be CLEAR if it were only looked up.
    """
    client = made().start()
    wrong: list[Any] = ["svc_wrt_a", [b"svc_wrt_a"], [None], [["svc_wrt_a"]]]
    for chain in wrong:
        with pytest.raises(TypeError):
            client.check(chain)
    with pytest.raises(ValueError, match="one warrant"):
        client.check([])
    assert client.check(iter(["svc_wrt_a"])) is CLEAR


def test_without_news_nothing_is_clear(
    service: Service, made: Made, pass_time: Callable[[float], None]
) -> None:
    """F181a: Without an answer for `max_staleness`, no warrant is CLEAR; a revoked one is REVOKED.

    A service that answers again makes the client recover.
    """
    service.revoke("svc_wrt_a")
    seen: list[events.Event] = []
    client = made(on_event=seen.append).start()
    assert client.check(["svc_wrt_b"]) is CLEAR
    service.instead = lambda _path: Response(b"no", 503, {"Retry-After": "0"})
    soon(lambda: client.status.failures)
    assert client.check(["svc_wrt_b"]) is CLEAR
    pass_time(31)
    assert client.check(["svc_wrt_b"]) is STALE
    assert client.check(["svc_wrt_a"]) is REVOKED
    soon(lambda: events.BecameStale() in seen)
    service.instead = lambda _path: None
    soon(lambda: client.check(["svc_wrt_b"]) is CLEAR)
    soon(lambda: seen.count(events.BecameFresh()) == 2)


def test_what_has_not_changed_is_confirmed(service: Service, made: Made) -> None:
    """F181b: A 304 confirms the state that the client holds, for another `max_staleness`."""
    client = made().start()
    first = client.status.confirmed_at
    assert first
    polled = service.polls()
    soon(lambda: service.polls() > polled + 3)
    confirmed = client.status.confirmed_at
    assert confirmed
    assert confirmed > first
    assert all(
        "If-None-Match" in headers for path, headers in service.asked if "feed?after" in path
    )


def test_the_age_of_an_answer_counts(service: Service, made: Made) -> None:
    """F296a: An answer that a relay had for longer than `max_staleness` clears no warrant.

    What it revokes is REVOKED. An answer that is younger makes the client recover.
    """
    service.revoke("svc_wrt_a")
    service.age = "31"
    client = made()
    never_ready(client, "the response is 31 seconds old")
    assert [client.check([each]) for each in ("svc_wrt_a", "svc_wrt_b")] == [REVOKED, STALE]
    service.age = "2"
    soon(lambda: client.check(["svc_wrt_b"]) is CLEAR)
    confirmed = client.status.confirmed_at
    assert confirmed
    assert time.time() - confirmed.timestamp() > 1.9
    # A relay that is behind this one does not take back what is confirmed.
    service.age = "31"
    polled = service.polls()
    soon(lambda: service.polls() > polled + 1)
    assert client.check(["svc_wrt_b"]) is CLEAR
    # Nor does its news.
    service.revoke("svc_wrt_c")
    assert client.wait_for(2, timeout=60)
    assert client.check(["svc_wrt_b"]) is CLEAR


@pytest.mark.parametrize("age", ["-1", "+1", "1.5", "", " ", "soon", "0, 0", "1000, 0"])
def test_an_age_that_is_no_number_confirms_nothing(service: Service, made: Made, age: str) -> None:
    """F296b: An answer whose `Age` is malformed, or comes twice, is not used."""
    service.age = age
    client = made()
    never_ready(client, "the Age of the response")
    assert client.check(["svc_wrt_b"]) is STALE


def test_a_head_that_expired_clears_nothing(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """F181c: Once the signed head has expired, no warrant is CLEAR, whatever the policy says."""
    client = made(policy=PollPolicy(max_staleness=10**6, poll_seconds=60)).start()
    monkeypatch.setattr(view, "now", lambda: time.time() + 3590)
    assert client.check(["svc_wrt_b"]) is CLEAR
    monkeypatch.setattr(view, "now", lambda: time.time() + 3601)
    assert client.check(["svc_wrt_b"]) is STALE


def test_a_machine_that_slept_clears_nothing(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """F181f: A state is as old as either clock says, so neither sleep nor a set clock renews it."""
    client = made(policy=PollPolicy(max_staleness=30, poll_seconds=15)).start()
    for now, monotonic, verdict in ((31, 0, STALE), (0, 31, STALE), (0, 0, CLEAR), (-99, 0, CLEAR)):
        with monkeypatch.context() as patched:
            patched.setattr(view, "now", partial(_later, time.time, now))
            patched.setattr(view, "monotonic", partial(_later, time.monotonic, monotonic))
            assert client.check(["svc_wrt_b"]) is verdict
            assert client.status.stale is (verdict is STALE)


def _later(clock: Callable[[], float], seconds: float) -> float:
    return clock() + seconds


def test_an_age_counts_from_the_question(
    service: Service, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F604a: An answer is as old as its request, however long the network takes."""
    delayed = [0.0]

    def delay(path: str) -> None:
        delayed[0] += 31 * path.startswith("/v1/revocations/feed")

    monkeypatch.setattr(view, "now", lambda: time.time() + delayed[0])
    monkeypatch.setattr(view, "monotonic", lambda: time.monotonic() + delayed[0])
    service.instead = delay
    verdicts: list[Verdict] = []

    def check(event: events.Event) -> None:
        if isinstance(event, events.PollSucceeded):
            verdicts.append(client.check(["svc_wrt_b"]))

    client = made(policy=PollPolicy(max_staleness=30, poll_seconds=0.01), on_event=check)
    with pytest.raises(NotReady):
        client.start(wait=0)
    soon(lambda: len(verdicts) > 2)
    assert {*verdicts} == {STALE}
    service.instead = lambda _path: None
    soon(lambda: client.check(["svc_wrt_b"]) is CLEAR)


def test_a_clock_that_was_set_back_confirms_nothing(
    service: Service, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F604b: A saved state that was confirmed in the future clears nothing after a restart."""
    with monkeypatch.context() as patched:
        patched.setattr(view, "now", partial(_later, time.time, 1000))
        made().start().close()
    service.instead = lambda _path: Response(b"", 503)
    client = made()
    with pytest.raises(NotReady):
        client.start(wait=0)
    assert client.status.sequence == 0
    assert client.check(["svc_wrt_b"]) is STALE


def test_allow_when_stale_needs_a_state(
    service: Service, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    """F181d: With `fail_open`, a stale state still clears; no state never does."""
    policy = PollPolicy(max_staleness=0.1, poll_seconds=0.05, fail_open=True)
    service.instead = lambda _path: Response(b"", 503)
    client = made(policy=policy)
    never_ready(client, "answered 503")
    assert "fail_open" in caplog.text
    assert client.check(["svc_wrt_b"]) is STALE
    service.instead = lambda _path: None
    soon(lambda: client.check(["svc_wrt_b"]) is CLEAR)
    service.instead = lambda _path: Response(b"", 503)
    soon(lambda: client.status.stale)
    assert client.check(["svc_wrt_b"]) is CLEAR


def test_a_restart_goes_on_where_it_stopped(service: Service, made: Made) -> None:
    """F182a: After a restart the client decides at once from what it saved, without the service.

    Once the saved state is too old, only what is known to be revoked is decided.
    """
    service.revoke("svc_wrt_a")
    made().start().close()
    service.revoke("svc_wrt_b")
    first = made().start()
    assert first.wait_for(2, timeout=60)
    first.close()
    service.instead = lambda _path: Response(b"", 503)
    again = made().start(wait=0)
    assert again.check(["svc_wrt_a"]) is again.check(["svc_wrt_b"]) is REVOKED
    assert again.check(["svc_wrt_c"]) is CLEAR
    again.close()
    client = made(policy=PollPolicy(max_staleness=0.001, poll_seconds=1))
    with pytest.raises(NotReady):
        client.start(wait=0)
    assert client.check(["svc_wrt_b"]) is REVOKED
    assert client.check(["svc_wrt_c"]) is STALE


def test_a_start_asks_the_service_first(service: Service, made: Made) -> None:
    """F182j: A client that starts asks the service before it uses what it saved.

    If the service does not answer, it uses that, as long as it is recent.
    """
    made().start().close()
    service.revoke("svc_wrt_a")
    client = made().start()
    assert client.check(["svc_wrt_a"]) is REVOKED
    client.close()
    service.instead = lambda _path: Response(b"", 503)
    # A start that waited for an answer would not end.
    assert made().start(wait=3600).check(["svc_wrt_b"]) is CLEAR


@pytest.mark.parametrize("pattern", ["none", "base-*"])
def test_an_older_service_is_refused_after_a_restart(
    service: Service, made: Made, tmp_path: Path, pattern: str
) -> None:
    """F182b, F182i: After a restart, a client refuses a feed that is older than its state.

    That does not depend on the saved base.
    """
    before = Service().feed
    service.revoke("svc_wrt_a")
    made().start().close()
    for base in (tmp_path / "state").glob(pattern):
        base.unlink()
    newer, service.feed = service.feed, before
    service.sign()
    client = made()
    with suppress(NotReady):
        client.start(wait=0)
    soon(lambda: "rollback" in client.status.refusals)
    service.feed = newer
    service.sign()
    soon(lambda: client.check(["svc_wrt_a"]) is REVOKED)


def test_a_state_counts_only_once_it_is_saved(service: Service, made: Made, tmp_path: Path) -> None:
    """F182c: A state that could not be saved does not count, so a restart cannot go below it."""
    client = made(policy=PollPolicy(max_staleness=1, poll_seconds=0.01)).start()
    folder = tmp_path / "state"
    (folder / "floor.json").write_bytes(b"damaged")
    service.revoke("svc_wrt_a")
    soon(lambda: client.check(["svc_wrt_b"]) is STALE)
    assert client.status.sequence == 0
    assert client.check(["svc_wrt_a"]) is STALE
    (folder / "floor.json").unlink()
    soon(lambda: client.check(["svc_wrt_a"]) is REVOKED)


def test_a_saved_state_of_another_tenant_is_refused(made: Made) -> None:
    """F182d: A client does not start with the saved state of another tenant."""
    made().start().close()
    with pytest.raises(SavedStateCorrupt, match="each tenant"):
        made(tenant="svc_tnt_other").start()


def test_a_client_that_was_away_begins_at_a_new_base(service: Service, made: Made) -> None:
    """F180c: A client that missed a break, or whose entries are gone, takes the new base."""
    client = made().start()
    service.feed.publish(leap=2**20)
    service.feed.ids = {"svc_wrt_of-the-break"}
    service.feed.publish_list()
    service.sign()
    soon(lambda: client.check(["svc_wrt_of-the-break"]) is REVOKED)
    assert client.status.base_version == 2


def test_a_long_poll_brings_news_at_once(service: Service, made: Made) -> None:
    """F180d: If the service grants a wait, the client uses it, and polls less than without."""
    service.max_wait_seconds = 60
    policy = PollPolicy(max_staleness=7200, poll_seconds=3600, wait_seconds=60)
    client = made(policy=policy).start()
    soon(lambda: any("wait=60" in path for path, _ in service.asked))
    service.revoke("svc_wrt_a")
    # The next poll would be half an hour later.
    assert client.wait_for(1, timeout=60)
    assert service.polls() <= 4


def test_a_rotation_is_followed(service: Service, made: Made) -> None:
    """F183a, VERIFY-4: A client follows documents from its pin to the present list signer.

    Once a document drops a signer, the client accepts no head by it, also after a restart.
    """
    seen: list[events.Event] = []
    client = made(on_event=seen.append).start()
    service.vouch(service.feed.key, signer(2))
    service.feed.key = signer(2)
    service.vouch(signer(2), signer(3))
    service.revoke("svc_wrt_a")
    assert client.wait_for(1, timeout=60)
    assert client.status.signer == public(signer(2)).hex()
    service.feed.key = signer(3)
    service.revoke("svc_wrt_b")
    assert client.wait_for(2, timeout=60)
    soon(lambda: seen.count(events.SignerChanged(public(signer(3)))) == 1)
    client.close()
    service.feed.key = signer(1)
    service.revoke("svc_wrt_c")
    client = made(on_event=seen.append).start()
    soon(lambda: events.ResponseRejected("signature") in seen)
    assert client.status.sequence == 2
    assert client.check(["svc_wrt_a"]) is REVOKED


def test_a_dropped_signer_clears_nothing(service: Service, made: Made) -> None:
    """F183b, F183c, VERIFY-4: What a signer signs clears nothing unless a document names it.

    That is so after a document drops a stolen signer, and after a restart. The client reads the
    next document after it has refused a head.
    """
    client = made().start()
    service.revoke("svc_wrt_x")
    assert client.wait_for(1, timeout=60)
    thief = service.feed.branch()
    service.vouch(signer(2))
    soon(lambda: client.check(["svc_wrt_b"]) is STALE)
    assert client.check(["svc_wrt_x"]) is REVOKED
    client.close()
    service.feed = thief
    thief.publish("svc_wrt_thief")
    service.sign()
    again = made(policy=PollPolicy(max_staleness=5, poll_seconds=0.01))
    never_ready(again, "signature")
    assert again.check(["svc_wrt_b"]) is STALE
    service.vouch()
    soon(lambda: again.check(["svc_wrt_thief"]) is REVOKED)


def _async_client(service: Service, folder: Path) -> AsyncAuthorizerClient:
    return AsyncAuthorizerClient(service.url, **arguments(state=FileStateStore(folder)))


def test_async(service: Service, tmp_path: Path) -> None:
    """F180f: The asyncio client decides as the other does, and yields the events."""

    async def use() -> None:
        client = _async_client(service, tmp_path / "state")
        async with client:
            assert client.check(["svc_wrt_a"]) is CLEAR
            service.revoke("svc_wrt_a")
            assert await client.wait_for(1, timeout=60)
            assert client.check(["svc_wrt_a"]) is REVOKED
            async for event in client.events():
                if isinstance(event, events.StateAdvanced) and event.before is not None:
                    assert (event.after, event.count) == (1, 1)
                    break
        assert client.status.sequence == 1

    run(use())


def test_a_client_that_did_not_become_ready_is_closed(
    service: Service,
    made: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F310a: If a client in a `with` statement does not become ready, it is closed.

    The block does not run, and the caller may have no other name for the client.
    """
    monkeypatch.setattr(AuthorizerClient.start, "__kwdefaults__", {"wait": 0.1})
    service.instead = lambda _path: Response(b"", 503)
    client, other = made(), _async_client(service, tmp_path / "other")
    with pytest.raises(NotReady), client:
        pytest.fail("the client has no state")
    monkeypatch.setattr(AsyncAuthorizerClient.start, "__kwdefaults__", {"wait": 0.1})
    with pytest.raises(NotReady):
        run(other.__aenter__())
    for each in (client, other._client):
        assert not any(thread.is_alive() for thread in each._threads)


def test_a_client_is_closed_in_a_long_poll(service: Service, made: Made) -> None:
    """F185d: `close` ends a poll that waits for news, instead of waiting for it."""
    service.max_wait_seconds = 60
    client = made(policy=PollPolicy(max_staleness=7200, wait_seconds=60)).start()
    soon(lambda: any("wait=60" in path for path, _ in service.asked))
    soon(lambda: service.waiting == 1)
    client.close()
    assert service.waiting == 1
    assert not any(each.is_alive() for each in client._threads)
    with pytest.raises(RuntimeError, match="already started"):
        client.start()


def test_nothing_ends_the_thread(
    service: Service,
    made: Made,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """F184h: An error that nobody foresaw, also one of `on_event`, does not end the thread."""

    def fail(_event: object) -> None:
        raise ZeroDivisionError

    client = made(on_event=fail).start()
    monkeypatch.setattr("shared.authorizer.follower._PAUSE", 0.01)
    poll = client._follower.poll
    monkeypatch.setattr(client._follower, "poll", lambda: fail(None))
    soon(lambda: client.status.failures)
    monkeypatch.setattr(client._follower, "poll", poll)
    service.revoke("svc_wrt_a")
    assert client.wait_for(1, timeout=60)
    assert client.check(["svc_wrt_a"]) is REVOKED
    assert "cannot follow the feed" in caplog.text
    assert "on_event failed" in caplog.text


def test_a_state_with_a_long_trail_begins_anew(
    service: Service, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F182k: Once the entries since a base are too many to save, the client takes the newest base.

    So each state that counts can be restored after a restart.
    """
    monkeypatch.setattr(state, "TRAIL_BYTES_MAX", 300)
    client = made().start()
    for number in range(12):
        service.revoke(f"svc_wrt_{number}")
        service.feed.publish_list()
        service.sign()
        assert client.wait_for(number + 1, timeout=60)
    soon(lambda: client.status.base_version == 13)
    assert len([path for path, _ in service.asked if "/base/" in path]) > 1
    client.close()
    service.instead = lambda _path: Response(b"", 503)
    again = made().start()
    assert {again.check([f"svc_wrt_{number}"]) for number in range(12)} == {REVOKED}


def test_a_long_trail_is_no_way_back(
    service: Service, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F604c: A client that begins anew with another base refuses a feed older than what it had."""
    monkeypatch.setattr(state, "TRAIL_BYTES_MAX", 0)
    before = Service().feed
    seen: list[events.Event] = []
    client = made(on_event=seen.append).start()
    service.revoke("svc_wrt_a")
    assert client.wait_for(1, timeout=60)
    service.feed = before
    service.sign()
    soon(lambda: events.ResponseRejected("rollback") in seen)
    assert client.check(["svc_wrt_a"]) is REVOKED


def test_after_a_gap_the_client_asks_for_all_entries(service: Service, made: Made) -> None:
    """F180g: A client that gets too few entries asks for all of them, and continues."""
    client = made().start()

    def short(path: str) -> Response | None:
        if "after=0" not in path or service.feed.sequence == 0:
            return None
        issued_at = service.issued_at
        full = service.feed.answer(issued_at=issued_at, expires_at=issued_at + HOUR)
        return Response(replace(full, entries=full.entries[1:]).encode())

    service.instead = short
    service.feed.publish("svc_wrt_a")
    service.revoke("svc_wrt_b")
    soon(lambda: client.check(["svc_wrt_a"]) is REVOKED)
    assert client.status.refusals == {"gap": 1}
