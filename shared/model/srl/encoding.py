"""The response body of a Signed Revocation List: content and signature (SRL-1, SRL-2)."""

import base64
import gzip
import json
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import cbor2

from shared.errors import InvalidSrl, SrlReason
from shared.model import seeds, times

# The shortest response body that is stored in gzip too. Below it, one more write to the bucket
# costs more than the bytes that it spares.
_PACKED_FROM: Final = 16 * 1024

# What stands in a response body between its parts.
_PAYLOAD: Final = b'{"payload":'

_IDS: Final = b'"RevokedIDs":['

_SIGNED: Final = b',"srl":{"Payload":"'

_SIGNATURE: Final = b'","Signature":"'

_END: Final = b'"}}'


@dataclass(frozen=True)
class Payload:
    """What a list says. `revoked_ids` are warrant identifiers, sorted bytewise, each once."""

    version: int
    issued_at: datetime
    expires_at: datetime
    revoked_ids: list[str]

    def members(self) -> dict[str, Any]:
        """The four members, named and ordered as the contract has them."""
        return {
            "Version": self.version,
            "IssuedAt": times.text(self.issued_at),
            "ExpiresAt": times.text(self.expires_at),
            "RevokedIDs": self.revoked_ids,
        }

    def encode(self) -> bytes:
        """Deterministic CBOR; the members stand in the order of RFC 8949 4.2.1 already."""
        return cbor2.dumps(self.members(), canonical=True)

    @cached_property
    def shown(self) -> list[bytes]:
        """The pieces of a response body up to what is signed."""
        members = json.dumps(self.members() | {"RevokedIDs": []}, separators=(",", ":")).encode()
        before, after = members.split(b"[]")
        # By hand: identifiers have nothing to escape, and an encoder looks at each character.
        ids = '","'.join(self.revoked_ids).encode()
        quote = b'"' if ids else b""
        return [_PAYLOAD + before + b"[" + quote, ids, quote + b"]" + after + _SIGNED]


def sign(payload: Payload, *, seed: bytes) -> bytes:
    """The response body of the SRL endpoint: payload, and its encoding signed with Ed25519.

    `seed` is the 32 bytes of the private key. The signature is over the bytes in `Payload`.
    """
    encoded = payload.encode()
    signature = seeds.sign(encoded, seed=seed).encode()
    return b"".join([*payload.shown, base64.b64encode(encoded), _SIGNATURE, signature, _END])


def is_worth_packing(body: bytes) -> bool:
    """Whether a response body is long enough for `pack`."""
    return len(body) >= _PACKED_FROM


def pack(body: bytes) -> bytes:
    """A response body in gzip.

    The fastest level: identifiers and base64 leave the others two hundredths to gain, for several
    times the work.
    """
    return gzip.compress(body, 1, mtime=0)


def signed(body: bytes, *, shows: Payload) -> tuple[memoryview, memoryview]:
    """What is signed in a response body that shows this payload, and the signature, in base64.

    Raises ValueError where `sign` did not make the body of it.
    """
    start = 0
    for piece in shows.shown:
        if not body.startswith(piece, start):
            raise ValueError("it shows something else")
        start += len(piece)
    end = body.rindex(_SIGNATURE)
    if not body.endswith(_END):
        raise ValueError("it does not end where it should")
    whole = memoryview(body)
    return whole[start:end], whole[end + len(_SIGNATURE) : -len(_END)]


def revoked_ids(body: bytes) -> list[str]:
    """The identifiers in a response body that this service made."""
    # Cut out, as `sign` put them in: parsing takes several times as long.
    start = body.index(_IDS) + len(_IDS)
    end = body.index(b"]", start)
    return str(memoryview(body)[start + 1 : end - 1], "ascii").split('","') if start < end else []


def issued_at(body: bytes) -> datetime:
    """When a response body says that it was issued. Raises `InvalidSrl` where it says nothing."""
    try:
        return times.parse(json.loads(body)["payload"]["IssuedAt"])
    except (KeyError, TypeError, ValueError):
        raise InvalidSrl(SrlReason.MALFORMED, "not a response of the SRL endpoint") from None
