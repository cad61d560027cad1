"""The Signed Revocation List: content, encoding and place (SRL-1, SRL-2)."""

import base64
import gzip
import json
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import cbor2

from shared.errors import Corrupt, InvalidSrl
from shared.model import seeds, times
from shared.model.items import Address, Partition, Table
from shared.model.records import Record
from shared.model.srl.served import content_encoding

# How lists and their states are made. Those without a number have no signed state, and left
# warrants out by ends that nobody had signed.
FORMAT: Final = 2

# More than the lists that one machine keeps.
HEADS_KEPT: Final = 32
VERSION_DIGITS: Final = 12

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


@dataclass(frozen=True, slots=True)
class Form:
    """A response body as it is stored: which blob, of how many bytes, in which content coding."""

    blob: str
    size: int

    @property
    def encoding(self) -> str | None:
        """Its content coding; None if it has none."""
        return content_encoding(self.blob)

    @property
    def etag(self) -> str:
        """A strong validator that depends on these bytes alone (RFC 9110 8.8.3)."""
        return f'"{sha256_of(self.blob)}"'


@dataclass(frozen=True, slots=True)
class Head(Record):
    """The published list of a tenant: which blob it is, and what it was made from.

    `changes` is the sum of the shards' change counters, read before the list was: whatever moved
    them since is not surely in it. `sha256` is of the blob, in hex; `size` is its bytes. `state` is
    the blob of what the list itself does not tell (`srl_state`). `format` is how list and state
    were made: the next list follows only from one of the present `FORMAT`. `packed` is the blob of
    the same body in gzip and `packed_size` its bytes; short lists have none.
    """

    version: int
    issued_at: datetime
    expires_at: datetime
    count: int
    changes: int
    blob: str
    sha256: str
    size: int
    key_id: str
    state: str | None = None
    format: int | None = None
    packed: str | None = None
    packed_size: int | None = None

    def form(self, *, packed: bool = False) -> Form:
        """The body as it is stored, in gzip if `packed` and if it is stored so.

        Raises `Corrupt` if the head contradicts itself.
        """
        if sha256_of(self.blob) != self.sha256:
            raise Corrupt(f"the head of version {self.version} contradicts itself")
        if packed and self.packed is not None and self.packed_size is not None:
            return Form(self.packed, self.packed_size)
        return Form(self.blob, self.size)

    def is_ahead(self, now: datetime) -> bool:
        """Whether it was issued in the future, by a clock that is wrong (SRL-5)."""
        return times.is_ahead(self.issued_at, now)

    def history_address(self, tenant_id: str) -> Address:
        """Where this version is remembered until `HEADS_KEPT` others have followed."""
        return publications(tenant_id).address(f"{self.version % HEADS_KEPT:02d}")


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
        raise InvalidSrl("malformed", "not a response of the SRL endpoint") from None


def lists_folder(tenant_id: str) -> str:
    """Where the blobs of a tenant's lists are."""
    return f"srl/{tenant_id}/lists"


def states_folder(tenant_id: str) -> str:
    """Where the blobs are that go beside the lists."""
    return f"srl/{tenant_id}/states"


def packed_folder(tenant_id: str) -> str:
    """Where the lists are in gzip; a folder of its own, so that none passes for a list."""
    return f"srl/{tenant_id}/packed"


def folders(tenant_id: str) -> tuple[str, ...]:
    """All folders that hold something for each version."""
    return lists_folder(tenant_id), states_folder(tenant_id), packed_folder(tenant_id)


def blob_name(folder: str, *, version: int, sha256: str, suffix: str = "json") -> str:
    """A blob of a version: named by its content, so that a name never changes meaning."""
    return f"{folder}/{_digits(version)}-{sha256}.{suffix}"


def version_prefix(version: int) -> str:
    """How the blobs of a version begin; blobs of earlier versions sort before it."""
    return _digits(version)


def sha256_of(blob: str) -> str:
    """The hash of its content, in hex, that a blob's name tells."""
    return blob.rpartition("-")[2].partition(".")[0]


def version_of(blob: str) -> int:
    """The version that a blob's name tells. Raises `Corrupt` where it tells none."""
    try:
        return int(blob.rpartition("/")[2].partition("-")[0])
    except ValueError:
        raise Corrupt("a blob among a tenant's lists has another name than a list") from None


def publications(tenant_id: str) -> Partition:
    """The head of a tenant, and the heads of its last `HEADS_KEPT` lists in any order.

    The heads that the first edition stored are there too, until they are migrated.
    """
    return Partition(Table.REVOCATIONS, f"{tenant_id}#srl")


def head_address(tenant_id: str) -> Address:
    """Where the pointer to the published list is stored."""
    return publications(tenant_id).address("head")


def _digits(version: int) -> str:
    return f"{version:0{VERSION_DIGITS}d}"
