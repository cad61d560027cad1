"""A relay between our own client and the real local server."""

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shared.authorizer import AuthorizerClient, FileFloor, Guard, Verdict, identity
from shared.authorizer.formats.proofs import ProvenReport
from shared.authorizer.reports import Reporting, report
from tests.authorizer.clients import arguments
from tests.authorizer.relay.relays import Running, running
from tests.infra.following import Server
from tests.kit.processes import ROOT
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
    of_tenant = {"tenant": settings["tenant"], "trust_root": settings["pin"]}
    made = arguments(api_key="token-of-a", name=name, **of_tenant, **more)
    return AuthorizerClient(relay.url, **made)


def _chain(relay: Running) -> str:
    held = relay.relay.news.held
    assert held
    return held.head.chain.hex()


def test_the_service_proves_what_is_behind_a_relay(
    server: Server, settings: dict[str, Any], relay: Running
) -> None:
    """F307k: A service proves that a revocation has reached the authorizers behind a relay."""
    with client(relay, settings, "one").start() as one, client(relay, settings, "two").start():
        soon(lambda: server.call("GET", "/authorizers")["total"] == 2)
        made = server.call("POST", "/revocations", warrant_id="svc_wrt_a", reason="a test")
        soon(lambda: one.check(["svc_wrt_a"]) is Verdict.REVOKED)
        path = f"/revocations/{made['id']}/propagation"
        soon(lambda: server.call("GET", path)["authorizers"]["holding"] == 2, seconds=20)
        found = server.call("GET", "/authorizers")["authorizers"]
        assert {(each["name"], each["relay"]) for each in found} == {
            ("one", "site-a"),
            ("two", "site-a"),
        }
        assert one.status.refusals == {}


def test_no_client_of_a_relay_reports_for_another(
    server: Server, settings: dict[str, Any], relay: Running, tmp_path: Path
) -> None:
    """FLEET-27, F785c: B, with another token of the relay, cannot make A seem to hold an entry.

    B sends the heartbeat of A, unsigned and signed by itself, and takes the name of A. Meanwhile A
    is down, and the propagation stays incomplete; when A comes back, it is proven.
    """
    floor = FileFloor(tmp_path / "a")
    with client(relay, settings, "a", floor=floor).start() as held:
        soon(lambda: held.status.reporting is Reporting.ON)
    own = held.status.authorizer_id or ""
    made = server.call("POST", "/revocations", warrant_id="svc_wrt_a", reason="a test")
    path = f"/revocations/{made['id']}/propagation"
    entry = soon(lambda: server.call("GET", path)["feed"])["sequence"]
    thief = identity.IdentityKey.new()
    stated = ProvenReport(
        tenant_id=settings["tenant"],
        authorizer_id=own,
        number=2**50,
        trust=0,
        sequence=entry,
        chain=bytes.fromhex(_chain(relay)),
        verified_at=None,
        max_staleness=0,
        allow_when_stale=False,
    )
    proof = thief.proof(settings["tenant"], "a", datetime.now(UTC))
    taken = relay.post("/v1/authorizers/register", {"name": "a", "proof": proof})
    assert taken.status == 409
    assert own in taken.json()["error"]["message"]
    for signed in ({}, thief.signed(stated)):
        body = json.loads(report(stated, signed))
        reply = relay.post(f"/v1/authorizers/{own}/heartbeat", body)
        assert reply.status in {200, 409}
        sent = relay.relay.reports.counts["sent"]
        soon(lambda sent=sent: relay.relay.reports.counts["sent"] > sent)  # type: ignore[misc]
    found = server.call("GET", path)
    assert (found["complete"], found["authorizers"]["holding"]) == (False, 0)
    with client(relay, settings, "a", floor=FileFloor(tmp_path / "a")).start():
        soon(lambda: server.call("GET", path)["proven"], seconds=20)
    assert [each["id"] for each in server.call("GET", "/authorizers")["authorizers"]] == [own]


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


def test_a_stock_authorizer_follows_a_relay(
    server: Server, settings: dict[str, Any], relay: Running
) -> None:
    """F309a: The classes of `tenuo` refuse a revoked warrant behind a relay, and no other."""
    signer = server.call("GET", "/authorizers/native-signer")["public_key_hex"]
    python, peer = ROOT / ".tools/tenuo/bin/python", ROOT / "tests/tools/tenuo_peer.py"
    command = [python, peer, "authorizer", f"{relay.url}/compat/tenuo", "a-token", signer, "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = map(json.loads, process.stdout or ())
            warrants = _next(said, "registered")["warrants"]
            assert _next(said, "decision", warrant="0")["decision"] == "allowed"
            server.revoke(warrants["0"].replace("tnu_wrt_", "svc_wrt_"))
            refused = _next(said, "decision", warrant="0")
            assert "Revoked" in refused["decision"]
            # The client in the wheel does not say which list it has.
            soon(lambda: relay.relay.reports.counts["sent"])
        finally:
            process.kill()
    (found,) = server.call("GET", "/authorizers")["authorizers"]
    assert (found["name"], found["relay"]) == ("stock", "site-a")


def _next(said: Iterator[dict[str, Any]], event: str, **what: str) -> dict[str, Any]:
    return next(each for each in said if {"event": event, **what}.items() <= each.items())


def _refuses(client: AuthorizerClient, warrant_id: str) -> bool:
    return client.check([warrant_id]) is Verdict.REVOKED


def test_a_guard_reads_the_keys_through_a_relay(
    server: Server, settings: dict[str, Any], relay: Running
) -> None:
    """F297f: A guard behind a relay has the keys of the service."""
    with client(relay, settings, "one").start() as held:
        guard = Guard(held)
        soon(lambda: guard.decide([b"no warrant"]).reason == "malformed")
    path = "/v1/trust-bundle"
    bundle = relay.get(path)
    assert bundle.json()["tenant_id"] == settings["tenant"]
    assert relay.get(path, if_none_match=bundle.headers["etag"]).status == 304
