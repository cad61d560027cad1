"""What a request costs in processor time, from API Gateway's event to the answer for it.

Ours is the whole path, without the time spent in the store, which is the network's on AWS: gate,
rate limit, routes, operation, log line. Beside it is a framework that does nothing but say hello.
"""

import base64
import copy
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi import FastAPI
from mangum import Mangum

from functions.introspection import handler as introspection
from functions.revocations.handler import routes as revocations
from functions.srl.handler import routes as lists
from functions.status_lists import operations as status_lists
from shared.logs import JsonFormatter
from shared.model.identities.providers import ProviderUsage
from shared.model.lists import content
from shared.model.lists.content import Payload
from shared.operations.base import seals
from shared.operations.lists import publication
from shared.ports import Ports
from shared.ports.store import Store
from shared.web.app import create_app, lambda_handler
from tests.bench.measure import Taken, alternate
from tests.bench.report import NotMeasured, Row, compared, progress, took
from tests.bench.revoked import revoke, warrant_ids
from tests.kit import identities, issuers
from tests.kit.api import Tenant, serve
from tests.kit.intercepted import Call, Intercepted
from tests.kit.lambda_events import Request
from tests.kit.worlds import Clock, close, embedded

_REVOKED = 1000
_CHECK, _SIGNED = "/v1/revocations/check", "/v1/revocations/srl/signed"
# Between two requests, so that the tenant never uses up what its rate limit grants.
_STEP_SECONDS = 0.002

# What is asked, under which name, what it should stay below, and how many at a time.
_REQUESTS = {
    "check": ("check", "≤ 3", 300),
    "srl_304": ("signed list, 304", "", 300),
    "srl_200": ("signed list of 1,000, 200", "", 200),
    "batch": ("check-batch of 1,000", "", 10),
    "page": ("page of 100 revocations", "", 50),
}


def run(*, share: float = 1.0, rounds: int = 25) -> Iterator[Row]:
    """Each request beside the hello; `share` of the usual number of requests are made."""
    with TemporaryDirectory() as folder, _logging_as_on_lambda():
        clock = Clock()
        ports = embedded(Path(folder), clock)
        store = _TimedStore(ports.store)
        calls = _calls(replace(ports, store=store), "timed") | {"hello": _hello()}
        untimed = _calls(ports, "untimed")

        def seconds(name: str, times: int) -> float:
            """The processor time of one call among so many, without that of the store."""
            started = time.process_time() - store.seconds
            for _ in range(times):
                clock.advance(seconds=_STEP_SECONDS)
                calls[name]()
            return (time.process_time() - store.seconds - started) / times

        hellos = max(1, round(300 * share))
        for name, (said, goal, usual) in _REQUESTS.items():
            progress(said)
            times = max(1, round(usual * share))
            sides = [partial(seconds, name, times), partial(seconds, "hello", hellos)]
            for each in sides:
                each()  # the first requests make what is there for all others
            found, theirs = alternate(*sides, rounds=rounds)
            against, unit = "FastAPI + Mangum hello", ("ms CPU", 1e3)
            yield compared(f"request: {said}", found, against, theirs, unit=unit, goal=goal)
        progress("check with a session")

        def whole(name: str) -> float:
            """The same with the store: a session has one more read."""
            started = time.process_time()
            for _ in range(hellos):
                clock.advance(seconds=_STEP_SECONDS)
                untimed[name]()
            return (time.process_time() - started) / hellos

        found, theirs = alternate(partial(whole, "session"), partial(whole, "check"), rounds=rounds)
        said = "request: check with a session, and the store"
        yield compared(said, found, "an API key", theirs, unit=("ms CPU", 1e3), goal="≤ 1.2")
        progress("introspection")
        found, theirs = alternate(
            partial(whole, "introspection"), partial(whole, "check"), rounds=rounds
        )
        said = "request: introspection of a JWT (ES256), and the store"
        yield compared(said, found, "check", theirs, unit=("ms CPU", 1e3), goal="≤ 2")
        yield from _status_list(ports, rounds)
        close(ports)


