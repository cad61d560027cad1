"""Identity providers that are slow, and what all other requests to the server get meanwhile."""

import asyncio
import http.client
import json
import logging
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import pytest
from starlette.types import ASGIApp

from functions.status_lists.handler import PublicLists
from infra.server.routers import ROUTERS
from infra.server.work import ThreadedWork
from shared.operations.identities import sign_in, tickets
from shared.ports import Ports
from shared.ports.outside import OutboundAnswer
from shared.web.app import create_app
from shared.web.gate import PublicMiddleware
from shared.web.sign_in import SignIn
from shared.web.strangers import AnonymousLimiter
from tests.kit import identities
from tests.kit.api import Tenant
from tests.kit.asgi import Answer, bearer, exchange, run
from tests.kit.issuers import ISSUER, KEYS_URI, Answers, encoded
from tests.kit.listening import listening

FORM: Final = ("Content-Type", "application/x-www-form-urlencoded")
CODES: Final = "/v1/sign-in/code"
_PATIENCE_SECONDS: Final = 60


@dataclass
class SlowOutbound:
    """An `OutboundHttp` whose requests wait for `may_answer`."""

    inner: Answers = field(default_factory=identities.published)
    may_answer: threading.Event = field(default_factory=threading.Event)
    entered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    lock: threading.Lock = field(default_factory=threading.Lock)
    inside: int = 0
    most_inside: int = 0

    def ask(
        self,
        url: str,
        form: Mapping[str, str] | None = None,
        *,
        user: tuple[str, str] | None = None,
    ) -> OutboundAnswer:
        with self.lock:
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
        self.entered.release()
        assert self.may_answer.wait(_PATIENCE_SECONDS)
        with self.lock:
            self.inside -= 1
        return self.inner.ask(url, form, user=user)

    async def wait_until_entered(self, times: int) -> None:
        for _ in range(times):
            assert await asyncio.to_thread(self.entered.acquire, timeout=_PATIENCE_SECONDS)


@dataclass
class Place:
    """A server whose identity providers are slow, and the requests to it."""

    slow: SlowOutbound
    provider_id: str
    contract: ASGIApp
    sign_in: ASGIApp
    lists: ASGIApp

    @classmethod
    def of(cls, ports: Ports, work: ThreadedWork, provider_id: str) -> "Place":
        slow = SlowOutbound()
        asking = replace(ports, outbound=lambda: slow)
        limits = PublicMiddleware(AnonymousLimiter(ports.now), tuple, {})
        return cls(
            slow,
            provider_id,
            create_app(*ROUTERS, ports=lambda: asking, work=work),
            partial(limits.answer, SignIn(lambda: asking, work)),
            partial(limits.answer, PublicLists(lambda: asking, work)),
        )

    async def code(self, peer: str) -> Answer:
        body = urlencode(identities.code_form(self.provider_id)).encode()
        return await exchange(self.sign_in, "POST", CODES, headers=[FORM], chunks=[body], peer=peer)

    async def token(self, token: str, peer: str) -> Answer:
        body = urlencode(identities.exchange_form(self.provider_id, token)).encode()
        path = "/v1/token"
        return await exchange(self.sign_in, "POST", path, headers=[FORM], chunks=[body], peer=peer)

    @asynccontextmanager
    async def in_flight(
        self, calls: Iterable[Coroutine[Any, Any, Answer]]
    ) -> AsyncIterator[list["asyncio.Task[Answer]"]]:
        """Begin the calls; at the end, the provider answers all of them."""
        tasks = [asyncio.create_task(each) for each in calls]
        try:
            yield tasks
        finally:
            self.slow.may_answer.set()
            await asyncio.gather(*tasks)

    async def ticket(self, ports: Ports, tenant: Tenant) -> Answer:
        form = {"grant_type": sign_in.TICKET, "ticket": tickets.issue(ports, tenant.operator)}
        body = urlencode(form).encode()
        return await exchange(self.sign_in, "POST", "/v1/token", headers=[FORM], chunks=[body])

    async def check_others(self, ports: Ports, other: Tenant, list_id: str) -> None:
        """Get a status list and sessions, revoke a warrant and end a key."""
        body = json.dumps({"warrant_id": "svc_wrt_a", "reason": "stolen"}).encode()
        key = other.authorizer
        json_headers = bearer(other.admin.secret, ("Content-Type", "application/json"))
        answers = [
            await exchange(self.lists, "GET", f"/v1/status-lists/{list_id}"),
            await exchange(self.sign_in, "GET", f"/v1/sign-in?tenant={other.handle}"),
            await self.ticket(ports, other),
            await exchange(
                self.contract, "POST", "/v1/revocations", headers=json_headers, chunks=[body]
            ),
            await exchange(
                self.contract,
                "POST",
                f"/v1/api-keys/{key.key_id}/revoke",
                headers=bearer(other.admin.secret),
            ),
        ]
        assert [each.status_code for each in answers] == [200, 200, 200, 201, 200]


