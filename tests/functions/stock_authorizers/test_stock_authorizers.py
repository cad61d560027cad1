"""What an unmodified `tenuo` authorizer asks, over HTTP (NATIVE-1 to NATIVE-7)."""

import base64
import json
import logging
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from functions.stock_authorizers import operations as native_list
from functions.stock_authorizers import records as native
from functions.stock_authorizers import routes as compat
from infra.server.routers import ROUTERS
from shared.model import feed as feed_model
from shared.model import times
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Scope
from shared.model.rate_limit import BucketPurpose
from shared.operations.lists import publication
from shared.ports import Ports
from shared.ports.store import Delete, Expect
from shared.web import stored as stored_bodies
from shared.web.app import create_app
from shared.web.work import InlineWork
from tests.functions.authorizers.fleet import stored
from tests.kit.api import Client, Instance, Tenant
from tests.kit.endpoints import audit_entries, audited
from tests.kit.log_lines import lines
from tests.kit.worlds import Clock
from tests.operations.natives import Stock

ROOT = "/compat/tenuo/v1"
LIST = f"{ROOT}/revocations/srl/signed"
SIGNER = "/v1/authorizers/native-signer"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
PUBLIC_KEY = KEY.public_key().public_bytes_raw().hex()
# What the client in the wheel sends.
REGISTRATION = {"name": "n", "type": "embedded", "version": "0.3.3", "public_key": PUBLIC_KEY}


def register(client: Client, **fields: Any) -> str:
    answer = client.post(f"{ROOT}/authorizers/register", json=REGISTRATION | fields)
    assert answer.status_code in {200, 201}, answer.text
    return str(answer.json()["id"])


def beat(client: Client, authorizer_id: str, **fields: Any) -> Any:
    return client.post(f"{ROOT}/authorizers/{authorizer_id}/heartbeat", json=fields)


def send(client: Client, authorizer_id: str, events: Any) -> Any:
    return client.post(f"{ROOT}/authorizers/{authorizer_id}/events", json=events)


def event(payload: bytes = b"decision", *, key: Ed25519PrivateKey = KEY) -> dict[str, Any]:
    """A signed event, with members that the service does not know."""
    return {
        "decision": "deny",
        "warrant_id": "tnu_wrt_" + "0" * 32,
        "signing_payload": base64.b64encode(payload).decode(),
        "signature": base64.b64encode(key.sign(b"tenuo-warrant-v1" + payload)).decode(),
    }


def revoke(tenant: Tenant, *names: str) -> None:
    for name in names:
        tenant.revoke(f"svc_wrt_{name}")
    publication.publish_feed(tenant.ports, tenant.id)


# --- the list and its signer ---


def test_the_signer(tenant: Tenant) -> None:
    """NATIVE-2, F274b: Any key may read the native signer; the first request makes it, audited.

    It is not among the keys that anybody else verifies lists with.
    """
    first = tenant.read_only.get(SIGNER)
    assert first.status_code == 200
    body = first.json()
    assert base64.b64decode(body["public_key"]).hex() == body["public_key_hex"]
    assert body["algorithm"] == "Ed25519"
    for client in (tenant.admin, tenant.authorizer):
        assert client.get(SIGNER).json() == body
    made = [
        each for each in audit_entries(tenant) if each["action"] == AuditAction.NATIVE_SIGNER_CREATE
    ]
    assert [each["resource_id"] for each in made] == [body["key_id"]]
    assert tenant.anonymous.get(SIGNER).status_code == 401
    keys = tenant.admin.get("/v1/revocations/srl/keys").json()["keys"]
    assert body["public_key"] not in {each["public_key"] for each in keys}
    assert native.signer_address(tenant.id).pk != native.list_address(tenant.id).pk


def test_the_list(tenant: Tenant) -> None:
    """NATIVE-1, F271d: A stock authorizer gets a list that it accepts, with what is revoked."""
    stock = Stock(bytes.fromhex(tenant.authorizer.get(SIGNER).json()["public_key_hex"]))
    assert stock.accept(tenant.authorizer.get(LIST).content).ids == set()
    revoke(tenant, "ab" * 16, "other")
    answer = tenant.authorizer.get(LIST)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert stock.accept(answer.content).ids == {"tnu_wrt_" + "ab" * 16, "svc_wrt_other"}
    assert tenant.read_only.get(LIST).status_code == 403


