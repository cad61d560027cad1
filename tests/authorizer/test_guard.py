"""The whole decision: warrants of a real service, its keys, and a feed."""

import base64
import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shared.authorizer import (
    AuthorizerClient,
    Decision,
    FileFloor,
    Guard,
    Policy,
    Transport,
    ext_authz,
    guard,
)
from shared.authorizer.view import NEVER
from tests.authorizer.clients import arguments
from tests.authorizer.feeds import Feed
from tests.authorizer.service import KEY, Response, Service, serving
from tests.functions import signing
from tests.kit.api import Tenant


@pytest.fixture
def service(tenant: Tenant) -> Iterator[Service]:
    """A feed of the tenant, beside the keys that the real service reports."""

    def keys(path: str) -> Response | None:
        if not path.startswith("/v1/trust-bundle"):
            return None
        found = tenant.authorizer.get(path)
        return Response(found.content, found.status_code)

    name = tenant.admin.get("/v1/tenant/settings").json()["tenant_id"]
    with serving(Service(Feed(tenant=name), instead=keys)) as service:
        yield service


@pytest.fixture
def made(service: Service, tmp_path: Path) -> Iterator[Guard]:
    transport = Transport(service.url, api_key=KEY)
    with _client(service, tmp_path, Policy(poll_seconds=0.01)) as client:
        yield Guard(client, transport)
    transport.close()


