"""The service behind Mangum, on a store in this process's memory, with what Lambda makes it log.

The time spent in the store is not told: on AWS it is the network's.
"""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ParamSpec, TypeVar

from functions.revocations.handler import routes as revocations
from functions.srl.handler import routes as lists
from shared.operations.lists import publication
from shared.ports import Ports
from shared.ports.store import Store
from shared.web.app import create_app, lambda_handler
from tests.bench import worker
from tests.bench.revoked import revoke, warrant_ids
from tests.kit.api import Tenant, serve
from tests.kit.intercepted import Call, Intercepted
from tests.kit.lambda_events import Request
from tests.kit.worlds import Clock, embedded

P = ParamSpec("P")
R = TypeVar("R")

REVOKED = 1000

_CHECK, _SIGNED = "/v1/revocations/check", "/v1/revocations/srl/signed"
# Between two requests, so that the tenant never uses up what its rate limit grants.
_STEP_SECONDS = 0.002


def main() -> None:
    """Serve until standard input ends."""
    with TemporaryDirectory() as folder:
        clock = Clock()
        ports = embedded(Path(folder), clock)
        store = _TimedStore(ports.store)
        calls = _calls(replace(ports, store=store))
        stepping = {name: _after_a_step(clock, call) for name, call in calls.items()}
        worker.serve(stepping, apart=lambda: store.seconds)


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


def _calls(ports: Ports) -> dict[str, Callable[[], None]]:
    tenant = Tenant(ports, serve(ports), handle="bench")
    revoke(ports, tenant.operator, warrant_ids(), REVOKED)
    names = list(islice(warrant_ids(), REVOKED))
    # The events say that the caller takes gzip.
    etag = publication.publish(ports, tenant.operator).form(packed=True).etag
    key = ("Authorization", f"Bearer {tenant.admin.secret}")
    is_json = ("Content-Type", "application/json")
    batch = json.dumps({"warrant_ids": names}).encode()
    revocation = lambda_handler(create_app(revocations, ports=lambda: ports))
    srl = lambda_handler(create_app(lists, ports=lambda: ports))

    def call(handler: Any, request: Request, *, status: int = 200) -> Callable[[], None]:
        return worker.call_of(handler, request.http_api(), status=status)

    return {
        "check": call(
            revocation, Request("GET", _CHECK, (("warrant_id", names[0]),), headers=(key,))
        ),
        "srl_304": call(
            srl, Request("GET", _SIGNED, headers=(key, ("If-None-Match", etag))), status=304
        ),
        "srl_200": call(srl, Request("GET", _SIGNED, headers=(key,))),
        "batch": call(
            revocation, Request("POST", f"{_CHECK}-batch", headers=(key, is_json), body=batch)
        ),
        "page": call(
            revocation, Request("GET", "/v1/revocations", (("limit", "100"),), headers=(key,))
        ),
    }


def _after_a_step(clock: Clock, call: Callable[[], None]) -> Callable[[], None]:
    def stepping() -> None:
        clock.advance(seconds=_STEP_SECONDS)
        call()

    return stepping


if __name__ == "__main__":
    main()
