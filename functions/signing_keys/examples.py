"""Examples for the API document: a key, and a warrant that it signed and that verifies."""

from typing import Final

from pydantic import JsonValue

from shared.model.identifiers import SIGNING_KEY
from shared.web.fields import sample

_PUBLIC_KEY: Final = "/5lp4vugTaeGeBxn21sH0Fa+7/XyhWABmbdHrhhvxdE="

KEY: Final[dict[str, JsonValue]] = {
    "id": sample(SIGNING_KEY),
    "type": "issuer",
    "name": "Payments",
    "status": "active",
    "parent_id": "svc_key_01kbm4w9d2a7x5t8v3q6h1j4pz",
    "public_key": _PUBLIC_KEY,
    "created_at": "2026-11-21T12:00:00Z",
    "expires_at": "2027-12-31T00:00:00Z",
}

ROTATED: Final[dict[str, JsonValue]] = {
    name: KEY[name] for name in ("id", "type", "name", "status", "public_key")
} | {"rotated_at": "2026-11-21T13:00:00Z"}

VERSION: Final[dict[str, JsonValue]] = {
    "key_id": "svc_key_01kbm9h2r5c8e1f4g7j0k3m6np",
    "version": 1,
    "status": "rotated",
    "public_key": _PUBLIC_KEY,
    "created_at": "2026-11-21T12:00:00Z",
    "rotated_at": "2026-11-21T13:00:00Z",
}

SIGNED: Final[dict[str, JsonValue]] = {
    "warrant_id": "svc_wrt_pay-1",
    "key_id": sample(SIGNING_KEY),
    "key_version": 1,
    "algorithm": "Ed25519",
    "public_key": _PUBLIC_KEY,
    "warrant": (
        "0oRYLaMBJwMYPQRYJHN2Y19rZXlfMDFrYm00eHQzcmZ6OGM1dzd5MnE5bjZkMWUjMaBYWKUBeCJzdmNfdG50XzAx"
        "a2JtNHh0M3JmejhjNXc3eTJxOW42ZDFlBBprXnmABhprAYfAB01zdmNfd3J0X3BheS0xOgABAABRbWF5IHBheSB1"
        "cCB0byAxMDBYQMILj/3EaAFWBtryry8CDQ4+f9a3d1SAU0x7mGm4Fwy/nO5RNlQpn2HM4/Ckro8BcC5n9bkGFXBG"
        "vd2kVA8i+gQ="
    ),
    "signed_at": "2026-11-21T12:00:00Z",
    "expires_at": "2027-01-31T00:00:00Z",
}

WARRANT: Final[dict[str, JsonValue]] = {
    name: SIGNED[name] for name in ("warrant_id", "key_version", "signed_at", "expires_at")
}
