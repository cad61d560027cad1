"""`/healthz` and `/readyz` of the local server, for whoever starts and watches it."""

import asyncio
import json
import signal
import sqlite3
import threading
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response

from infra.server.ops import Health
from infra.server.work import ThreadedWork
from shared.errors import Unavailable
from shared.operations.lists import publication
from shared.ports import Ports
from shared.web.work import IN_PLACE
from tests.kit import processes
from tests.kit.asgi import run
from tests.kit.faults import Script, broken_at, raises, scripted
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon
from tests.kit.worlds import Clock

_REQUEST = Request({"type": "http", "method": "GET", "path": "/readyz", "headers": []})


def test_a_server_says_whether_it_lives_and_can_serve(tmp_path: Path) -> None:
    """F155a: `/healthz` and `/readyz` need no key, and a broken store makes `/readyz` 503."""
    with processes.local_server(tmp_path / "data") as server, httpx2.Client() as http:
        alive = http.get(f"{server.url}/healthz")
        assert (alive.status_code, alive.json()) == (200, {"status": "alive"})
        assert alive.headers["cache-control"] == "no-store"
        head = http.head(f"{server.url}/readyz")
        assert (head.status_code, head.content) == (200, b"")
        assert http.post(f"{server.url}/readyz").status_code == 401
        ready = http.get(f"{server.url}/readyz")
        lists = ready.json()["lists"]
        assert 0 <= lists["oldest_age_seconds"] < 60
        assert 3500 < lists["soonest_expiry_seconds"] <= 3600
        assert (ready.status_code, lists["late"]) == (200, 0)
        with closing(sqlite3.connect(server.data / "svc.db")) as database:
            database.execute("ALTER TABLE keys RENAME TO lost")
        # The answer that was seen before is repeated for a while.
        soon(lambda: http.get(f"{server.url}/readyz").status_code != 200)
        broken = http.get(f"{server.url}/readyz")
        assert (broken.status_code, broken.headers["retry-after"]) == (503, "1")
        error = broken.json()["error"]
        assert (error["code"], error["message"]) == ("unavailable", "The store does not respond.")
        assert http.get(f"{server.url}/healthz").status_code == 200


def test_a_server_that_is_told_to_stop_drains(tmp_path: Path) -> None:
    """F616a, F1743b: After SIGTERM `/readyz` fails; requests are served until the drain ends."""
    with processes.local_server(tmp_path / "data", "--drain-seconds", "600") as server:
        with httpx2.Client(base_url=server.url) as http:
            server.process.send_signal(signal.SIGTERM)
            soon(lambda: http.get("/readyz").status_code == 503)
            said = "This server stops; send requests to another one."
            assert http.get("/readyz").json()["error"]["message"] == said
            assert http.get("/healthz").status_code == 200
            headers = {"Authorization": f"Bearer {server.admin_key}"}
            assert http.get("/v1/whoami", headers=headers).status_code == 200
            # A proxy is not to keep connections that will end.
            soon(lambda: http.get("/healthz").headers.get("connection") == "close")
            server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=60) == 0
        assert server.output.read_text().endswith(f"Stopped; the data is in {server.data}\n")


