"""Webhooks: create, list, change, rotate the secret, switch, test, replay, delete (HOOK-1)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from functions.transparency_log import log
from functions.webhooks import deliveries
from functions.webhooks import dispatch as rules
from functions.webhooks import records as model
from functions.webhooks.deliveries import Delivery
from functions.webhooks.records import DisableReason, Webhook, WebhookStatus
from shared.errors import Conflict, InvalidRequest, InvalidState
from shared.model import api_keys, revocation_batches, revocations, signing_keys, times
from shared.model.api_keys import ApiKey
from shared.model.audit.audit_log import AuditAction, EntryFilters
from shared.model.callers import Caller, Scope
from shared.model.identifiers import API_KEY, BATCH, REVOCATION, WEBHOOK, is_identifier
from shared.model.items import Item, Value
from shared.model.records import integer
from shared.model.revocations import Revocation
from shared.model.signing_keys import SigningKey
from shared.operations.audit import audit_log
from shared.operations.base import audit
from shared.operations.base.allowance import find
from shared.operations.base.idempotency import Keep, idempotent, of_record, secret_shown
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page, PageQueryPlan, count, newest
from shared.operations.lists import signers
from shared.ports import Ports
from shared.ports.store import Change, Delete, Expect, Increment, Put, VersionIs, expect_version


@dataclass(frozen=True, slots=True)
class WebhookAndSecret:
    """A webhook and its newest secret, which is returned only once."""

    webhook: Webhook
    secret: str = field(repr=False)


# The entry of a change has almost the same time as its record.
_APART: Final = timedelta(seconds=10)


def _webhook_id(webhook: WebhookAndSecret) -> str:
    return webhook.webhook.id


# A secret is never stored twice, even wrapped.
_KEPT: Final = of_record(Webhook, but=["sealed_secret", "former_secret"])


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def page(ports: Ports, caller: Caller, *, before: str | None, limit: int) -> Page[Webhook]:
    """Return a page of the tenant's webhooks, newest first, with addresses as in `get`."""

    def read(item: Item) -> Webhook:
        return _visible(Webhook.from_item(item), caller)

    walk = PageQueryPlan(model.webhooks(caller.tenant_id), read, before, limit)
    return newest(ports, walk, total=lambda: count(ports, model.count_address(caller.tenant_id)))


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def get(ports: Ports, caller: Caller, *, webhook_id: str) -> Webhook:
    """Return a webhook of the tenant. Raises `NotFound`.

    Only administrators see more of its address than the host (HOOK-3).
    """
    return _visible(_find(ports, caller, webhook_id), caller)


def _visible(webhook: Webhook, caller: Caller) -> Webhook:
    return webhook if caller.is_admin else webhook.redact_url()


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def page_of_deliveries(
    ports: Ports,
    caller: Caller,
    *,
    webhook_id: str,
    before: str | None,
    limit: int,
    change_id: str | None = None,
) -> tuple[list[Delivery], str | None]:
    """Return deliveries of a webhook, newest first, and `before` for the next page or None.

    With `change_id`, returns only the deliveries about that revocation. Raises `NotFound`.
    """
    webhook = _find(ports, caller, webhook_id)
    now = int(ports.now().timestamp())
    if change_id is not None:
        places = [
            deliveries.address(caller.tenant_id, webhook.id, each)
            for each in _entry_ids(ports, caller, change_id)
            if before is None or each < before
        ]
        items = ports.store.get_many(places)
        about = [Delivery.from_item(items[each]) for each in places if each in items]
        unexpired = [each for each in about if each.expires > now]
        return unexpired[:limit], unexpired[limit - 1].id if len(unexpired) > limit else None
    partition = deliveries.deliveries(caller.tenant_id, webhook.id)
    walk = PageQueryPlan(
        partition, Delivery.from_item, before, limit, keep=lambda each: each.expires > now
    )
    return walk.run(ports)


def _entry_ids(ports: Ports, caller: Caller, change_id: str) -> list[str]:
    """Return the identifiers of the audit entries about a revocation, newest first."""
    tenant_id = caller.tenant_id
    if is_identifier(change_id, kind=BATCH):
        rows = ports.store.query(revocation_batches.parts(tenant_id, change_id))
        return sorted({row.sk.rpartition("#")[2] for row in rows}, reverse=True)
    if is_identifier(change_id, kind=REVOCATION):
        record = ports.store.get(revocations.record_address(tenant_id, change_id))
        if record is None:
            return []
        revocation = Revocation.from_item(record)
        window = _around(revocation.created_at)
        about = audit_log.read_about_warrant(ports, tenant_id, revocation.warrant_id, window)
        return [str(item["id"]) for item in about]
    at = _revoked_at(ports, tenant_id, change_id)
    if at is None:
        return []
    filters = _around(at, resource_id=change_id)
    entries = audit_log.newest(ports, caller, filters, before=None, limit=1)
    return [each.id for each in entries]


