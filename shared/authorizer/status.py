"""Verdicts of a client about warrants, and its status."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Self

from .reports import ReportingState, ReportStatus
from .view import NEVER, Snapshot


class Verdict(StrEnum):
    """The verdict on a chain of warrants. Only CLEAR allows a request."""

    CLEAR = "clear"
    REVOKED = "revoked"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """The status of a client. The first eight members are None before the first state.

    `chain` and `signer` are in hex. `revoked` is a number of warrants. `confirmed_at` is the time
    when the service confirmed the state. If `stale`, warrants that are not revoked are STALE.
    `failures` counts polls without a usable response. `refusals` counts responses that failed a
    check, by reason. `reporting` is the state of the client's reports, and `reported_at` the time
    of the last one. `authorizer_id` is the client's identifier at the service.
    """

    sequence: int | None
    chain: str | None
    base_version: int | None
    revoked: int | None
    issued_at: datetime | None
    expires_at: datetime | None
    confirmed_at: datetime | None
    signer: str | None
    stale: bool
    failures: int
    refusals: Mapping[str, int]
    reporting: ReportingState
    reported_at: datetime | None
    authorizer_id: str | None

    @classmethod
    def of(cls, view: Snapshot, counts: Mapping[str, int], report_status: ReportStatus) -> Self:
        """Return the status of a client with this view. `counts` has its failures at ""."""
        state = view.state
        head = state.head if state else None
        at = view.confirmed.wall if view.confirmed != NEVER else None
        return cls(
            sequence=head.sequence if head else None,
            chain=head.chain.hex() if head else None,
            base_version=head.base.version if head else None,
            revoked=len(view.revoked) if head else None,
            issued_at=head.issued_at if head else None,
            expires_at=head.expires_at if head else None,
            confirmed_at=datetime.fromtimestamp(at, UTC) if at is not None else None,
            signer=state.signed_by.hex() if state else None,
            stale=not view.is_fresh(),
            failures=counts.get("", 0),
            refusals={reason: count for reason, count in counts.items() if reason},
            reporting=report_status.state,
            reported_at=report_status.at,
            authorizer_id=report_status.id,
        )
