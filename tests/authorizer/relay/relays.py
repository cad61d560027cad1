"""Relays on loopback, in threads of the tests."""

import http.client
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.authorizer.answers import FeedResponse, parse_answer
from shared.authorizer.formats.following import TrustState
from shared.authorizer.relay.app import app
from shared.authorizer.relay.command import Server, open_socket
from shared.authorizer.relay.connections import Limits
from shared.authorizer.relay.relay import Relay
from shared.authorizer.relay.relay import ServiceConfig as Upstream
from shared.authorizer.saved_state import FileStateStore
from tests.authorizer.feeds import TENANT
from tests.authorizer.service import KEY, PIN, Service
from tests.kit.waiting import soon

FEED = "/v1/revocations/feed"
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Reply:
    """A response of a relay."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def answer(self) -> FeedResponse:
        return parse_answer(self.body)

    @property
    def age(self) -> int:
        return int(self.headers["age"])

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Running:
    """A relay that runs."""

    relay: Relay
    server: Server
    port: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def post(self, path: str, body: object) -> Reply:
        """The response to a body of JSON, or to bytes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.get(path, method="POST", data=data)

    def get(
        self, path: str = FEED, *, method: str = "GET", data: bytes | None = None, **headers: str
    ) -> Reply:
        """The response to one request; `_` in names of headers stands for `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(http.client.HTTPConnection(HOST, self.port, timeout=60)) as connection:
            connection.request(method, path, data, headers=named)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, found, response.read())

    def holds(self, sequence: int) -> bool:
        held = self.relay.news.held
        return held is not None and held.head.sequence == sequence


@contextmanager
def running(
    service: Service | str,
    folder: Path,
    *,
    key: str = KEY,
    tokens: Sequence[str] = (),
    tenant: str = TENANT,
    pin: str = PIN,
    most_waiting: int = 100,
) -> Iterator[Running]:
    """A relay of `service`, or of the one at an address, on a free port."""
    url = service if isinstance(service, str) else service.url
    store = FileStateStore(folder / "floor")
    upstream = Upstream(url, key, name="site-a")
    relay = Relay(upstream, TrustState(tenant, pin), store, folder, most_waiting=most_waiting)
    relay.load()
    sock = open_socket(HOST, 0)
    server = Server(relay, app(relay, tokens), Limits(1000, 100), None, None)
    thread = threading.Thread(target=server.run, args=([sock],), daemon=True)
    thread.start()
    try:
        soon(lambda: server.started)
        yield Running(relay, server, sock.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()