def test_only_genuine_warrants_that_hold_are_allowed(
    tenant: Tenant, service: Service, made: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F188a: A guard allows a chain if each warrant is genuine and none is revoked."""
    monkeypatch.setattr(guard, "_UNKNOWN_SECONDS", 0)
    root = _root(tenant)
    chain = [_signed(tenant, root, f"svc_wrt_{number}") for number in range(2)]
    allowed = made.decide(chain)
    assert (allowed.is_allowed, allowed.reason) == (True, "clear")
    assert [each.id for each in allowed.warrants] == ["svc_wrt_0", "svc_wrt_1"]
    assert made.decide([]) == Decision(False, "missing")
    assert made.decide([b"no warrant"]) == Decision(False, "malformed")
    assert made.decide([chain[0]] * 33) == Decision(False, "malformed")
    assert made.decide([chain[0], chain[1][:-1] + b"x"]) == Decision(False, "signature")
    # A key that is younger than what the guard has read.
    other = _signed(tenant, _root(tenant), "svc_wrt_2")
    assert made.decide([other]).is_allowed
    service.revoke("svc_wrt_0")
    assert made._client.wait_for(1, timeout=5)
    assert made.decide(chain) == Decision(False, "revoked")
    assert made.decide(chain[1:]).is_allowed


def test_without_keys_nothing_is_allowed(
    tenant: Tenant, service: Service, made: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F188b: As long as a guard has not read the keys of its tenant, it allows nothing.

    Once it has, it goes on with them while the service is away, but not for ever.
    """
    monkeypatch.setattr(guard, "_UNKNOWN_SECONDS", 0)
    monkeypatch.setattr(guard, "_BUNDLE_SECONDS", 0)
    chain = [_signed(tenant, _root(tenant), "svc_wrt_0")]
    keys = service.instead

    def foreign(path: str) -> Response | None:
        found = keys(path)
        body = json.loads(found.body) | {"tenant_id": "svc_tnt_other"} if found else None
        return Response(json.dumps(body).encode()) if found else None

    for instead in (lambda _path: Response(b"", 503), lambda _path: Response(b"{}"), foreign):
        service.instead = instead
        assert made.decide(chain) == Decision(False, "unknown")
    service.instead = keys
    assert made.decide(chain).is_allowed
    service.instead = lambda _path: Response(b"", 503)
    assert made.decide(chain).is_allowed


def test_keys_that_nobody_confirmed_for_long_allow_nothing(
    tenant: Tenant, service: Service, made: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRUST-5, F551a: A guard allows nothing by keys older than the feed may be.

    They are read again as soon as the service answers, and what is known to be revoked stays so.
    """
    monkeypatch.setattr(guard, "_UNKNOWN_SECONDS", 0)
    root = _root(tenant)
    chain = [_signed(tenant, root, f"svc_wrt_{number}") for number in range(2)]
    keys = service.instead
    assert made.decide(chain).is_allowed
    service.instead = lambda path: Response(b"", 503) if "trust-bundle" in path else None
    made._confirmed = made._confirmed.before(31)
    assert made.decide(chain) == Decision(False, "stale_keys")
    service.revoke("svc_wrt_1")
    assert made._client.wait_for(1, timeout=5)
    assert made.decide(chain) == Decision(False, "revoked")
    assert made.decide([chain[0][:-1] + b"x"]) == Decision(False, "signature")
    service.instead = keys
    assert made.decide(chain[:1]).is_allowed


def test_the_age_of_keys_counts_from_the_service(
    tenant: Tenant, service: Service, made: Guard
) -> None:
    """TRUST-5, F551b: Keys are as old as they were at a relay, by the `Age` of its answer."""
    keys, terms = service.instead, dict[str, str]()

    def old(path: str) -> Response | None:
        found = keys(path)
        return replace(found, headers=terms) if found else None

    service.instead = old
    chain = [_signed(tenant, _root(tenant), "svc_wrt_0")]
    for age, reason in (("soon", "unknown"), ("31", "stale_keys"), ("29", "clear")):
        terms["Age"], made._asked = age, NEVER
        assert made.decide(chain).reason == reason


@pytest.mark.parametrize(
    ("policy", "own", "reason"),
    [
        (Policy(poll_seconds=0.01), 60, "clear"),
        (Policy(poll_seconds=0.01, max_staleness=60), None, "clear"),
        (Policy(poll_seconds=0.01, max_staleness=60), 30, "stale_keys"),
        (Policy(poll_seconds=0.01, allow_when_stale=True), None, "clear"),
    ],
)
def test_the_limit_of_the_keys_is_that_of_the_feed(
    tenant: Tenant,
    service: Service,
    tmp_path: Path,
    policy: Policy,
    own: float | None,
    reason: str,
) -> None:
    """TRUST-5, F551c: The limit is `max_staleness`, and a policy that allows more allows both."""
    chain = [_signed(tenant, _root(tenant), "svc_wrt_0")]
    with _client(service, tmp_path, policy) as client:
        transport = Transport(service.url, api_key=KEY)
        made = Guard(client, transport, max_staleness=own)
        assert made.decide(chain).is_allowed
        service.instead = lambda path: Response(b"", 503) if "trust-bundle" in path else None
        made._confirmed = made._confirmed.before(31)
        assert made.decide(chain).reason == reason
        with pytest.raises(ValueError, match="max_staleness must be a number of seconds"):
            Guard(client, transport, max_staleness=0)
        transport.close()


def test_envoy_is_answered(tenant: Tenant, made: Guard) -> None:
    """F188c: The service for Envoy answers each method with the decision, and reads no body."""
    warrant = base64.b64encode(_signed(tenant, _root(tenant), "svc_wrt_0")).decode()
    with ext_authz.server(made, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        asked = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
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


def _client(service: Service, folder: Path, policy: Policy) -> AuthorizerClient:
    floor, name = FileFloor(folder / "floor"), service.feed.tenant
    return AuthorizerClient(service.url, **arguments(tenant=name, floor=floor, policy=policy))


def _signed(tenant: Tenant, key_id: str, warrant_id: str) -> bytes:
    answer = signing.sign(tenant, key_id, warrant_id=warrant_id)
    assert answer.status_code == 201, answer.text
    return base64.b64decode(answer.json()["warrant"])


def _root(tenant: Tenant) -> str:
    return str(signing.create(tenant)["id"])
