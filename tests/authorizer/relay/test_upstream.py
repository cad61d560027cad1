"""A service that answers wrongly: nothing that is not verified passes a relay."""

import gzip
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shared.authorizer import follower
from shared.authorizer.relay import upstream
from shared.authorizer.view import ClockReading
from tests.authorizer.feeds import Feed, signer
from tests.authorizer.relay.relays import FEED, Running, running
from tests.authorizer.service import Response, Service, serving
from tests.kit.waiting import soon


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "_POLL_SECONDS", 0.02)


@pytest.fixture
def service(service: Service) -> Service:
    service.revoke("svc_wrt_a")
    service.revoke("svc_wrt_b")
    return service


@pytest.fixture
def relay(service: Service, tmp_path: Path) -> Iterator[Running]:
    with running(service, tmp_path / "relay") as relay:
        soon(lambda: relay.holds(2))
        yield relay


def rolls_back(service: Service) -> None:
    with service.changing:
        service.feed = Feed()
        service.revoke("svc_wrt_a")


def fails(service: Service) -> None:
    service.instead = lambda _path: Response(b"no", 503)


REFUSED: dict[Callable[[Service], None], str] = {rolls_back: "refused rollback", fails: "failures"}


@pytest.mark.parametrize("fault", REFUSED, ids=lambda fault: fault.__name__)
def test_nothing_that_is_not_verified_passes(
    service: Service, relay: Running, fault: Callable[[Service], None]
) -> None:
    """FLEET-20, F298a: A relay passes on only what it verified; after a fault it keeps its state.

    It counts why, and what it answers gets older.
    """
    before = relay.get()
    fault(service)
    soon(lambda: relay.relay.counts[REFUSED[fault]])
    after = relay.get()
    assert (after.status, after.body) == (200, before.body)
    confirmed = relay.relay.news.confirmed
    soon(lambda: relay.relay.counts[REFUSED[fault]] > 1)
    assert relay.relay.news.confirmed == confirmed
    name = REFUSED[fault].removeprefix("refused ")
    assert name in relay.get("/metrics").body.decode()


@pytest.mark.parametrize(
    "instead",
    [
        Response(b"no", 404),
        Response(gzip.compress(b"another"), headers={"Content-Encoding": "gzip"}),
        Response(b"short", headers={"Content-Encoding": "gzip"}),
    ],
)
def test_a_base_with_another_hash_does_not_pass(
    service: Service, relay: Running, instead: Response
) -> None:
    """F298b: A relay passes on no base of another hash than a head that it verified names."""
    soon(lambda: relay.get(f"{FEED}/base/1").status == 200)
    service.instead = lambda path: instead if "/base/" in path else None
    service.feed.publish_list()
    service.sign()
    soon(lambda: relay.get().answer.payload == service.head().encode())
    assert relay.get(f"{FEED}/base/2").status == 503
    service.instead = lambda _path: None
    assert gzip.decompress(relay.get(f"{FEED}/base/2").body) == service.feed.data


def test_what_a_dropped_key_signed_is_withheld(service: Service, relay: Running) -> None:
    """F298c: A relay withholds the head of a list signer that a document drops."""
    service.vouch(signer(2))
    soon(lambda: relay.get().status == 503)
    service.feed.key = signer(2)
    service.sign()
    soon(lambda: relay.get().status == 200)


def test_a_relay_that_is_cut_off(
    service: Service, relay: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F298d, F1890b: `/readyz` is 503 if the head was confirmed more than 30 seconds ago.

    A relay answers 503 instead of with a head that has expired.
    """
    fails(service)
    soon(lambda: relay.relay.counts["failures"])
    monkeypatch.setattr(relay.relay, "_apply_update", lambda _news: None)
    # The loop has handled earlier news once it has answered.
    relay.get("/healthz")
    news = relay.relay.news
    for seconds, status in ((28.0, 200), (31.0, 503)):
        old = replace(news, confirmed=ClockReading.now().minus(seconds))
        monkeypatch.setattr(relay.relay, "news", old)
        assert relay.get("/readyz").status == status
        assert relay.get("/healthz").status == 200
    monkeypatch.setattr(relay.relay, "news", replace(news, held=None))
    assert relay.get("/readyz").status == 503
    held = news.held
    assert held
    expired = replace(held, head=replace(held.head, expires_at=held.head.issued_at))
    monkeypatch.setattr(relay.relay, "news", replace(news, held=expired))
    assert relay.get().status == 503
    assert relay.get("/healthz").json()["status"] == "no valid head"


def test_before_the_first_answer_there_is_none(tmp_path: Path) -> None:
    """F298e: A relay answers 503 before it has verified anything."""
    with serving(Service()) as service:
        fails(service)
        with running(service, tmp_path) as relay:
            assert [relay.get(path).status for path in (FEED, "/v1/trust")] == [503, 503]
            assert relay.get(f"{FEED}/base/1").status == 404
            assert relay.get("/healthz").json()["sequence"] is None


def test_an_error_that_nobody_foresaw_does_not_end_the_relay(
    service: Service, relay: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F298f: The thread that follows the service goes on after any error."""
    monkeypatch.setattr(follower, "_PAUSE", 0.01)

    def breaks(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(relay.relay._upstream._follower, "_exchange", breaks)
        soon(lambda: relay.relay.counts["failures"])
    service.revoke("svc_wrt_c")
    soon(lambda: relay.holds(3))
