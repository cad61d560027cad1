"""The whole API as its callers meet it: one client a caller, over the real ASGI application."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx2
import pytest
from starlette.types import ASGIApp

from infra.server.routers import ROUTERS
from shared.model import times
from shared.model.callers import Caller, Scope
from shared.operations.access import api_keys
from shared.operations.changes import revocation_changes
from shared.operations.operator import onboarding
from shared.ports import Ports
from shared.web.app import create_app
from tests.kit import asgi


@dataclass(frozen=True)
class Instance:
    """One instance of the service, in this process and thread: a request is a function call."""

    app: ASGIApp
    ports: Ports | None = None

    def request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        made = httpx2.Request(method, f"http://testserver{path}", **options)
        answer = asgi.send(
            self.app,
            method,
            made.url.raw_path.decode(),
            headers=made.headers.items(),
            chunks=[made.read()],
        )
        return httpx2.Response(answer.status_code, headers=answer.headers, content=answer.content)

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return self.request("GET", path, **options)


@dataclass(frozen=True)
class Client:
    """A caller with a key of its own; None calls without one."""

    http: Instance
    secret: str | None
    key_id: str = ""
    tenant_id: str = ""

    def request(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.secret}"} if self.secret else {}
        headers |= options.pop("headers", {})
        return self.http.request(method, path, headers=headers, **options)

    def get(self, path: str, **options: Any) -> Any:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> Any:
        return self.request("POST", path, **options)

    def delete(self, path: str, **options: Any) -> Any:
        return self.request("DELETE", path, **options)


class Tenant:
    """A tenant with a client for each scope, and one that has no key."""

    def __init__(self, ports: Ports, http: Instance, *, handle: str) -> None:
        settings, created = onboarding.create_tenant(ports, handle=handle)
        self.id = settings.tenant_id
        self.handle = handle
        self.ports = ports
        self._http = http
        self.operator = Caller.inside(self.id, name="operator", handle=handle)
        self.admin = Client(http, created.secret, created.api_key.id, self.id)
        self.authorizer = self.client(Scope.AUTHORIZER)
        self.read_only = self.client(Scope.READ_ONLY)
        self.anonymous = Client(http, None)

    def client(self, *scopes: Scope, **options: Any) -> Client:
        """A client with a new key of these scopes."""
        created = api_keys.create(self.ports, self.operator, name="k", scopes=scopes, **options)
        return Client(self._http, created.secret, created.api_key.id, self.id)

    def holding(self, secret: str | None) -> Client:
        """A client with this very key string."""
        return Client(self._http, secret)

    def revoke(self, warrant_id: str, reason: str = "stolen") -> str:
        """Revoke a warrant and return the identifier of the record."""
        body = {"warrant_id": warrant_id, "reason": reason}
        answer = self.admin.post("/v1/revocations", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def revoke_ended(self, warrant_id: str, ends_at: datetime, reason: str = "stolen") -> str:
        """Revoke a warrant that has ended; return the record's id."""
        end = times.format_utc(ends_at)
        body = {"warrant_id": warrant_id, "reason": reason, "warrant_expires_at": end}
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(revocation_changes, "check_end", lambda *_: None)
            answer = self.admin.post("/v1/revocations", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])


def serve(ports: Ports) -> Instance:
    """An instance of the service on these ports; two on the same ports are two instances."""
    return Instance(create_app(*ROUTERS, ports=lambda: ports), ports)