@dataclass
class _Seconds:
    """Seconds that pass only if told to."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def _asked(health: Health, times: int = 1) -> list[Response]:
    async def ask() -> list[Response]:
        return await asyncio.gather(*(health.ready(_REQUEST) for _ in range(times)))

    return run(ask())


def test_a_flood_reads_the_store_a_few_times(ports: Ports) -> None:
    """F156a: A flood of requests to `/readyz` reads the store once in two seconds."""
    script, seconds = Script(), _Seconds()
    broken = scripted(ports, script)
    health = Health(lambda: broken, IN_PLACE, seconds)
    assert {each.status_code for each in _asked(health, 1000)} == {200}
    once = len(script.calls)
    seconds.now += 1.9
    _asked(health, 1000)
    assert len(script.calls) == once
    seconds.now += 0.2
    _asked(health, 1000)
    # The trust documents are counted anew every ten minutes.
    assert len(script.calls) == 2 * once - 1


def test_a_flood_while_a_place_hangs_takes_one_thread(ports: Ports) -> None:
    """F156b: If a place hangs, a flood of requests to `/readyz` takes one thread, and gets 503."""
    goes_on, seconds = threading.Event(), _Seconds()
    script = Script(before={0: goes_on.wait})
    health = Health(lambda: scripted(ports, script), ThreadedWork(), seconds)

    async def ask() -> tuple[list[Response], Response]:
        first = asyncio.create_task(health.ready(_REQUEST))
        await asyncio.sleep(0)
        seconds.now += 5
        flood = await asyncio.gather(*(health.ready(_REQUEST) for _ in range(100)))
        goes_on.set()
        return flood, await first

    flood, first = run(ask())
    assert {each.status_code for each in flood} == {503}
    assert first.status_code == 200
    assert script.calls.count("get_many") == 1


def test_a_change_that_is_not_published_is_reported(ports: Ports, clock: Clock) -> None:
    """F553g: `/readyz` is 503 while a change is not published in time, and names no tenant."""
    tenant, seconds = Tenant.create(ports), _Seconds()
    health = Health(lambda: ports, IN_PLACE, seconds)
    tenant.revoke(ports, "svc_wrt_a")
    clock.advance(seconds=20)
    (answer,) = _asked(health)
    assert json.loads(bytes(answer.body))["unpublished_seconds"] == 20
    clock.advance(seconds=20)
    seconds.now += 3
    (answer,) = _asked(health)
    assert answer.status_code == 503
    assert b"not published" in bytes(answer.body)
    assert tenant.id.encode() not in bytes(answer.body)
    publication.publish_feed(ports, tenant.id)
    seconds.now += 3
    assert [each.status_code for each in _asked(health)] == [200]


@pytest.mark.parametrize(
    "failure", [Unavailable("svc_tnt_01 of acme"), RuntimeError("svc_tnt_01 of acme")]
)
def test_a_failure_reveals_nothing(
    ports: Ports, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    """F155c, S8: `/readyz` names no tenant and no fault to a caller without a key."""
    Tenant.create(ports)
    for number in range(4):
        broken = scripted(ports, Script(before={number: raises(failure)}))
        (answer,) = _asked(Health(lambda broken=broken: broken, IN_PLACE))  # type: ignore[misc]
        assert answer.status_code == 503
        assert set(json.loads(bytes(answer.body))["error"]) == {"code", "message"}
        assert b"acme" not in answer.body
        assert b"tnt" not in answer.body
    assert caplog.text.count("not ready") == 4


@pytest.mark.parametrize("verb", ["get_blob", "seal", "unseal"])
def test_requests_go_on_without_blobs_and_key_service(
    ports: Ports, caplog: pytest.LogCaptureFixture, verb: str
) -> None:
    """F1935a: A port beside the store that fails is named. `/readyz` remains 200."""
    Tenant.create(ports)
    script = Script()
    assert _unavailable(Health(lambda: scripted(ports, script), IN_PLACE)) == []
    broken = scripted(ports, Script(before={script.calls.index(verb): raises(_AWAY)}))
    named = "RESCIND_BLOBS" if verb == "get_blob" else "RESCIND_KEY_WRAPPER"
    assert _unavailable(Health(lambda: broken, IN_PLACE)) == [named]
    assert f"{named} does not respond: {_AWAY!r}" in caplog.text


@pytest.mark.slow
def test_a_port_that_hangs_is_named(ports: Ports) -> None:
    """F1935b: A port beside the store that hangs is named, takes one thread, and delays nothing."""
    goes_on, seconds, called = threading.Event(), _Seconds(), list[str]()

    def wait() -> None:
        called.append("get")
        goes_on.wait()

    blobs = scripted(ports, Script(before=dict.fromkeys(range(9), wait))).blobs
    health = Health(lambda: replace(ports, blobs=blobs), IN_PLACE, seconds)
    try:
        for _ in range(3):
            assert _unavailable(health) == ["RESCIND_BLOBS"]
            seconds.now += 3
        assert len(called) == 1
    finally:
        goes_on.set()
    soon(lambda: _unavailable(health, seconds) == [])


def test_a_bug_in_a_probe_is_reported(ports: Ports, caplog: pytest.LogCaptureFixture) -> None:
    """F1935c: An unexpected error of a port beside the store makes `/readyz` 503."""
    script = Script()
    _asked(Health(lambda: scripted(ports, script), IN_PLACE))
    broken = broken_at(ports, script.calls.index("get_blob"), RuntimeError("secret"))
    (answer,) = _asked(Health(lambda: broken, IN_PLACE))
    assert answer.status_code == 503
    assert "not ready: RuntimeError" in caplog.text
    assert "secret" not in caplog.text


_AWAY = Unavailable("away")


def _unavailable(health: Health, seconds: _Seconds | None = None) -> list[str]:
    """Return the ports that `/readyz` names, with status 200; a new look if there are seconds."""
    if seconds:
        seconds.now += 3
    (answer,) = _asked(health)
    assert answer.status_code == 200
    found: list[str] = json.loads(bytes(answer.body))["unavailable"]
    return found
