"""SRL signers, which sign a tenant's SRLs (SIGNER-2), and succession statements (SIGNER-6).

In a succession statement (docs/adr/13), the active SRL signer authorizes its successor. The
statement is deterministic CBOR with the tenant, the new key and the signing key. The signature
covers a prefix and these bytes. A statement therefore cannot pass for an SRL, or an SRL for a
statement.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import ClassVar, Final, Self

import cbor2

from shared.authorizer.formats import ed25519, wire
from shared.authorizer.formats.members import to_base64
from shared.model import seeds
from shared.model.items import Address, Partition, Table
from shared.model.records import Record
from shared.model.seeds import KeyPurpose, WrappedKeyRecord


class SrlSignerStatus(StrEnum):
    """The state of an SRL signer. One signer is active, and at most one is pending.

    A standby signer does not sign either. The trust document names it, so it can replace a stolen
    signer immediately.
    """

    STANDBY = "standby"
    PENDING = "pending"
    ACTIVE = "active"
    RETIRED = "retired"
    REVOKED = "revoked"


# A key in these states never signs again.
ENDED: Final = (SrlSignerStatus.RETIRED, SrlSignerStatus.REVOKED)


@dataclass(frozen=True, slots=True)
class SrlSigner(WrappedKeyRecord, Record):
    """A key that signs SRLs.

    `public_key` is base64 of the 32 raw bytes. `sealed_seed` is None if the key can no longer sign.
    `activated_at` is None for a key that was active from its creation or was never active.
    `listed_until` is the expiry of the last SRL of a retired key, and None for other keys.
    `statement` is a `SuccessionStatement` about this key by the signer active at that time.
    `pending_id` of the active key names the pending key. Each operation that creates, activates or
    revokes the pending key also writes this record, so concurrent operations conflict.
    `is_archived` is True for a retired or revoked key in the archive, otherwise None. `revoked_at`
    is None also if a recovery revoked the key.
    """

    PURPOSE: ClassVar = KeyPurpose.SRL

    id: str
    tenant_id: str
    public_key: str
    status: SrlSignerStatus
    created_at: datetime
    sealed_seed: bytes | None = field(repr=False)
    version: int = 1
    activated_at: datetime | None = None
    listed_until: datetime | None = None
    statement: dict[str, str] | None = None
    pending_id: str | None = None
    is_archived: bool | None = None
    revoked_at: datetime | None = None

    @property
    def address(self) -> Address:
        """The address of the record."""
        if self.status is SrlSignerStatus.STANDBY:
            return standby_address(self.tenant_id)
        partition = archive(self.tenant_id, self.status) if self.is_archived else None
        return (partition or signers_partition(self.tenant_id)).address(self.id)

    def activate(self, now: datetime) -> Self:
        """Return the key, active from `now` on."""
        return self._next(status=SrlSignerStatus.ACTIVE, activated_at=now)

    def retire(self, *, listed_until: datetime) -> Self:
        """Return the retired key, after another one became active."""
        return self._next(
            status=SrlSignerStatus.RETIRED,
            listed_until=listed_until,
            sealed_seed=None,
            pending_id=None,
        )

    def revoke(self, at: datetime | None = None) -> Self:
        """Return the key, revoked at `at`. Verifiers must no longer accept it."""
        ended = self._next(status=SrlSignerStatus.REVOKED, sealed_seed=None, pending_id=None)
        return replace(ended, is_archived=None, revoked_at=at)

    def archive(self) -> Self:
        """Return the archived form of the retired or revoked key."""
        return self._next(sealed_seed=None, is_archived=True)

    def with_successor(self, pending_id: str | None) -> Self:
        """Return the active key with this pending successor, or without one."""
        return self._next(pending_id=pending_id)

    def without_statement(self) -> Self:
        """Return the key without its statement, which is void if its signer was stolen."""
        return replace(self, statement=None)

    def _next(self, **changes: object) -> Self:
        return replace(self, version=self.version + 1, **changes)  # type: ignore[arg-type]


def signers_partition(tenant_id: str) -> Partition:
    """Return the partition of a tenant's unarchived SRL signers, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#srl-keys")


def standby_address(tenant_id: str) -> Address:
    """Return the address of a tenant's standby signer."""
    return Address(Table.KEYS, f"{tenant_id}#srl-standby")


def archive(tenant_id: str, status: SrlSignerStatus) -> Partition:
    """Return the partition of a tenant's archived signers with `status`, in order of creation.

    Signers are never removed, except that a retired signer moves if it is revoked (docs/adr/13).
    """
    return Partition(Table.KEYS, f"{tenant_id}#srl-keys-{status.value}")


_DOMAIN: Final = b"rescind-srl-signer-v1\n"

