"""Signs COSE messages, and tells them from others; `shared.authorizer.formats.cose` reads them."""

from collections.abc import Mapping
from typing import Any, Final

import cbor2

from shared.authorizer.formats.cose import Message
from shared.model import seeds

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


def sign(protected: bytes, payload: bytes, *, seed: bytes) -> Message:
    """Return the message, signed with the private key of this seed (32 bytes)."""
    unsigned = Message(protected, payload, b"")
    return Message(protected, payload, seeds.signature(unsigned.signed, seed=seed))


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
