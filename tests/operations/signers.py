"""List signers of the past, stored as many rotations would have left them."""

from datetime import datetime, timedelta

from shared.model import seeds
from shared.model.lists.signers import SrlSigner, SrlSignerStatus
from shared.operations.lists import signers
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Expect, Put


def stored_signers(
    ports: Ports,
    tenant_id: str,
    count: int,
    status: SrlSignerStatus,
    *,
    first: int = 0,
    listed_until: datetime | None = None,
) -> list[SrlSigner]:
    """So many signers that are older than those of today, the oldest first.

    Their identifiers count from `first`. Retired ones are not listed any more if no `listed_until`
    is given.
    """
    _, public_key = seeds.new()
    then = ports.now() - timedelta(days=365)
    names = [f"svc_key_{number:026}" for number in range(first, first + count)]
    found = [
        SrlSigner(each, tenant_id, public_key, status, then, None, listed_until=listed_until)
        for each in names
    ]
    store(ports, found)
    return found


def store(ports: Ports, found: list[SrlSigner]) -> None:
    """Store these signers as they are."""
    puts = [Put(each.address, each.to_item(), Expect.ABSENT) for each in found]
    for start in range(0, len(puts), MOST_CHANGES):
        ports.store.write(*puts[start : start + MOST_CHANGES])


def archive_all(ports: Ports, tenant_id: str) -> None:
    """Archive all signers that may be archived, as many rotations would."""
    while moves := signers.archive_changes(ports, tenant_id):
        ports.store.write(*moves)
