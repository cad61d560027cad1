"""JSON Web Key Sets of other issuers (RFC 7517)."""

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

# Public keys of an issuer by `kid`. Keys of different types may share a `kid`.
KeySet: TypeAlias = Mapping[str, tuple[Mapping[str, Any], ...]]

# The key type and curve of each accepted algorithm (RFC 7518, RFC 8037, RFC 9864).
ALGORITHMS: Final[Mapping[str, tuple[str, str | None]]] = {
    "RS256": ("RSA", None),
    "PS256": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "EdDSA": ("OKP", "Ed25519"),
    "Ed25519": ("OKP", "Ed25519"),
}
_POINTS: Final = {"EC": ("x", "y"), "OKP": ("x",)}
_MODULUS_MIN, _MODULUS_MAX, _EXPONENT_MAX = 256, 1024, 4


def usable_keys(document: object) -> KeySet:
    """Return the keys that verify signatures, and ignore all others (RFC 7517, 5).

    Raises `ValueError` if `document` is not a JSON Web Key Set.
    """
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise ValueError("must be a JSON Web Key Set")  # noqa: TRY004 (input, not an argument)
    keys_by_id: dict[str, tuple[Mapping[str, Any], ...]] = {}
    for each in keys:
        if isinstance(each, dict) and _is_usable(each):
            same_id = keys_by_id.get(each["kid"], ())
            keys_by_id[each["kid"]] = same_id if each in same_id else (*same_id, each)
    return keys_by_id


def select_key(keys: tuple[Mapping[str, Any], ...], algorithm: str) -> Mapping[str, Any] | None:
    """Return the key for an algorithm, or None unless exactly one key fits."""
    candidates = [
        key
        for key in keys
        if (key["kty"], key.get("crv") if key["kty"] != "RSA" else None) == ALGORITHMS[algorithm]
        and (key.get("alg") is None or _canonical(key["alg"]) == _canonical(algorithm))
    ]
    return candidates[0] if len(candidates) == 1 else None


def _canonical(algorithm: object) -> object:
    """Return the canonical algorithm name.

    Ed25519 (RFC 9864) equals EdDSA here, because no other curve of EdDSA is accepted.
    """
    return "EdDSA" if algorithm == "Ed25519" else algorithm


def _is_usable(key: Mapping[str, Any]) -> bool:
    """Return whether a key verifies signatures and has no published private part."""
    kid, operations = key.get("kid"), key.get("key_ops") or ["verify"]
    if not isinstance(kid, str) or not kid or "d" in key or key.get("use") not in (None, "sig"):
        return False
    if not isinstance(operations, list) or "verify" not in operations:
        return False
    kty = key.get("kty")
    if kty == "RSA":
        return _is_strong(key)
    if not isinstance(kty, str) or (kty, key.get("crv")) not in ALGORITHMS.values():
        return False
    return all(isinstance(key.get(name), str) for name in _POINTS[kty])


def _is_strong(key: Mapping[str, Any]) -> bool:
    """Return whether an RSA key has 2048 to 8192 bits and a small exponent."""
    try:
        modulus, exponent = (
            urlsafe_b64decode(f"{key[name]}==").lstrip(b"\0") for name in ("n", "e")
        )
    except (KeyError, ValueError, TypeError):
        return False
    return _MODULUS_MIN <= len(modulus) <= _MODULUS_MAX and len(exponent) <= _EXPONENT_MAX
