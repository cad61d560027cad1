"""`rescind login` with a company's account or with the token of a program, against a service."""

import json
import webbrowser
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from infra.cli import sign_in
from shared.model.identities.providers import IdentityProvider
from shared.operations.identities import identity_providers
from shared.operations.identities.identity_providers import ProviderChange
from shared.ports import Ports
from shared.ports.store import Put, VersionIs
from tests.infra.cli.conftest import Shell
from tests.infra.commands import Ended
from tests.kit import identities
from tests.kit.api import Tenant
from tests.kit.identities import bound
from tests.kit.issuers import ISSUER, Answers
from tests.kit.listening import listening
from tests.kit.processes import free_port
from tests.kit.receivers import Script, answer, plainly

SECRET: Final = "svc_session_"


@dataclass
class Company:
    """A service whose tenant `acme` has a provider, and the browser of somebody who works there."""

    tenant: Tenant
    ports: Ports
    outside: Answers
    provider: IdentityProvider
    url: str
    shell: Shell
    # What the provider has the browser take back, beside what it must.
    back: dict[str, str | None] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=lambda: {"name": "Alice Martin"})
    visited: list[dict[str, str]] = field(default_factory=list)

    def login(self, *more: str) -> Ended:
        return self.shell.run("login", "--url", self.url, "--tenant", "acme", *more)

    def open(self, address: str) -> bool:
        """Visit the provider, who knows the person and sends the browser back."""
        said = {name: each[0] for name, each in parse_qs(urlsplit(address).query).items()}
        self.visited.append(said)
        self.outside.documents[f"{ISSUER}/token"] = lambda: self._token(said)
        usual = {"code": "SplxlOBe", "state": said["state"], "iss": ISSUER}
        given = {name: value for name, value in (usual | self.back).items() if value is not None}
        # As browsers do: an icon, too, and no word on a connection that is kept in reserve.
        httpx2.get(f"{said['redirect_uri']}favicon.ico")
        if given:
            httpx2.get(f"{said['redirect_uri']}?{urlencode(given)}")
        return True

    def _token(self, said: dict[str, str]) -> str:
        """An ID token, if the verifier is that of the challenge."""
        _, form, _ = self.outside.asked[-1]
        assert form is not None
        digest = sha256(form["code_verifier"].encode()).digest()
        assert said["code_challenge"] == urlsafe_b64encode(digest).rstrip(b"=").decode()
        assert said["redirect_uri"] == form["redirect_uri"]
        return json.dumps({"id_token": self.token(nonce=said["nonce"])})

    def token(self, **said: Any) -> str:
        return identities.token(self.ports, "rescind", **self.claims, **said)

    def change(self, **values: Any) -> None:
        identity_providers.update(
            self.ports,
            self.tenant.operator,
            provider_id=self.provider.id,
            change=ProviderChange(**values),
        )

    @property
    def redeemed(self) -> int:
        """How often the provider was asked for a token."""
        return sum(url.endswith("/token") for url, _, _ in self.outside.asked)


