"""Issuers of tokens in memory: keys, tokens as clouds make them, and the answers at their URLs."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from threading import Lock
from typing import Any, Final, NamedTuple

from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from shared.model.identities.claims import IssuerBinding
from shared.model.outbound import DeliveryOutcome
from shared.ports.outside import OutboundAnswer

ISSUER = "https://sso.example.com"
KEYS_URI = f"{ISSUER}/keys"
AUDIENCE = "console-client"
BINDING = IssuerBinding(ISSUER, AUDIENCE, KEYS_URI)

SigningKey = RSAKey | ECKey | OKPKey


@cache
def key(algorithm: str, number: int = 0) -> SigningKey:
    """A key for an algorithm. RSA keys, which take long, are of 2048 bits."""
    del number
    if algorithm in ("RS256", "PS256"):
        return RSAKey.generate_key(2048, private=True)
    if algorithm == "EdDSA":
        return OKPKey.generate_key("Ed25519", private=True)
    return ECKey.generate_key("P-384" if algorithm == "ES384" else "P-256", private=True)


def public(signing: SigningKey, **members: Any) -> dict[str, Any]:
    """The public half of a key as an issuer publishes it, with these members."""
    return {**signing.as_dict(private=False), **members}


def key_set(*keys: Mapping[str, Any]) -> str:
    return json.dumps({"keys": keys})


def encoded(part: bytes | str | Mapping[str, Any]) -> str:
    """The base64url of bytes, of text, or of JSON."""
    data = part if isinstance(part, bytes | str) else json.dumps(part)
    data = data.encode() if isinstance(data, str) else data
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def raw(part: str) -> bytes:
    """The bytes of a base64url."""
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def signed(
    header: bytes | str | Mapping[str, Any],
    claims: bytes | str | Mapping[str, Any],
    signing: SigningKey,
    algorithm: str = "ES256",
) -> str:
    """A token with exactly this header and these claims, signed by an algorithm."""
    text = f"{encoded(header)}.{encoded(claims)}"
    model: Any = JWSRegistry.algorithms[algorithm]
    return f"{text}.{encoded(model.sign(text.encode(), signing))}"


@dataclass
class Answers:
    """An `OutboundHttp` that answers by URL, and counts what it is asked."""

    documents: dict[str, str | Callable[[], str]] = field(default_factory=dict)
    asked: list[tuple[str, Mapping[str, str] | None, tuple[str, str] | None]] = field(
        default_factory=list
    )
    is_down: bool = False
    lock: Lock = field(default_factory=Lock)

    def ask(
        self,
        url: str,
        form: Mapping[str, str] | None = None,
        *,
        user: tuple[str, str] | None = None,
    ) -> OutboundAnswer:
        with self.lock:
            self.asked.append((url, form, user))
        if self.is_down:
            return OutboundAnswer(DeliveryOutcome.NO_RESPONSE)
        found = self.documents.get(url)
        if found is None:
            return OutboundAnswer(DeliveryOutcome.RESPONSE, HTTPStatus.NOT_FOUND, b"{}")
        body = found if isinstance(found, str) else found()
        return OutboundAnswer(DeliveryOutcome.RESPONSE, HTTPStatus.OK, body.encode())


# The tokens of these clouds: issuer, algorithm and claims, with times in seconds from now on.
CLOUDS: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "GitHub Actions": (
        "https://token.actions.githubusercontent.com",
        "RS256",
        {
            "sub": "repo:acme/shop:ref:refs/heads/main",
            "jti": "example-id",
            "nbf": -300,
            "exp": 600,
            "repository_id": "74",
            "repository_owner_id": "65",
            "workflow_ref": "acme/shop/.github/workflows/deploy.yml@refs/heads/main",
            "run_attempt": "2",
        },
    ),
    "Kubernetes": (
        "https://oidc.eks.eu-central-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B71EXAMPLE",
        "RS256",
        {
            "sub": "system:serviceaccount:shop:deploy",
            "nbf": 0,
            "exp": 3607,
            "kubernetes.io": {
                "namespace": "shop",
                "pod": {"name": "deploy-7c9", "uid": "a"},
                "serviceaccount": {"name": "deploy", "uid": "b"},
            },
        },
    ),
    "Google Cloud": (
        "https://accounts.google.com",
        "RS256",
        {
            "azp": "107517467455664443765",
            "sub": "107517467455664443765",
            "email": "deploy@acme-shop.iam.gserviceaccount.com",
            "email_verified": True,
            "exp": 3600,
        },
    ),
    "AWS": (
        "https://abc12345-def4-5678-90ab-cdef12345678.tokens.sts.global.api.aws",
        "ES384",
        {
            "sub": "arn:aws:iam::123456789012:role/deploy",
            "jti": "d0f5a1b0",
            "exp": 300,
            "https://sts.amazonaws.com/": {
                "aws_account": "123456789012",
                "source_region": "eu-central-1",
                "principal_id": "arn:aws:iam::123456789012:role/deploy",
            },
        },
    ),
}


class CloudToken(NamedTuple):
    """A token of a cloud, its claims, and the keys that its issuer publishes."""

    issuer: str
    token: str
    claims: dict[str, Any]
    keys: str


def of_cloud(cloud: str, audience: str, now: int, **said: Any) -> CloudToken:
    """A token as a cloud makes it at a time, in seconds since the epoch."""
    issuer, algorithm, usual = CLOUDS[cloud]
    times = {name: now + usual[name] for name in ("nbf", "exp") if name in usual}
    # Kubernetes lists its audiences.
    aud = [audience] if cloud == "Kubernetes" else audience
    begun: dict[str, Any] = {"iss": issuer, "aud": aud, "iat": now}
    claims = begun | usual | times | said
    signing, header = key(algorithm), {"alg": algorithm, "kid": "a", "typ": "JWT"}
    keys = key_set(public(signing, kid="a", alg=algorithm, use="sig"))
    return CloudToken(issuer, signed(header, claims, signing, algorithm), claims, keys)