# A statement in the form of the API: `Payload` and `Signature`, both base64.
Form = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SuccessionStatement:
    """A statement that `public_key` may succeed `previous` (32 raw bytes each) as SRL signer.

    `number` is higher than in all earlier statements of the tenant.
    """

    tenant_id: str
    number: int
    key_id: str
    public_key: bytes
    previous: bytes
    issued_at: datetime

    def sign(self, *, seed: bytes) -> dict[str, str]:
        """Return the statement in the form of the API. `seed` is the seed of `previous`."""
        encoded = self.encode()
        signature = seeds.signature(_DOMAIN + encoded, seed=seed)
        return {"Payload": to_base64(encoded), "Signature": to_base64(signature)}

    @classmethod
    def parse(cls, form: Form) -> Self:
        """Return the statement in an API response. Raises `ValueError` if it is not signed."""
        return cls._require_valid_signature(form["Payload"], form["Signature"])

    @classmethod
    @lru_cache(maxsize=512)
    def _require_valid_signature(cls, *texts: str) -> Self:
        # A client checks all statements with each poll, so the cache avoids repeated verification.
        encoded, signature = (base64.b64decode(each, validate=True) for each in texts)
        statement = cls._decode(encoded)
        if not ed25519.is_signed(_DOMAIN + encoded, signature, public_key=statement.previous):
            raise ValueError("a succession statement is not signed by the key that it names")
        return statement

    def may_precede(self, other: Self) -> bool:
        """Return whether `other` has the same tenant and a higher number."""
        return self.tenant_id == other.tenant_id and self.number < other.number

    def encode(self) -> bytes:
        """Return the bytes that are signed after the prefix."""
        members = {
            "Tenant": self.tenant_id,
            "Number": self.number,
            "KeyId": self.key_id,
            "PublicKey": self.public_key,
            "Previous": self.previous,
            "IssuedAt": wire.text(self.issued_at),
        }
        return cbor2.dumps(members, canonical=True)

    @classmethod
    def _decode(cls, data: bytes) -> Self:
        try:
            members = wire.decode(data)
            key_id, tenant_id = members["KeyId"], members["Tenant"]
            previous, public_key = members["Previous"], members["PublicKey"]
            number = members["Number"]
            is_text = {type(key_id), type(tenant_id)} == {str}
            if not is_text or type(number) is not int or number < 1:
                raise TypeError("a member is of another type")
            are_bytes = {type(previous), type(public_key)} == {bytes}
            if not (are_bytes and ed25519.is_safe(previous) and ed25519.is_safe(public_key)):
                raise TypeError("a public key is not acceptable")
            issued_at = wire.moment(members, "IssuedAt")
            statement = cls(tenant_id, number, key_id, public_key, previous, issued_at)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a succession statement: {error}") from None
        # A difference means other members, which the service never signs.
        if statement.encode() != data:
            raise ValueError("a succession statement has unexpected members")
        return statement


def follow(
    pins: Iterable[bytes], forms: Iterable[Form], *, revoked_keys: frozenset[bytes] = frozenset()
) -> dict[bytes, list[Form]]:
    """Return the keys to accept, each with its statements from a pinned key.

    Keys in `pins` need no statement. A key in `revoked_keys` is not accepted, and its statements
    are ignored. Statements are also ignored if they are malformed, not signed by the named key, for
    another tenant, or numbered lower than the preceding statement.
    """
    believed: dict[bytes, list[Form]] = {key: [] for key in pins if key not in revoked_keys}
    last: dict[bytes, SuccessionStatement] = {}
    # Numbers rise along a chain, so each statement follows all statements that it depends on.
    for statement, form in sorted(_parse_all(forms), key=lambda each: each[0].number):
        chain, before = believed.get(statement.previous), last.get(statement.previous)
        key = statement.public_key
        is_next = before is None or before.may_precede(statement)
        if chain is None or not is_next or key in revoked_keys or key in believed:
            continue
        believed[key] = [*chain, form]
        last[key] = statement
    return believed


def authors(forms: Iterable[Form]) -> frozenset[bytes]:
    """Return the keys that signed the well-formed statements."""
    return frozenset(statement.previous for statement, _form in _parse_all(forms))


def highest(forms: Iterable[Form]) -> int:
    """Return the highest number in the well-formed statements, or 0."""
    return max((statement.number for statement, _form in _parse_all(forms)), default=0)


def _parse_all(forms: Iterable[Form]) -> Iterable[tuple[SuccessionStatement, Form]]:
    for form in forms:
        try:
            yield SuccessionStatement.parse(form), form
        except (KeyError, TypeError, ValueError):
            continue


@dataclass(frozen=True, slots=True)
class ServedSigners:
    """The content of `GET /v1/revocations/srl/keys`.

    `listed` has the raw public key of each signer, with its statement or None. `revoked` contains
    the revoked keys.
    """

    listed: Mapping[bytes, Form | None] = field(default_factory=dict)
    revoked: frozenset[bytes] = frozenset()
    cursor: str | None = None

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Return the content of a page of the response. Raises `ValueError` if it is malformed."""
        try:
            page = json.loads(body)
            keys = [(raw_key(each["public_key"]), each) for each in page["keys"]]
            listed = {key: each["statement"] for key, each in keys}
            revoked = frozenset(key for key, each in keys if each["status"] == "revoked")
            cursor = page.get("cursor")
            if not isinstance(cursor, str | None):
                raise TypeError("cursor is not a string")
            return cls(listed, revoked, cursor)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            raise ValueError("not a response of GET /v1/revocations/srl/keys") from None

    @property
    def statements(self) -> tuple[Form, ...]:
        """All statements, as received."""
        return tuple(each for each in self.listed.values() if each is not None)

    def merge(self, page: Self) -> Self:
        """Return this page merged with the next page."""
        revoked = self.revoked | page.revoked
        return replace(page, listed={**self.listed, **page.listed}, revoked=revoked)


def raw_key(given: bytes | str) -> bytes:
    """Return a raw public key, given raw or in base64. Raises `ValueError` if it is not safe."""
    key = given if isinstance(given, bytes) else base64.b64decode(given, validate=True)
    if not ed25519.is_safe(key):
        raise ValueError("a public key must be an Ed25519 key of 32 bytes")
    return key
