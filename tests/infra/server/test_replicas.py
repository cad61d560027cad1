"""Two replicas on PostgreSQL as their callers meet them: whichever is asked, it answers right."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from itertools import cycle
from typing import Any

import httpx2
import pytest

from shared.ports import Ports
from tests.infra.replicas import LONG, Replicas, replicas
from tests.kit import postgresql
from tests.kit.api import Client, Tenant
from tests.kit.endpoints import ENDPOINTS, call

pytestmark = pytest.mark.slow


class ByTurns:
    """Sends each request to the next of several servers; a test uses it as one service."""

    def __init__(self, *urls: str, ports: Ports | None = None) -> None:
        self._urls, self.ports = cycle(urls), ports

    def request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        url = next(self._urls) + path
        return httpx2.request(method, url, timeout=LONG, verify=False, **options)

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return self.request("GET", path, **options)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    server, folder = postgresql.server(), tmp_path_factory.mktemp("replicas")
    with server.database("walked") as url, replicas(folder, url) as made:
        yield made
        # They go before their database.
        for each in made.servers:
            each.group.kill()


@pytest.fixture
def tenant(found: Replicas) -> Iterator[Tenant]:
    """A new tenant of the service, whose requests go to the servers by turns."""
    with found.ports() as ports:
        by_turns: Any = ByTurns(*(each.url for each in found.servers), ports=ports)
        yield Tenant(ports, by_turns, handle=ports.new_id("t").replace("_", "-"))


def at(tenant: Tenant, url: str) -> Client:
    """The administrator at one of the servers."""
    here: Any = ByTurns(url)
    return Client(here, tenant.admin.secret)


def test_each_endpoint_answers_at_both(tenant: Tenant) -> None:
    """F630a: What one replica has done, the next one goes on with, at each endpoint."""
    for key, endpoint in ENDPOINTS.items():
        answer = call(key, tenant.admin, endpoint.target(tenant))
        while key == ("PUT", "/v1/trust") and answer.status_code == HTTPStatus.CONFLICT:
            # A server has published a document meanwhile.
            answer = call(key, tenant.admin, endpoint.target(tenant))
        assert answer.status_code == endpoint.status, (key, answer.text)


def test_a_request_is_repeated_at_the_other(found: Replicas, tenant: Tenant) -> None:
    """API-32, F630b: A request that is repeated at another replica, even at once, is done once."""
    a, b = (at(tenant, each.url) for each in found.servers)
    headers = {"Idempotency-Key": "of-a-caller-who-got-no-answer"}

    def send(client: Client) -> tuple[int, str]:
        body = {"warrant_id": "svc_wrt_once", "reason": "stolen"}
        answer = client.post("/v1/revocations", json=body, headers=headers)
        return answer.status_code, answer.json()["id"]

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(send, [a, b] * 4))) == 1
    assert send(a) == send(b)
    assert tenant.admin.get("/v1/revocations").json()["total"] == 1


def test_a_held_poll_hears_of_the_other(found: Replicas, tenant: Tenant) -> None:
    """FEED-9, F630c: A revocation at one replica ends the polls that are held at the other."""
    a, b = (at(tenant, each.url) for each in found.servers)
    poll = "/v1/revocations/feed?wait=25"
    for number in range(3):
        head = b.get("/v1/revocations/feed").headers["etag"]
        with ThreadPoolExecutor(1) as pool:
            held = pool.submit(b.get, poll, headers={"If-None-Match": head})
            body = {"warrant_id": f"svc_wrt_{number}", "reason": "stolen"}
            assert a.post("/v1/revocations", json=body).status_code == 201
            answer = held.result()
        while answer.status_code == HTTPStatus.OK and len(answer.json()["entries"]) == number:
            # The head names a new list or document, and no entry: clients go on, as here.
            answer = b.get(poll, headers={"If-None-Match": answer.headers["etag"]})
        assert (answer.status_code, len(answer.json()["entries"])) == (200, number + 1)


def test_a_key_is_refused_at_the_other(found: Replicas, tenant: Tenant) -> None:
    """F630d, F13: A key that is made and used at one replica is refused once another revokes it."""
    a, b = (at(tenant, each.url) for each in found.servers)
    for _ in range(5):
        made = a.post("/v1/api-keys", json={"name": "k", "scopes": ["revoker"]}).json()
        used = [Client(each.http, made["key"]) for each in (a, b)]
        assert [each.get("/v1/whoami").status_code for each in used] == [200, 200]
        assert b.post(f"/v1/api-keys/{made['id']}/revoke").status_code == 200
        assert [each.get("/v1/whoami").status_code for each in used] == [401, 401]