@pytest.fixture
def place(ports: Ports, tenant: Tenant) -> Iterator[Place]:
    work = ThreadedWork()
    yield Place.of(ports, work, identities.bound_outside(ports, tenant.operator).id)
    work.stop()


async def refused(tasks: list["asyncio.Task[Answer]"], number: int) -> list[Answer]:
    """The answers of the first tasks that are done, at least so many."""
    while len([each for each in tasks if each.done()]) < number:
        waiting = [each for each in tasks if not each.done()]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    return [each.result() for each in tasks if each.done()]


def test_a_slow_provider_holds_up_nobody(
    place: Place, ports: Ports, other_tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    """AUTH-9, F2204a, F2871a: Codes for a slow provider leave all other requests their threads.

    A tenant has four threads for codes, and sixteen requests that wait. Others get 429 at once.
    This is no outage of the service, so nothing is logged that fires an alarm.
    """
    list_id = other_tenant.admin.post("/v1/status-lists", json={"name": "badges"}).json()["id"]

    async def scenario() -> None:
        codes = [place.code(f"198.51.100.{number}") for number in range(40)]
        async with place.in_flight(codes) as tasks:
            await place.slow.wait_until_entered(4)
            found = await asyncio.wait_for(refused(tasks, 20), _PATIENCE_SECONDS)
            assert [each.status_code for each in found] == [429] * 20
            assert {each.headers["retry-after"] for each in found} == {"1"}
            others = place.check_others(ports, other_tenant, list_id)
            await asyncio.wait_for(others, _PATIENCE_SECONDS)

    run(scenario())
    assert place.slow.most_inside == 4
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def forge(ports: Ports) -> str:
    """A token of the issuer by a key that it does not have."""
    _, claims, signature = identities.token(ports, "rescind").split(".")
    return f"{encoded({'alg': 'ES256', 'kid': 'nope', 'typ': 'JWT'})}.{claims}.{signature}"


def test_forged_tokens_wait_for_nothing(place: Place, ports: Ports) -> None:
    """IDENTITY-10, F2870a: A key that the issuer lacked within a minute is refused at once.

    So forged tokens from 80 addresses take no turn, and no place of those who wait.
    """

    async def scenario() -> None:
        place.slow.may_answer.set()
        known = await place.token(identities.token(ports, "rescind"), "192.0.2.1")
        assert known.status_code == 200
        place.slow.may_answer.clear()
        codes = [place.code(f"198.51.100.{number}") for number in range(4)]
        async with place.in_flight(codes):
            await place.slow.wait_until_entered(1 + 4)
            forged = [place.token(forge(ports), f"203.0.113.{each}") for each in range(80)]
            answers = await asyncio.wait_for(asyncio.gather(*forged), _PATIENCE_SECONDS)
            assert {each.status_code for each in answers} == {400}

    run(scenario())
    assert [each[0] for each in place.slow.inner.asked].count(KEYS_URI) == 1


def test_codes_have_turns_of_their_own(place: Place, ports: Ports) -> None:
    """IDENTITY-10, F2870b: While forged tokens wait for the keys of an issuer, a code is redeemed.

    One fetch refuses all of them. Those without a place among the waiting come back.
    """
    clock: Any = ports.now

    async def scenario() -> None:
        place.slow.may_answer.set()
        await place.token(identities.token(ports, "rescind"), "192.0.2.1")
        place.slow.may_answer.clear()
        clock.advance(seconds=60)
        forged = [place.token(forge(ports), f"203.0.113.{number}") for number in range(24)]
        async with place.in_flight(forged) as tasks:
            await place.slow.wait_until_entered(1 + 1)
            await asyncio.wait_for(refused(tasks, 7), _PATIENCE_SECONDS)
            code = asyncio.create_task(place.code("192.0.2.1"))
            tasks.append(code)
            entered = asyncio.create_task(place.slow.wait_until_entered(1))
            await asyncio.wait({entered, code}, return_when=asyncio.FIRST_COMPLETED)
            assert entered.done()
        assert sorted(each.result().status_code for each in tasks) == [400] * 18 + [429] * 7

    run(scenario())
    assert [each[0] for each in place.slow.inner.asked].count(KEYS_URI) == 2


def test_one_address_has_two_codes_in_flight(place: Place) -> None:
    """AUTH-9, F2204b: One address has two codes at a provider at a time. Eight more wait."""

    async def scenario() -> None:
        codes = [place.code(f"2001:db8:1:2::{number:x}") for number in range(1, 13)]
        async with place.in_flight(codes) as tasks:
            await place.slow.wait_until_entered(2)
            await asyncio.wait_for(refused(tasks, 2), _PATIENCE_SECONDS)
        # The provider answers the other ten codes: it knows none.
        assert sorted(each.result().status_code for each in tasks) == [400] * 10 + [429] * 2

    run(scenario())
    assert place.slow.most_inside == 2


def test_a_slow_check_holds_up_nobody(
    place: Place, ports: Ports, tenant: Tenant, other_tenant: Tenant
) -> None:
    """IDENTITY-1, F2204c: A tenant has one check of a provider at a time. Sixteen others wait."""
    list_id = other_tenant.admin.post("/v1/status-lists", json={"name": "badges"}).json()["id"]
    path = f"/v1/tenant/identity-providers/{place.provider_id}/check"

    async def scenario() -> None:
        headers = bearer(tenant.admin.secret)
        checks = [exchange(place.contract, "POST", path, headers=headers) for _ in range(20)]
        async with place.in_flight(checks) as tasks:
            await place.slow.wait_until_entered(1)
            found = await asyncio.wait_for(refused(tasks, 3), _PATIENCE_SECONDS)
            assert [each.status_code for each in found] == [429] * 3
            others = place.check_others(ports, other_tenant, list_id)
            await asyncio.wait_for(others, _PATIENCE_SECONDS)

    run(scenario())
    assert place.slow.most_inside == 1


def _ask(url: str, method: str, path: str, body: str = "", **headers: str) -> int:
    """The status of an answer on a connection of its own."""
    port = urlsplit(url).port
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body or None, named)
        return connection.getresponse().status


