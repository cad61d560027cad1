"""The archive of list signers, which publications do not read (docs/adr/0039)."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from shared.model.srl.signers import ListSigner, Status, archive, signers
from shared.operations.srl import signers as srl_signers
from shared.ports import Ports
from shared.ports.store import Change

# How many retired signers, and how many revoked ones, are not archived. A publication reads them
# all; after a restore, their statements prove the signer of the newest list.
KEPT: Final = 100

# How many signers one write moves; each takes two changes.
_MOVED_AT_ONCE: Final = 20

_PAGE: Final = 100
# Sorts after every identifier.
_AFTER_ALL: Final = "~"


def read(ports: Ports, tenant_id: str) -> list[ListSigner]:
    """Read the signers that are not archived, newest first. Raises `Corrupt`, `Unavailable`."""
    entries = ports.store.query(signers(tenant_id), newest_first=True)
    return [ListSigner.from_item(entry.item) for entry in entries]


def listed(records: Sequence[ListSigner], now: datetime) -> list[ListSigner]:
    """Filter what `read` returns: signers that are not retired, or whose last list may be valid."""
    return [each for each in records if _is_listed(each, now)]


def first_page(ports: Ports, tenant_id: str) -> str | None:
    """Return `before` of the first page of archived revoked signers; None if there are none."""
    found = ports.store.query(archive(tenant_id, Status.REVOKED), limit=1)
    return _AFTER_ALL if any(found) else None


def page(ports: Ports, tenant_id: str, *, before: str) -> tuple[list[ListSigner], str | None]:
    """Read a page of archived revoked signers, newest first, and `before` of the next, or None."""
    partition = archive(tenant_id, Status.REVOKED)
    entries = ports.store.query(partition, before=before, newest_first=True, limit=_PAGE + 1)
    found = [ListSigner.from_item(entry.item) for entry in entries]
    return found[:_PAGE], found[_PAGE - 1].id if len(found) > _PAGE else None


def moves(ports: Ports, tenant_id: str, *, changed: Collection[str] = ()) -> list[Change]:
    """Return changes that archive up to 20 of the oldest signers that may be archived.

    Signers with an identifier in `changed` are left out: the same write changes them. Raises
    `Corrupt`, `Unavailable`.
    """
    found = [each for each in _surplus(ports, tenant_id) if each.id not in changed]
    return _archived(found[:_MOVED_AT_ONCE])


def missing(records: Collection[ListSigner], stated: Collection[ListSigner]) -> list[ListSigner]:
    """Return the pending and active ones of `records` that were archived before a newer state.

    `stated` are the signers in that state. A state has all signers except the archived ones, which
    are older than others in it; so a record that is older and not in it was archived.
    """
    if len(stated) < KEPT:
        return []
    names = {each.id for each in stated}
    signing = [each for each in records if each.status in (Status.PENDING, Status.ACTIVE)]
    return [each for each in signing if each.id not in names and each.id < max(names)]


def _surplus(ports: Ports, tenant_id: str) -> list[ListSigner]:
    """Return the signers that may be archived, the oldest of each status first."""
    records = read(ports, tenant_id)
    shown = {each.id for each in listed(records, ports.now())}
    retired = [each for each in records if each.status is Status.RETIRED]
    revoked = [each for each in records if each.status is Status.REVOKED]
    surplus = [*(each for each in retired[KEPT:] if each.id not in shown), *revoked[KEPT:]]
    return surplus[::-1]


def _archived(found: Sequence[ListSigner]) -> list[Change]:
    return [change for each in found for change in srl_signers.replaced(each, each.archived())]


def _is_listed(list_signer: ListSigner, now: datetime) -> bool:
    if list_signer.status is not Status.RETIRED:
        return True
    return list_signer.listed_until is not None and now < list_signer.listed_until
