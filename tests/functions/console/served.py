"""The local server in a thread of the test, on a copy of a seed, at a time that the test sets."""

import importlib.util
import json
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.utils import format_datetime
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infra.server import app as local_app
from shared import wiring
from shared.authorizer.formats import documents
from shared.authorizer.formats.documents import SignedDocument
from shared.authorizer.formats.trust import TrustDocument
from shared.model.rate_limit import BURST, BucketPurpose, microseconds
from shared.operations.identities import tickets
from shared.operations.operator import onboarding
from shared.ports import Ports
from tests.functions.console.seeds import OPENED, Seed, run_schedule
from tests.kit.processes import HOST
from tests.kit.worlds import Clock, close, embedded
from tests.leaks import WATCH

# To make one for each call, as is done without it, takes ten times as long as the call.
_TLS: Final = ssl.create_default_context()


@dataclass
class World:
    """A server with the data of a seed. Its clock moves only when told to."""

    seed: Seed
    ports: Ports
    clock: Clock
    data: Path
    port: int = 0
    _stop: Callable[[], None] = field(default=lambda: None, repr=False)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def id(self, name: str) -> str:
        """The identifier of what has this name in the seed."""
        return self.seed.ids[name]

    def call(self, method: str, path: str, as_: str = "admin", **body: Any) -> Any:
        """What the API answers to the holder of the API key of this name, as in `keys/ID`."""
        answer = self._answer(method, path, as_, **body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def _answer(self, method: str, path: str, as_: str, **body: Any) -> httpx2.Response:
        return httpx2.request(
            method,
            f"{self.url}/v1/{path}",
            headers={"Authorization": f"Bearer {self.seed.secrets[as_]}"},
            json=body or None,
            verify=_TLS,
        )

    def get(self, path: str, as_: str = "admin") -> Any:
        return self.call("GET", path, as_)

    def post(self, path: str, as_: str = "admin", **body: Any) -> Any:
        return self.call("POST", path, as_, **body)

    def trusted(self) -> SignedDocument:
        """The newest trust document."""
        return documents.documents(json.dumps(self.get("trust")).encode())[-1]

    def signed(self, made: TrustDocument) -> Any:
        """An answer with a document that the root of the world signed."""
        root, payload = self.ports.root, made.encode()
        assert root is not None
        by = {root.public_key: root.sign(documents.signed_part(payload))}
        return json.loads(documents.answer([SignedDocument.decode(payload, by)]))

    def run_schedule(self) -> None:
        """Let feed, schedule and sealing run once: what waits for a list is then in one."""
        run_schedule(self.ports, self.seed.tenant_id)

    def link(self) -> str:
        """A link that signs in once as operator; it ends after five minutes."""
        operator = onboarding.operator(self.ports, handle="acme", user="root")
        return f"{self.url}/#ticket={tickets.issue(self.ports, operator)}"

    def throttle(self) -> None:
        """Leave the tenant no request until the clock moves."""
        bucket, now = BucketPurpose.REQUESTS.bucket(self.seed.tenant_id), microseconds(self.clock())
        while self.ports.buckets.lease(bucket, BURST, now=now).granted:
            pass
        # The server holds some tokens of its own.
        while self._answer("GET", "whoami", "admin").status_code == httpx2.codes.OK:
            pass

    def start(self) -> None:
        """Let a server begin, on the port that it had before, if any."""
        listener = socket.create_server((HOST, self.port))
        self.port = listener.getsockname()[1]
        server = uvicorn.Server(_config(_dated(_application(), self.clock)))
        thread = threading.Thread(target=server.run, args=([listener],), name="console")

        def stop() -> None:
            server.should_exit = True
            thread.join()
            listener.close()

        thread.start()
        self._stop = stop

    def stop(self) -> None:
        """Let the server end. Nobody listens on its port then."""
        self._stop()
        self._stop = lambda: None


@contextmanager
def serving(seed: Seed, folder: Path) -> Iterator[World]:
    """Serve a copy of a seed in `folder`, which must not exist, at the time `OPENED`."""
    shutil.copytree(seed.folder, folder)
    clock = Clock(OPENED)
    ports = embedded(folder, clock, store=str(folder / "svc.db"))
    world = World(replace(seed, secrets=dict(seed.secrets)), ports, clock, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wiring, "from_environment", lambda: world.ports)
        patch.setattr(wiring, "is_near", lambda: True)
        # The tests of the API search all that it answers, which takes longer than all else here.
        patch.setattr(WATCH, "search", lambda *_, **__: None)
        world.start()
        try:
            yield world
        finally:
            world.stop()
            close(ports)


def _application() -> ASGIApp:
    """The local application anew: it keeps ports, rate limits and threads as long as it lives."""
    found = importlib.util.spec_from_file_location("infra.server.app", local_app.__file__)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    app: ASGIApp = module.app
    return app


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="on",
        ws="none",
        log_config=None,
        log_level="error",
        proxy_headers=False,
        server_header=False,
        # That of the world's clock is set instead.
        date_header=False,
        timeout_graceful_shutdown=1,
    )


def _dated(app: ASGIApp, clock: Clock) -> ASGIApp:
    """The application whose answers have the date of this clock."""

    async def dated(scope: Scope, receive: Receive, send: Send) -> None:
        async def with_date(message: Message) -> None:
            if message["type"] == "http.response.start":
                date = format_datetime(clock(), usegmt=True).encode()
                message = {**message, "headers": [*message["headers"], (b"date", date)]}
            await send(message)

        await app(scope, receive, with_date)

    return dated
