"""Sign-ins at a certified OpenID provider (npm's oidc-provider), over TLS."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from shared.authorizer.formats.token_kinds import TokenFault
from shared.errors import Unavailable
from shared.model.identities.claims import CodeFault, IdentityClaims, IssuerBinding, SignInRefused
from shared.model.identities.providers import RoleMapping
from shared.operations.changes import revocations
from shared.operations.identities import issuers, sessions, sign_in
from shared.operations.identities.admission import UnauthenticatedClient
from shared.ports import Ports
from tests.kit import identities
from tests.kit.listening import listening
from tests.kit.providers import (
    CLIENT,
    ISSUER,
    REDIRECT,
    SECRET,
    Browser,
    Provider,
    authorization,
    needs_provider,
    provider,
)
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock

pytestmark = [pytest.mark.slow, needs_provider]
VERIFIER, NONCE = "v" * 43, "a-nonce"


@pytest.fixture
def clock() -> Clock:
    """The provider's clock is that of the machine."""
    return Clock(datetime.now(UTC))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Provider]:
    with provider(tmp_path, "first") as made:
        yield made


@pytest.fixture
def reaching(ports: Ports, running: Provider, clock: Clock) -> Ports:
    outbound = running.outbound()
    return replace(
        ports, outbound=lambda: outbound, sleep=lambda seconds: clock.advance(seconds=seconds)
    )


def _binding(ports: Ports) -> IssuerBinding:
    found = issuers.discover(ports, ISSUER)
    return IssuerBinding(ISSUER, CLIENT, found.jwks_uri)


def _code(ports: Ports, port: int) -> str:
    endpoint = issuers.discover(ports, ISSUER).authorization_endpoint
    assert endpoint is not None
    began = authorization(endpoint, verifier=VERIFIER, nonce=NONCE)
    sent = Browser(port).sign_in(began, "ann")
    assert (sent["state"], sent["iss"]) == ("s", ISSUER)
    return sent["code"]


def _redeemed(ports: Ports, code: str, *, verifier: str = VERIFIER, secret: str = SECRET) -> str:
    endpoint = issuers.discover(ports, ISSUER).token_endpoint
    form = {"code": code, "code_verifier": verifier, "redirect_uri": REDIRECT}
    return sign_in.exchange_code(ports, endpoint or "", form, CLIENT, secret)


def _signed_in(ports: Ports, port: int) -> IdentityClaims:
    token = _redeemed(ports, _code(ports, port))
    return sign_in.verify_token(ports, _binding(ports), token, nonce=NONCE)


def test_a_person_signs_in(reaching: Ports, running: Provider) -> None:
    """F1187a: A certified provider's code is redeemed by PKCE and secret, and its token holds."""
    code = _code(reaching, running.port)
    token = _redeemed(reaching, code)
    found = sign_in.verify_token(reaching, _binding(reaching), token, nonce=NONCE)
    assert (found.name, found.subject, found.email) == ("Ann", "ann", "ann@acme.example")
    with pytest.raises(SignInRefused) as other_sign_in:
        sign_in.verify_token(reaching, _binding(reaching), token, nonce="another")
    assert other_sign_in.value.reason is TokenFault.NONCE
    with pytest.raises(SignInRefused) as again:
        _redeemed(reaching, code)
    assert again.value.reason is CodeFault.CODE


def test_a_provider_refuses(reaching: Ports, running: Provider) -> None:
    """F1187b: A stolen code without its verifier is of no use; a wrong secret is told apart."""
    with pytest.raises(SignInRefused) as wrong:
        _redeemed(reaching, _code(reaching, running.port), verifier="w" * 43)
    assert wrong.value.reason is CodeFault.CODE
    with pytest.raises(SignInRefused) as client:
        _redeemed(reaching, _code(reaching, running.port), secret="another")
    assert client.value.reason is CodeFault.CLIENT


def test_a_provider_changes_its_keys(reaching: Ports, running: Provider, clock: Clock) -> None:
    """F1187c: A provider may sign with a new key; it is accepted a minute after the last fetch."""
    assert _signed_in(reaching, running.port).subject == "ann"
    running.kill()
    running.start("first", "second")
    with pytest.raises(SignInRefused) as too_soon:
        _signed_in(reaching, running.port)
    assert too_soon.value.reason is TokenFault.UNKNOWN_KEY
    clock.advance(seconds=60)
    assert _signed_in(reaching, running.port).subject == "ann"


@pytest.mark.parametrize("has_sid", [True, False])
def test_a_person_signs_out_at_the_provider(
    reaching: Ports, running: Provider, tenant: Tenant, has_sid: bool
) -> None:
    """F2605a, TOKEN-12: A sign-out at a certified provider ends sessions, and revokes JWTs.

    With sid the session of the other browser stays; without, all of the person end.
    """
    role_mappings = (RoleMapping({"email": "ann@acme.example"}, "admin"),)
    values: dict[str, Any] = {"issuer": ISSUER, "client_id": CLIENT, "client_secret": SECRET}
    bound = identities.bound(
        reaching, tenant.operator, jwks=None, role_mappings=role_mappings, **values
    )
    redirect = f"https://rescind.example/console/signed-in/{bound.id}"
    form = {"grant_type": sign_in.CODE, "audience": bound.id, "redirect_uri": redirect}
    form |= {"code_verifier": VERIFIER}
    running.kill()
    running.arguments[-1] = redirect
    with listening(reaching) as address:
        logout = {"LOGOUT_URI": f"{address}/v1/logout/{bound.id}"}
        running.group.settings = logout | {"LOGOUT_SID": "yes" if has_sid else "no"}
        running.start("first")
        browsers = [Browser(running.port), Browser(running.port)]
        for each, nonce in zip(browsers, ("first", "second"), strict=True):
            asked = {"verifier": VERIFIER, "nonce": nonce, "redirect": redirect}
            back = each.visit(authorization(f"{ISSUER}/auth", **asked), "ann", redirect)
            given = {"code": parse_qs(urlsplit(back).query)["code"][0], "nonce": nonce}
            attempt = sign_in.prepare_code(reaching, form | given)
            sign_in.exchange_token(reaching, UnauthenticatedClient(), attempt)
        assert browsers[0].sign_out().endswith("/session/end/success")
    listed, _ = sessions.page(reaching, tenant.operator, before=None, limit=5)
    assert len(listed) == (1 if has_sid else 0)
    (made,) = revocations.page(reaching, tenant.operator, before=None, limit=5).entries
    assert made.created_by.startswith(f"system+{bound.id}@")
    assert made.warrant_id.startswith("svc_wrt_sid-" if has_sid else "svc_wrt_sub-")


def test_a_provider_is_killed(reaching: Ports, running: Provider, clock: Clock) -> None:
    """F1187d: If a provider is killed, tokens are checked by its keys, and no code is redeemed."""
    binding = _binding(reaching)
    token = _redeemed(reaching, _code(reaching, running.port))
    assert sign_in.verify_token(reaching, binding, token, nonce=NONCE).subject == "ann"
    running.kill()
    cold = replace(reaching, issuer_keys={})
    assert sign_in.verify_token(cold, binding, token, nonce=NONCE).subject == "ann"
    for ask in (lambda: _redeemed(reaching, "code"), lambda: issuers.discover(reaching, ISSUER)):
        with pytest.raises(Unavailable):
            ask()
    clock.advance(hours=25)
    with pytest.raises(Unavailable):
        issuers.keys_of(replace(cold, issuer_keys={}), binding.jwks_uri, "first")
