"""The whole decision: warrants of a real service, its keys, and a feed."""

import base64
import hashlib
import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from shared.authorizer import (
    AuthorizerClient,
    FileStateStore,
    Guard,
    GuardDecision,
    PollPolicy,
    ext_authz,
    transport,
    trust,
)
from tests.authorizer.bundles import published
from tests.authorizer.clients import arguments
from tests.authorizer.feeds import Feed, signer
from tests.authorizer.service import Response, Service, serving
from tests.functions import signing
from tests.kit.api import Tenant
from tests.kit.waiting import soon


@pytest.fixture
def service(tenant: Tenant) -> Iterator[Service]:
    """A feed of the tenant, which names the keys of the real service if `publish` is called."""
    name = tenant.admin.get("/v1/tenant/settings").json()["tenant_id"]
    with serving(Service(Feed(tenant=name))) as service:
        service.vouch()
        yield service


@pytest.fixture
def made(service: Service, tmp_path: Path) -> Iterator[Guard]:
    with _guarding(service, tmp_path, PollPolicy(poll_seconds=0.01)) as made:
        yield made


@contextmanager
def _guarding(service: Service, folder: Path, policy: PollPolicy) -> Iterator[Guard]:
    store, name = FileStateStore(folder / "state"), service.feed.tenant
    client = AuthorizerClient(
        service.url, **arguments(tenant=name, state=store, policy=policy, report=False)
    )
    guard = Guard(client)
    with client:
        yield guard


def _publish(tenant: Tenant, service: Service, made: Guard) -> None:
    """Let the head name the keys as they are, and wait for the guard to have them."""
    keys = published(tenant).keys
    service.publish_keys(*keys)
    client = made._client
    soon(lambda: (held := client._keys.keys) is not None and held.published.keys == keys)


def test_only_genuine_warrants_that_hold_are_allowed(
    tenant: Tenant, service: Service, made: Guard
) -> None:
    """F188a: A guard allows a chain if each warrant is genuine and none is revoked."""
    root = _root(tenant)
    _publish(tenant, service, made)
    chain = [_signed(tenant, root, f"svc_wrt_{number}") for number in range(2)]
    allowed = made.decide(chain)
    assert (allowed.is_allowed, allowed.reason) == (True, "clear")
    assert [each.id for each in allowed.warrants] == ["svc_wrt_0", "svc_wrt_1"]
    assert made.decide([]) == GuardDecision(False, "missing")
    assert made.decide([b"no warrant"]) == GuardDecision(False, "malformed")
    assert made.decide([chain[0]] * 33) == GuardDecision(False, "malformed")
    assert made.decide([chain[0], chain[1][:-1] + b"x"]) == GuardDecision(False, "signature")
    # A key that is younger than the head, until one names it.
    other = _signed(tenant, _root(tenant), "svc_wrt_2")
    assert made.decide([other]) == GuardDecision(False, "key")
    _publish(tenant, service, made)
    assert made.decide([other]).is_allowed
    service.revoke("svc_wrt_0")
    assert made._client.wait_for(1, timeout=60)
    assert made.decide(chain) == GuardDecision(False, "revoked")
    assert made.decide(chain[1:]).is_allowed


