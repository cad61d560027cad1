"""Webhooks: URLs of a tenant that receive an event for each change (HOOK-1)."""

import base64
import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from shared.model import seeds
from shared.model.audit.audit_log import AuditAction, AuditEntry
from shared.model.items import Address, Partition, Table
from shared.model.records import SPARSE, Record
from shared.model.seeds import KeyPurpose

# Maximum number of webhooks of a tenant (HOOK-2).
WEBHOOKS_MAX: Final = 10
# How long two secrets sign after a rotation (HOOK-5).
GRACE_DEFAULT: Final = timedelta(days=1)
GRACE_MAX: Final = timedelta(days=7)
# Maximum number of deferred events. At this number, no new events are sent (HOOK-9).
DEFERRED_MAX: Final = 100
# Duration of a worker's lease of a webhook.
LEASE: Final = timedelta(seconds=90)

# Matches all types of events.
ALL: Final = "*"
TEST: Final = "rescind.test"
# Events with another name than their audit action.
_NAMED: Final = {AuditAction.SRL_REGENERATE: "srl.published", AuditAction.WEBHOOK_TEST: TEST}
TYPES: Final = tuple(
    _NAMED.get(each, each.value) for each in AuditAction if each is not AuditAction.WEBHOOK_TEST
)

_SECRET_BYTES: Final = 32


class WebhookStatus(StrEnum):
    """Whether events are sent."""

    ENABLED = "enabled"
    DISABLED = "disabled"


class DisableReason(StrEnum):
    """Why a webhook is disabled.

    `gone`: it responded 410. `failing`: it accepted no event for a day.
    """

    REQUESTED = "requested"
    GONE = "gone"
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class Webhook(Record):
    """A webhook, with its secrets and its progress.

    `events` has the types of events to send, or `ALL`. `sealed_secret` is the wrapped secret number
    `secret_number`. Until `former_until`, the previous secret `former_secret` signs too. All events
    with an index below `next_index` were accepted, are deferred events in `deferred` by index, or
    do not match. Changes before `begins_at` are not sent. `failing_since` is the first failure
    after the last accepted event, and `attempts` counts the failures since. Sending pauses until
    `next_attempt_at`. The worker `leased_by` has the lease of the webhook until `leased_until`.
    `next_index` is an index in `generation` of the transparency log. `passed_at` is the time of the
    newest change below it.
    """

    id: str
    tenant_id: str
    url: str
    description: str | None
    events: tuple[str, ...]
    status: WebhookStatus
    created_at: datetime
    begins_at: datetime
    sealed_secret: bytes = field(repr=False)
    next_index: int = 0
    generation: int = 1
    passed_at: datetime | None = None
    secret_number: int = 1
    former_secret: bytes | None = field(default=None, repr=False)
    former_until: datetime | None = None
    disabled_reason: DisableReason | None = None
    failing_since: datetime | None = None
    attempts: int = 0
    next_attempt_at: datetime | None = None
    deferred: dict[str, list[int]] = field(default_factory=dict, metadata=SPARSE)
    leased_by: str | None = None
    leased_until: datetime | None = None
    version: int = 1

    @property
    def address(self) -> Address:
        """The address of the webhook."""
        return webhooks(self.tenant_id).address(self.id)

    @property
    def host(self) -> str:
        """The name of the host that receives the events."""
        return urlsplit(self.url).hostname or ""

    def redact_url(self) -> "Webhook":
        """Return the webhook with only the host in its URL, because the rest is often secret."""
        return replace(self, url=f"https://{self.host}/***")

    @property
    def is_enabled(self) -> bool:
        """Whether events are sent."""
        return self.status is WebhookStatus.ENABLED

    @property
    def deferred_events(self) -> int:
        """The number of deferred events."""
        return len(self.deferred)

    def wants(self, entry: AuditEntry) -> bool:
        """Return whether an audit entry is sent."""
        if entry.timestamp < self.begins_at:
            return False
        if entry.action is AuditAction.WEBHOOK_TEST:
            return entry.resource_id == self.id
        return ALL in self.events or type_of(entry.action) in self.events

    def is_leased(self, now: datetime) -> bool:
        """Return whether a worker has a lease of it."""
        return self.leased_until is not None and now < self.leased_until

    def seal_contexts(self, now: datetime) -> list[tuple[bytes, dict[str, str]]]:
        """Return the wrapped secrets that sign at `now`, with their contexts, newest first."""
        seals = [(self.sealed_secret, self.secret_number)]
        if self.former_secret is not None and self.former_until and now < self.former_until:
            seals.append((self.former_secret, self.secret_number - 1))
        return [(sealed, seal_context(self.tenant_id, self.id, number)) for sealed, number in seals]

    def update(
        self,
        *,
        url: str | None = None,
        description: str | None = None,
        events: tuple[str, ...] | None = None,
    ) -> "Webhook":
        """Return the webhook with new values. None keeps a value."""
        return replace(
            self,
            url=url or self.url,
            description=description or self.description,
            events=events or self.events,
        )

    def rotate_secret(self, ciphertext: bytes, *, until: datetime | None) -> "Webhook":
        """Return the webhook with a new secret. The current secret also signs until `until`."""
        return replace(
            self,
            sealed_secret=ciphertext,
            secret_number=self.secret_number + 1,
            former_secret=self.sealed_secret if until else None,
            former_until=until,
        )

    def enable(self) -> "Webhook":
        """Return the enabled webhook without failures. It continues at its index."""
        return replace(
            self.at_once(), status=WebhookStatus.ENABLED, disabled_reason=None, failing_since=None
        )

    def disable(self, cause: DisableReason) -> "Webhook":
        """Return the disabled webhook. Unsent events are kept until it is enabled."""
        return replace(self, status=WebhookStatus.DISABLED, disabled_reason=cause)

    def at_once(self) -> "Webhook":
        """Return the webhook without the pause after a failure."""
        return replace(self, next_attempt_at=None, attempts=0)

    def lease(self, worker: str, now: datetime) -> "Webhook":
        """Return the webhook with a lease of this worker."""
        return replace(self, leased_by=worker, leased_until=now + LEASE)

    def release(self) -> "Webhook":
        """Return the webhook without a lease."""
        return replace(self, leased_by=None, leased_until=None)

    def in_generation(self, generation: int) -> "Webhook":
        """Return the webhook for a generation of the transparency log.

        A restore of the log starts a new generation with other indexes. The webhook then receives
        again all changes from the day before its newest sent change.
        """
        if generation == self.generation:
            return self
        since = (self.passed_at or self.begins_at) - timedelta(days=1)
        return replace(
            self,
            generation=generation,
            next_index=0,
            begins_at=max(self.begins_at, since),
            deferred={},
        )

    def rewind(self, index: int) -> "Webhook":
        """Return the webhook, rewound to `index`. All later events are sent regardless of age."""
        begins_at = min(
            self.begins_at, datetime.min.replace(year=1970, tzinfo=self.begins_at.tzinfo)
        )
        return replace(self.at_once(), next_index=index, begins_at=begins_at, deferred={})


