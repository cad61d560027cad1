"""COSE_Sign1 messages signed with Ed25519 (RFC 9052), as warrants use them (docs/adr/07)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import cbor2

_TAG: Final = 18
_ALGORITHM: Final = 1
_CONTENT_TYPE: Final = 3
_KEY_ID: Final = 4
_EDDSA: Final = -8

_CONTEXT: Final = "Signature1"


@dataclass(frozen=True, slots=True)
class Message:
    """The parts of a COSE_Sign1 message. None of them is verified.

    `protected` and `payload` are encoded CBOR. `signature` is 64 bytes if this service made it.
    """

    protected: bytes
    payload: bytes
    signature: bytes

    @property
    def signed(self) -> bytes:
        """The bytes that the signature covers: the Sig_structure of RFC 9052, section 4.4."""
        return cbor2.dumps([_CONTEXT, self.protected, b"", self.payload], canonical=True)

    def encode(self) -> bytes:
        """Return the message with its tag, in the deterministic encoding (RFC 8949, 4.2.1)."""
        parts = [self.protected, {}, self.payload, self.signature]
        return cbor2.dumps(cbor2.CBORTag(_TAG, parts), canonical=True)


def header(*, key_id: bytes, content_type: int) -> bytes:
    """Return an encoded protected header: algorithm EdDSA, content type, and key identifier.

    `content_type` is a number of the registry of CoAP content formats.
    """
    fields = {_ALGORITHM: _EDDSA, _CONTENT_TYPE: content_type, _KEY_ID: key_id}
    return cbor2.dumps(fields, canonical=True)


def parse(data: bytes) -> Message:
    """Return the parts of a tagged COSE_Sign1 message that has no unprotected header.

    Raises `ValueError` for any other bytes, also if the encoding is not the deterministic one.
    """
    match decode(data):
        case cbor2.CBORTag(value=[bytes(protected), Mapping(), bytes(payload), bytes(signature)]):
            message = Message(protected, payload, signature)
        case _:
            raise ValueError("a tagged COSE_Sign1 message is expected")
    # Re-encoding also checks the tag and the empty unprotected header.
    if message.encode() != data:
        raise ValueError("deterministic encoding, without unprotected headers, is expected")
    return message


def key_id_of(protected: bytes, *, content_type: int) -> bytes:
    """Return the key identifier in an encoded header that `header` made.

    Raises `ValueError` if the header has another algorithm, another content type or other fields.
    """
    fields = decode(protected)
    key_id = fields.get(_KEY_ID) if isinstance(fields, Mapping) else None
    if not isinstance(key_id, bytes):
        raise ValueError("a protected header with a key identifier is expected")  # noqa: TRY004
    if header(key_id=key_id, content_type=content_type) != protected:
        raise ValueError(
            f"the algorithm EdDSA, the content type {content_type} and no other field are expected"
        )
    return key_id


def decode(data: bytes) -> Any:
    """Return the CBOR item at the start of `data`. Raises `ValueError` if there is none."""
    try:
        return cbor2.loads(data)
    except (cbor2.CBORError, RecursionError, TypeError, UnicodeError) as error:
        raise ValueError("CBOR is expected") from error
