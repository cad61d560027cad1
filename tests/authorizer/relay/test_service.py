"""A relay between our own client and the real local server."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shared.authorizer import AuthorizerClient, Verdict
from tests.authorizer.clients import arguments
from tests.authorizer.relay.relays import Running, running
from tests.infra.following import Server
from tests.kit.waiting import soon

pytestmark = pytest.mark.slow


@pytest.fixture
def settings(server: Server) -> dict[str, Any]:
    return {
        "key": server.call("POST", "/api-keys", name="relay", scopes=["authorizer"])["key"],
        "tenant": server.call("GET", "/tenant/settings")["tenant_id"],
        "pin": server.pin,
    }


@pytest.fixture
def relay(server: Server, settings: dict[str, Any], tmp_path: Path) -> Iterator[Running]:
    with running(server.url, tmp_path / "relay", **settings) as relay:
        soon(lambda: relay.relay.news.held)
        yield relay


def client(relay: Running, settings: dict[str, Any], name: str, **more: Any) -> AuthorizerClient:
    of_tenant = {"tenant": settings["tenant"], "trust_pin": settings["pin"]}
    made = arguments(api_key="token-of-a", name=name, **of_tenant, **more)
    return AuthorizerClient(relay.url, **made)


def test_the_service_proves_what_is_behind_a_relay(
    server: Server, settings: dict[str, Any], relay: Running
) -> None:
    """F307k: A service proves that a revocation has reached the authorizers behind a relay."""
    with client(relay, settings, "one").start() as one, client(relay, settings, "two").start():
        soon(lambda: server.call("GET", "/authorizers")["total"] == 2)
        made = server.call("POST", "/revocations", warrant_id="svc_wrt_a", reason="a test")
        soon(lambda: one.check(["svc_wrt_a"]) is Verdict.REVOKED)
        path = f"/revocations/{made['id']}/propagation"
        soon(lambda: server.call("GET", path)["authorizers"]["enforced"] == 2)
        found = server.call("GET", "/authorizers")["authorizers"]
        assert {(each["name"], each["relay"]) for each in found} == {
            ("one", "site-a"),
            ("two", "site-a"),
        }
        assert one.status.refusals == {}


def test_clients_of_a_relay_follow_the_service(
    server: Server, settings: dict[str, Any], relay: Running
) -> None:
    """F297e: Behind a relay, clients follow rotations, lists and restarts of the real service."""
    with client(relay, settings, "one").start() as held:
        for number in range(2):
            server.call("POST", "/revocations/srl/keys/rotate")
            server.revoke(f"svc_wrt_{number}")
            soon(partial(_refuses, held, f"svc_wrt_{number}"))
        server.group.kill()
        server.group.start()
        server.revoke("svc_wrt_after")
        soon(partial(_refuses, held, "svc_wrt_after"))
        assert held.check(["svc_wrt_other"]) is Verdict.CLEAR
        assert held.status.refusals == {}
        with client(relay, settings, "two").start() as newcomer:
            assert newcomer.check(["svc_wrt_0"]) is Verdict.REVOKED
            assert newcomer.status.sequence == held.status.sequence


def _refuses(client: AuthorizerClient, warrant_id: str) -> bool:
    return client.check([warrant_id]) is Verdict.REVOKED
