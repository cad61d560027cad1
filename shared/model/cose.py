"""COSE_Sign1 messages signed with Ed25519 (RFC 9052), as warrants use them (docs/adr/0022)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import cbor2

from shared.model import seeds

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


def sign(protected: bytes, payload: bytes, *, seed: bytes) -> Message:
    """Return the message, signed with the private key of this seed (32 bytes)."""
    unsigned = Message(protected, payload, b"")
    return Message(protected, payload, seeds.signature(unsigned.signed, seed=seed))


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


# The structures that COSE signs or authenticates begin with one of these texts (RFC 9052, 4.4, 5.3
# and 6.3; RFC 9338, 3.3). A signature over a caller's bytes that begin so would sign a COSE
# message.
_CONTEXTS: Final = frozenset(
    {
        *("Signature", "Signature1", "MAC", "MAC0", "Encrypt", "Encrypt0"),
        *("Enc_Recipient", "Mac_Recipient", "Rec_Recipient"),
        *("CounterSignature", "CounterSignature0", "CounterSignatureV2", "CounterSignature0V2"),
    }
)
# The tags of COSE messages (RFC 9052, 2; RFC 9338, 3.1) and of a CWT (RFC 8392, 6).
_TAGS: Final = frozenset({16, 17, 18, 19, 61, 96, 97, 98})


def is_cose(item: Any) -> bool:
    """Return whether a decoded CBOR item is a COSE message, or a structure that COSE signs."""
    match item:
        case cbor2.CBORTag(tag=tag):
            return tag in _TAGS or is_cose(item.value)
        case [str(context), *_]:
            return context in _CONTEXTS
        # Untagged: protected header, unprotected header, content; more in some kinds.
        case [bytes(), Mapping(), _, *_]:
            return True
        case _:
            return False
