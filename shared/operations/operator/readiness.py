"""Readiness of the service and age of its SRLs, for monitoring.

Takes a few reads, regardless of the number of tenants, and reveals no data of a single tenant.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple

from shared.errors import DataCorrupt
from shared.model import seeds, times
from shared.model.deployment import MARKS, PROBE_ADDRESS
from shared.model.items import Address, Table
from shared.model.lists.schedule import ISSUES, TURNS, upper_bound
from shared.model.seeds import KeyPurpose
from shared.operations.lists import schedule
from shared.ports import Ports
from shared.ports.store import Expect, Put

# How many SRLs are searched for the soonest expiry, earliest deadline first.
_TURNS_MAX: Final = 1000


_log = logging.getLogger(__name__)


class Probe(NamedTuple):
    """A call that raises `Unavailable` if the port of `setting` does not respond.

    `verb` names the operation that is then impossible.
    """

    setting: str
    run: Callable[[], object]
    verb: str = "used"


def read_probes(ports: Ports) -> tuple[Probe, ...]:
    """Return the probe of each port. It writes no data and reads at most a few items."""
    return (
        Probe(
            "RESCIND_STORE", lambda: ports.store.get_many(Address(each, "none") for each in Table)
        ),
        Probe("RESCIND_BLOBS", lambda: ports.blobs.get("srl/none")),
        Probe("RESCIND_KEY_WRAPPER", lambda: _seal_and_open(ports)),
    )


def write(ports: Ports) -> None:
    """Write a probe item. Raises `Unavailable` if the store cannot be written."""
    ports.store.write(Put(PROBE_ADDRESS, {"at": times.format_utc(ports.now())}, Expect.ANYTHING))


def _seal_and_open(ports: Ports) -> None:
    context = seeds.seal_context("doctor", "doctor", purpose=KeyPurpose.SRL)
    ports.sealer.unseal(ports.sealer.seal(b"doctor", context=context), context=context)


@dataclass(frozen=True, slots=True)
class SrlAges:
    """Ages of the current SRLs of all tenants, or None if there are no SRLs.

    `soonest_expiry_seconds` is negative if an SRL has expired. `late` counts SRLs that are overdue
    or were issued in the future.
    """

    oldest_age_seconds: int | None
    soonest_expiry_seconds: int | None
    late: int


def count_unreviewed(ports: Ports) -> int:
    """Count the tenants that were restored and not reviewed since (OPS-10), with one read.

    Raises `Unavailable`.
    """
    return ports.store.count(MARKS)


def look(ports: Ports) -> SrlAges:
    """Probe the store and return the ages of the SRLs. Raises `Unavailable`.

    If an item that names an SRL is damaged, one SRL counts as late, and the ages are unknown.
    """
    read_probes(ports)[0].run()
    try:
        return _lists(ports)
    except DataCorrupt:
        _log.exception("cannot read the ages of the SRLs")
        return SrlAges(None, None, late=1)


def _lists(ports: Ports) -> SrlAges:
    now = ports.now()
    issued_at = schedule.read_oldest_issue_time(ports)
    future = ports.store.count(ISSUES, after=upper_bound(now + times.CLOCK_TOLERANCE))
    turns = [schedule.parse_deadline(each) for each in ports.store.query(TURNS, limit=_TURNS_MAX)]
    expiries = [turn.expires_at for turn in turns if turn]
    return SrlAges(
        oldest_age_seconds=_seconds(now - issued_at) if issued_at else None,
        soonest_expiry_seconds=_seconds(min(expiries) - now) if expiries else None,
        late=future + sum(turn is None or turn.is_late(now) for turn in turns),
    )


def _seconds(span: timedelta) -> int:
    return int(span.total_seconds())
