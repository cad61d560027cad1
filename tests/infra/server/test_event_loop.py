"""The event loop of a server on a shared store waits for no port, however slow that is."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from starlette.requests import Request

from infra.server.ops import Health, alive
from infra.server.routers import ROUTERS
from infra.server.work import ThreadedWork
from shared.ports import Ports
from shared.web.app import create_app
from tests.kit.api import Instance, Tenant
from tests.kit.asgi import bearer, exchange, run
from tests.kit.endpoints import ENDPOINTS, call
from tests.kit.intercepted import Call, Intercepted

_READY = Request({"type": "http", "method": "GET", "path": "/readyz", "headers": []})
_CHECK = "/v1/revocations/check?warrant_id=svc_wrt_a"


def far() -> ThreadedWork:
    """The work of a server whose store is across a network."""
    return ThreadedWork(is_near=lambda: False)


def around_all(ports: Ports, around: Callable[[Call], Any]) -> Ports:
    """The ports, each of whose calls goes through `around`."""
    names = ("store", "buckets", "usage", "blobs", "sealer")
    made: dict[str, Any] = {each: Intercepted(getattr(ports, each), around) for each in names}
    return replace(ports, **made)


def _outside_the_loop(call: Call) -> Any:
    if call.verb == "listen":
        # Across a network nothing is heard.
        return None
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        pytest.fail(f"the event loop calls {call.verb}")
    return call()


@pytest.mark.slow
def test_no_request_uses_a_port_in_the_loop(ports: Ports) -> None:
    """F619a: With a store across a network, no endpoint calls any port in the event loop."""
    strict = around_all(ports, _outside_the_loop)
    work = far()
    work.max_wait_seconds = 1
    http = Instance(create_app(*ROUTERS, ports=lambda: strict, work=work), ports)
    tenant = Tenant(ports, http, handle="acme")
    for key, endpoint in ENDPOINTS.items():
        answer = call(key, tenant.admin, endpoint.target(tenant))
        assert answer.status_code == endpoint.status, (key, answer.text)
    head = tenant.admin.get("/v1/revocations/feed").headers["etag"]
    poll = "/v1/revocations/feed?wait=1"
    assert tenant.admin.get(poll, headers={"If-None-Match": head}).status_code == 304
    assert http.get(poll).status_code == 401
    assert run(Health(lambda: strict, work).ready(_READY)).status_code == 200
    work.stop()


def test_a_store_that_stands_still_stops_no_other_answer(ports: Ports) -> None:
    """F619b: While the store does not answer at all, `/healthz` does; then all requests end."""
    goes_on, entered = threading.Event(), threading.Semaphore(0)

    def wait(call: Call) -> Any:
        entered.release()
        assert goes_on.wait(120)
        return call()

    work = far()
    stalled = around_all(ports, wait)
    tenant = Tenant(ports, Instance(create_app(*ROUTERS, ports=lambda: ports)), handle="acme")
    headers = bearer(tenant.admin.secret)
    app = create_app(*ROUTERS, ports=lambda: stalled, work=work)

    async def ask() -> list[int]:
        checks = [asyncio.create_task(exchange(app, "GET", _CHECK, headers=headers)) for _ in "ab"]
        await asyncio.to_thread(entered.acquire)
        health = await alive(_READY)
        assert not any(each.done() for each in checks)
        goes_on.set()
        return [health.status_code, *[(await each).status_code for each in checks]]

    assert run(ask()) == [200, 200, 200]
    work.stop()
