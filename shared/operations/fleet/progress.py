"""Proof of propagation: who refuses a revoked warrant, or a canary (FLEET-10)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, NamedTuple

from shared.model import times
from shared.model.callers import Caller, Scope
from shared.model.fleet.propagation import Judged, Proof, Propagation
from shared.model.identifiers import WARRANT
from shared.model.revocations import Revocation
from shared.operations.base.operation import operation
from shared.operations.changes import revocations
from shared.operations.fleet import propagation
from shared.operations.lists.reach import Traced
from shared.ports import Ports

# A canary that nobody restores leaves the list by itself, one lifetime of a list after this.
_CANARY_ENDS_AFTER: Final = timedelta(hours=1)
_REASON: Final = "A canary: this warrant was never signed."
# Seconds between two looks: so many at least, and so many times as long as the last look took.
_PAUSE: Final = 0.5
_SHARE: Final = 4

_sleep = time.sleep


class Progress(NamedTuple):
    """A revocation, from where on clients refuse its warrant, and who is known to refuse it."""

    revocation: Revocation
    traced: Traced
    propagation: Propagation


@operation(Scope.ADMIN, Scope.REVOKER, Scope.AUDITOR)
def of_revocation(ports: Ports, caller: Caller, *, revocation_id: str) -> Progress:
    """Return how far a revocation has got among the authorizers (FLEET-10).

    Raises `NotFound`; `Corrupt`, `Unavailable`: a fault is never reported as complete.
    """
    record = revocations.record(ports, caller, revocation_id=revocation_id)
    return Progress(record, *propagation.of_revocation(ports, caller.tenant_id, record))


class Straggler(NamedTuple):
    """An authorizer whose state is unknown for the entry `sequence` of the feed."""

    judged: Judged
    sequence: int

    @property
    def problem(self) -> str:
        """The problem, as a sentence without a full stop."""
        found = self.judged.authorizer
        name = f"its authorizer {found.name} ({found.id})"
        if found.is_foreign:
            return f"{name} reported entries of the feed that this service did not publish"
        if not self.judged.counts:
            return f"{name} has no key, so its reports do not count (setting reports): upgrade it"
        held = "none" if found.sequence is None else f"entry {found.sequence}"
        seen = f"at {times.text(found.seen_at)} it reported {held}"
        return f"{name} is not known to have entry {self.sequence} of the feed: {seen}"


def stragglers(ports: Ports, tenant_id: str) -> tuple[list[Straggler], int]:
    """Return authorizers whose state is unknown, and how many there are in all.

    They count by the newest entry that each should have by now. Raises `Corrupt`, `Unavailable`.
    """
    settled = propagation.of_feed(ports, tenant_id)
    if settled is None:
        return [], 0
    published, found = settled
    unknown = (each for each in found.stragglers if each.proof is Proof.UNKNOWN)
    return [Straggler(each, published.sequence) for each in unknown], found.unknown


@contextmanager
def canary(ports: Ports, caller: Caller) -> Iterator[Revocation]:
    """Revoke a warrant that nobody has, and restore it at the end, whatever ends the block."""
    warrant_id = f"svc_{WARRANT}_canary_{ports.new_id(WARRANT).rpartition('_')[2]}"
    ends_at = times.whole(ports.now() + _CANARY_ENDS_AFTER)

    def revoked() -> Revocation:
        return revocations.create(
            ports, caller, warrant_id=warrant_id, reason=_REASON, warrant_expires_at=ends_at
        )[0]

    try:
        yield revoked()
    finally:
        # Again, because an interrupt may have come before the record was known: it is the same.
        revocations.delete(ports, caller, revocation_id=revoked().id)


def watched(
    ports: Ports, caller: Caller, revocation_id: str, *, seconds: float
) -> Iterator[tuple[float, Progress]]:
    """Yield how far a revocation has got, with the seconds since the first look.

    Ends when the propagation is complete, or after so many `seconds`. Raises `NotFound`, `Corrupt`,
    `Unavailable`.
    """
    begin = time.monotonic()
    while True:
        looked = time.monotonic()
        progress = of_revocation(ports, caller, revocation_id=revocation_id)
        passed = time.monotonic() - begin
        yield passed, progress
        if progress.propagation.is_complete or passed >= seconds:
            return
        pause = max(_PAUSE, _SHARE * (time.monotonic() - looked))
        _sleep(min(pause, max(0.0, seconds - passed)))
