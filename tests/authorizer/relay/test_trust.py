"""Trust documents and signing keys through a relay."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shared.authorizer import AuthorizerClient, Guard, Verdict
from shared.authorizer.formats.documents import answer, documents
from shared.authorizer.formats.signing_keys import PublishedKey
from shared.authorizer.relay import upstream
from tests.authorizer import roots
from tests.authorizer.clients import arguments
from tests.authorizer.feeds import NOW, public, signer
from tests.authorizer.relay.relays import Running, running
from tests.authorizer.service import PIN, Response, Service, serving
from tests.kit.waiting import soon

CLEAR, REVOKED, STALE = Verdict
_STANDBY = signer(2)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "_POLL_SECONDS", 0.02)


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(Service()) as made:
        made.revoke("svc_wrt_a")
        made.vouch(made.feed.key, _STANDBY)
        yield made


@pytest.fixture
def relay(service: Service, tmp_path: Path) -> Iterator[Running]:
    with running(service, tmp_path / "relay", pin=PIN) as relay:
        soon(lambda: relay.holds(1))
        yield relay


@contextmanager
def client(relay: Running, pin: str = PIN) -> Iterator[AuthorizerClient]:
    made = AuthorizerClient(relay.url, **arguments(api_key="a-token", trust_pin=pin))
    Guard(made)
    with made.start():
        yield made


def _away(service: Service) -> None:
    service.instead = lambda _path: Response(b"", 503)


def _key(number: int) -> PublishedKey:
    return PublishedKey(f"svc_key_{number}", 1, "root", "active", public(signer(number)), NOW)


@pytest.mark.slow
def test_clients_of_a_relay_follow_documents(service: Service, relay: Running) -> None:
    """TRUST-13, F733a: Behind a relay a client with one pin follows rotations and thefts.

    It becomes stale by none, and has the keys of the head.
    """
    with client(relay) as one:
        service.feed.key = _STANDBY
        service.revoke("svc_wrt_b")
        assert one.wait_for(2, timeout=60)
        service.vouch(_STANDBY, signer(3))
        with service.changing:
            service.publish_keys(_key(20))
            service.feed.key = signer(3)
            service.feed.publish(leap=2**20)
            service.feed.publish_list()
            service.vouch(signer(3))
        assert one.wait_for(service.feed.sequence, timeout=60)
        assert one.check(["svc_wrt_b"]) is REVOKED
        assert one.check(["svc_wrt_c"]) is CLEAR
        soon(lambda: one._keys.keys is not None)
        assert one.status.refusals == {}


def test_documents_are_passed_on_as_they_are(service: Service, relay: Running) -> None:
    """TRUST-8, F733b: A relay answers as the service does: what a client lacks, byte for byte."""
    for root in (202, 203):
        service.vouch(by=root)
    service.vouch(by=203)
    reference = service.documents[-1].reference
    soon(lambda: relay.relay.news.held and relay.relay.news.held.head.trust == reference)
    for after in (0, 1, 2, 3, 4, 9):
        path = f"/v1/trust?after={after}"
        assert relay.get(path).body == service.answer(path, {}).body
    assert [each.document.version for each in documents(relay.get("/v1/trust").body)] == [
        1,
        2,
        3,
        4,
    ]
    etag = relay.get("/v1/trust").headers["etag"]
    assert relay.get("/v1/trust", if_none_match=etag).status == 304
    assert relay.get("/v1/trust?after=x").status == 400
    with client(relay) as one:
        assert one.check(["svc_wrt_b"]) is CLEAR


def test_a_relay_with_a_later_pin_serves_clients_with_the_first(
    service: Service, tmp_path: Path
) -> None:
    """TRUST-12, F733c: A relay passes on the documents before its own pin too."""
    service.vouch(by=202)
    with running(service, tmp_path, pin=roots.roots(202).pin) as relay:
        soon(lambda: relay.holds(1))
        with client(relay, PIN) as one:
            assert one.check(["svc_wrt_a"]) is REVOKED


def test_a_document_that_the_roots_did_not_sign_does_not_pass(
    service: Service, relay: Running
) -> None:
    """FLEET-20, F733d: A relay passes on no document that it has not verified."""
    before = relay.get("/v1/trust").body
    with service.changing:
        made = service.vouch()
        forged = answer([type(made)(made.payload, {public(signer(9)): b"s" * 64}, made.document)])
        service.instead = lambda path: Response(forged) if path.startswith("/v1/trust?") else None
    soon(lambda: relay.relay.counts["refused root"])
    assert relay.get("/v1/trust").body == before
    service.instead = lambda _path: None
    soon(lambda: relay.get("/v1/trust").body != before)


def test_signing_keys_are_passed_on(service: Service, relay: Running) -> None:
    """TRUST-9, F733e: A relay has the keys that recent heads name, whole, and no others."""
    service.publish_keys(_key(20))
    assert service.signing_keys
    (name,) = service.blobs
    path = f"/v1/trust/keys/{name}"
    soon(lambda: relay.get(path).status == 200)
    reply = relay.get(path)
    assert gzip.decompress(reply.body) == service.signing_keys
    assert relay.get(path, if_none_match=reply.headers["etag"]).status == 304
    assert relay.get(f"/v1/trust/keys/{'0' * 64}").status == 404
    service.instead = lambda path: Response(b"other") if "/keys/" in path else None
    service.publish_keys(_key(21))
    path = f"/v1/trust/keys/{[*service.blobs][-1]}"
    soon(lambda: relay.get(path).status == 503)
    service.instead = lambda _path: None
    soon(lambda: relay.get(path).status == 200)


def test_a_relay_starts_without_its_service(service: Service, tmp_path: Path) -> None:
    """FLEET-22, F300a, F733f: A relay that starts offline answers with what it had, and its age.

    It has heads, entries, documents and keys in its folder.
    """
    service.publish_keys(_key(20))
    (name,) = service.blobs
    with running(service, tmp_path, pin=PIN) as relay:
        soon(lambda: relay.get(f"/v1/trust/keys/{name}").status == 200)
        before = relay.get(), relay.get("/v1/trust")
    _away(service)
    with running(service, tmp_path, pin=PIN) as relay:
        after = relay.get(), relay.get("/v1/trust")
        assert [each.body for each in after] == [each.body for each in before]
        assert min(each.age for each in after) >= 1
        soon(lambda: relay.get(f"/v1/trust/keys/{name}").status == 200)
        with client(relay) as one:
            assert one.check(["svc_wrt_a"]) is REVOKED
            assert one.check(["svc_wrt_b"]) is CLEAR
            assert one._keys.keys


@pytest.mark.slow
@pytest.mark.parametrize("kept", [None, b"{", "older"])
def test_documents_that_are_lost_are_read_again(
    service: Service, tmp_path: Path, kept: bytes | str | None
) -> None:
    """F733g: If a relay stops between its saved state and the documents, it reads them again.

    Until then it passes on none rather than older ones.
    """
    older = answer(service.documents)
    service.vouch(service.feed.key, _STANDBY)
    with running(service, tmp_path, pin=PIN) as relay:
        soon(lambda: relay.holds(1))
        newest = relay.get("/v1/trust").body
    file = tmp_path / "trust.json"
    if kept is None:
        file.unlink()
    else:
        file.write_bytes(older if isinstance(kept, str) else kept)
    _away(service)
    with running(service, tmp_path, pin=PIN) as relay:
        assert relay.get("/v1/trust").status == 503
        service.instead = lambda _path: None
        soon(lambda: relay.get("/v1/trust").body == newest)
