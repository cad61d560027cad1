"""Signed bytes: a warrant as a signed CWT, or bytes in a caller's format.

A warrant is a COSE_Sign1 message (RFC 9052) over a CWT claims set (RFC 8392). Its signed bytes
contain its tenant, the identifier that a verifier checks, and its expiry (WARRANT-1, docs/adr/07).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import cbor2

from shared.authorizer.formats.warrants import CONTENT_TYPE, Claims, CoseMessage, decode, header
from shared.model import seeds

# Structures that COSE signs or authenticates begin with these texts (RFC 9052, 4.4, 5.3 and 6.3;
# RFC 9338, 3.3). A signature over a caller's bytes with such a beginning would sign a COSE message.
_CONTEXTS: Final = frozenset(
    {
        *("Signature", "Signature1", "MAC", "MAC0", "Encrypt", "Encrypt0"),
        *("Enc_Recipient", "Mac_Recipient", "Rec_Recipient"),
        *("CounterSignature", "CounterSignature0", "CounterSignatureV2", "CounterSignature0V2"),
    }
)
# The tags of COSE messages (RFC 9052, 2; RFC 9338, 3.1) and of a CWT (RFC 8392, 6).
_TAGS: Final = frozenset({16, 17, 18, 19, 61, 96, 97, 98})

_LIST_MEMBER: Final = "RevokedIDs"
# The prefix of all other data that the service signs, apart from SRLs and warrants
# (shared/model/lists/signers.py).
_OWN_PREFIX: Final = b"rescind-"


def signed_message(protected_header: bytes, payload: bytes, *, seed: bytes) -> CoseMessage:
    """Return the message, signed with the private key of this seed (32 bytes)."""
    unsigned = CoseMessage(protected_header, payload, b"")
    return CoseMessage(protected_header, payload, seeds.signature(unsigned.signed_bytes, seed=seed))


def is_cose(item: Any) -> bool:
    """Return whether a decoded CBOR item is a COSE message, or a structure that COSE signs."""
    match item:
        case cbor2.CBORTag(tag=tag):
            return tag in _TAGS or is_cose(item.value)
        case [str(context), *_]:
            return context in _CONTEXTS
        # Untagged: protected header, unprotected header, content, and more in some kinds.
        case [bytes(), Mapping(), _, *_]:
            return True
        case _:
            return False


class WarrantFormat(StrEnum):
    """The signed form of a warrant: a message with identifier and times, or only its payload."""

    COSE = "cose"
    RAW = "raw"


def sign(claims: Claims, *, key_id: str, key_version: int, seed: bytes) -> CoseMessage:
    """Return the signed warrant. `kid` is `<key identifier>#<version>` in ASCII."""
    kid = f"{key_id}#{key_version}".encode()
    protected = header(key_id=kid, content_type=CONTENT_TYPE)
    return signed_message(protected, claims.encode(), seed=seed)


def is_reserved(payload: bytes) -> bool:
    """Return whether a signature of `payload` could pass for the service's own data.

    The service signs SRLs, COSE messages, and bytes with its own prefix. Bytes that only begin with
    such a CBOR item count too (WARRANT-3).
    """
    if payload.startswith(_OWN_PREFIX):
        return True
    try:
        item = decode(payload)
    except ValueError:
        return False
    return is_cose(item) or _is_list(item)


def _is_list(item: Any) -> bool:
    if isinstance(item, cbor2.CBORTag):
        return _is_list(item.value)
    return isinstance(item, Mapping) and _LIST_MEMBER in item
