"""The entries that announce stale authorizers (FLEET-18)."""

import logging
from collections.abc import Mapping
from contextlib import suppress

from shared.errors import Corrupt, ExpectationLost, Unavailable
from shared.model import authorizers as model
from shared.model import times
from shared.model.audit_log import Action
from shared.model.callers import Caller
from shared.model.propagation import STRAGGLERS_MAX, Proof
from shared.operations.rules import audit, tenants
from shared.operations.srl.propagation import Settled
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put

_log = logging.getLogger(__name__)


def announce_all(ports: Ports, settled: Mapping[str, Settled]) -> int:
    """Announce the stale authorizers of each tenant; return how many were announced.

    What fails for one tenant is logged, and does not stop the others: the next count tries again.
    """
    announced = 0
    for tenant_id, found in settled.items():
        try:
            announced += announce(ports, tenant_id, found)
        except (Corrupt, Unavailable):
            _log.exception("the stale authorizers of %s cannot be announced", tenant_id)
    return announced


def announce(ports: Ports, tenant_id: str, settled: Settled) -> int:
    """Write an entry to the audit log for each straggler that is unknown and not announced yet.

    One that was announced is announced again only after a count that found it holding. Returns how
    many were announced. Raises `Corrupt`, `Unavailable`.
    """
    stragglers = settled.propagation.stragglers
    known = {row.sk for row in ports.store.query(model.stale(tenant_id))}
    new = [
        each.authorizer
        for each in stragglers
        if each.proof is Proof.UNKNOWN and each.authorizer.id not in known
    ]
    for authorizer in new:
        # Another run of the schedule may have announced it meanwhile.
        with suppress(ExpectationLost):
            _announce(ports, tenant_id, authorizer, settled.published.sequence)
    # Above this number not all stragglers are named, so the others need not be holding.
    if len(stragglers) < STRAGGLERS_MAX:
        for authorizer_id in known - {each.authorizer.id for each in stragglers}:
            note = model.stale(tenant_id).address(authorizer_id)
            ports.store.write(Delete(note, Expect.ANYTHING))
    return len(new)


def _announce(ports: Ports, tenant_id: str, authorizer: model.Authorizer, expected: int) -> None:
    settings = tenants.settings(ports, tenant_id)
    entry = audit.entry(
        ports,
        Caller.inside(tenant_id, name="monitor", handle=settings.handle),
        Action.AUTHORIZER_STALE,
        authorizer.id,
        settings=settings,
        name=authorizer.name,
        sequence=authorizer.sequence,
        expected_sequence=expected,
        seen_at=times.text(authorizer.seen_at),
    )
    note = model.stale(tenant_id).address(authorizer.id)
    ports.store.write(Put(note, {}, Expect.ABSENT), entry)
