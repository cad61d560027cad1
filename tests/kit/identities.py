"""Identity providers, people and programs of a tenant, and sessions for them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from shared.model.callers import Caller, Scope
from shared.model.identities.claims import IdentityClaims
from shared.model.identities.providers import IdentityProvider, ProviderUsage, RoleMapping
from shared.operations.changes import back_channel_logout
from shared.operations.identities import identity_providers, sign_in
from shared.operations.identities.admission import UnauthenticatedClient, admit
from shared.operations.identities.identity_providers import ProviderChange
from shared.operations.identities.sessions import StartedSession
from shared.ports import Ports
from tests.kit import issuers
from tests.kit.api import Client, Tenant
from tests.kit.issuers import ISSUER, KEYS_URI, Answers

# A key of which nobody knows the private one. With it, nothing is fetched.
JWKS: Final[dict[str, Any]] = {
    "keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": "A" * 43, "alg": "EdDSA"}]
}

# The event of a logout token.
LOGOUT: Final[dict[str, Any]] = {"http://schemas.openid.net/event/backchannel-logout": {}}

# Claims of all tokens: of people, and of programs in a namespace of Kubernetes.
_USUAL: Final = {"email_verified": True, "kubernetes.io": {"namespace": "shop"}}


def bound(
    ports: Ports, caller: Caller, usage: ProviderUsage = ProviderUsage.SIGN_IN, **values: Any
) -> IdentityProvider:
    """A provider whose keys are in it. By default, a claim names the role."""
    is_people = usage is ProviderUsage.SIGN_IN
    account = None if is_people else "robot"
    owner = {} if is_people else {"/kubernetes.io/namespace": "shop"}
    granted = tuple(RoleMapping({"groups": each.value, **owner}, each, account) for each in Scope)
    given: dict[str, Any] = {
        "name": "SSO",
        "issuer": ISSUER,
        "jwks": JWKS,
        "role_mappings": granted,
    }
    given |= {"client_id": "rescind"} if is_people else {}
    change = ProviderChange(**(given | values))
    return identity_providers.create(ports, caller, usage=usage, change=change)


def claims(
    ports: Ports, role: Scope = Scope.ADMIN, *, sub: str = "alice", **more: Any
) -> IdentityClaims:
    """What a provider says of somebody with this role; another token each time."""
    now = ports.now()
    made = IdentityClaims(
        subject=sub,
        issued_at=now,
        expires_at=now + timedelta(minutes=5),
        auth_time=now,
        email=f"{sub}@example.com",
        name=sub.title(),
        members={"groups": [role.value], "sub": sub, **_USUAL},
        digest=hashlib.sha256(ports.new_id("x").encode()).hexdigest(),
    )
    return replace(made, **more)


def signed_in(
    ports: Ports, provider: IdentityProvider, role: Scope = Scope.ADMIN, **said: Any
) -> StartedSession:
    """A session of somebody of whom the provider says this, after all checks of the token."""
    stranger = UnauthenticatedClient("192.0.2.7", "0123456789abcdef")
    return admit(ports, provider, claims(ports, role, **said), stranger)


def holding_role(tenant: Tenant, role: str) -> Client:
    """A client with a session of somebody whom a provider gives this role."""
    mapping = RoleMapping({"groups": role}, role)
    provider = bound(tenant.ports, tenant.operator, role_mappings=(mapping,))
    made = signed_in(tenant.ports, provider, sub=role, members={"groups": role, **_USUAL})
    return tenant.holding(made.secret)


def published() -> Answers:
    """What `ISSUER` answers about itself and its keys."""
    configuration = {
        "issuer": ISSUER,
        "authorization_endpoint": f"{ISSUER}/auth",
        "token_endpoint": f"{ISSUER}/token",
        "jwks_uri": KEYS_URI,
    }
    key = issuers.public(issuers.key("ES256"), kid="k1")
    return Answers(
        {
            f"{ISSUER}/.well-known/openid-configuration": json.dumps(configuration),
            KEYS_URI: issuers.key_set(key),
        }
    )


def token(ports: Ports, audience: str, **said: Any) -> str:
    """A token of `ISSUER` about Alice, an administrator, unless it says something else."""
    now = int(ports.now().timestamp())
    usual = {
        "iss": ISSUER,
        "sub": "alice",
        "aud": audience,
        "iat": now,
        "exp": now + 300,
        "auth_time": now,
        "email": "alice@example.com",
        "groups": ["admin"],
        "jti": ports.new_id("x"),
        **_USUAL,
    }
    header = {"alg": "ES256", "kid": "k1", "typ": "JWT"}
    return issuers.signed(header, usual | said, issuers.key("ES256"))


def redeemed(ports: Ports, form: Mapping[str, str], given: str = "") -> StartedSession:
    """A session for this form. `ISSUER` gives this token for a code."""
    outside = published()
    outside.documents[f"{ISSUER}/token"] = json.dumps({"id_token": given})
    asking = replace(ports, outbound=lambda: outside)
    is_code = form["grant_type"] == sign_in.CODE
    attempt = (sign_in.prepare_code if is_code else sign_in.prepare)(asking, form)
    return sign_in.exchange_token(
        asking, UnauthenticatedClient("192.0.2.7", "0123456789abcdef"), attempt
    )


def exchanged(
    ports: Ports, provider_id: str, audience: str = "rescind", **said: Any
) -> StartedSession:
    """A session for a token of `ISSUER`."""
    return redeemed(ports, exchange_form(provider_id, token(ports, audience, **said)))


def exchange_form(provider_id: str, subject_token: str) -> dict[str, str]:
    """Return the form that exchanges a token of `ISSUER`."""
    return {
        "grant_type": sign_in.EXCHANGE,
        "audience": provider_id,
        "subject_token": subject_token,
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
    }


def by_code(ports: Ports, provider_id: str, **said: Any) -> StartedSession:
    """A session for a code of `ISSUER`."""
    form = code_form(provider_id)
    return redeemed(ports, form, token(ports, "rescind", nonce="n", **said))


def code_form(provider_id: str) -> dict[str, str]:
    """Return the form that redeems a code of `ISSUER`."""
    return {
        "grant_type": sign_in.CODE,
        "audience": provider_id,
        "code": "SplxlOBe",
        "code_verifier": "v" * 43,
        "nonce": "n",
        "redirect_uri": f"https://rescind.example.com/console/signed-in/{provider_id}",
    }


def logout_token(ports: Ports, audience: Any = "rescind", **said: Any) -> str:
    """A logout token of `ISSUER` about Alice, unless it says something else; None omits a claim."""
    now = int(ports.now().timestamp())
    usual = {"iss": ISSUER, "aud": audience, "iat": now, "exp": now + 120, "sub": "alice"}
    claims = usual | {"jti": ports.new_id("x"), "events": LOGOUT} | said
    given = {name: value for name, value in claims.items() if value is not None}
    header = {"alg": "ES256", "kid": "k1", "typ": "logout+jwt"}
    return issuers.signed(header, given, issuers.key("ES256"))


def logged_out(ports: Ports, provider_id: str, **said: Any) -> None:
    """End the sessions that a logout token of `ISSUER` names."""
    outside = published()
    asking = replace(ports, outbound=lambda: outside)
    form = {"logout_token": logout_token(ports, **said)}
    attempt = back_channel_logout.prepare(asking, provider_id, form)
    back_channel_logout.end(asking, UnauthenticatedClient("192.0.2.7", "0123456789abcdef"), attempt)


def bound_outside(
    ports: Ports, caller: Caller, *usage: ProviderUsage, **values: Any
) -> IdentityProvider:
    """A provider whose keys are fetched, of people unless it is of another `usage`.

    Its tokens can be exchanged.
    """
    outside = published()
    usual: dict[str, Any] = {"jwks": None, "token_exchange": True}
    return bound(replace(ports, outbound=lambda: outside), caller, *usage, **(usual | values))
