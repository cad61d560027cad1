"""Audit log: actor, action, resource and source address of every change (AUDIT-1)."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from shared.model.identifiers import AUDIT_ENTRY, before_all_of, is_identifier
from shared.model.items import Address, Item, Partition, Table, Value
from shared.model.records import Record

# Partitions per month. Each accepts 1,000 write units per second (docs/adr/02).
SHARDS: Final = 8
_MONTH: Final = re.compile(r"([^#]+)#\d{4}-\d{2}(?:#\d)?", re.ASCII)


_PARTITION: Final = "audit-of"
_KIND: Final = f"svc_{AUDIT_ENTRY}_"


class AuditAction(StrEnum):
    """The action of an audit entry. Each change writes an entry."""

    API_KEY_CREATE = "api_key.create"
    API_KEY_ROTATE = "api_key.rotate"
    API_KEY_REVOKE = "api_key.revoke"
    API_KEY_DELETE = "api_key.delete"
    API_KEY_EXPIRING = "api_key.expiring"
    API_KEY_LEAKED = "api_key.leaked"
    KEY_CREATE = "key.create"
    KEY_ROTATE = "key.rotate"
    KEY_REVOKE = "key.revoke"
    KEY_SUSPEND = "key.suspend"
    KEY_ENABLE = "key.enable"
    KEY_SIGN = "key.sign"
    KEY_EXPIRING = "key.expiring"
    REVOCATION_CREATE = "revocation.create"
    REVOCATION_DELETE = "revocation.delete"
    REVOCATION_EXTEND = "revocation.extend"
    REVOCATION_CREATE_BATCH = "revocation.create_batch"
    REVOCATION_DELETE_BATCH = "revocation.delete_batch"
    REVOCATION_EXTEND_BATCH = "revocation.extend_batch"
    REVOCATION_BATCH = "revocation.batch"
    REVOCATION_REPAIR = "revocation.repair"
    SRL_REGENERATE = "srl.regenerate"
    SRL_ROTATE_KEY = "srl.rotate_key"
    SRL_CREATE_KEY = "srl.create_key"
    SRL_ACTIVATE_KEY = "srl.activate_key"
    SRL_REVOKE_KEY = "srl.revoke_key"
    NATIVE_SIGNER_CREATE = "native_signer.create"
    STATUS_LIST_CREATE = "status_list.create"
    STATUS_LIST_ALLOCATE = "status_list.allocate"
    STATUS_LIST_ROTATE_KEY = "status_list.rotate_key"
    SERVICE_ACCOUNT_CREATE = "service_account.create"
    SERVICE_ACCOUNT_DISABLE = "service_account.disable"
    SERVICE_ACCOUNT_ENABLE = "service_account.enable"
    SERVICE_ACCOUNT_DELETE = "service_account.delete"
    AUTHORIZER_REGISTER = "authorizer.register"
    AUTHORIZER_REMOVE = "authorizer.remove"
    AUTHORIZER_REMOVE_BATCH = "authorizer.remove_batch"
    AUTHORIZER_STALE = "authorizer.stale"
    AUDIT_LOG_ROTATE_KEY = "audit_log.rotate_key"
    AUDIT_LOG_START_GENERATION = "audit_log.start_generation"
    AUDIT_LOG_STATEMENT = "audit_log.statement"
    TRUST_PUBLISH = "trust.publish"
    TRUST_REPLACE_ROOT = "trust.replace_root"
    TENANT_CREATE = "tenant.create"
    TENANT_UPDATE_SETTINGS = "tenant.update_settings"
    RECOVERY_COMPLETE_REVIEW = "recovery.complete_review"
    TENANT_RENAME = "tenant.rename"
    TENANT_DELETE = "tenant.delete"
    TENANT_CANCEL_DELETE = "tenant.cancel_delete"
    WEBHOOK_CREATE = "webhook.create"
    WEBHOOK_UPDATE = "webhook.update"
    WEBHOOK_ROTATE = "webhook.rotate_secret"
    WEBHOOK_ENABLE = "webhook.enable"
    WEBHOOK_DISABLE = "webhook.disable"
    WEBHOOK_REPLAY = "webhook.replay"
    WEBHOOK_TEST = "webhook.test"
    WEBHOOK_DELETE = "webhook.delete"
    IDENTITY_PROVIDER_CREATE = "identity_provider.create"
    IDENTITY_PROVIDER_UPDATE = "identity_provider.update"
    IDENTITY_PROVIDER_DELETE = "identity_provider.delete"
    PERSON_DISABLE = "person.disable"
    PERSON_ENABLE = "person.enable"
    PERSON_SIGN_OUT = "person.sign_out"
    SESSION_CREATE = "session.create"
    SESSION_DELETE = "session.delete"
    ROLE_PUT = "role.put"
    ROLE_DELETE = "role.delete"
    APPROVAL_REQUEST = "approval.request"
    APPROVAL_APPROVE = "approval.approve"
    APPROVAL_REJECT = "approval.reject"
    APPROVAL_CONSUME = "approval.consume"
    APPROVAL_OVERRIDE = "approval.override"
    TENANT_UPDATE_PROTECTED_ACTIONS = "tenant.update_protected_actions"


@dataclass(frozen=True, slots=True)
class AuditEntry(Record):
    """One change, written in the same transaction as the change itself (AUDIT-2).

    `source_ip`, `request_id` and `actor_key_id` are None if the change did not arrive over HTTP.
    `actor_name` is the name of this key or the person at that time, and `actor_id` the identifier
    of the person. The store deletes the entry some time after `expires`, in seconds since the
    epoch.
    """

    id: str
    timestamp: datetime
    actor: str
    action: AuditAction
    resource_id: str
    result: str
    source_ip: str | None
    request_id: str | None
    details: dict[str, Value]
    expires: int
    actor_key_id: str | None = None
    actor_name: str | None = None
    actor_id: str | None = None


@dataclass(frozen=True, slots=True)
class EntryFilters:
    """The entries to return, which match all values other than None (AUDIT-4).

    `start` and `end` are whole seconds, and both are inclusive. The index finds the entries about
    `warrant_id`, because one entry may name several warrants. An entry must also contain each of
    the `words`, in lower case, somewhere in its values.
    """

    start: datetime
    end: datetime
    action: AuditAction | None = None
    actor: str | None = None
    resource_id: str | None = None
    actor_key_id: str | None = None
    warrant_id: str | None = None
    batch_id: str | None = None
    summary_id: str | None = None
    actor_id: str | None = None
    words: tuple[str, ...] = ()

    def finds(self, entry: AuditEntry) -> bool:
        """Return whether an entry contains all the words."""
        text = json.dumps(entry.to_item(), ensure_ascii=False, default=str).casefold()
        return all(word in text for word in self.words)

    @property
    def values(self) -> dict[str, str]:
        """The required values of an entry by attribute path, except the warrant."""
        values = {
            "action": self.action,
            "actor": self.actor,
            "actor_key_id": self.actor_key_id,
            "actor_id": self.actor_id,
            "resource_id": self.resource_id,
            "details.batch_id": self.batch_id,
            "details.summary_id": self.summary_id,
        }
        return {path: str(value) for path, value in values.items() if value is not None}

    @property
    def lower_bound(self) -> str:
        """A text that sorts before the identifiers of all entries in the time range."""
        return before_all_of(self.start, kind=AUDIT_ENTRY)

    @property
    def upper_bound(self) -> str:
        """A text that sorts after the identifiers of all entries in the time range."""
        return before_all_of(self.end + timedelta(seconds=1), kind=AUDIT_ENTRY)


def address(tenant_id: str, entry_id: str, moment: datetime) -> Address:
    """Return the address of an entry that was created at `moment`."""
    number = hashlib.sha256(entry_id.encode()).digest()[0] % SHARDS
    return month(tenant_id, moment)[number].address(entry_id)


def month(tenant_id: str, moment: datetime) -> list[Partition]:
    """Return the partitions of the month of `moment`, each with its entries in order of time."""
    name = f"{tenant_id}#{moment:%Y-%m}"
    names = [name, *(f"{name}#{number}" for number in range(1, SHARDS))]
    return [Partition(Table.AUDIT, each) for each in names]


def entry_of(pk: str, sk: str) -> tuple[str, str] | None:
    """Return the tenant and identifier of the entry at these keys, or None for other items."""
    found = _MONTH.fullmatch(pk)
    if found is None or not is_identifier(sk, kind=AUDIT_ENTRY):
        return None
    return found[1], sk


def months(tenant_id: str, filters: EntryFilters) -> Iterator[tuple[str, list[Partition]]]:
    """Yield the months in the filters' range, newest first, as `YYYY-MM` with their partitions."""
    moment = filters.end
    while (moment.year, moment.month) >= (filters.start.year, filters.start.month):
        yield f"{moment:%Y-%m}", month(tenant_id, moment)
        moment = moment.replace(day=1) - timedelta(days=1)


