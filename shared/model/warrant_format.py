"""The signed bytes: a warrant as a signed CWT, or the bytes of a caller's own format.

A warrant is a COSE_Sign1 message (RFC 9052) over a CWT claims set (RFC 8392). Its signed bytes name
its tenant, the identifier under which a verifier looks it up, and its end (WARRANT-1,
docs/adr/07).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import cbor2

from shared.authorizer.formats.cose import Message, decode, header
from shared.authorizer.formats.warrants import CONTENT_TYPE, Claims
from shared.model import cose

_LIST_MEMBER: Final = "RevokedIDs"
# The prefix of what the service signs beside lists and warrants (shared/model/lists/statements.py).
_OWN_PREFIX: Final = b"rescind-"


class WarrantFormat(StrEnum):
    """How a warrant is signed: as a message with identifier and times, or only its payload."""

    COSE = "cose"
    RAW = "raw"


def sign(claims: Claims, *, key_id: str, key_version: int, seed: bytes) -> Message:
    """Return the signed warrant. `kid` is `<key identifier>#<version>` in ASCII."""
    kid = f"{key_id}#{key_version}".encode()
    protected = header(key_id=kid, content_type=CONTENT_TYPE)
    return cose.sign(protected, claims.encode(), seed=seed)


def is_reserved(payload: bytes) -> bool:
    """Return whether `payload`, signed unchanged, could pass for what only the service signs.

    That is a list, a COSE message, or bytes with the service's own prefix. Bytes that only begin
    with such a CBOR item count too (WARRANT-3).
    """
    if payload.startswith(_OWN_PREFIX):
        return True
    try:
        item = decode(payload)
    except ValueError:
        return False
    return cose.is_cose(item) or _is_list(item)


def _is_list(item: Any) -> bool:
    if isinstance(item, cbor2.CBORTag):
        return _is_list(item.value)
    return isinstance(item, Mapping) and _LIST_MEMBER in item
