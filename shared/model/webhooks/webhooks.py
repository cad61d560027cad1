"""Webhooks: addresses of a tenant's programs that are told of each change (HOOK-1)."""

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

# The most webhooks that a tenant may have (HOOK-2).
WEBHOOKS_MAX: Final = 10
# How long two secrets sign after a rotation (HOOK-5).
GRACE_DEFAULT: Final = timedelta(days=1)
GRACE_MAX: Final = timedelta(days=7)
# The most events that are set aside while others go on (HOOK-9).
ASIDE_MAX: Final = 100
# How long one worker has a webhook to itself.
LEASE: Final = timedelta(seconds=90)

# Stands for all types of events.
ALL: Final = "*"
TEST: Final = "rescind.test"
# Events that have another name than the action in the audit log.
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

    `gone`: it answered 410. `failing`: it accepted nothing for a day.
    """

    REQUESTED = "requested"
    GONE = "gone"
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class Webhook(Record):
    """A webhook, with its secrets and how far its events were sent.

    `events` has the types of events that are sent, or `ALL`. `sealed_secret` is the secret number
    `secret_number`; until `former_until` the one before it, `former_secret`, signs too. All events
    with an index below `next_index` were accepted, or are in `aside` by index, or need not be
    sent; changes before `begins_at` need not. `failing_since` is the first failure after which
    nothing was accepted, and `attempts` counts those failures; nothing is sent before
    `waits_until`. A worker with the name `leased_by` has the webhook until `leased_until`.
    `next_index` counts in `generation` of the sealed log; `passed_at` is when the newest change was
    made that is below it.
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
    disabled_because: DisableReason | None = None
    failing_since: datetime | None = None
    attempts: int = 0
    waits_until: datetime | None = None
    aside: dict[str, list[int]] = field(default_factory=dict, metadata=SPARSE)
    leased_by: str | None = None
    leased_until: datetime | None = None
    version: int = 1

    @property
    def address(self) -> Address:
        """Where the webhook is stored."""
        return webhooks(self.tenant_id).address(self.id)

    @property
    def host(self) -> str:
        """The name of the host that events are sent to."""
        return urlsplit(self.url).hostname or ""

    def redact_url(self) -> "Webhook":
        """Return the webhook with the host alone in its address, whose rest is often a secret."""
        return replace(self, url=f"https://{self.host}/***")

    @property
    def is_enabled(self) -> bool:
        """Whether events are sent."""
        return self.status is WebhookStatus.ENABLED

    @property
    def set_aside(self) -> int:
        """How many events are set aside."""
        return len(self.aside)

    def wants(self, entry: AuditEntry) -> bool:
        """Return whether an entry of the audit log is sent."""
        if entry.timestamp < self.begins_at:
            return False
        if entry.action is AuditAction.WEBHOOK_TEST:
            return entry.resource_id == self.id
        return ALL in self.events or type_of(entry.action) in self.events

    def is_leased(self, now: datetime) -> bool:
        """Return whether a worker has it to itself."""
        return self.leased_until is not None and now < self.leased_until

    def seal_contexts(self, now: datetime) -> list[tuple[bytes, dict[str, str]]]:
        """Return the seals of the secrets that sign at `now`, with their contexts, newest first."""
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
        """Return the webhook with new values; None leaves a value as it is."""
        return replace(
            self,
            url=url or self.url,
            description=description or self.description,
            events=events or self.events,
        )

    def rotate_secret(self, ciphertext: bytes, *, until: datetime | None) -> "Webhook":
        """Return the webhook with a new secret; the present one signs too, up to `until`."""
        return replace(
            self,
            sealed_secret=ciphertext,
            secret_number=self.secret_number + 1,
            former_secret=self.sealed_secret if until else None,
            former_until=until,
        )

    def enable(self) -> "Webhook":
        """Return the webhook enabled, as if it had not failed; it goes on where it was."""
        return replace(
            self.at_once(), status=WebhookStatus.ENABLED, disabled_because=None, failing_since=None
        )

    def disable(self, cause: DisableReason) -> "Webhook":
        """Return the webhook disabled. Unsent events are kept until it is enabled."""
        return replace(self, status=WebhookStatus.DISABLED, disabled_because=cause)

    def at_once(self) -> "Webhook":
        """Return the webhook without the wait after a failure."""
        return replace(self, waits_until=None, attempts=0)

    def lease(self, worker: str, now: datetime) -> "Webhook":
        """Return the webhook as one worker's own."""
        return replace(self, leased_by=worker, leased_until=now + LEASE)

    def release(self) -> "Webhook":
        """Return the webhook as no worker's own."""
        return replace(self, leased_by=None, leased_until=None)

    def in_generation(self, generation: int) -> "Webhook":
        """Return the webhook so that it goes on in a generation of the sealed log.

        A new generation begins when the log was restored. It has other indexes, so the webhook is
        sent again what was done less than a day before the newest change that it was sent.
        """
        if generation == self.generation:
            return self
        since = (self.passed_at or self.begins_at) - timedelta(days=1)
        return replace(
            self,
            generation=generation,
            next_index=0,
            begins_at=max(self.begins_at, since),
            aside={},
        )

    def rewind(self, index: int) -> "Webhook":
        """Return the webhook so that it is sent all events from `index` on, whatever their age."""
        begins_at = min(
            self.begins_at, datetime.min.replace(year=1970, tzinfo=self.begins_at.tzinfo)
        )
        return replace(self.at_once(), next_index=index, begins_at=begins_at, aside={})


@dataclass(frozen=True, slots=True)
class DispatchMarker(Record):
    """The note that a worker must look at a webhook, once `due_at` has come."""

    tenant_id: str
    webhook_id: str
    due_at: datetime

    @property
    def address(self) -> Address:
        """Where the turn is stored."""
        return TURNS.address(turn_name(self.tenant_id, self.webhook_id))


# The turns of all webhooks of all tenants.
TURNS: Final = Partition(Table.KEYS, "webhook-turns")


def turn_name(tenant_id: str, webhook_id: str) -> str:
    """Return the name of a webhook among all tenants' webhooks."""
    return f"{tenant_id}#{webhook_id}"


def type_of(action: AuditAction) -> str:
    """Return the type of the event for an entry of the audit log."""
    return _NAMED.get(action, action.value)


def new_secret() -> str:
    """Return a new secret: 256 random bits in the form of the Standard Webhooks specification."""
    random = secrets.token_bytes(_SECRET_BYTES)
    return f"whsec_{base64.b64encode(random).decode()}"


def seal_context(tenant_id: str, webhook_id: str, number: int) -> dict[str, str]:
    """Return the context in which the secret of this number is sealed."""
    return seeds.seal_context(tenant_id, webhook_id, purpose=KeyPurpose.WEBHOOK, version=number)


def webhooks(tenant_id: str) -> Partition:
    """Return the partition of a tenant's webhooks, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#webhooks")


def count_address(tenant_id: str) -> Address:
    """Return the address of the number of a tenant's webhooks, in the attribute `count`."""
    return Address(Table.KEYS, tenant_id, "counts#webhooks")
