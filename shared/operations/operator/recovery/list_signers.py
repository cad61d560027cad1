"""Recovery of list signers, so that no retired or revoked one signs again (docs/adr/14)."""

from dataclasses import replace
from datetime import datetime
from functools import partial

from shared.model.audit.audit_log import Action
from shared.model.lists.signers import ListSigner, SignerStatus, signers
from shared.operations.base.operation import settle
from shared.operations.lists import records as srl_records
from shared.operations.lists import signers as srl_signers
from shared.operations.operator.recovery.run import Run
from shared.ports.store import Expect, Put

_ORDER = [SignerStatus.PENDING, SignerStatus.ACTIVE, SignerStatus.RETIRED, SignerStatus.REVOKED]


def apply(run: Run, found: tuple[ListSigner, ...], *, listed_until: datetime) -> None:
    """Restore the status of the signers in `found`; create a signer if none is active then.

    A signer without a record has lost its seed; it is listed as retired until `listed_until`, the
    expiry of the newest list. If a record is pending or active but its signer was archived, the
    signer is revoked, because it is not known whether it was retired or revoked.
    """
    records = {each.id: each for each in _records(run)}
    archived = [each.revoked() for each in srl_signers.missing(records.values(), found)]
    found = (*found, *archived)
    records |= srl_signers.find(run.ports, run.tenant_id, [each.id for each in found])
    vouching = _vouching(records, found)
    for each in found:
        step = partial(_brought, run, records.get(each.id), each, listed_until)
        if line := settle(step):
            run.report(line)
    if not any(each.status is SignerStatus.ACTIVE for each in _records(run)):
        run.report(settle(partial(_started, run, vouching)))


def _records(run: Run) -> list[ListSigner]:
    entries = run.ports.store.query(signers(run.tenant_id))
    return [ListSigner.from_item(entry.item) for entry in entries]


def _vouching(records: dict[str, ListSigner], found: tuple[ListSigner, ...]) -> ListSigner | None:
    """Return the newest signer that is not revoked and whose seed the records have, or None."""
    revoked = {each.id for each in found if each.status is SignerStatus.REVOKED}
    sound = [
        each
        for each in records.values()
        if each.sealed_seed is not None
        and each.id not in revoked
        and each.status in (SignerStatus.ACTIVE, SignerStatus.RETIRED)
    ]
    return sound[-1] if sound else None


def _brought(
    run: Run, record: ListSigner | None, recorded: ListSigner, listed_until: datetime
) -> str | None:
    if record is None:
        status = (
            SignerStatus.REVOKED
            if recorded.status is SignerStatus.REVOKED
            else SignerStatus.RETIRED
        )
        until = recorded.listed_until if recorded.status is SignerStatus.RETIRED else listed_until
        lost = replace(
            recorded, status=status, listed_until=until, sealed_seed=None, pending_id=None
        )
        run.ports.store.write(
            Put(lost.address, lost.to_item(), Expect.ABSENT),
            *srl_records.noted(run.tenant_id),
        )
        return f"Listed again: list signer {lost.id}, {lost.status}; its seed is lost"
    if _ORDER.index(record.status) >= _ORDER.index(recorded.status):
        return None
    if recorded.status is SignerStatus.REVOKED:
        moved, action = record.revoked(), Action.SRL_REVOKE_KEY
    elif recorded.status is SignerStatus.RETIRED:
        moved = record.retired(listed_until=recorded.listed_until or listed_until)
        action = Action.SRL_ROTATE_KEY
    else:
        moved = record.activated(recorded.activated_at or run.ports.now())
        action = Action.SRL_ACTIVATE_KEY
    run.ports.store.write(
        *srl_signers.replaced(record, moved),
        *srl_records.noted(run.tenant_id),
        run.entry(action, moved.id),
    )
    return f"Again {moved.status}: list signer {moved.id}"


def _started(run: Run, vouching: ListSigner | None) -> str:
    """Create an active signer, with a statement by `vouching` if possible."""
    new = srl_signers.make(run.ports, run.tenant_id)
    if vouching is not None:
        new = srl_signers.vouched(run.ports, new, vouching, _records(run))
    run.ports.store.write(
        Put(new.address, new.to_item(), Expect.ABSENT),
        *srl_records.noted(run.tenant_id),
        run.entry(Action.SRL_ROTATE_KEY, new.id),
    )
    return (
        f"New list signer: {new.id}, because the seed of the one in force is lost or revoked. "
        f"Give its public key to verifiers before they need it: {new.public_key}"
    )