@dataclass(frozen=True, slots=True)
class DispatchMarker(Record):
    """Schedules a worker to process a webhook at `due_at`."""

    tenant_id: str
    webhook_id: str
    due_at: datetime

    @property
    def address(self) -> Address:
        """The address of the marker."""
        return TURNS.address(turn_name(self.tenant_id, self.webhook_id))


# The markers of all webhooks of all tenants.
TURNS: Final = Partition(Table.KEYS, "webhook-turns")


def turn_name(tenant_id: str, webhook_id: str) -> str:
    """Return the name of a webhook among all tenants' webhooks."""
    return f"{tenant_id}#{webhook_id}"


def type_of(action: AuditAction) -> str:
    """Return the type of the event for an audit action."""
    return _NAMED.get(action, action.value)


def new_secret() -> str:
    """Return a new secret: 256 random bits in the form of the Standard Webhooks specification."""
    random = secrets.token_bytes(_SECRET_BYTES)
    return f"whsec_{base64.b64encode(random).decode()}"


def seal_context(tenant_id: str, webhook_id: str, number: int) -> dict[str, str]:
    """Return the context of the wrapped secret with this number."""
    return seeds.seal_context(tenant_id, webhook_id, purpose=KeyPurpose.WEBHOOK, version=number)


def webhooks(tenant_id: str) -> Partition:
    """Return the partition of a tenant's webhooks, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#webhooks")


def count_address(tenant_id: str) -> Address:
    """Return the address of the number of a tenant's webhooks, in the attribute `count`."""
    return Address(Table.KEYS, tenant_id, "counts#webhooks")