class Asked(InlineWork):
    """Notes which operations are asked of the process that makes lists."""

    def __init__(self) -> None:
        self.operations: list[Any] = []

    def publish(self, call: Any, ports: Ports, *args: Any, **kwargs: Any) -> Any:
        self.operations.append(call)
        return call(ports, *args, **kwargs)


def test_where_the_list_is_made(tenant: Tenant) -> None:
    """NATIVE-4, F558e: A native list is made by the publisher, and served where it was asked for.

    So a long one delays no check. Once it is stored, the publisher is not asked.
    """
    work = Asked()
    app = create_app(*ROUTERS, ports=lambda: tenant.ports, work=work)
    client = Client(Instance(app), tenant.authorizer.secret)
    for number in range(1, 3):
        revoke(tenant, f"{number}")
        first, again = client.get(LIST), client.get(LIST)
        assert first.content == again.content
        assert work.operations == [native_list.current] * number


def test_a_condition_is_ignored(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """NATIVE-1, F275a: The list is never answered with 304, also if it is streamed from a file."""
    for read_max in (stored_bodies.READ_MAX, 1):
        monkeypatch.setattr(stored_bodies, "READ_MAX", read_max)
        plain = tenant.authorizer.get(LIST)
        named = {"If-None-Match": plain.headers.get("etag", "*")}
        named |= {"If-Modified-Since": plain.headers.get("last-modified", "")}
        again = tenant.authorizer.get(LIST, headers=named)
        assert (again.status_code, again.content) == (200, plain.content)


def test_not_known_yet(tenant: Tenant) -> None:
    """NATIVE-5, F273c: A tenant without a feed is answered with 503 and Retry-After."""
    tenant.ports.store.write(Delete(feed_model.head_address(tenant.id), Expect.PRESENT))
    answer = tenant.authorizer.get(LIST)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["error"]["code"] == "unavailable"


# --- registration and heartbeats ---


def test_a_registration(tenant: Tenant) -> None:
    """NATIVE-6, F276a: A stock authorizer is registered once, with what recognises it."""
    more = {
        "agent_id": "a-1",
        "environment": "prod",
        "k8s_pod_name": "pod-7",
        "cloud_region": "eu-1",
        "unknown": {"deep": [1]},
        "metadata": {"team": "x", "line": "a\nb", "number": 7, "": "y"},
    }
    answer = tenant.authorizer.post(f"{ROOT}/authorizers/register", json=REGISTRATION | more)
    assert answer.status_code == 201
    assert isinstance(answer.json()["id"], str)
    found = stored(tenant, answer.json()["id"])
    assert found.metadata == {
        "agent_id": "a-1",
        "environment": "prod",
        "k8s_pod_name": "pod-7",
        "cloud_region": "eu-1",
        "team": "x",
    }
    assert (found.name, found.type, found.program_version) == ("n", "embedded", "0.3.3")
    assert found.public_key == PUBLIC_KEY
    again = tenant.authorizer.post(f"{ROOT}/authorizers/register", json=REGISTRATION)
    assert (again.status_code, again.json()["id"]) == (200, found.id)


ODD: dict[str, dict[str, Any]] = {
    "long": {"version": "v" * 5000, "type": "é" * 5000},
    "metadata": {"metadata": {f"{n:03}": "x" * 60 for n in range(200)}},
    "no metadata": {"metadata": ["x"]},
    "types": {"version": 3, "type": None, "environment": 7, "k8s_cluster": []},
}


@pytest.mark.parametrize("fields", ODD.values(), ids=ODD)
def test_nothing_optional_is_refused(tenant: Tenant, fields: dict[str, Any]) -> None:
    """NATIVE-6, F276b: Fields that do not fit in a registration are left out, without a refusal.

    A stock authorizer that is refused once denies everything until it is started again.
    """
    found = stored(tenant, register(tenant.authorizer, **fields))
    kept = sum(len(part.encode()) for pair in found.metadata.items() for part in pair)
    assert kept <= 512
    assert len(found.type.encode()) <= 64
    assert len(found.program_version.encode()) <= 64


def test_the_buckets() -> None:
    """AUTH-11, AUTH-12, F276c: A native list draws on the bucket of the feed.

    The other requests of stock authorizers draw on that of heartbeats.
    """
    found = {route.path: route.serving.purpose for route in compat.routes.routes}  # type: ignore[attr-defined]
    assert found.pop(LIST) is BucketPurpose.FEED
    assert set(found.values()) == {BucketPurpose.HEARTBEATS}
    assert len(found) == 3


def test_a_heartbeat(tenant: Tenant, clock: Clock) -> None:
    """NATIVE-6, F277a: A stock authorizer reports what it holds, and when it refuses all."""
    made = register(tenant.authorizer)
    revoke(tenant, "a")
    version = tenant.authorizer.get(LIST).json()["version"]
    health = {"last_fetch_at": "2026-11-21T11:59:58.123456789+00:00", "last_fetch_success": False}
    clock.advance(seconds=1)
    body = {"srl_version": version, "srl_health": health, "metrics": {"uptime_seconds": 1}}
    answer = beat(tenant.authorizer, made, **body)
    assert answer.json() == {
        "status": "ok",
        "feed_sequence": 1,
        "latest_srl_version": version,
        "report_after_seconds": 300,
        "jitter_seconds": 0,
    }
    found = stored(tenant, made)
    assert (found.sequence, found.srl_version) == (1, version)
    assert found.max_staleness_seconds == 300
    assert found.verified_at is not None
    assert times.format_utc(found.verified_at) == "2026-11-21T11:59:58Z"


@pytest.mark.parametrize("health", [None, [], {}, {"last_fetch_at": 7}, {"last_fetch_at": "x"}])
def test_a_heartbeat_without_a_time(tenant: Tenant, health: Any) -> None:
    """NATIVE-6: A heartbeat that does not say when the list came is taken without that."""
    made = register(tenant.authorizer)
    assert beat(tenant.authorizer, made, srl_version=1, srl_health=health).status_code == 200
    assert stored(tenant, made).verified_at is None


def test_a_heartbeat_without_a_list(tenant: Tenant) -> None:
    """F277b: A stock client that fetches no list holds nothing, and no end of its trust counts."""
    made = register(tenant.authorizer)
    assert beat(tenant.authorizer, made).json()["status"] == "ok"
    found = stored(tenant, made)
    assert (found.sequence, found.max_staleness_seconds) == (None, None)


# --- events ---


def test_events(tenant: Tenant, caplog: pytest.LogCaptureFixture) -> None:
    """NATIVE-7, F278a: Events count as verified only if the registered key signed them."""
    made = register(tenant.authorizer)
    other = Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32)
    altered = event() | {"signing_payload": base64.b64encode(b"another").decode()}
    unprefixed = event() | {"signature": base64.b64encode(KEY.sign(b"decision")).decode()}
    bad: list[dict[str, Any]] = [event(key=other), altered, unprefixed, {}]
    bad += [event() | {"signature": value} for value in ("", "AA==", "?", 7, None, "\u00e9")]
    caplog.set_level(logging.INFO)
    answer = send(tenant.authorizer, made, [event(), *bad, event(b"")])
    assert (answer.status_code, answer.json()) == (202, {"accepted": 2, "rejected": len(bad)})
    (line,) = lines(caplog, "events of a stock authorizer")
    assert (line["EventsVerified"], line["EventsRefused"]) == (2, len(bad))