def entries_of(tenant_id: str, warrant_id: str) -> Partition:
    """Return the partition of the index entries for a warrant."""
    return Partition(Table.AUDIT, f"{tenant_id}#{_PARTITION}#{warrant_id}")


def index_items(tenant_id: str, entry: Item) -> Iterator[tuple[Address, Item]]:
    """Yield the index items of a stored entry. They expire with it."""
    for warrant_id in warrants_of(entry):
        place = entries_of(tenant_id, warrant_id).address(sort_key(str(entry["id"])))
        yield place, {"expires": entry["expires"]}


def sort_key(entry_id: str) -> str:
    """Return the sort key for an entry, or for a bound of identifiers: the ULID alone.

    A full identifier would look like a new entry to the stream that starts the appending.
    """
    return entry_id.removeprefix(_KIND)


def entry_id(sort_key: str) -> str:
    """Return the identifier of the entry with this sort key."""
    return f"{_KIND}{sort_key}"


def warrants_of(entry: Item) -> list[str]:
    """Return the distinct warrants that an entry names: one, or all warrants of a batch."""
    details = entry.get("details")
    if not isinstance(details, dict):
        return []
    batch = details.get("revocations")
    named = [details, *(batch if isinstance(batch, list) else [])]
    found = (each.get("warrant_id") for each in named if isinstance(each, dict))
    return list(dict.fromkeys(each for each in found if isinstance(each, str)))
