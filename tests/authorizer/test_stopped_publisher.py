"""What each kind of authorizer does if the service accepts revocations and publishes none."""

import asyncio
import base64
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from shared.authorizer import (
    AsyncAuthorizerClient,
    AuthorizerClient,
    Guard,
    Policy,
    Verdict,
)
from shared.authorizer.floor import MemoryFloor
from shared.operations.lists import publication
from tests.authorizer.relay.relays import running
from tests.authorizer.service import Response, Service, serving
from tests.functions import signing
from tests.kit.api import Tenant
from tests.kit.roots import pin_of
from tests.kit.waiting import soon
from tests.kit.worlds import Clock

PASSED_ON = {"etag": "ETag", "age": "Age"}


@dataclass
class Real(Service):
    """The real service on loopback, whose clock the test owns."""

    tenant: Tenant = field(kw_only=True)
    # An instance of a function has one request at a time.
    _turn: Lock = field(default_factory=Lock)

    def answer(self, path: str, headers: dict[str, str]) -> Response:
        sent = {name: value for name, value in headers.items() if name == "If-None-Match"}
        with self._turn:
            found = self.tenant.authorizer.get(path, headers=sent)
        kept = {PASSED_ON[name]: each for name, each in found.headers.items() if name in PASSED_ON}
        return Response(found.content, found.status_code, kept)


@pytest.fixture
def clock() -> Clock:
    """A clock that is behind, so that nothing is signed in the future when it moves on."""
    return Clock(datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=10))


@pytest.fixture
def service(tenant: Tenant) -> Iterator[Real]:
    service = Real(tenant=tenant)
    with serving(service):
        yield service


def test_every_authorizer_is_stale_once_a_change_is_too_old(
    tenant: Tenant, clock: Clock, service: Real, tmp_path: Path
) -> None:
    """FEED-12, FLEET-21, F552a: With the publisher stopped, no authorizer allows what was revoked.

    The client, that for asyncio, a relay, a client behind it and a guard. Each is stale once the
    change is older than `max_staleness`, while the service answers each poll; after the
    publication each goes on by itself.
    """
    warrants = [signing.sign(tenant, _root(tenant), warrant_id=f"svc_wrt_{n}") for n in range(2)]
    lost, other = (base64.b64decode(each.json()["warrant"]) for each in warrants)
    pin = pin_of(tenant)
    asked: dict[str, Any] = {"tenant": tenant.id, "trust_root": pin, "report": False}
    asked |= {"api_key": "any", "policy": Policy(poll_seconds=0.02, max_staleness=4)}
    loop = asyncio.new_event_loop()
    with ExitStack() as stack:
        relay = stack.enter_context(
            running(service.url, tmp_path / "relay", tenant=tenant.id, pin=pin)
        )
        soon(lambda: relay.relay.news.held)
        direct = AuthorizerClient(service.url, floor=MemoryFloor(), **asked)
        guard = Guard(direct)
        stack.enter_context(direct)
        behind = stack.enter_context(AuthorizerClient(relay.url, floor=MemoryFloor(), **asked))
        concurrent = AsyncAuthorizerClient(service.url, floor=MemoryFloor(), **asked)
        loop.run_until_complete(concurrent.start())
        checks = [each.check for each in (direct, behind)] + [concurrent.check]

        def all_say(verdict: Verdict, warrant_id: str = "svc_wrt_0") -> None:
            soon(lambda: {check([warrant_id]) for check in checks} == {verdict}, seconds=30)

        all_say(Verdict.CLEAR)
        soon(lambda: guard.decide([lost]).is_allowed)
        tenant.revoke("svc_wrt_0")
        clock.advance(seconds=36)
        all_say(Verdict.STALE)
        soon(lambda: guard.decide([other]).reason == "stale")
        publication.publish_feed(tenant.ports, tenant.id)
        clock.advance(seconds=5)
        all_say(Verdict.REVOKED)
        all_say(Verdict.CLEAR, "svc_wrt_1")
        assert guard.decide([lost]).reason == "revoked"
        soon(lambda: guard.decide([other]).is_allowed)
        loop.run_until_complete(concurrent.close())
    loop.close()


def _root(tenant: Tenant) -> str:
    return str(signing.create(tenant)["id"])