def test_events_are_not_stored(tenant: Tenant) -> None:
    """NATIVE-7: No event is stored."""
    made = register(tenant.authorizer)
    before, entries = stored(tenant, made), audited(tenant)
    send(tenant.authorizer, made, [event(b"a fact that is in nothing else")])
    assert (stored(tenant, made), audited(tenant)) == (before, entries)


def test_events_of_others(tenant: Tenant) -> None:
    """NATIVE-7, F278b: Events for another caller's authorizer are answered with 404."""
    made = register(tenant.authorizer)
    stranger = tenant.client(Scope.AUTHORIZER)
    assert send(stranger, made, [event()]).status_code == 404
    assert send(tenant.authorizer, "svc_azr_x", [event()]).status_code == 404
    keyless = register(tenant.authorizer, name="m", public_key=None)
    for unverified in (tenant.ports.new_id("azr"), keyless):
        answer = send(tenant.authorizer, unverified, [event()])
        assert answer.json() == {"accepted": 0, "rejected": 1}
    assert send(tenant.authorizer, made, []).json() == {"accepted": 0, "rejected": 0}
    assert send(tenant.authorizer, made, {}).status_code == 400


def test_a_large_batch(tenant: Tenant) -> None:
    """F278c: A batch of a thousand events with long chains of warrants is taken."""
    made = register(tenant.authorizer)
    batch = [event() | {"warrant_stack": "A" * 3500} for _ in range(1000)]
    assert len(json.dumps(batch)) > 3_500_000
    assert send(tenant.authorizer, made, batch).json()["accepted"] == 1000
