"""Token Status Lists: one bit per entry, set if the entry is revoked (TOKEN-5).

A status list has no table of entries. Entry N is revoked by the warrant identifier formed from
`warrant_prefix` and N. The signed status list is a projection of the current SRL.
"""

import base64
import hashlib
import json
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any, ClassVar, Final, Self

from shared.authorizer.formats.ed25519 import is_signed
from shared.model import identifiers, seeds
from shared.model.identifiers import STATUS_LIST
from shared.model.items import Address, Table
from shared.model.lists.head import SrlHead, version_prefix
from shared.model.records import Record
from shared.model.seeds import ALGORITHM, KeyPurpose, WrappedKeyRecord

# Number of entries of a status list, and maximum number of status lists per tenant.
SIZE: Final = 2**20
LISTS_MAX: Final = 100
# Maximum number of entries that one request allocates.
COUNT_MAX: Final = 10_000
# How long verifiers and caches may keep a status list, in seconds. About the time until the next
# SRL.
TTL_SECONDS: Final = 60
PATH: Final = "/v1/status-lists"
MEDIA_TYPE: Final = "application/statuslist+jwt"

_TYPE: Final = "statuslist+jwt"
# A Feistel network on two halves of ten bits, with the rounds of FF1 (NIST SP 800-38G).
_ROUNDS: Final = 10
_HALF: Final = 1024
_LEVEL: Final = 6


@dataclass(frozen=True, slots=True)
class StatusList(Record):
    """A status list. `uri` is its address for verifiers, which tokens contain.

    `allocated` is the number of allocated entries. `order` is the key (32 bytes) of the permutation
    that assigns an index to the n-th entry.
    """

    id: str
    tenant_id: str
    name: str
    uri: str
    created_at: datetime
    order: bytes = field(repr=False)
    allocated: int = 0
    version: int = 1

    @property
    def size(self) -> int:
        """The number of entries of the list."""
        return SIZE

    @property
    def address(self) -> Address:
        """The address of the record. It omits the tenant, because verifiers do not name it."""
        return list_address(self.id)

    @property
    def warrant_prefix(self) -> str:
        """The prefix of the warrant identifiers of its entries. The index follows."""
        return f"svc_wrt_tsl-{self.id.rpartition('_')[2]}-"

    def has_room(self, count: int) -> bool:
        """Return whether at least `count` entries are left."""
        return self.allocated + count <= SIZE

    def allocating(self, count: int) -> Self:
        """Return the list after the allocation of `count` entries."""
        return replace(self, allocated=self.allocated + count, version=self.version + 1)

    def indexes(self, first: int, count: int) -> list[int]:
        """Return the indexes of `count` entries, starting with the entry `first`."""
        rounds = [_round(self.order, number) for number in range(_ROUNDS)]
        return [_permute(number, rounds) for number in range(first, first + count)]

    def revoked_indexes(self, warrant_ids: Sequence[str]) -> Iterable[int]:
        """Yield the indexes that these sorted warrant identifiers revoke.

        Identifiers of other lists are skipped, and so are indexes with leading zeros or not below
        `SIZE`.
        """
        prefix = self.warrant_prefix
        first = bisect_left(warrant_ids, prefix)
        for each in islice(warrant_ids, first, None):
            if not each.startswith(prefix):
                return
            index = each[len(prefix) :]
            # Python parses other characters than ASCII digits as numbers too.
            number = int(index) if index.isdecimal() else SIZE
            if number < SIZE and str(number) == index:
                yield number


def _round(key: bytes, number: int) -> tuple[int, ...]:
    """Return the function of a round, as a table."""
    data = hashlib.shake_256(b"rescind-status-v1\n" + bytes([number]) + key).digest(2 * _HALF)
    return tuple(each % _HALF for each in struct.unpack(f">{_HALF}H", data))


def _permute(number: int, rounds: Iterable[tuple[int, ...]]) -> int:
    left, right = divmod(number, _HALF)
    for table in rounds:
        left, right = right, left ^ table[right]
    return left * _HALF + right