@pytest.fixture
def company(tenant: Tenant, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[Company]:
    outside = identities.published()
    ports = replace(tenant.ports, outbound=lambda: outside)
    provider = bound(ports, tenant.operator, jwks=None, token_exchange=True)
    with listening(ports) as url:
        made = Company(tenant, ports, outside, provider, url, shell)
        monkeypatch.setattr(webbrowser, "open", made.open)
        yield made


def test_a_person_signs_in_with_a_browser(company: Company) -> None:
    """F1220a: `login --sso` keeps a session, whose holder and end `whoami` shows; `logout` ends it.

    The browser takes a state, a nonce and a challenge to the provider, and comes back by loopback.
    """
    ended = company.login("--sso")
    assert ended.code == 0, ended.err
    (asked,) = company.visited
    assert f"{ISSUER}/auth?" in ended.err
    assert (asked["response_type"], asked["client_id"], asked["code_challenge_method"]) == (
        "code",
        "rescind",
        "S256",
    )
    assert asked["redirect_uri"].startswith("http://127.0.0.1:")
    (file,) = company.shell.home.rglob("profile.json")
    assert file.stat().st_mode & 0o777 == 0o600
    kept = json.loads(file.read_text())
    assert kept["api_key"].startswith(SECRET)
    assert kept["expires_at"] == "2026-11-21T13:00:00Z"
    assert kept["api_key"] not in ended.out + ended.err
    shown = company.shell.run("whoami").out
    for word in ("Alice Martin", "alice@example.com", "admin", "2026-11-21T13:00:00Z"):
        assert word in shown
    assert "api_key" not in shown
    assert company.shell.run("logout").code == 0
    assert not file.exists()
    who = company.tenant.holding(kept["api_key"]).get("/v1/whoami")
    assert who.status_code == 401


def test_a_client_of_the_command_line(company: Company) -> None:
    """F1220b: If the command line has a client of its own at the provider, it signs in as that."""
    company.change(cli_client_id="rescind-cli")
    company.claims = {"aud": "rescind-cli"}
    ended = company.login("--sso", "--redirect", f"http://localhost:{free_port()}/back")
    assert ended.code == 0, ended.err
    assert company.visited[0]["client_id"] == "rescind-cli"
    assert company.visited[0]["redirect_uri"].endswith("/back")
    assert "prompt" not in company.visited[0]
    assert company.visited[0]["max_age"] == "43200"
    assert company.login("--sso", "--reauthenticate").code == 0
    assert (company.visited[1]["prompt"], company.visited[1]["max_age"]) == ("login", "0")


UNUSED: Final[tuple[tuple[dict[str, str | None], str], ...]] = (
    ({"state": "another"}, "wrong state"),
    ({"state": None}, "wrong state"),
    ({"iss": "https://evil.example.com"}, "another provider"),
    ({"code": None, "error": "access_denied"}, "refused the sign-in"),
    ({"code": None, "error": "server_error", "error_description": "\x1b[2J"}, "\\x1b[2J"),
    ({"code": None, "error": "unauthorized_client"}, "cli_client_id"),
    ({"code": None}, "no code"),
    ({"code": None, "state": None, "iss": None}, "within 1 seconds"),
)


@pytest.mark.slow
def test_an_answer_of_a_browser_that_is_not_used(company: Company) -> None:
    """F1221a: A forged, refused or missing answer of the browser is named, and redeems nothing."""
    for back, said in UNUSED:
        company.back = back
        ended = company.login("--sso", "--timeout", "1")
        assert (ended.code, ended.out) == (1, "")
        assert said in ended.err
    assert company.redeemed == 0
    assert not company.shell.home.exists()


def test_whom_the_service_does_not_admit(company: Company) -> None:
    """F1221b: What the service says against a sign-in is shown with its code."""
    company.claims = {"groups": ["guests"]}
    ended = company.login("--sso")
    assert (ended.code, ended.out) == (1, "")
    assert "No role mapping of the identity provider matches. (access_denied)" in ended.err


def test_whose_account_is_meant(company: Company) -> None:
    """F1222a: Without a provider, or with several, the error says what to do; a name chooses."""
    ended = company.shell.run("login", "--url", company.url, "--sso")
    assert ended.code == 2
    assert "has no identity provider for people" in ended.err
    other = bound(company.ports, company.tenant.operator, jwks=None, name="Other")
    for chosen in ((), ("--provider", "Third")):
        ended = company.login("--sso", *chosen)
        assert (ended.code, company.visited) == (2, [])
        assert f"SSO ({company.provider.id}), Other ({other.id})" in ended.err
    for name in ("SSO", company.provider.id):
        assert company.login("--sso", "--provider", name).code == 0


def test_a_provider_without_what_is_needed(company: Company) -> None:
    """F1222b: A provider without device codes, or with an unsafe address, is not asked."""
    assert "SSO does not offer device codes" in company.login("--device").err
    _store(company, authorization_endpoint="http://sso.example.com/auth")
    ended = company.login("--sso")
    assert (ended.code, company.visited) == (2, [])
    assert "SSO does not offer codes" in ended.err


def test_an_address_that_cannot_be_listened_on(company: Company) -> None:
    """F1223a: A port that is taken, or an address of another machine, is refused at once."""
    port = urlsplit(company.url).port
    taken = company.login("--sso", "--redirect", f"http://127.0.0.1:{port}/")
    assert taken.code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in taken.err
    for address in ("http://192.0.2.1/", "https://127.0.0.1/", "http://127.0.0.1:99999/", "x"):
        ended = company.login("--sso", "--redirect", address)
        assert (ended.code, "must be an address on this machine" in ended.err) == (2, True)
    assert company.visited == []


def test_ways_that_exclude_each_other(company: Company) -> None:
    """F1223b: Options of several ways to sign in are refused together."""
    for options in (("--sso", "--device"), ("--sso", "--token-file", "a")):
        assert company.login(*options).code == 2


def _store(company: Company, **values: Any) -> None:
    """Let the provider have values that no issuer publishes to a service."""
    before = identity_providers.get(
        company.ports, company.tenant.operator, provider_id=company.provider.id
    )
    after = replace(before, version=before.version + 1, **values)
    company.ports.store.write(Put(after.address, after.to_item(), VersionIs(before.version)))


_BEGUN: Final = {
    "device_code": "GmRh",
    "user_code": "WDJB-MJHT",
    "verification_uri": f"{ISSUER}/device",
    "verification_uri_complete": f"{ISSUER}/device?user_code=WDJB-MJHT",
    "expires_in": 600,
    "interval": 5,
}


def _says(status: int = 400, **said: Any) -> Script:
    return answer(status, json.dumps(said).encode())


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the command waited, which takes no time here."""
    found: list[float] = []
    monkeypatch.setattr(sign_in, "by_device", partial(sign_in.by_device, wait=found.append))
    return found


def test_a_person_signs_in_on_another_machine(company: Company, waited: list[float]) -> None:
    """F1224a: `login --device` shows a code, asks the provider as slowly as it says, and signs in.

    The provider gives the ID token to the command line, which exchanges it for a session.
    """
    scripts = (
        _says(200, **_BEGUN),
        _says(error="authorization_pending"),
        _says(error="slow_down"),
        _says(200, id_token=company.token()),
    )
    with plainly(*scripts) as provider:
        here = f"http://127.0.0.1:{provider.port}"
        _store(company, device_authorization_endpoint=f"{here}/a", token_endpoint=f"{here}/b")
        ended = company.login("--device")
    assert ended.code == 0, ended.err
    assert "enter the code WDJB-MJHT" in ended.err
    assert waited == [5.0, 5.0, 10.0]
    begun, *asked = provider.requests
    assert parse_qs(begun.body) == {"client_id": ["rescind"], "scope": ["openid email profile"]}
    grant = "urn:ietf:params:oauth:grant-type:device_code"
    form = {"grant_type": [grant], "device_code": ["GmRh"], "client_id": ["rescind"]}
    assert [parse_qs(each.body) for each in asked] == [form] * 3
    assert company.shell.json("whoami")["identity"] == "alice@example.com"


FRUITLESS: Final[tuple[tuple[str, tuple[Script, ...]], ...]] = (
    ("cli_client_id", (_says(401, error="invalid_client"),)),
    ("no device code", (_says(200, user_code="A"),)),
    ("returned 200", (answer(200, b"<html>"),)),
    ("returned 502", (answer(502, b"{}"),)),
    ("refused the sign-in", (_says(200, **_BEGUN), _says(error="access_denied"))),
    ("expired_token", (_says(200, **_BEGUN), _says(error="expired_token"))),
    ("scope openid", (_says(200, **_BEGUN), _says(200, access_token="a"))),
    (
        "the code expired",
        (_says(200, **_BEGUN | {"expires_in": 9}), _says(error="authorization_pending")),
    ),
)


def test_a_device_code_that_leads_to_nothing(company: Company, waited: list[float]) -> None:
    """F1224b: A refusal, an end of the time and a broken provider are named, and keep nothing."""
    for said, scripts in FRUITLESS:
        with plainly(*scripts) as provider:
            here = f"http://127.0.0.1:{provider.port}/"
            _store(company, device_authorization_endpoint=here, token_endpoint=here)
            ended = company.login("--device")
        assert (ended.code, ended.out) == (1, "")
        assert said in ended.err
    assert waited == [5.0] * 5
    assert not company.shell.home.exists()


def test_a_session_that_has_ended(company: Company) -> None:
    """F1225a: After the end of a session each command says which command signs in again."""
    assert company.login("--sso", "--profile", "work").code == 0
    clock: Any = company.ports.now
    clock.advance(hours=2)
    ended = company.shell.run("whoami", "--profile", "work")
    assert (ended.code, ended.out) == (1, "")
    again = f"rescind login --url {company.url} --tenant acme --sso --profile work"
    assert f"Run: {again}\n" in ended.err
    assert company.shell.run("logout", "--profile", "work").code == 0
    assert not [*company.shell.home.rglob("profile.json")]


def test_a_logout_without_the_service(company: Company) -> None:
    """F1225b: If the service does not end a session, it is forgotten, and its end is named."""
    assert company.login("--sso").code == 0
    (file,) = company.shell.home.rglob("profile.json")
    file.write_text(file.read_text().replace(company.url, "http://127.0.0.1:9"))
    ended = company.shell.run("logout")
    assert (ended.code, file.exists()) == (1, False)
    assert "2026-11-21T13:00:00Z" in ended.err


def test_a_profile_of_others_gets_no_session(company: Company) -> None:
    """F1225c: `logout` sends no session to an address that others can have written."""
    assert company.login("--sso").code == 0
    (file,) = company.shell.home.rglob("profile.json")
    secret = json.loads(file.read_text())["api_key"]
    file.chmod(0o666)
    assert company.shell.run("logout").code == 0
    assert not file.exists()
    assert company.tenant.holding(secret).get("/v1/whoami").status_code == 200