def _status_list(ports: Ports, rounds: int) -> Iterator[Row]:
    """A status list with a hundredth of its entries revoked: what it takes to sign, and its size.

    Beside the publication of the list that has the same warrants.
    """
    progress("status list")
    tenant, url = Tenant(ports, serve(ports), handle="issuer"), "https://rescind.example"
    made = status_lists.create(ports, tenant.operator, name="bench", url=url)
    of, now = status_lists.look(ports, made.id), ports.now()
    seed = seals.unwrap_seed(ports, of.signer)
    numbers = made.indexes(0, made.size // 100)
    ids = sorted(f"{made.warrant_prefix}{each}" for each in numbers)

    def publish() -> object:
        return content.sign(Payload(1, now, of.head.expires_at, ids), seed=seed)

    ours, theirs = list[Taken](), list[Taken]()
    for _ in range(rounds):
        for taken, call in ((ours, partial(of.sign, ids, seed=seed)), (theirs, publish)):
            started = Taken.now()
            call()
            taken.append(Taken.now().since(started))
    name, unit = f"status list of {made.size:,}, 1 % revoked", ("ms", 1e3)
    yield took(f"{name}, signed", ours, unit=unit, against="10 ms", of=0.01, goal="≤ 1")
    yield took(f"{name}, signed", ours, unit=unit, against="their list, signed", of=theirs)
    signed = of.sign(ids, seed=seed)
    claims = json.loads(base64.urlsafe_b64decode(signed.split(b".")[1] + b"=="))
    packed = len(base64.urlsafe_b64decode(claims["status_list"]["lst"] + "=="))
    yield Row(f"{name}, packed", packed, "B", "20,000 B", packed / 20_000, goal="≤ 1")
    yield Row(f"{name}, answer", len(signed), "B")


@contextmanager
def _logging_as_on_lambda() -> Iterator[None]:
    """Make a line of JSON of each request, and write it to nowhere."""
    logger, before = logging.getLogger("shared"), logging.getLogger("shared").level
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        handler = logging.StreamHandler(nowhere)
        handler.setFormatter(JsonFormatter(stage="bench"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)


class _TimedStore(Intercepted):
    """A store, and the processor time that was spent in it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, self._timed)
        self.seconds = 0.0

    def _timed(self, call: Call) -> Any:
        started = time.process_time()
        try:
            return call.complete()
        finally:
            self.seconds += time.process_time() - started


def _calls(ports: Ports, handle: str) -> dict[str, Callable[[], None]]:
    tenant = Tenant(ports, serve(ports), handle=handle)
    revoke(ports, tenant.operator, warrant_ids(), _REVOKED)
    names = list(islice(warrant_ids(), _REVOKED))
    # The events say that the caller takes gzip.
    etag = publication.publish(ports, tenant.operator).form(is_gzip=True).etag
    key = ("Authorization", f"Bearer {tenant.admin.secret}")
    is_json = ("Content-Type", "application/json")
    batch = json.dumps({"warrant_ids": names}).encode()
    page, one = (("limit", "100"),), (("warrant_id", names[0]),)
    revocation = lambda_handler(create_app(revocations, ports=lambda: ports))
    srl = lambda_handler(create_app(lists, ports=lambda: ports))
    held = (key, ("If-None-Match", etag))
    begun = identities.signed_in(ports, identities.bound_outside(ports, tenant.operator))
    session = ("Authorization", f"Bearer {begun.secret}")
    posted = Request("POST", f"{_CHECK}-batch", headers=(key, is_json), body=batch)
    return {
        "check": _call(revocation, Request("GET", _CHECK, one, headers=(key,))),
        "introspection": _introspection(tenant, key),
        "session": _call(revocation, Request("GET", _CHECK, one, headers=(session,))),
        "srl_304": _call(srl, Request("GET", _SIGNED, headers=held), status=304),
        "srl_200": _call(srl, Request("GET", _SIGNED, headers=(key,))),
        "batch": _call(revocation, posted),
        "page": _call(revocation, Request("GET", "/v1/revocations", page, headers=(key,))),
    }


def _introspection(tenant: Tenant, key: tuple[str, str]) -> Callable[[], None]:
    """A question about a good token of an issuer with its keys."""
    ports = tenant.ports
    keys = {"keys": [issuers.public(issuers.key("ES256"), kid="k1")]}
    values: dict[str, Any] = {"jwks": keys, "client_id": "accounts", "role_mappings": ()}
    identities.bound(ports, tenant.operator, ProviderUsage.VERIFY_ONLY, **values)
    token = identities.token(ports, "accounts", exp=int(ports.now().timestamp()) + 100_000)
    app = introspection.OAuth(create_app(introspection.routes, ports=lambda: ports))
    is_form = ("Content-Type", "application/x-www-form-urlencoded")
    body = f"token={token}".encode()
    asked = Request("POST", introspection.PATH, headers=(key, is_form), body=body)
    return _call(lambda_handler(app), asked)


def _hello() -> Callable[[], None]:
    """The least that FastAPI and Mangum can do: one route that says hello."""
    app = FastAPI(openapi_url=None)

    @app.get("/v1/hello")
    async def hello() -> dict[str, str]:
        return {"message": "hello"}

    return _call(Mangum(app, lifespan="off"), Request("GET", "/v1/hello"))


def _call(handler: Any, request: Request, *, status: int = 200) -> Callable[[], None]:
    """A call of a Lambda handler, which has to answer with this status."""
    event = request.http_api()

    def call() -> None:
        answer = handler(copy.copy(event), None)
        if answer["statusCode"] != status:
            raise NotMeasured(f"{event['rawPath']} answered {answer['statusCode']}")

    return call
