"""A relay between our own client, unmodified, and a service on loopback."""

import gzip
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from shared.authorizer import AuthorizerClient, NotReady, PollPolicy, Verdict
from shared.authorizer.relay import upstream
from shared.authorizer.saved_state import MemoryStateStore, StateStore
from tests.authorizer.clients import arguments
from tests.authorizer.relay.relays import FEED, HOST, Running, running
from tests.authorizer.service import Response, Service, serving
from tests.kit import conditions, framing
from tests.kit.waiting import soon

CLEAR, REVOKED, STALE = Verdict
TOKEN = "a-token-of-the-relay-itself"


@pytest.fixture
def service(service: Service) -> Service:
    service.max_wait_seconds = 25
    service.revoke("svc_wrt_a")
    return service


@pytest.fixture
def relay(service: Service, tmp_path: Path) -> Iterator[Running]:
    with running(service, tmp_path / "relay") as relay:
        soon(lambda: relay.holds(1))
        yield relay


@pytest.fixture(scope="module")
def unchanged_relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One relay for all tests that only read: to start and stop one takes a quarter second."""
    with serving(Service()) as service:
        service.vouch()
        service.revoke("svc_wrt_a")
        with running(service, tmp_path_factory.mktemp("relay")) as relay:
            soon(lambda: relay.holds(1))
            yield relay


def made(url: str, *, state: StateStore | None = None, **policy: Any) -> AuthorizerClient:
    kept = {"state": state} if state else {}
    wanted = PollPolicy(**{"poll_seconds": 0.01} | policy)
    return AuthorizerClient(url, **arguments(api_key=TOKEN, policy=wanted, **kept))


@contextmanager
def client(relay: Running, **policy: Any) -> Iterator[AuthorizerClient]:
    with made(relay.url, **policy).start() as client:
        yield client


def away(service: Service) -> None:
    """Let the service answer nothing."""
    service.instead = lambda _path: Response(b"", 503)


def test_a_client_of_a_relay_refuses_what_is_revoked(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F297a: A client of a relay refuses a revoked warrant as one of the service does."""
    # The relay polls only when the service has news.
    monkeypatch.setattr(upstream, "_POLL_SECONDS", 3600.0)
    service.max_wait_seconds = 3600
    with ExitStack() as stack:
        relay = stack.enter_context(running(service, tmp_path))
        soon(lambda: relay.holds(1))
        one, two = (stack.enter_context(client(relay)) for _ in range(2))
        for each in (one, two):
            assert each.check(["svc_wrt_a"]) is REVOKED
            assert each.check(["svc_wrt_b"]) is CLEAR
        polled = service.polls()
        service.revoke("svc_wrt_b")
        for each in (one, two):
            assert each.wait_for(2, timeout=60)
            assert each.check(["svc_wrt_b"]) is REVOKED
            assert each.status.refusals == {}
            assert each.status.failures == 0
        # The relay polls once for both.
        assert service.polls() - polled <= 3


def test_what_is_signed_is_passed_on_as_it_is(service: Service, relay: Running) -> None:
    """F297b: Heads, entries and bases are passed on byte for byte."""
    service.revoke("svc_wrt_b")
    soon(lambda: relay.holds(2))
    answer = relay.get().answer
    head = service.head()
    assert answer.payload == head.encode()
    assert answer.entries == tuple(service.feed.entries.values())
    assert relay.get(f"{FEED}?after=1").answer.entries == (service.feed.entries[2],)
    assert relay.get(f"{FEED}?after=2").answer.entries == ()
    base = relay.get(f"{FEED}/base/{head.base.version}")
    assert base.headers["content-encoding"] == "gzip"
    assert gzip.decompress(base.body) == service.feed.data