def _around(at: datetime, *, resource_id: str | None = None) -> EntryFilters:
    return EntryFilters(
        times.truncate_to_second(at - _APART),
        times.truncate_to_second(at + _APART),
        resource_id=resource_id,
    )


def _revoked_at(ports: Ports, tenant_id: str, key_id: str) -> datetime | None:
    """Return when an API key, signing key or SRL signer was revoked, or None if it was not."""
    if is_identifier(key_id, kind=API_KEY):
        item = ports.store.get(api_keys.records(tenant_id).address(key_id))
        return None if item is None else ApiKey.from_item(item).revoked_at
    item = ports.store.get(signing_keys.keys(tenant_id).address(key_id))
    if item is not None:
        return SigningKey.from_item(item).revoked_at
    signer = signers.read_by_ids(ports, tenant_id, [key_id]).get(key_id)
    return signer.revoked_at if signer else None


@idempotent(Scope.ADMIN, keeps=secret_shown(_webhook_id))
def create(
    ports: Ports,
    caller: Caller,
    keep: Keep[WebhookAndSecret],
    *,
    url: str,
    events: tuple[str, ...],
    description: str | None,
) -> WebhookAndSecret:
    """Create an enabled webhook, which receives later changes (HOOK-2).

    Raises `Conflict` if the tenant has `WEBHOOKS_MAX`.
    """
    counter = model.count_address(caller.tenant_id)
    counted = ports.store.get(counter) or {"count": 0, "version": 0}
    number, version = integer(counted, "count"), integer(counted, "version")
    if number >= model.WEBHOOKS_MAX:
        raise Conflict(f"The tenant has {model.WEBHOOKS_MAX} webhooks; delete one first.")
    webhook_id, secret, now = ports.new_id(WEBHOOK), model.new_secret(), ports.now()
    head = log.head(ports, caller.tenant_id)
    context = model.seal_context(caller.tenant_id, webhook_id, 1)
    webhook = Webhook(
        id=webhook_id,
        tenant_id=caller.tenant_id,
        url=url,
        description=description,
        events=events,
        status=WebhookStatus.ENABLED,
        created_at=now,
        begins_at=now,
        next_index=head.size if head else 0,
        generation=head.generation if head else 1,
        sealed_secret=ports.sealer.seal(secret.encode(), context=context),
    )
    created = WebhookAndSecret(webhook, secret)
    ports.store.write(
        Put(webhook.address, webhook.to_item(), Expect.ABSENT),
        # If two creations are concurrent, one counts again.
        Put(counter, {"count": number + 1, "version": version + 1}, expect_version(version)),
        _entry(ports, caller, AuditAction.WEBHOOK_CREATE, webhook, events=list(events)),
        *keep(created),
    )
    return created


@idempotent(Scope.ADMIN, keeps=_KEPT)
def update(  # noqa: PLR0913 (callers pass no `keep`)
    ports: Ports,
    caller: Caller,
    keep: Keep[Webhook],
    *,
    webhook_id: str,
    url: str | None = None,
    description: str | None = None,
    events: tuple[str, ...] | None = None,
) -> Webhook:
    """Change a webhook; None keeps a value. Raises `NotFound`.

    A webhook that waits after a failure is tried at once.
    """
    webhook = _find(ports, caller, webhook_id)
    changed = webhook.update(url=url, description=description, events=events)
    if changed == webhook:
        return webhook
    details: dict[str, Value] = {"events": list(changed.events)}
    return _replace(
        ports, caller, keep, AuditAction.WEBHOOK_UPDATE, webhook, changed.at_once(), **details
    )


@idempotent(Scope.ADMIN, keeps=secret_shown(_webhook_id))
def rotate_secret(
    ports: Ports,
    caller: Caller,
    keep: Keep[WebhookAndSecret],
    *,
    webhook_id: str,
    grace_seconds: int,
) -> WebhookAndSecret:
    """Give a webhook a new secret. The old one also signs for `grace_seconds` (HOOK-5).

    Raises `NotFound`.
    """
    webhook = _find(ports, caller, webhook_id)
    secret, now = model.new_secret(), ports.now()
    context = model.seal_context(webhook.tenant_id, webhook.id, webhook.secret_number + 1)
    sealed = ports.sealer.seal(secret.encode(), context=context)
    until = now + timedelta(seconds=grace_seconds) if grace_seconds else None
    rotated = webhook.rotate_secret(sealed, until=until)
    details: dict[str, Value] = {"former_until": times.format_utc(until) if until else None}

    def extra_changes(webhook: Webhook) -> Sequence[Change]:
        return keep(WebhookAndSecret(webhook, secret))

    stored = _replace(
        ports, caller, extra_changes, AuditAction.WEBHOOK_ROTATE, webhook, rotated, **details
    )
    return WebhookAndSecret(stored, secret)


