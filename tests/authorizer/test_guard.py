"""The whole decision: warrants of a real service, its keys, and a feed."""

import base64
import http.client
import json
import threading
from collections.abc import Iterator
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
from tests.api import Tenant
from tests.authorizer.feeds import Feed, public, signer
from tests.authorizer.service import KEY, Response, Service, serving
from tests.functions import signing


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
    client = AuthorizerClient(
        service.url,
        api_key=KEY,
        tenant=service.feed.tenant,
        public_keys=[public(signer())],
        floor=FileFloor(tmp_path / "floor"),
        policy=Policy(poll_seconds=0.01),
    )
    transport = Transport(service.url, api_key=KEY)
    with client:
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

    Once it has, it goes on with them while the service is away.
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


def _signed(tenant: Tenant, key_id: str, warrant_id: str) -> bytes:
    answer = signing.sign(tenant, key_id, warrant_id=warrant_id)
    assert answer.status_code == 201, answer.text
    return base64.b64decode(answer.json()["warrant"])


def _root(tenant: Tenant) -> str:
    return str(signing.create(tenant)["id"])
