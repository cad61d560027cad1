"""Bytes that no key signs as they come: to a verifier they would mean something else."""

from typing import Any, Final

import cbor2

from shared.model.lists import signers as srl_statements

_MEMBERS: Final[dict[str, Any]] = {
    "Version": 999_999_999_999,
    "IssuedAt": "2026-11-21T12:00:00Z",
    "ExpiresAt": "2026-11-28T12:00:00Z",
    "RevokedIDs": [],
}
_EMPTY: Final = b""

# What would unrevoke everything, if a list signer signed it.
FORGED_LIST: Final = cbor2.dumps(_MEMBERS, canonical=True)

RESERVED: Final[list[bytes]] = [
    FORGED_LIST,
    # Other encodings, with more after them, with a tag before them.
    cbor2.dumps(_MEMBERS),
    b"\xbf" + FORGED_LIST[1:] + b"\xff",
    FORGED_LIST + b"\x00",
    b"\xd9\xd9\xf7" + FORGED_LIST,
    cbor2.dumps(cbor2.CBORTag(24_000, _MEMBERS)),
    cbor2.dumps({"RevokedIDs": []}),
    # COSE: tagged messages, a CWT, untagged ones, and what their signatures and MACs are over.
    *(
        cbor2.dumps(cbor2.CBORTag(tag, [_EMPTY, {}, b"payload", b"signature"]))
        for tag in (16, 17, 18, 19, 61, 96, 97, 98, 24_000)
    ),
    cbor2.dumps(cbor2.CBORTag(61, cbor2.CBORTag(18, [_EMPTY, {}, b"payload", b"signature"]))),
    cbor2.dumps([_EMPTY, {}, b"payload", b"signature"]),
    cbor2.dumps([b"\xa0", {4: b"kid"}, None, b"signature"]),
    cbor2.dumps([_EMPTY, {}, b"ciphertext"]),
    cbor2.dumps([_EMPTY, {}, b"payload", [[_EMPTY, {}, b"signature"]]]),
    *(
        cbor2.dumps([context, _EMPTY, _EMPTY, b"payload"])
        for context in ("Signature1", "Signature", "CounterSignature", "MAC0", "Encrypt0")
    ),
    b"\x9fjSignature1@@@\xff",
    # What the service signs after a prefix: the statement of a list signer on its successor.
    srl_statements._DOMAIN + b"statement",
]