@pytest.mark.slow
def test_genuine_sign_ins_beside_garbage(ports: Ports, tenant: Tenant) -> None:
    """IDENTITY-7, F2205a: Twelve sign-ins succeed beside 200 garbage requests a second."""
    clock: Any = ports.now
    provider = identities.bound_outside(ports, tenant.operator)
    outside = identities.published()
    asking = replace(ports, outbound=lambda: outside)
    may_end = threading.Event()
    garbage = urlencode(identities.exchange_form(provider.id, "e30.e30.e30"))

    def flood(url: str) -> int:
        number = 0
        while not may_end.wait(0.04):
            assert _ask(url, "POST", "/v1/token", garbage, Content_Type=FORM[1]) == 400
            number += 1
        return number

    with ThreadPoolExecutor() as pool, listening(asking, ThreadedWork()) as url:
        floods = [pool.submit(flood, url) for _ in range(8)]
        statuses = []
        for _ in range(12):
            token = identities.token(ports, "rescind", nonce="n")
            outside.documents[f"{ISSUER}/token"] = json.dumps({"id_token": token})
            body = urlencode(identities.code_form(provider.id))
            statuses.append(_ask(url, "POST", CODES, body, Content_Type=FORM[1]))
            may_end.wait(0.25)
            clock.advance(seconds=0.25)
        may_end.set()
        assert sum(each.result() for each in floods) > 100
    assert statuses == [200] * 12


def test_others_beside_a_slow_provider(ports: Ports, tenant: Tenant, other_tenant: Tenant) -> None:
    """AUTH-9, F2205b: Beside a slow provider and forty connections, others get their answers."""
    provider = identities.bound_outside(ports, tenant.operator)
    created = other_tenant.admin.post("/v1/status-lists", json={"name": "badges"}).json()
    slow = SlowOutbound()
    asking = replace(ports, outbound=lambda: slow)
    check = f"/v1/tenant/identity-providers/{provider.id}/check"
    mine, theirs = (f"Bearer {each.admin.secret}" for each in (tenant, other_tenant))
    with ThreadPoolExecutor(40) as pool, listening(asking, ThreadedWork()) as url:
        body = urlencode(identities.code_form(provider.id))
        busy = [
            pool.submit(_ask, url, "POST", CODES, body, Content_Type=FORM[1]) for _ in range(30)
        ]
        busy += [pool.submit(_ask, url, "POST", check, Authorization=mine) for _ in range(10)]
        for _ in range(2):
            assert slow.entered.acquire(timeout=_PATIENCE_SECONDS)
        for number in range(10):
            ticket = tickets.issue(ports, other_tenant.operator)
            form = urlencode({"grant_type": sign_in.TICKET, "ticket": ticket})
            revocation = json.dumps({"warrant_id": f"svc_wrt_{number}", "reason": "stolen"})
            kind = {"Authorization": theirs, "Content_Type": "application/json"}
            assert [
                _ask(url, "GET", f"/v1/status-lists/{created['id']}"),
                _ask(url, "GET", f"/v1/sign-in?tenant={other_tenant.handle}"),
                _ask(url, "POST", "/v1/token", form, Content_Type=FORM[1]),
                _ask(url, "POST", "/v1/revocations", revocation, **kind),
            ] == [200, 200, 200, 201]
        slow.may_answer.set()
        assert {each.result() for each in busy} <= {200, 400, 429}
