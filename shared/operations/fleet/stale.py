"""Audit entries that announce stale authorizers (FLEET-18)."""

import base64
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from shared import logs
from shared.authorizer.formats.ed25519 import SIGNATURE_BYTES
from shared.errors import DataCorrupt, NotFound, PreconditionFailed, Unavailable
from shared.model import times
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.fleet import authorizers as model
from shared.model.fleet import native
from shared.model.fleet.authorizers import Authorizer, authorizers
from shared.model.fleet.propagation import LAGGING_MAX, EnforcementState
from shared.model.identifiers import AUTHORIZER, is_identifier
from shared.operations.base import audit, tenants
from shared.operations.base.operation import operation
from shared.operations.fleet.propagation import SettledEntry
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put

_log = logging.getLogger(__name__)


def announce_all(ports: Ports, entries: Mapping[str, SettledEntry]) -> int:
    """Announce the stale authorizers of each tenant; return how many were announced.

    A failure for one tenant is logged and does not stop the others. The next count tries again.
    """
    announced = 0
    for tenant_id, entry in entries.items():
        try:
            announced += announce(ports, tenant_id, entry)
        except (DataCorrupt, Unavailable):
            _log.exception("cannot announce the stale authorizers of tenant %s", tenant_id)
    return announced


def announce(ports: Ports, tenant_id: str, entry: SettledEntry) -> int:
    """Write an audit entry for each unknown lagging authorizer that was not announced yet.

    An authorizer is announced again only after a count that found it enforcing. Returns how many
    were announced. Raises `DataCorrupt`, `Unavailable`.
    """
    lagging = entry.propagation.lagging_authorizers
    known = {row.sk for row in ports.store.query(model.stale(tenant_id))}
    new = [
        each.authorizer
        for each in lagging
        if each.enforcement is EnforcementState.UNKNOWN and each.authorizer.id not in known
    ]
    for authorizer in new:
        settings = tenants.settings(ports, tenant_id)
        audit_entry = audit.entry(
            ports,
            Caller.inside(tenant_id, name="monitor", handle=settings.handle),
            AuditAction.AUTHORIZER_STALE,
            authorizer.id,
            settings=settings,
            name=authorizer.name,
            sequence=authorizer.sequence,
            expected_sequence=entry.published.sequence,
            last_seen_at=times.format_utc(authorizer.last_seen_at),
        )
        note = model.stale(tenant_id).address(authorizer.id)
        # Another run of the scheduler may have announced it first.
        with suppress(PreconditionFailed):
            ports.store.write(Put(note, {}, Expect.ABSENT), audit_entry)
    # Above this number, some lagging authorizers are not named, so the rest may not be enforcing.
    if len(lagging) < LAGGING_MAX:
        for authorizer_id in known - {each.authorizer.id for each in lagging}:
            note = model.stale(tenant_id).address(authorizer_id)
            ports.store.write(Delete(note, Expect.ANYTHING))
    return len(new)


class SignedEvent(NamedTuple):
    """The signed bytes of an event and their signature, in the caller's base64."""

    signing_payload: object
    signature: object


class StockCounts(NamedTuple):
    """How many events of a batch the registered key signed, and how many it did not."""

    accepted: int
    rejected: int


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def count(
    ports: Ports, caller: Caller, *, authorizer_id: str, events: Sequence[SignedEvent]
) -> StockCounts:
    """Count the events that the authorizer signed with its registered key, without storing them.

    If its registration has expired, its key is unknown, and no event verifies. Raises `NotFound` if
    another caller registered it; `DataCorrupt`, `Unavailable`.
    """
    if not is_identifier(authorizer_id, kind=AUTHORIZER):
        raise NotFound
    item = ports.store.get(authorizers(caller.tenant_id).address(authorizer_id))
    key = b""
    if item is not None:
        authorizer = Authorizer.from_item(item)
        if authorizer.owner != caller.identity:
            raise NotFound
        key = bytes.fromhex(authorizer.any_key)
    accepted = sum(_is_signed(each, key) for each in events) if key else 0
    counts = StockCounts(accepted, len(events) - accepted)
    metrics = {"EventsVerified": counts.accepted, "EventsRefused": counts.rejected}
    line = logs.fields(tenant_id=caller.tenant_id, authorizer_id=authorizer_id, metrics=metrics)
    _log.info("events of a stock authorizer", extra=line)
    return counts


def _is_signed(event: SignedEvent, public_key: bytes) -> bool:
    payload, signature = _decode_base64(event.signing_payload), _decode_base64(event.signature)
    if payload is None or signature is None or len(signature) != SIGNATURE_BYTES:
        return False
    return native.is_event_signed(payload, signature, public_key=public_key)


def _decode_base64(value: object) -> bytes | None:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except ValueError:
        return None