def test_polls_wait_for_news(
    service: Service, relay: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F297c: A poll that waits is answered when there is an entry, and with 304 when there is none.

    More polls than may wait are answered at once.
    """
    etag, waited, change = relay.get().headers["etag"], list[float](), relay.relay.waiting.change

    async def noted(seconds: float) -> None:
        waited.append(seconds)
        await change(seconds)

    monkeypatch.setattr(relay.relay.waiting, "change", noted)
    assert relay.get(f"{FEED}?after=1&wait=1", if_none_match=etag).status == 304
    assert waited == [1]
    with ThreadPoolExecutor(2) as pool:
        path = f"{FEED}?after=1&wait=25"
        polls = [pool.submit(relay.get, path, if_none_match=etag) for _ in range(2)]
        soon(lambda: len(relay.relay.waiting) == 2)
        service.revoke("svc_wrt_b")
        assert [each.result().answer.entries for each in polls] == [(service.feed.entries[2],)] * 2


def test_too_many_polls_do_not_wait(service: Service, tmp_path: Path) -> None:
    """F297d: More polls than may wait are answered at once."""
    with running(service, tmp_path, most_waiting=0) as relay:
        soon(lambda: relay.holds(1))
        etag = relay.get().headers["etag"]
        path = f"{FEED}?after=1&wait=25"
        with ThreadPoolExecutor(1) as pool:
            poll = pool.submit(relay.get, path, if_none_match=etag)
            assert poll.result(timeout=20).status == 304


@pytest.mark.slow
def test_a_relay_without_its_service_says_how_old_its_answers_are(
    service: Service, relay: Running
) -> None:
    """FLEET-21, F299a: Without the service, clients of a relay are stale as without the relay.

    The relay answers with what it has. Its age counts for `max_staleness` of each client.
    """
    service.max_wait_seconds = 0
    with client(relay, max_staleness=2.5) as held:
        soon(lambda: held.check(["svc_wrt_b"]) is CLEAR)
        away(service)
        soon(lambda: held.check(["svc_wrt_b"]) is STALE)
        assert held.check(["svc_wrt_a"]) is REVOKED
        # An age has whole seconds.
        soon(lambda: relay.get().age > 2)
        reply = relay.get()
        assert reply.status == 200
        # A newcomer learns what is revoked, and clears nothing.
        newcomer = made(relay.url, max_staleness=2.5)
        with pytest.raises(NotReady):
            newcomer.start(wait=0)
        soon(lambda: "seconds old" in newcomer._problem)
        assert newcomer.check(["svc_wrt_a"]) is REVOKED
        assert newcomer.check(["svc_wrt_b"]) is STALE
        newcomer.close()
        service.instead = lambda _path: None
        soon(lambda: held.check(["svc_wrt_b"]) is CLEAR)


@pytest.mark.slow
def test_a_wait_makes_no_answer_old(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F299b: The age of an answer is counted until the request, so a wait does not add to it."""
    monkeypatch.setattr(upstream, "_POLL_SECONDS", 0.05)
    with running(service, tmp_path) as relay:
        soon(lambda: relay.holds(1))
        etag = relay.get().headers["etag"]
        soon(lambda: relay.get(f"{FEED}?after=1", if_none_match=etag).age == 1)

        def waited() -> bool:
            reply = relay.get(f"{FEED}?after=1&wait=1", if_none_match=etag)
            assert reply.status == 304
            return reply.age == 0

        # That is if the service confirms the head during the wait.
        soon(waited)


def test_a_base_that_was_damaged_on_the_disk_is_fetched_again(
    service: Service, tmp_path: Path
) -> None:
    """F300b: A base whose file was damaged while the relay was stopped is fetched again."""
    path = f"{FEED}/base/{service.feed.version}"
    with running(service, tmp_path) as relay:
        soon(lambda: relay.holds(1))
        whole = relay.get(path)
        assert relay.get(path, if_none_match=whole.headers["etag"]).status == 304
    (file,) = (tmp_path / "bases").iterdir()
    file.write_bytes(gzip.compress(b"something else"))
    for each in (tmp_path / "floor").glob("base-*"):
        each.unlink()
    with running(service, tmp_path) as relay:
        soon(lambda: relay.holds(1))
        assert gzip.decompress(relay.get(path).body) == service.feed.data


@pytest.mark.slow
def test_bases_of_replaced_heads_are_kept_for_a_while(service: Service, relay: Running) -> None:
    """F300c: A relay keeps the bases of the newest heads, and removes older ones."""
    for _ in range(4):
        service.feed.publish_list()
        service.sign()
        soon(lambda: _base_version(relay) == service.feed.version)
        assert relay.get(f"{FEED}/base/{service.feed.version}").status == 200
    statuses = [relay.get(f"{FEED}/base/{each}").status for each in range(1, 6)]
    assert statuses == [404, 404, 200, 200, 200]


def _base_version(relay: Running) -> int:
    held = relay.relay.news.held
    assert held
    return held.head.base.version


def test_a_relay_answers_those_with_its_token(service: Service, tmp_path: Path) -> None:
    """FLEET-23, F301a: A relay with tokens answers nobody without one, but for its health."""
    with running(service, tmp_path, tokens=[TOKEN, "another"]) as relay:
        soon(lambda: relay.holds(1))
        paths = [FEED, f"{FEED}/base/1", "/v1/trust"]
        for wrong in ("", "Bearer wrong", f"Basic {TOKEN}"):
            assert {relay.get(path, authorization=wrong).status for path in paths} == {401}
        assert {relay.get(path).status for path in paths} == {401}
        assert relay.get("/healthz").status == 200
        for right in (TOKEN, "another"):
            assert relay.get(authorization=f"Bearer {right}").status == 200
        with client(relay) as known:
            assert known.check(["svc_wrt_a"]) is REVOKED


@pytest.mark.slow
def test_a_relay_that_is_behind_says_so(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FLEET-22, F302a: A client that moves to a relay that is behind refuses nothing."""
    store = MemoryStateStore()
    with running(service, tmp_path / "one") as one, running(service, tmp_path / "two") as two:
        soon(lambda: two.holds(1))
        with monkeypatch.context() as behind:
            behind.setattr(two.relay, "_apply_update", lambda _news: None)
            service.revoke("svc_wrt_b")
            soon(lambda: one.holds(2))
            with made(one.url, state=store).start():
                pass
            assert two.get(f"{FEED}?after=2").status == 503
            moved = made(two.url, state=store)
            moved.start(wait=0.3)
            soon(lambda: moved.status.failures)
        service.revoke("svc_wrt_c")
        assert moved.wait_for(3, timeout=60)
        assert moved.status.refusals == {}
        moved.close()


def test_a_relay_that_stops_answers_those_who_wait(service: Service, tmp_path: Path) -> None:
    """F303a: A relay that stops answers the polls that wait, at once."""
    with running(service, tmp_path) as relay, ThreadPoolExecutor(1) as pool:
        soon(lambda: relay.holds(1))
        etag = relay.get().headers["etag"]
        poll = pool.submit(relay.get, f"{FEED}?after=1&wait=25", if_none_match=etag)
        soon(lambda: len(relay.relay.waiting) == 1)
        relay.server.should_exit = True
        assert poll.result(20).status == 304


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{FEED}?after=-1", 400),
        (f"{FEED}?after=01", 400),
        (f"{FEED}?after=1&after=1", 400),
        (f"{FEED}?after={2**53 + 1}", 400),
        (f"{FEED}?wait=3601", 400),
        (f"{FEED}?wait=1&wait=2", 400),
        (f"{FEED}?afterr=1", 400),
        (f"{FEED}/base/1?x=", 400),
        ("/v1/trust?wait=1", 400),
        (f"{FEED}/base/99", 404),
        (f"{FEED}/base/x", 404),
        ("/v1/revocations/srl/keys", 404),
        ("/v1/trust-bundle", 404),
        ("/v1/revocations", 404),
    ],
)
def test_bad_input_is_an_error_of_the_contract(
    unchanged_relay: Running, path: str, status: int
) -> None:
    """F301b: A relay refuses bad input with the body of errors that the service has."""
    reply = unchanged_relay.get(path)
    assert reply.status == status
    assert set(reply.json()["error"]) == {"code", "message"}


def test_monitors_see_what_is_held(relay: Running) -> None:
    """F299c: A relay shows monitors its state, its age, and its refusals."""
    soon(lambda: relay.relay.counts["polls"])
    health = relay.get("/healthz").json()
    assert (health["status"], health["sequence"]) == ("ok", 1)
    soon(lambda: relay.get("/healthz").json()["age_seconds"] <= 3)
    text = relay.get("/metrics").body.decode()
    figures = dict(line.split() for line in text.splitlines() if not line.startswith("#"))
    assert figures["rescind_relay_sequence"] == "1"
    assert int(figures["rescind_relay_polls_total"]) >= 1


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool")
def test_promtool_reads_the_metrics(service: Service, relay: Running) -> None:
    """F1745a: The metrics of a relay have help texts and types, and promtool accepts them."""
    service.instead = lambda path: Response(b"{}") if path.startswith(FEED) else None
    soon(lambda: any(name.startswith("refused") for name in relay.relay.counts))
    relay.get()
    text = relay.get("/metrics").body
    assert b'refusals_total{reason="' in text
    assert b'responses_total{status="200"}' in text
    ran = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


@pytest.mark.parametrize("form", conditions.HELD)
def test_a_relay_knows_its_tags(unchanged_relay: Running, form: str) -> None:
    """API-23, F1740b: A relay reads the conditions of requests as the service does."""
    for path in (FEED, f"{FEED}/base/1", "/v1/trust"):
        etag = unchanged_relay.get(path).headers["etag"]
        condition = conditions.condition(form, etag)["If-None-Match"]
        assert unchanged_relay.get(path, if_none_match=condition).status == 304


@pytest.mark.parametrize("form", conditions.OTHERS)
def test_a_relay_knows_the_tags_of_others(unchanged_relay: Running, form: str) -> None:
    """API-23: A relay sends what the caller does not have."""
    condition = conditions.condition(form, unchanged_relay.get().headers["etag"])["If-None-Match"]
    assert unchanged_relay.get(if_none_match=condition).status == 200


@pytest.mark.parametrize("request_", framing.REFUSED.values(), ids=framing.REFUSED)
def test_a_relay_refuses_a_request_with_two_readings(
    unchanged_relay: Running, request_: str
) -> None:
    """F1746a, API-24: A relay refuses a request that a proxy might read in another way."""
    post = "POST /v1/authorizers/register HTTP/1.1\r\nHost: x\r\n"
    with socket.create_connection((HOST, unchanged_relay.port), timeout=10) as caller:
        caller.sendall(framing.sent(request_, post))
        received = b"".join(iter(lambda: caller.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nconnection: close" in head.lower()
    assert json.loads(body)["error"]["code"] == "invalid_request"


def test_a_client_that_leaves_is_no_fault(relay: Running, caplog: pytest.LogCaptureFixture) -> None:
    """F1937a: A client that disconnects while it sends a body leaves nothing in the log."""
    for path in ("/v1/authorizers/register", "/compat/tenuo/v1/authorizers/a/events"):
        with socket.create_connection((HOST, relay.port)) as caller:
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{"
            caller.sendall(head.encode())
    soon(lambda: relay.relay.answered["400"] == 2)
    assert relay.get("/healthz").status == 200
    assert [each for each in caplog.records if each.levelname in {"ERROR", "CRITICAL"}] == []