@idempotent(Scope.ADMIN, keeps=_KEPT)
def enable(ports: Ports, caller: Caller, keep: Keep[Webhook], *, webhook_id: str) -> Webhook:
    """Enable a webhook and send it the events that it missed. Raises `NotFound`.

    An enabled webhook is returned unchanged.
    """
    webhook = _find(ports, caller, webhook_id)
    if webhook.is_enabled:
        return webhook
    return _replace(ports, caller, keep, AuditAction.WEBHOOK_ENABLE, webhook, webhook.enable())


@idempotent(Scope.ADMIN, keeps=_KEPT)
def disable(ports: Ports, caller: Caller, keep: Keep[Webhook], *, webhook_id: str) -> Webhook:
    """Disable a webhook. A disabled one is returned unchanged. Raises `NotFound`."""
    webhook = _find(ports, caller, webhook_id)
    if not webhook.is_enabled:
        return webhook
    cause = DisableReason.REQUESTED
    disabled = webhook.disable(cause)
    return _replace(
        ports, caller, keep, AuditAction.WEBHOOK_DISABLE, webhook, disabled, cause=cause.value
    )


@idempotent(Scope.ADMIN, keeps=_KEPT)
def replay(
    ports: Ports, caller: Caller, keep: Keep[Webhook], *, webhook_id: str, from_index: int
) -> Webhook:
    """Send a webhook all kept events from `from_index` on again (HOOK-10).

    Raises `NotFound`; `InvalidRequest` if the webhook has not been sent events up to there.
    """
    webhook = _find(ports, caller, webhook_id)
    if from_index > webhook.next_index:
        raise InvalidRequest(
            f"from_index: must be at most {webhook.next_index}, the next index that is sent."
        )
    replayed = webhook.rewind(from_index)
    return _replace(
        ports, caller, keep, AuditAction.WEBHOOK_REPLAY, webhook, replayed, from_index=from_index
    )


@idempotent(Scope.ADMIN, keeps=_KEPT)
def test(ports: Ports, caller: Caller, keep: Keep[Webhook], *, webhook_id: str) -> Webhook:
    """Send a webhook an event of type `rescind.test` at once (HOOK-11).

    Raises `NotFound`; `InvalidState` if it is disabled.
    """
    webhook = _find(ports, caller, webhook_id)
    if webhook.status is WebhookStatus.DISABLED:
        raise InvalidState("The webhook is disabled; enable it first.")
    return _replace(ports, caller, keep, AuditAction.WEBHOOK_TEST, webhook, webhook.at_once())


@operation(Scope.ADMIN)
def delete(ports: Ports, caller: Caller, *, webhook_id: str) -> None:
    """Delete a webhook and its secrets. Raises `NotFound`."""
    webhook = _find(ports, caller, webhook_id)
    amounts = {"count": -1, "version": 1}
    ports.store.write(
        Delete(webhook.address, VersionIs(webhook.version)),
        Delete(rules.turn_address(webhook), Expect.ANYTHING),
        Increment(model.count_address(caller.tenant_id), amounts, Expect.PRESENT),
        _entry(ports, caller, AuditAction.WEBHOOK_DELETE, webhook),
    )


def _find(ports: Ports, caller: Caller, webhook_id: str) -> Webhook:
    partition = model.webhooks(caller.tenant_id)
    return find(ports, partition, webhook_id, kind=WEBHOOK, record=Webhook)


def _replace(
    ports: Ports,
    caller: Caller,
    keep: Keep[Webhook],
    action: AuditAction,
    old: Webhook,
    new: Webhook,
    **details: Value,
) -> Webhook:
    change, stored = rules.replacement(old, new)
    entry = _entry(ports, caller, action, stored, **details)
    ports.store.write(change, entry, *keep(stored))
    return stored


def _entry(
    ports: Ports, caller: Caller, action: AuditAction, webhook: Webhook, **details: Value
) -> Change:
    # Only the host, because the rest of an address may be a secret of the receiver.
    details["host"] = webhook.host
    return audit.entry(ports, caller, action, webhook.id, settings=None, **details)
