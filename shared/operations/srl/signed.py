"""The warrants that revoked signers signed."""

from collections.abc import Collection, Iterator
from datetime import datetime
from functools import partial

from shared.model import warrants
from shared.model.revoked_signers import by_key
from shared.model.warrants import Warrant
from shared.operations.srl import signed_by_end
from shared.ports import Ports


def signed_by(
    ports: Ports, tenant_id: str, signers: Collection[str], *, since: datetime | None = None
) -> Iterator[tuple[str, datetime | None]]:
    """Read the warrants that these signers signed, with their ends.

    If `since` is given, warrants that ended before it may be left out. Raises `Corrupt`,
    `Unavailable`.
    """
    if not signers:
        return
    if since is None or not signed_by_end.is_complete(ports, tenant_id):
        walk = partial(_all_signed, ports, tenant_id)
    else:
        walk = partial(signed_by_end.signed, ports, tenant_id, since=since)
    for key_id, versions in by_key(signers).items():
        for warrant_id, version, ends_at in walk(key_id):
            if versions & {None, version}:
                yield warrant_id, ends_at


def _all_signed(
    ports: Ports, tenant_id: str, key_id: str
) -> Iterator[tuple[str, int, datetime | None]]:
    """Read all that a key signed: warrant identifier, version of the key, end."""
    for entry in ports.store.query(warrants.signed_by(tenant_id, key_id)):
        warrant = Warrant.from_item(entry.item)
        yield warrant.warrant_id, warrant.key_version, warrant.ends_at
