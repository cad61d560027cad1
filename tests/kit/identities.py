"""Identity providers, people and programs of a tenant, and sessions for them."""

import hashlib
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from shared.model.callers import Caller, Scope
from shared.model.identities.claims import Claims
from shared.model.identities.grants import Grant
from shared.model.identities.providers import IdentityProvider, ProviderKind
from shared.operations.identities import identity_providers
from shared.operations.identities.admission import Stranger, admit
from shared.operations.identities.identity_providers import ProviderChange
from shared.operations.identities.sessions import Begun
from shared.ports import Ports

ISSUER: Final = "https://sso.example.com"
# A key of which nobody knows the private one. With it, nothing is fetched.
JWKS: Final[dict[str, Any]] = {
    "keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": "A" * 43, "alg": "EdDSA"}]
}


def bound(
    ports: Ports, caller: Caller, kind: ProviderKind = ProviderKind.PEOPLE, **values: Any
) -> IdentityProvider:
    """A provider whose keys are in it. Unless there are other grants, a claim names the role."""
    is_people = kind is ProviderKind.PEOPLE
    account = None if is_people else "robot"
    granted = tuple(Grant({"groups": each.value}, each, account) for each in Scope)
    given: dict[str, Any] = {"name": "SSO", "issuer": ISSUER, "jwks": JWKS, "grants": granted}
    given |= {"client_id": "rescind"} if is_people else {}
    change = ProviderChange(**(given | values))
    return identity_providers.create(ports, caller, kind=kind, change=change)


def claims(ports: Ports, role: Scope = Scope.ADMIN, *, sub: str = "alice", **more: Any) -> Claims:
    """What a provider says of somebody with this role; another token each time."""
    now = ports.now()
    made = Claims(
        issuer=ISSUER,
        subject=sub,
        audience=("rescind",),
        issued_at=now,
        expires_at=now + timedelta(minutes=5),
        auth_time=None,
        nonce=None,
        email=f"{sub}@example.com",
        email_verified=True,
        name=sub.title(),
        members={"groups": [role.value], "sub": sub},
        digest=hashlib.sha256(ports.new_id("x").encode()).hexdigest(),
    )
    return replace(made, **more)


def signed_in(
    ports: Ports, provider: IdentityProvider, role: Scope = Scope.ADMIN, **said: Any
) -> Begun:
    """A session of somebody of whom the provider says this, after all checks of the token."""
    stranger = Stranger("192.0.2.7", "0123456789abcdef")
    return admit(ports, provider, claims(ports, role, **said), stranger)
