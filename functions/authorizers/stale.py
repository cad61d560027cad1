"""Audit entries that announce stale authorizers (FLEET-18)."""

import logging
from collections.abc import Mapping
from contextlib import suppress

from functions.authorizers import propagation
from functions.authorizers import records as model
from functions.authorizers.enforcement import LAGGING_MAX, EnforcementState
from functions.authorizers.propagation import SettledEntry
from shared import logs
from shared.errors import DataCorrupt, PreconditionFailed, Unavailable
from shared.model import times
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller
from shared.operations.base import audit, tenants
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put

_log = logging.getLogger(__name__)


def count_and_announce(ports: Ports) -> None:
    """Log the number of unknown authorizers, and announce stale ones (FLEET-15).

    Raises `Unavailable` if the tenants cannot be read.
    """
    survey = propagation.survey(ports)
    # A stage without authorizers does not pay for the metric.
    if survey is not None:
        _log.info("authorizers", extra=logs.fields(metrics={"AuthorizersUnknown": survey.unknown}))
        announce_all(ports, survey.settled)


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
