"""Authorizers: programs that enforce warrants, and the reports of each (FLEET-1)."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from functions.authorizers.advances import record_advance
from shared.capabilities import POLL_SECONDS_MIN
from shared.model import times
from shared.model.items import Address, Partition, Table
from shared.model.records import SPARSE, Record
from shared.model.tenants import AUTHORIZERS_MAX_MAX

# Maximum number of a tenant's registered authorizers (FLEET-3).
REGISTERED_MAX: Final = AUTHORIZERS_MAX_MAX
# Maximum number of reports in one request of a relay.
REPORTS_MAX: Final = 100

# Feature of a client that applies subject cutoffs (TOKEN-11).
SUBJECT_CUTOFFS: Final = "subject-cutoffs"

# How long a registration is valid without a heartbeat, and how long it is then kept.
UNSEEN: Final = timedelta(days=30)
REMEMBERED: Final = timedelta(days=400)
# A heartbeat without news is stored only this long after the last one. This is slightly shorter
# than the shortest pause between heartbeats, because no client is exact to the second.
STORED_EVERY: Final = timedelta(seconds=270)

# How long the service reports which registrations were changed or removed (FLEET-29).
CHANGES_KEPT: Final = timedelta(hours=1)
_SECOND_DIGITS: Final = 12

# Seconds between two polls of the feed, above a number of polling authorizers. 10,000 authorizers
# then stay below a tenant's 1,000 polls per second (AUTH-11).
_POLL_SECONDS: Final = ((6_000, 15), (1_000, 10), (200, 5))

_REPORT_AFTER_MIN: Final = 300
# A client may take a quarter longer, and storing its heartbeat takes some time.
_LATE: Final = 1.25
_STORED_WITHIN: Final = 30
_IDLE_PER_SECOND: Final = 50
_NEWS_PER_SECOND: Final = 200

# Maximum number of reasons in a heartbeat (FLEET-3).
REASONS_MAX: Final = 20
_REASON: Final = re.compile("[a-z_]{1,16}")

# A stock authorizer refuses all warrants this many seconds after the last received list.
STALE_AFTER_SECONDS: Final = 300


class SignedStatement(NamedTuple):
    """A registration or report as received: the payload and its signature, both in base64."""

    payload: str
    signature: str


class RefusedReport(StrEnum):
    """Why a report was rejected: the first failed check (TRUST-10).

    `unsigned`: the registration has a key, but the report no signature. `key_unverified`: the
    report has a signature, but the registration no key.
    """

    UNSIGNED = "unsigned"
    KEY_UNVERIFIED = "key_unverified"
    TOO_LARGE = "too_large"
    SIGNATURE = "signature"
    MALFORMED = "malformed"
    TENANT = "tenant"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class AuthorizerDescription:
    """Description of an authorizer in its registration.

    `public_key` is 64 hexadecimal digits, or empty. If `key_verified`, the authorizer has proved
    possession of the private key. `relay` names the relay that reports for it, or is empty if the
    authorizer reports directly. `features` are the supported features (FLEET-2).
    """

    name: str
    type: str = ""
    program_version: str = ""
    public_key: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    relay: str = ""
    key_verified: bool = False
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The reported state of an authorizer.

    `sequence` is the last applied feed entry, or None. `chain` is its chain hash in hex, or empty
    if it is not reported. `verified_at` is when the service last confirmed the state. `refused`
    counts rejected responses by reason. `seen_at` is when a relay received the report, or None for
    now. `number` is the number of a verified signed report, and `trust` its version of the trust
    document. Both are 0 for other reports.
    """

    sequence: int | None
    chain: str = ""
    verified_at: datetime | None = None
    max_staleness_seconds: int | None = None
    fail_open: bool = False
    refused: Mapping[str, int] = field(default_factory=dict)
    seen_at: datetime | None = None
    signed: SignedStatement | None = None
    number: int = 0
    trust: int = 0

    def heard_at(self, now: datetime) -> datetime:
        """Return the time of the report: the relay's time, but at most `now`.

        The number of a signed report is also a time, and limits the result. A late replay of
        reports therefore cannot make an authorizer appear to run.
        """
        heard = min(self.seen_at or now, now)
        try:
            signed = times.from_seconds(self.number // 1000) if self.number else now
        except (OverflowError, ValueError, OSError):
            return heard
        return min(heard, signed)


def are_reasons(words: Iterable[str]) -> bool:
    """Return whether a heartbeat may count rejected responses by these reasons (FLEET-3)."""
    found = list(words)
    return len(found) <= REASONS_MAX and all(map(_REASON.fullmatch, found))


@dataclass(frozen=True, slots=True)
class Authorizer(Record):
    """The registration of an authorizer, with its last stored heartbeat.

    `owner` is the identity of the caller that registered it. `key_id` is the API key, or empty if a
    session registered it. `last_seen_at` is the time of the last stored heartbeat, or of the
    registration. The fields from `sequence` to `refused` are copied from `Heartbeat`, but `chain`
    is 32 bytes or empty. `sequence` is None before the first heartbeat. `equivocation` is true if
    it reported a chain hash that differs from this service's at `sequence`.

    `public_key` is an unproven key. `verified_key` (32 bytes, or empty) replaces it after a proof
    of possession. Only signed reports are then accepted. `number` is the number of the last signed
    report, and `trust` its version of the trust document (TRUST-10). `stored` is the time of the
    write, in seconds since 1970. `advances` contains the first report of each entry
    (`functions.authorizers.advances`). `features` are the supported features.

    Records are small, because a proof of propagation reads all registrations.
    """

    id: str
    name: str
    owner: str
    registered_at: datetime
    last_seen_at: datetime
    stored: int
    type: str = field(default="", metadata=SPARSE)
    program_version: str = field(default="", metadata=SPARSE)
    public_key: str = field(default="", metadata=SPARSE)
    metadata: dict[str, str] = field(default_factory=dict, metadata=SPARSE)
    relay: str = field(default="", metadata=SPARSE)
    sequence: int | None = None
    chain: bytes = field(default=b"", metadata=SPARSE)
    verified_at: datetime | None = None
    max_staleness_seconds: int | None = None
    fail_open: bool = field(default=False, metadata=SPARSE)
    refused: dict[str, int] = field(default_factory=dict, metadata=SPARSE)
    equivocation: bool = field(default=False, metadata=SPARSE)
    version: int = 1
    key_id: str = field(default="", metadata=SPARSE)
    verified_key: bytes = field(default=b"", metadata=SPARSE)
    number: int = field(default=0, metadata=SPARSE)
    trust: int = field(default=0, metadata=SPARSE)
    advances: bytes = field(default=b"", metadata=SPARSE)
    features: tuple[str, ...] = field(default=(), metadata=SPARSE)

    @classmethod
    def new(
        cls,
        authorizer_id: str,
        description: AuthorizerDescription,
        *,
        owner: str,
        now: datetime,
        key_id: str = "",
    ) -> "Authorizer":
        """Return the registration of an authorizer that has not reported yet."""
        return cls(
            authorizer_id,
            description.name,
            owner,
            registered_at=now,
            last_seen_at=now,
            type=description.type,
            program_version=description.program_version,
            metadata=dict(description.metadata),
            relay=description.relay,
            features=description.features,
            key_id=key_id,
            stored=int(now.timestamp()),
            **_key(description),
        )

    @property
    def key_verified(self) -> bool:
        """Whether it has a proven key, so only signed reports are accepted."""
        return bool(self.verified_key)

    @property
    def supports_cutoffs(self) -> bool:
        """Whether it supports subject cutoffs, which revoke all tokens of a subject (TOKEN-11)."""
        return SUBJECT_CUTOFFS in self.features

    @property
    def any_key(self) -> str:
        """The proven or unproven key in hexadecimal, or an empty string."""
        return self.verified_key.hex() or self.public_key

    @property
    def srl_version(self) -> int:
        """The version of its native list; 0 without a list."""
        return native_version(self.sequence)

    @property
    def expires_at(self) -> datetime:
        """The expiry of the registration without further heartbeats."""
        return self.last_seen_at + UNSEEN

    @property
    def polls(self) -> bool:
        """Whether it polls the service directly instead of a relay."""
        return not self.relay

    def is_expired(self, now: datetime) -> bool:
        """Return whether the registration has expired and is ignored."""
        return self.expires_at <= now

    def is_forgotten(self, now: datetime) -> bool:
        """Return whether the registration expired too long ago to be renewed by a heartbeat."""
        return self.expires_at + REMEMBERED <= now

    def is_of(self, owner: str) -> bool:
        """Return whether `owner` registered it: an identity, or an API key identifier."""
        return owner in (self.owner, self.key_id)

    def is_named_by(self, description: AuthorizerDescription) -> bool:
        """Return whether an authorizer with this description may use the registration's name.

        A name with a proven key belongs to this key until the registration expires (FLEET-27).
        """
        has_key = description.key_verified and description.public_key == self.any_key
        return has_key or not self.key_verified

    def described_as(self, description: AuthorizerDescription, now: datetime) -> "Authorizer":
        """Return the registration after a new registration with this description.

        Reports of another key, or without a key, are dropped if the key changes.
        """
        key = (description.public_key, description.key_verified)
        previous = self
        if key != (self.any_key, self.key_verified):
            at = self.registered_at, self.last_seen_at, self.stored
            previous = Authorizer(self.id, self.name, self.owner, *at, key_id=self.key_id)
        return replace(
            previous,
            type=description.type,
            program_version=description.program_version,
            **_key(description),
            metadata=dict(description.metadata),
            relay=description.relay,
            features=description.features,
            last_seen_at=max(now, self.last_seen_at),
            version=self.version + 1,
            stored=int(now.timestamp()),
        )

    def with_heartbeat(
        self, beat: Heartbeat, now: datetime, *, relay: str, equivocation: bool
    ) -> "Authorizer":
        """Return the registration after a heartbeat.

        Future times in the heartbeat are replaced by `now`.
        """
        return replace(
            self,
            relay=relay,
            number=beat.number or self.number,
            trust=beat.trust,
            last_seen_at=max(self.last_seen_at, beat.heard_at(now)),
            sequence=beat.sequence,
            chain=bytes.fromhex(beat.chain),
            verified_at=None if beat.verified_at is None else min(beat.verified_at, now),
            max_staleness_seconds=beat.max_staleness_seconds,
            fail_open=beat.fail_open,
            refused=dict(beat.refused),
            equivocation=equivocation,
            version=self.version + 1,
            stored=int(now.timestamp()),
            advances=b""
            if equivocation
            else record_advance(self.advances, beat.sequence, now, previous=self.sequence),
        )

    def says_more_than(self, previous: "Authorizer") -> bool:
        """Return whether this registration must be stored in place of `previous` (FLEET-4)."""
        # These fields change with each heartbeat, and are not news.
        same = self == replace(
            previous,
            last_seen_at=self.last_seen_at,
            verified_at=self.verified_at,
            refused=self.refused,
            number=self.number,
            trust=self.trust,
            version=self.version,
            stored=self.stored,
            advances=self.advances,
        )
        return not same or self.last_seen_at - previous.last_seen_at >= STORED_EVERY


@dataclass(frozen=True, slots=True)
class RegistrationCounts(Record):
    """The numbers of registered authorizers and of polling authorizers of a tenant.

    Expired registrations count until they are removed. After a lost write, the numbers may be wrong
    or negative until the next count. `counted_at` is the time of the last full count of
    registrations, or None.
    """

    count: int = 0
    polling: int = 0
    counted_at: datetime | None = None
    version: int = 0

    @property
    def room(self) -> int:
        """How many more authorizers the tenant may register."""
        return max(0, REGISTERED_MAX - self.count)

    @property
    def poll_seconds(self) -> int:
        """The pause of each authorizer between two polls of the feed, in seconds (FLEET-8)."""
        longer = (seconds for above, seconds in _POLL_SECONDS if self.polling > above)
        return next(longer, POLL_SECONDS_MIN)

    @property
    def report_after_seconds(self) -> int:
        """Seconds after a heartbeat when the next one is due without news."""
        return max(_REPORT_AFTER_MIN, -(-self.count // _IDLE_PER_SECOND))

    @property
    def silent_after(self) -> timedelta:
        """The time after a heartbeat when the authorizer is silent."""
        return timedelta(seconds=self.report_after_seconds * _LATE + _STORED_WITHIN)

    @property
    def jitter_seconds(self) -> int:
        """The period in seconds for the heartbeats of all authorizers after an advance."""
        return max(0, self.count // _NEWS_PER_SECOND)


@dataclass(frozen=True, slots=True)
class OwnerRegistrationCount(Record):
    """The number of registered authorizers of an owner (FLEET-3).

    After a lost write, the number may be wrong until the next count.
    """

    count: int = 0
    version: int = 0


def native_version(sequence: int | None) -> int:
    """Return the version of the native list that covers the feed up to `sequence`; 0 for None."""
    return 0 if sequence is None else sequence + 1


def authorizers(tenant_id: str) -> Partition:
    """Return the partition of a tenant's authorizers, in order of registration."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#authorizers")


def ended_partition(tenant_id: str) -> Partition:
    """Return the partition of expired registrations that are still kept."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#ended-authorizers")


def removed_partition(tenant_id: str) -> Partition:
    """Return the partition of removed and expired registrations, by time."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#removed-authorizers")


def removed_sk(moment: datetime, authorizer_id: str = "") -> str:
    """Return the sort key of a removed or expired registration."""
    return f"{int(moment.timestamp()):0{_SECOND_DIGITS}d}#{authorizer_id}"


def stale(tenant_id: str) -> Partition:
    """Return the partition of authorizers that were announced as stale, by identifier."""
    return Partition(Table.KEYS, f"{tenant_id}#stale-authorizers")


def registered_address(tenant_id: str) -> Address:
    """Return the address of the numbers of registered authorizers."""
    return Address(Table.REVOCATIONS, f"{tenant_id}#registered-authorizers")


def of_owners(tenant_id: str) -> Partition:
    """Return the partition of the number of authorizers per owner, by identity."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#authorizers-of-owners")


def name_address(tenant_id: str, *, owner: str, name: str, public_key: str) -> Address:
    """Return the address of the item with the identifier of an owner's authorizer."""
    bound = json.dumps([owner, name, public_key])
    digest = hashlib.sha256(bound.encode()).hexdigest()
    return Address(Table.REVOCATIONS, f"{tenant_id}#authorizer-names", digest)


def _key(description: AuthorizerDescription) -> dict[str, Any]:
    """Return the key fields for a description."""
    if description.key_verified:
        return {"public_key": "", "verified_key": bytes.fromhex(description.public_key)}
    return {"public_key": description.public_key, "verified_key": b""}
