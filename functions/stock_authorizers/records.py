"""Native list: revocations in the format of unmodified `tenuo` authorizers (NATIVE-1).

It contains `tenuo` warrant identifiers, and has a separate signer. Its version is the covered feed
sequence plus one.
"""

import base64
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, Final

import cbor2

from functions.authorizers.records import native_version
from shared.authorizer.formats.ed25519 import is_signed
from shared.model import seeds, times
from shared.model.items import Address, Table
from shared.model.lists.head import StoredBody
from shared.model.records import Record
from shared.model.seeds import KeyPurpose, WrappedKeyRecord

# A stored list is rebuilt after this time, before the store removes it by age.
KEPT: Final = timedelta(hours=12)

# A stock authorizer treats each list as new. It receives none if a change stayed unpublished for
# this many seconds, the default staleness limit of feed clients (NATIVE-5).
AGE_MAX: Final = 30

# The number of Ed25519 before a key and before a signature.
_ED25519: Final = 1
# Signed prefixes before the payload: the prefix of all `tenuo` signatures, and of lists.
_SIGNED: Final = b"tenuo-warrant-v1"
_LIST: Final = b"tenuo-srl-v1"

_OURS: Final = re.compile(r"^svc_wrt_(?=[0-9a-f]{32}$)", re.MULTILINE)
_SEQUENCE_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class NativeSigner(WrappedKeyRecord, Record):
    """The key that signs only the native lists of a tenant (NATIVE-2).

    `public_key` is base64 of the 32 raw bytes. It is never replaced, because a stock authorizer
    accepts another key only with a new configuration.
    """

    PURPOSE: ClassVar = KeyPurpose.NATIVE

    id: str
    tenant_id: str
    public_key: str
    created_at: datetime
    sealed_seed: bytes | None = field(repr=False)
    version: int = 1

    @property
    def address(self) -> Address:
        """The address of the record."""
        return signer_address(self.tenant_id)


@dataclass(frozen=True, slots=True)
class NativeList(Record):
    """The newest native list of a tenant: its blob and its inputs.

    It covers the feed up to `sequence`, with the chain hash `chain`. The native signer `signer_id`
    signed it. `size` is the size of the blob in bytes.
    """

    sequence: int
    chain: bytes
    signer_id: str
    made_at: datetime
    blob: str
    size: int
    version: int = 1

    @property
    def form(self) -> StoredBody:
        """The stored response body."""
        return StoredBody(self.blob, self.size)

    def is_kept(self, now: datetime) -> bool:
        """Return whether the blob is recent enough that the store keeps it."""
        return self.made_at <= now < self.made_at + KEPT


def signer_address(tenant_id: str) -> Address:
    """Return the address of a tenant's native signer."""
    return Address(Table.KEYS, f"{tenant_id}#native-signer")


def list_address(tenant_id: str) -> Address:
    """Return the address of a tenant's newest native list."""
    return Address(Table.REVOCATIONS, f"{tenant_id}#native-list")


def folder(tenant_id: str) -> str:
    """Return the folder of a tenant's native lists. It does not contain the SRLs of SRL-1."""
    return f"native/{tenant_id}"


def blob_prefix(sequence: int) -> str:
    """Return the name prefix of lists that cover the feed up to `sequence`."""
    return f"{sequence:0{_SEQUENCE_DIGITS}d}"


def native_ids(warrant_ids: Iterable[str]) -> list[str]:
    """Return the identifiers in the form of a native list (NATIVE-3).

    `svc_wrt_` and 32 hexadecimal digits become `tnu_wrt_` and these digits. Other identifiers are
    unchanged, because no warrant of `tenuo` has them.
    """
    # Joined into one text, because a search in each identifier takes several times as long.
    lines = _OURS.sub("tnu_wrt_", "\n".join(warrant_ids))
    return lines.split("\n") if lines else []


def signed_body(
    warrant_ids: Iterable[str], *, sequence: int, issued_at: datetime, seed: bytes
) -> bytes:
    """Return the response body: a signed list of these warrants, in base64, and its version.

    `warrant_ids` are the output of `native_ids`. `seed` is the 32 bytes of the native signer.
    """
    version = native_version(sequence)
    public_key = base64.b64decode(seeds.public_key(seed))
    # Verifiers encode the payload again, in this order, and check the signature over the result.
    payload = cbor2.dumps(
        {
            "revoked_ids": list(warrant_ids),
            "version": version,
            "issued_at": times.format_utc(issued_at),
            "issuer": [_ED25519, public_key],
        }
    )
    signature = seeds.signature(_SIGNED + _LIST + payload, seed=seed)
    # Inserts the signed payload as bytes, because encoding it twice would double the time.
    end = cbor2.dumps("signature") + cbor2.dumps([_ED25519, signature])
    signed = b"".join([b"\xa2", cbor2.dumps("payload"), payload, end])
    return b"".join([b'{"srl":"', base64.b64encode(signed), b'","version":%d}' % version])


def is_event_signed(signing_payload: bytes, signature: bytes, *, public_key: bytes) -> bool:
    """Return whether the authorizer with this key (32 bytes) signed an event (NATIVE-7)."""
    return is_signed(_SIGNED + signing_payload, signature, public_key=public_key)
