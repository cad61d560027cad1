"""Sign-ins at a second OpenID provider (Debian's glewlwyd), over TLS and the API."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from shared.ports import Ports
from shared.web.gate import PublicMiddleware
from shared.web.sign_in import SignIn
from shared.web.strangers import AnonymousLimiter
from tests.kit.api import Instance, Tenant
from tests.kit.glewlwyd import ISSUER, SECRET, Glewlwyd, glewlwyd, needs_glewlwyd
from tests.kit.providers import CLIENT, authorization
from tests.kit.worlds import Clock

pytestmark = [pytest.mark.slow, needs_glewlwyd]
VERIFIER, NONCE = "v" * 43, "a-nonce"
PATH = "/v1/tenant/identity-providers"
CODE = "The provider rejects the code; sign in again."


@dataclass
class SecondProvider:
    """A provider that a tenant has bound, and that knows the tenant's client and Ann."""

    tenant: Tenant
    running: Glewlwyd
    id: str

    @property
    def redirect(self) -> str:
        return f"https://rescind.example/console/signed-in/{self.id}"

    def code(self) -> str:
        began = {"verifier": VERIFIER, "nonce": NONCE, "redirect": self.redirect}
        return self.running.code(authorization(f"{ISSUER}/auth", **began))

    def redeem(self, code: str, **changes: str) -> Any:
        form = {"grant_type": "authorization_code", "audience": self.id, "code": code}
        form |= {"code_verifier": VERIFIER, "nonce": NONCE, "redirect_uri": self.redirect}
        ports, body = self.tenant.ports, urlencode(form | changes).encode()
        limits = PublicMiddleware(AnonymousLimiter(ports.now), tuple, {})
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        http = Instance(partial(limits.answer, SignIn(lambda: ports)))
        return http.request("POST", "/v1/sign-in/code", content=body, headers=kind)

    def said(self, code: str, **changes: str) -> str:
        answer = self.redeem(code, **changes)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
        return str(answer.json()["error_description"])


@pytest.fixture
def clock() -> Clock:
    """The provider's clock is that of the machine."""
    return Clock(datetime.now(UTC))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Glewlwyd]:
    with glewlwyd(tmp_path) as made:
        yield made


@pytest.fixture
def ports(ports: Ports, running: Glewlwyd) -> Ports:
    outbound = running.outbound()
    return replace(ports, outbound=lambda: outbound)


@pytest.fixture
def second(tenant: Tenant, running: Glewlwyd) -> SecondProvider:
    role_mappings = [{"claims": {"email": "ann@acme.example"}, "role": "admin"}]
    body: dict[str, Any] = {
        "name": "SSO",
        "usage": "sign_in",
        "issuer": ISSUER,
        "role_mappings": role_mappings,
    }
    # glewlwyd verifies addresses, and does not say so.
    body |= {"client_id": CLIENT, "client_secret": SECRET, "trusts_email": True}
    answer = tenant.admin.post(PATH, json=body)
    assert answer.status_code == 201, answer.text
    made = SecondProvider(tenant, running, answer.json()["id"])
    running.register(made.redirect)
    return made


def test_a_person_signs_in(second: SecondProvider) -> None:
    """F1310a: A second provider is bound by what it publishes, and its person has a session."""
    answer = second.redeem(second.code())
    assert answer.status_code == 200, answer.text
    session = second.tenant.holding(answer.json()["access_token"])
    who = session.get("/v1/whoami").json()
    assert (who["identity"], who["name"], who["scopes"]) == ("ann@acme.example", "Ann", ["admin"])
    assert session.delete("/v1/sessions/current").status_code == 204
    assert session.get("/v1/whoami").status_code == 401


def test_a_sign_in_is_refused(second: SecondProvider) -> None:
    """F1311a: Another verifier or nonce, a code twice, and a wrong client secret are refused."""
    once, admin = second.code(), second.tenant.admin
    assert second.redeem(once).is_success
    assert second.said(once) == CODE
    assert second.said(second.code(), code_verifier="w" * 43) == CODE
    assert "its nonce differs" in second.said(second.code(), nonce="another")
    changed = admin.request("PATCH", f"{PATH}/{second.id}", json={"client_secret": "another"})
    assert changed.is_success
    assert "compare its id and secret" in second.said(second.code())
    assert len(admin.get("/v1/sessions").json()["sessions"]) == 1


def test_a_provider_changes_its_keys(second: SecondProvider, clock: Clock) -> None:
    """F1312a: A second provider's new key is read, a minute after the last one was."""
    assert second.redeem(second.code()).is_success
    second.running.sign_with("another")
    assert "no key with the token's kid" in second.said(second.code())
    clock.advance(seconds=60)
    assert second.redeem(second.code()).is_success
