"""Examples for the API document: a list that verifies, and the key that signed it."""

from typing import Final

from pydantic import JsonValue

from shared.model.identifiers import SIGNING_KEY
from shared.web.fields import sample

PAYLOAD: Final[dict[str, JsonValue]] = {
    "Version": 2,
    "IssuedAt": "2026-11-21T12:00:00Z",
    "ExpiresAt": "2026-11-21T13:00:00Z",
    "RevokedIDs": ["svc_wrt_laptop-17"],
}

SIGNED: Final[dict[str, JsonValue]] = {
    "Payload": (
        "pGdWZXJzaW9uAmhJc3N1ZWRBdHQyMDI2LTExLTIxVDEyOjAwOjAwWmlFeHBpcmVzQXR0MjAyNi0xMS0yMVQxMzow"
        "MDowMFpqUmV2b2tlZElEc4Fxc3ZjX3dydF9sYXB0b3AtMTc="
    ),
    "Signature": (
        "z1wQ0WxEFFy7bQpVF7xNSlS7CVldZl97MVk3haV61InVAwdX2GE75DfYnzSZVm0XjY66pOKU5zyMDiYRMkwIAw=="
    ),
}

STATEMENT: Final[dict[str, JsonValue]] = {
    "Payload": (
        "pmVLZXlJZHgic3ZjX2tleV8wMWtibTR4dDNyZno4YzV3N3kycTluNmQxZWZOdW1iZXICZlRlbmFudHgic3ZjX3Ru"
        "dF8wMWtibTR4dDNyZno4YzV3N3kycTluNmQxZWhJc3N1ZWRBdHQyMDI2LTExLTIxVDEyOjAwOjAwWmhQcmV2aW91"
        "c1ggtl9emIbv2Q6xqpXvyQy5w9NAMxa8n4/LnACVZVTvWitpUHVibGljS2V5WCDda7uaWR0DmyMDrf132ntvkI05"
        "GD3apBDPS5mLF95gmA=="
    ),
    "Signature": (
        "If7/gZ44Q79g6SDKOmGja84oaggsQ2tqRG442TGHUwvUi5PO1mKUSa/6WqC4PO/lUpYbn3chJZyJnKuHmb+pDA=="
    ),
}

SIGNER: Final[dict[str, JsonValue]] = {
    "key_id": sample(SIGNING_KEY),
    "algorithm": "Ed25519",
    "public_key": "3Wu7mlkdA5sjA639d9p7b5CNORg92qQQz0uZixfeYJg=",
    "status": "active",
    "created_at": "2026-11-21T12:00:00Z",
    "activates_at": "2026-11-21T13:00:00Z",
    "statement": STATEMENT,
}
