"""Issuers of tokens in memory: keys, tokens as clouds make them, and the answers at their URLs."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from threading import Lock
from typing import Any

from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from shared.model.identities.claims import IssuerBinding
from shared.model.webhooks.deliveries import DeliveryOutcome
from shared.ports.outside import OutboundAnswer

ISSUER = "https://sso.example.com"
KEYS_URI = f"{ISSUER}/keys"
AUDIENCE = "console-client"
BINDING = IssuerBinding(ISSUER, AUDIENCE, KEYS_URI, f"{ISSUER}/token")

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
    """An `Outbound` that answers by URL, and counts what it is asked."""

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
            return OutboundAnswer(DeliveryOutcome.NO_ANSWER)
        found = self.documents.get(url)
        if found is None:
            return OutboundAnswer(DeliveryOutcome.ANSWERED, HTTPStatus.NOT_FOUND, b"{}")
        body = found if isinstance(found, str) else found()
        return OutboundAnswer(DeliveryOutcome.ANSWERED, HTTPStatus.OK, body.encode())
