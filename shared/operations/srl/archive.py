"""The archive of list signers: what no list and no publication needs to read (docs/adr/0039)."""

from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

from shared.model.srl.signers import ListSigner, Status, archive, signers
from shared.model.srl.verification import LIFETIME_MAX
from shared.operations.rules.operation import settle
from shared.operations.srl import signers as srl_signers
from shared.ports import Ports
from shared.ports.store import Change

# So many retired signers, and as many revoked ones, are not archived: their statements lead from
# restored records to the newest list, and a publication reads them all.
KEPT: Final = 100

# One write moves so many; each takes two of its changes.
_MOVED_AT_ONCE: Final = 20

_PAGE: Final = 100
# Every identifier comes before it.
_AFTER_ALL: Final = "~"


def read(ports: Ports, tenant_id: str) -> list[ListSigner]:
    """The signers that are not archived, the newest first."""
    entries = ports.store.query(signers(tenant_id), newest_first=True)
    return [ListSigner.from_item(entry.item) for entry in entries]


def listed(records: Sequence[ListSigner], now: datetime) -> list[ListSigner]:
    """Those of `records`, the newest first, that are not retired or whose last list may be valid.

    `records` are what `read` returns.
    """
    pairs = pairwise([None, *records])
    return [each for newer, each in pairs if each is not None and _is_listed(each, newer, now)]


def first_page(ports: Ports, tenant_id: str) -> str | None:
    """Where the first page of archived revoked signers begins; None if there are none."""
    found = ports.store.query(archive(tenant_id, Status.REVOKED), limit=1)
    return _AFTER_ALL if any(found) else None


def page(ports: Ports, tenant_id: str, *, before: str) -> tuple[list[ListSigner], str | None]:
    """Archived revoked signers, the newest first, and where the next page begins."""
    partition = archive(tenant_id, Status.REVOKED)
    entries = ports.store.query(partition, before=before, newest_first=True, limit=_PAGE + 1)
    found = [ListSigner.from_item(entry.item) for entry in entries]
    return found[:_PAGE], found[_PAGE - 1].id if len(found) > _PAGE else None


def moves(ports: Ports, tenant_id: str, *, changed: Collection[str] = ()) -> list[Change]:
    """Changes that archive some of the oldest signers; none if there are few.

    `changed` are signers that the same write changes. Raises `Unavailable`.
    """
    found = [each for each in _surplus(ports, tenant_id) if each.id not in changed]
    return _archived(found[:_MOVED_AT_ONCE])


def move_all(ports: Ports, tenant_id: str) -> None:
    """Archive all that should be in the archive. Raises `Unavailable`."""

    def attempt() -> None:
        found = _surplus(ports, tenant_id)
        for start in range(0, len(found), _MOVED_AT_ONCE):
            ports.store.write(*_archived(found[start : start + _MOVED_AT_ONCE]))

    settle(attempt)


def missing(records: Collection[ListSigner], told: Collection[ListSigner]) -> list[ListSigner]:
    """Those of `records` that must have ended and been archived, since `told` does not name them.

    `told` are the signers of a state. It names all of its time but the archived ones, and those
    are older than others that it names.
    """
    if len(told) < KEPT:
        return []
    names = {each.id for each in told}
    signing = [each for each in records if each.status in (Status.PENDING, Status.ACTIVE)]
    return [each for each in signing if each.id not in names and each.id < max(names)]


def _surplus(ports: Ports, tenant_id: str) -> list[ListSigner]:
    """What should be in the archive, the oldest of each kind first."""
    records = read(ports, tenant_id)
    shown = {each.id for each in listed(records, ports.now())}
    retired = [each for each in records if each.status is Status.RETIRED]
    revoked = [each for each in records if each.status is Status.REVOKED]
    surplus = [*(each for each in retired[KEPT:] if each.id not in shown), *revoked[KEPT:]]
    return surplus[::-1]


def _archived(found: Sequence[ListSigner]) -> list[Change]:
    return [change for each in found for change in srl_signers.replaced(each, each.archived())]


def _is_listed(list_signer: ListSigner, newer: ListSigner | None, now: datetime) -> bool:
    if list_signer.status is not Status.RETIRED:
        return True
    if list_signer.listed_until is not None:
        return now < list_signer.listed_until
    # An older release retired it, at the latest when the next key was made.
    return newer is not None and now < newer.created_at + LIFETIME_MAX
