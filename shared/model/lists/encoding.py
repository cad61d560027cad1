"""The response body of a Signed Revocation List: content and signature (SRL-1 to SRL-3)."""

import base64
import json
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import cbor2

from shared.errors import InvalidSrl, SrlReason
from shared.model import seeds, times

# The fixed text between the parts of a response body.
_PAYLOAD: Final = b'{"payload":'

_IDS: Final = b'"RevokedIDs":['

_SIGNED: Final = b',"srl":{"Payload":"'

_SIGNATURE: Final = b'","Signature":"'

_END: Final = b'"}}'

# The major types of CBOR.
_TEXT: Final = 3
_ARRAY: Final = 4


@dataclass(frozen=True)
class Payload:
    """The content of a list (SRL-2). `revoked_ids` are sorted bytewise, each once."""

    version: int
    issued_at: datetime
    expires_at: datetime
    revoked_ids: list[str]

    def members(self) -> dict[str, Any]:
        """Return the four members, with the names and in the order of SRL-2."""
        return {
            "Version": self.version,
            "IssuedAt": times.text(self.issued_at),
            "ExpiresAt": times.text(self.expires_at),
            "RevokedIDs": self.revoked_ids,
        }

    @cached_property
    def encoded(self) -> bytes:
        """The deterministic CBOR. The members already have the order of RFC 8949, 4.2.1."""
        ids = self.revoked_ids
        if len(sizes := set(map(len, ids))) == 1:
            # All begin with the same bytes. The encoder takes three times as long to find that.
            head = _head(_TEXT, sizes.pop()).decode("latin-1")
            texts = head + head.join(ids)
            if texts.isascii():
                others = cbor2.dumps(self.members() | {"RevokedIDs": []}, canonical=True)[:-1]
                return others + _head(_ARRAY, len(ids)) + texts.encode()
        return cbor2.dumps(self.members(), canonical=True)

    @cached_property
    def encoded_text(self) -> bytes:
        """The same in base64."""
        return base64.b64encode(self.encoded)

    @cached_property
    def shown(self) -> list[bytes]:
        """The pieces of a response body before the signed part."""
        members = json.dumps(self.members() | {"RevokedIDs": []}, separators=(",", ":")).encode()
        before, after = members.split(b"[]")
        # Joined by hand: identifiers need no escapes, and an encoder would look at each character.
        ids = '","'.join(self.revoked_ids).encode()
        quote = b'"' if ids else b""
        return [_PAYLOAD + before + b"[" + quote, ids, quote + b"]" + after + _SIGNED]


def _head(major: int, size: int) -> bytes:
    """Return the first bytes of a text or an array in CBOR."""
    # They are those of a number, whose major type is 0.
    head = cbor2.dumps(size)
    return bytes([major << 5 | head[0], *head[1:]])


def sign(payload: Payload, *, seed: bytes) -> bytes:
    """Return the response body for `payload`: the content, its encoding, and the signature (SRL-3).

    `seed` is the 32 bytes of the Ed25519 private key.
    """
    signature = seeds.sign(payload.encoded, seed=seed).encode()
    return b"".join([*payload.shown, payload.encoded_text, _SIGNATURE, signature, _END])


def pack(data: bytes) -> bytes:
    """Return data in gzip. zlib takes four times as long, and makes it no smaller."""
    # Only a publication needs it, so it is not loaded at each cold start.
    from isal import igzip_lib  # noqa: PLC0415

    return igzip_lib.compress(data, 1, igzip_lib.COMP_GZIP)


def signature(body: bytes, *, shows: Payload) -> memoryview:
    """Return the signature, in base64, of a body that `sign` made.

    Raises `ValueError` if `sign` did not make `body` from the payload `shows`.
    """
    start = 0
    for piece in (*shows.shown, shows.encoded_text, _SIGNATURE):
        if not body.startswith(piece, start):
            raise ValueError("it differs from the signed content")
        start += len(piece)
    if not body.endswith(_END):
        raise ValueError("it has data after the end")
    return memoryview(body)[start : -len(_END)]


def revoked_ids(body: bytes) -> list[str]:
    """Return the identifiers in a response body that this service made."""
    # Cut out of the text: parsing takes several times as long.
    start = body.index(_IDS) + len(_IDS)
    end = body.index(b"]", start)
    return str(memoryview(body)[start + 1 : end - 1], "ascii").split('","') if start < end else []


def issued_at(body: bytes) -> datetime:
    """Return `IssuedAt` of a response body. Raises `InvalidSrl` if it has none."""
    try:
        return times.parse(json.loads(body)["payload"]["IssuedAt"])
    except (KeyError, TypeError, ValueError):
        raise InvalidSrl(SrlReason.MALFORMED, "not a response of the SRL endpoint") from None