def test_without_keys_nothing_is_allowed(
    tenant: Tenant, service: Service, made: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F188b: As long as a guard has not read the keys of its tenant, it allows nothing.

    What the feed revokes is known meanwhile.
    """
    monkeypatch.setattr(trust, "_RETRY_SECONDS", 0)
    chain = [_signed(tenant, _root(tenant), "svc_wrt_0")]
    keys = published(tenant)
    foreign = replace(keys, tenant_id="svc_tnt_other").encode()
    for blob in (b"{}", foreign):
        service.blobs[hashlib.sha256(blob).hexdigest()] = service.signing_keys = blob
        service.revoke(f"svc_wrt_{len(blob)}")
        assert made._client.wait_for(service.feed.sequence, timeout=60)
        assert made.decide(chain) == GuardDecision(False, "unknown")
    _publish(tenant, service, made)
    assert made.decide(chain).is_allowed


def test_a_fault_that_nobody_foresaw_ends_no_download(
    tenant: Tenant, service: Service, made: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1910d: After any error the keys are read again; until then, nothing is allowed."""
    monkeypatch.setattr(trust, "_RETRY_SECONDS", 0)
    chain = [_signed(tenant, _root(tenant), "svc_wrt_0")]
    with monkeypatch.context() as patched:
        patched.setattr(trust, "KEYS_BYTES_MAX", None)
        service.publish_keys(*published(tenant).keys)
        soon(lambda: made._client.status.failures)
        assert made.decide(chain) == GuardDecision(False, "unknown")
    soon(lambda: made.decide(chain).is_allowed)


@pytest.mark.slow
@pytest.mark.parametrize("allows", [False, True])
def test_keys_that_nobody_confirmed_for_long_allow_nothing(
    tenant: Tenant,
    service: Service,
    tmp_path: Path,
    pass_time: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
    allows: bool,
) -> None:
    """TRUST-5, F551a: A guard allows nothing by keys older than the feed may be.

    If somebody hides the keys that a head names, the keys before them count until a state that
    named them is stale, whatever the policy. Then it allows nothing.
    """
    root = _root(tenant)
    chain = [_signed(tenant, root, f"svc_wrt_{number}") for number in range(2)]
    policy = PollPolicy(poll_seconds=0.01, fail_open=allows)
    monkeypatch.setattr(PollPolicy, "pause_max", 0.05)
    with _guarding(service, tmp_path, policy) as made:
        _publish(tenant, service, made)
        assert made.decide(chain).is_allowed
        signing.moved(tenant, root, "revoke")
        service.instead = lambda path: Response(b"", 503) if "/keys/" in path else None
        service.publish_keys(*published(tenant).keys)
        soon(lambda: made._client.status.failures)
        assert made.decide(chain).is_allowed
        pass_time(31)
        soon(lambda: not made._client.status.stale)
        assert made.decide(chain) == GuardDecision(False, "unknown")
        service.instead = lambda _path: None
        soon(lambda: made.decide(chain) == GuardDecision(False, "revoked"))


def test_a_slow_download_of_keys_delays_no_refusal(
    tenant: Tenant, service: Service, made: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRUST-5, F1910a: What the feed revokes is refused while the keys are downloaded.

    Until they are here, warrants of the keys before them are allowed.
    """
    # The download does not end by itself.
    monkeypatch.setattr(transport, "_READ_SECONDS", 3600.0)
    chains = [[_signed(tenant, _root(tenant), f"svc_wrt_{number}")] for number in range(3)]
    _publish(tenant, service, made)
    began, may_end = threading.Event(), threading.Event()

    def wait(path: str) -> None:
        if "/keys/" in path:
            began.set()
            may_end.wait()

    service.instead = wait
    other = [_signed(tenant, _root(tenant), "svc_wrt_3")]
    with service.changing:
        service.publish_keys(*published(tenant).keys)
        service.revoke("svc_wrt_0")
    assert began.wait(60)
    service.revoke("svc_wrt_1")
    assert made._client.wait_for(2, timeout=60)
    assert [made.decide(each).reason for each in chains] == ["revoked", "revoked", "clear"]
    assert made.decide(other) == GuardDecision(False, "key")
    may_end.set()
    soon(lambda: made.decide(other).is_allowed)


def test_older_keys_do_not_outlive_their_signer(
    tenant: Tenant, service: Service, made: Guard
) -> None:
    """TRUST-5, F1910b: Keys that a stolen list signer named do not count after its removal."""
    chain = [_signed(tenant, _root(tenant), "svc_wrt_0")]
    _publish(tenant, service, made)
    assert made.decide(chain).is_allowed
    service.instead = lambda path: Response(b"", 503) if "/keys/" in path else None
    _root(tenant)
    with service.changing:
        service.feed.key = signer(3)
        service.feed.publish(leap=2**20)
        service.feed.publish_list()
        service.publish_keys(*published(tenant).keys)
        service.vouch(signer(3))
    assert made._client.wait_for(service.feed.sequence, timeout=60)
    assert made.decide(chain) == GuardDecision(False, "unknown")


def test_keys_are_followed_without_threads(tenant: Tenant, service: Service) -> None:
    """TRUST-5, F1910c: A client that polls without threads has the keys after a poll.

    A guard of a client that has started is an error, because its keys would never come.
    """
    chain = [_signed(tenant, _root(tenant), "svc_wrt_0")]
    service.publish_keys(*published(tenant).keys)
    settings = arguments(tenant=service.feed.tenant, report=False)
    client = AuthorizerClient(service.url, **settings)
    made = Guard(client)
    client.poll()
    assert made.decide(chain).is_allowed
    client.close()
    with (
        AuthorizerClient(service.url, **settings) as started,
        pytest.raises(RuntimeError, match="before the client starts"),
    ):
        Guard(started)


@pytest.mark.slow
def test_the_age_of_keys_counts_from_the_service(
    tenant: Tenant, service: Service, tmp_path: Path
) -> None:
    """TRUST-5, F551b: Keys are as old as the feed was at a relay, by the `Age` of its answer."""
    chain = [_signed(tenant, _root(tenant), "svc_wrt_0")]
    with _guarding(service, tmp_path, PollPolicy(poll_seconds=0.01, max_staleness=2)) as made:
        _publish(tenant, service, made)
        soon(lambda: made.decide(chain).is_allowed)
        service.age = "3"
        soon(lambda: made.decide(chain).reason == "stale")
        service.age = "1"
        soon(lambda: made.decide(chain).is_allowed)


@pytest.mark.parametrize(("allows", "reason"), [(False, "stale"), (True, "clear")])
def test_the_limit_of_the_keys_is_that_of_the_feed(
    tenant: Tenant,
    service: Service,
    tmp_path: Path,
    pass_time: Callable[[float], None],
    allows: bool,
    reason: str,
) -> None:
    """TRUST-5, F551c: The limit is `max_staleness`, and a policy that allows more allows both."""
    chain = [_signed(tenant, _root(tenant), "svc_wrt_0")]
    policy = PollPolicy(poll_seconds=0.01, fail_open=allows)
    with _guarding(service, tmp_path, policy) as made:
        _publish(tenant, service, made)
        service.instead = lambda _path: Response(b"", 503)
        soon(lambda: made._client.status.failures)
        pass_time(31)
        assert made._client.status.stale
        assert made.decide(chain).reason == reason


def test_envoy_is_answered(tenant: Tenant, service: Service, made: Guard) -> None:
    """F188c: The service for Envoy answers each method with the decision, and reads no body."""
    root = _root(tenant)
    _publish(tenant, service, made)
    warrant = base64.b64encode(_signed(tenant, root, "svc_wrt_0")).decode()
    with ext_authz.server(made, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        asked = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        for method, headers, status in (
            ("GET", {"X-Warrants": f"{warrant}, {warrant}"}, 200),
            ("POST", {"X-Warrants": warrant, "Content-Length": "0"}, 200),
            ("HEAD", {"X-Warrants": "?"}, 403),
            ("DELETE", {}, 401),
            ("PUT", {"X-Warrants": f"{warrant},AAAA", "Content-Length": "9"}, 403),
            ("PROPFIND", {"X-Warrants": warrant}, 501),
        ):
            asked.request(method, "/any/path", headers=headers)
            answer = asked.getresponse()
            answer.read()
            assert answer.status == status, method
            assert answer.headers["X-Warrant-Id"] == ("svc_wrt_0" if status == 200 else None)
        asked.close()
        server.shutdown()


def _signed(tenant: Tenant, key_id: str, warrant_id: str) -> bytes:
    answer = signing.sign(tenant, key_id, warrant_id=warrant_id)
    assert answer.status_code == 201, answer.text
    return base64.b64decode(answer.json()["warrant"])


def _root(tenant: Tenant) -> str:
    return str(signing.create(tenant)["id"])
