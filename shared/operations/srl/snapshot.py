"""The facts that a publication relies on, read in one place (docs/adr/0004, steps 1 and 2)."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from shared import logs
from shared.model import times
from shared.model.sealed_log.kept import Kept
from shared.model.srl.head import Head
from shared.model.srl.signers import ListSigner
from shared.model.tenants import TenantSettings
from shared.operations.rules import checkpoints, counters, tenants
from shared.operations.rules.counters import Counted
from shared.operations.srl import in_force, signers, storage
from shared.operations.srl.feed import INLINE_MAX
from shared.operations.srl.in_force import Previous
from shared.ports import Ports
from shared.ports.store import Change

_log = logging.getLogger(__name__)

# Each list with a version divisible by this is compared with all records, in case of an error.
_COMPARED_EVERY: Final = 100


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The facts that a list is made from. The write that publishes the list expects `head`.

    `version` and `issued_at` are those of the next list. `previous` is what is readable of the list
    in force. `log` is what the sealed log of the tenant has stated.
    """

    settings: TenantSettings
    head: Head
    list_signer: ListSigner
    counted: Counted
    list_signers: tuple[ListSigner, ...]
    version: int
    issued_at: datetime
    previous: Previous
    log: Kept | None = None

    @property
    def tenant_id(self) -> str:
        """The tenant that the list is for."""
        return self.settings.tenant_id

    @property
    def lifetime(self) -> timedelta:
        """The time from the issue of the next list to its expiry."""
        return self.settings.srl_ttl

    @property
    def listed_since(self) -> datetime:
        """Warrants that ended before this time are not in the list (SRL-9)."""
        return self.issued_at - self.lifetime

    def leaving(self, ends: Mapping[str, str]) -> list[str]:
        """Return those of `ends` that ended so long ago that they leave the list; not all at once.

        `ends` has warrants with their ends, as RFC 3339 text in UTC.
        """
        # Texts of whole seconds in UTC sort by time.
        limit = times.text(self.listed_since)
        return list(islice((each for each, at in ends.items() if at < limit), INLINE_MAX))

    @property
    def is_compared(self) -> bool:
        """Whether the next list is to be compared with all records."""
        head = self.head
        return (
            self.version % _COMPARED_EVERY == 0
            # A warrant that left the list may have to come back.
            or head.expires_at - head.issued_at != self.lifetime
            or self.issued_at < head.issued_at
        )


def take(
    ports: Ports,
    tenant_id: str,
    *,
    above: int = 0,
    on: tuple[Head, ListSigner] | None = None,
    changes: Iterable[Change] = (),
) -> Snapshot:
    """Read the snapshot for the next list, whose version is higher than `above`.

    `on` is the head that the list follows and the signer that signs it, if the caller has read or
    made them. `changes` are part of the write that publishes the list; `Snapshot.list_signers`
    contains them. Raises `Corrupt`, `Unavailable`.
    """
    settings, (head, list_signer) = ports.gather(
        lambda: tenants.settings(ports, tenant_id),
        lambda: on or in_force.head_and_signer(ports, tenant_id),
    )
    issued_at = _issue_time(ports, tenant_id, head)
    # Whether or not the publication succeeds: old lists must not use the space of the next one.
    storage.discard_old(ports, tenant_id, head)
    return Snapshot(
        settings,
        head,
        list_signer,
        # Read before the warrants: a later revocation then makes the next list due.
        counted=counters.counted(ports, tenant_id),
        list_signers=signers.all_of(ports, tenant_id, changes),
        version=max(head.version, above) + 1,
        issued_at=issued_at,
        previous=in_force.previous(ports, head, list_signer),
        log=checkpoints.newest(ports, tenant_id),
    )


def _issue_time(ports: Ports, tenant_id: str, head: Head) -> datetime:
    """Return the time of issue of the list that follows `head` (docs/adr/0020)."""
    now = ports.now()
    if not head.is_ahead(now):
        return times.whole(max(now, head.issued_at))
    # One of two clocks is wrong. A list issued even later would be invalid like this one.
    _log.error(
        "the list in force was issued in the future, at %s; the next one is issued by this clock",
        times.text(head.issued_at),
        extra=logs.fields(tenant_id=tenant_id, metrics={"HeadInFuture": 1}),
    )
    return times.whole(now)
