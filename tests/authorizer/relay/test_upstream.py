"""A service that answers wrongly: nothing that is not verified passes a relay."""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from shared.authorizer import follower
from shared.authorizer.relay import documents, upstream
from tests.authorizer.feeds import TENANT, Feed, signer
from tests.authorizer.relay.relays import FEED, Running, running
from tests.authorizer.service import Response, Service, serving
from tests.kit.waiting import soon

KEYS = "/v1/revocations/srl/keys"
PATH = "/v1/trust-bundle"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(documents, "_RETRY", 0.0)


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


def has_another_signer(service: Service) -> None:
    with service.changing:
        service.feed.key = signer(9)
        service.revoke("svc_wrt_c")


def replays_the_head(service: Service) -> None:
    with service.changing:
        service.sign()
        service.issued_at -= timedelta(seconds=10)


def fails(service: Service) -> None:
    service.instead = lambda _path: Response(b"no", 503)


def sends_too_much(service: Service) -> None:
    service.instead = lambda _path: Response(bytes(5 * 2**20))


def breaks_off(service: Service) -> None:
    service.instead = lambda _path: Response(b"{", headers={"Content-Length": "100"})


REFUSED: dict[Callable[[Service], None], str] = {
    rolls_back: "refused rollback",
    has_another_signer: "refused signature",
    replays_the_head: "refused replay",
    fails: "failures",
    sends_too_much: "refused too_large",
    breaks_off: "failures",
}


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


@pytest.mark.parametrize("body", [b"no", b"[]", b'{"keys": [], "cursor": null}', b"[" * 100_000])
def test_list_signers_without_that_of_the_head_do_not_pass(
    service: Service, relay: Running, body: bytes
) -> None:
    """F298c: A relay passes on no list signers that do not name the signer of the head."""
    service.instead = lambda path: Response(body) if path == KEYS else None
    assert relay.get(KEYS).status == 503
    service.instead = lambda _path: None
    reply = relay.get(KEYS)
    assert (reply.status, reply.json()["keys"]) == (200, service.signers)


def bundle(tenant: str, *, cursor: str | None = None, revision: str = "1") -> bytes:
    """A page of a trust bundle without keys."""
    members = {"tenant_id": tenant, "revision": revision, "keys": [], "list_signers": []}
    return json.dumps(members | {"cursor": cursor}).encode()


def test_the_trust_bundle_of_another_tenant_does_not_pass(service: Service, relay: Running) -> None:
    """F298d: A relay passes on no trust bundle of another tenant, and no page of another state."""
    pages = {PATH: bundle("svc_tnt_other")}
    service.instead = lambda path: Response(pages[path]) if path in pages else None
    assert relay.get(PATH).status == 503
    second = f"{PATH}?cursor=b"
    pages[PATH], pages[second] = bundle(TENANT, cursor="b"), bundle(TENANT, revision="2")
    assert relay.get(PATH).status == 503
    pages[second] = bundle(TENANT)
    assert (relay.get(PATH).body, relay.get(second).body) == (pages[PATH], pages[second])


def test_a_bundle_is_confirmed_by_its_validator(
    service: Service, relay: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F298e: A relay repeats the trust bundle for some seconds, and asks again with its `ETag`."""
    etags: list[str | None] = []

    def answer(path: str) -> Response | None:
        if path != PATH:
            return None
        asked = [headers for each, headers in service.asked if each == PATH]
        etags.append(asked[-1].get("If-None-Match"))
        status = 304 if etags[-1] else 200
        return Response(b"" if etags[-1] else bundle(TENANT), status, {"ETag": '"b"'})

    service.instead = answer
    first = relay.get(PATH)
    assert relay.get(PATH, if_none_match='"b"').status == 304
    assert etags == [None]
    monkeypatch.setattr(documents, "FRESH_SECONDS", 0.0)
    assert relay.get(PATH).body == first.body
    assert etags == [None, '"b"']
    # Without the service, what is there is repeated.
    service.instead = lambda _path: Response(b"", 503)
    assert relay.get(PATH).body == first.body


def test_a_document_without_an_end_is_not_kept(
    service: Service, relay: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F298f: A relay reads no endless number of pages, and no endless bytes."""
    service.instead = lambda path: Response(bundle(TENANT, cursor="x")) if PATH in path else None
    monkeypatch.setattr(documents, "_PAGES_MAX", 5)
    assert relay.get(PATH).status == 503
    monkeypatch.setattr(documents, "_BYTES_MAX", 10)
    assert relay.get(PATH).status == 503


def test_what_a_dropped_key_signed_is_withheld(service: Service, relay: Running) -> None:
    """F298g: A relay withholds the head of a list signer that a document drops."""
    service.vouch(signer(2))
    soon(lambda: relay.get().status == 503)
    assert relay.get(KEYS).status == 503
    service.feed.key = signer(2)
    service.sign()
    soon(lambda: relay.get().status == 200)


def test_a_head_that_has_expired_is_withheld(
    service: Service, relay: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F298h: A relay answers 503 instead of with a head that has expired."""
    held = relay.relay.news.held
    assert held
    expired = replace(held, head=replace(held.head, expires_at=held.head.issued_at))
    fails(service)
    soon(lambda: relay.relay.counts["failures"])
    monkeypatch.setattr(relay.relay, "_take", lambda _news: None)
    # What the loop was given before is done once it has answered.
    relay.get("/healthz")
    monkeypatch.setattr(relay.relay, "news", replace(relay.relay.news, held=expired))
    assert relay.get().status == 503
    assert relay.get("/healthz").json()["status"] == "no valid head"


def test_before_the_first_answer_there_is_none(tmp_path: Path) -> None:
    """F298i: A relay answers 503 before it has verified anything."""
    with serving(Service()) as service:
        fails(service)
        with running(service, tmp_path) as relay:
            paths = [FEED, KEYS, PATH]
            assert [relay.get(path).status for path in paths] == [503] * 3
            assert relay.get(f"{FEED}/base/1").status == 404
            assert relay.get("/healthz").json()["sequence"] is None


def test_an_error_that_nobody_foresaw_does_not_end_the_relay(
    service: Service, relay: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F298j: The thread that follows the service goes on after any error."""
    monkeypatch.setattr(follower, "_PAUSE", 0.01)

    def breaks(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(relay.relay._upstream._follower, "_exchange", breaks)
        soon(lambda: relay.relay.counts["failures"])
    service.revoke("svc_wrt_c")
    soon(lambda: relay.holds(3))