@dataclass(frozen=True, slots=True)
class StatusSigner(WrappedKeyRecord, Record):
    """The key that signs only the status lists of a tenant (TOKEN-8).

    `public_key` is base64 of the 32 raw bytes. `lists` are the identifiers of the lists, in order
    of creation.
    """

    PURPOSE: ClassVar = KeyPurpose.STATUS

    id: str
    tenant_id: str
    public_key: str
    created_at: datetime
    sealed_seed: bytes | None = field(repr=False)
    lists: tuple[str, ...] = ()
    version: int = 1

    @property
    def address(self) -> Address:
        """The address of the record."""
        return signer_address(self.tenant_id)

    def signing(self, list_id: str) -> Self:
        """Return the signer with one more list."""
        return replace(self, lists=(*self.lists, list_id), version=self.version + 1)

    def jwk(self) -> dict[str, str]:
        """Return the public key as a JSON Web Key (RFC 8037)."""
        own = {"kty": "OKP", "crv": ALGORITHM, "x": _base64url(self.public_bytes)}
        return own | {"kid": self.id, "use": "sig", "alg": "EdDSA"}


@dataclass(frozen=True, slots=True)
class StatusListContent:
    """The inputs of a signed status list. `head` names the current SRL.

    The output is deterministic: the same inputs always give the same bytes.
    """

    status_list: StatusList
    head: SrlHead
    signer: StatusSigner

    @property
    def _sha256(self) -> str:
        parts = (self.status_list.id, self.status_list.uri, self.head.sha256, self.signer.id)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def etag(self) -> str:
        """The strong validator of the bytes."""
        return f'"{self._sha256}"'

    @property
    def folder(self) -> str:
        """The folder of the stored signed lists."""
        return f"status/{self.status_list.tenant_id}/{self.status_list.id.rpartition('_')[2]}"

    @property
    def blob(self) -> str:
        """The blob of the signed bytes."""
        return f"{self.folder}/{version_prefix(self.head.version)}-{self._sha256}.jwt"

    def seconds_left(self, now: datetime) -> int:
        """Return for how many whole seconds the list is valid, or 0 if it has expired."""
        return max(0, int((self.head.expires_at - now).total_seconds()))

    def sign(self, warrant_ids: Sequence[str], *, seed: bytes) -> bytes:
        """Return the signed list, a JWT (draft, 5.1). `warrant_ids` are the content of `head`."""
        bits = bytearray(SIZE // 8)
        for index in self.status_list.revoked_indexes(warrant_ids):
            bits[index >> 3] |= 1 << (index & 7)
        # Rarely set bits form runs of zeros. With this strategy, the result is smaller, and packing
        # is six times as fast.
        packer = zlib.compressobj(_LEVEL, strategy=zlib.Z_RLE)
        packed = _base64url(packer.compress(bits) + packer.flush())
        claims = self._claims | {"ttl": TTL_SECONDS, "status_list": {"bits": 1, "lst": packed}}
        text = f"{self._header}.{_base64url(_json(claims))}"
        return f"{text}.{_base64url(seeds.signature(text.encode(), seed=seed))}".encode()

    def is_made(self, data: bytes) -> bool:
        """Return whether these bytes are the complete signed list of exactly this version."""
        signed, _, signature = data.rpartition(b".")
        header, _, claims = signed.partition(b".")
        try:
            is_own = is_signed(
                signed, _decode_base64url(signature), public_key=self.signer.public_bytes
            )
        except ValueError:
            return False
        if not is_own or header != self._header.encode():
            return False
        found, own = json.loads(_decode_base64url(claims)), self._claims
        return {name: found.get(name) for name in own} == own

    @property
    def _header(self) -> str:
        return _base64url(_json({"alg": "EdDSA", "kid": self.signer.id, "typ": _TYPE}))

    @property
    def _claims(self) -> dict[str, Any]:
        head = self.head
        times = {"iat": int(head.issued_at.timestamp()), "exp": int(head.expires_at.timestamp())}
        return {"sub": self.status_list.uri, **times}


def _json(members: dict[str, Any]) -> bytes:
    return json.dumps(members, separators=(",", ":")).encode()


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode_base64url(text: bytes) -> bytes:
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))


def is_list(list_id: str) -> bool:
    """Return whether `list_id` has the form of an identifier of a status list."""
    return identifiers.is_identifier(list_id, kind=STATUS_LIST)


def list_address(list_id: str) -> Address:
    """Return the address of a status list."""
    return Address(Table.KEYS, f"status-list#{list_id}")


def signer_address(tenant_id: str) -> Address:
    """Return the address of a tenant's status signer."""
    return Address(Table.KEYS, f"{tenant_id}#status-signer")
