"""The words of an authorizer: its description of itself, and its heartbeats (FLEET-2)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from shared.model import times

# The most reasons that a heartbeat counts (FLEET-3).
REASONS_MAX: Final = 20
_REASON: Final = re.compile("[a-z_]{1,16}")


class SignedStatement(NamedTuple):
    """A registration or a report as it came: the payload and its signature, both in base64."""

    payload: str
    signature: str


class RefusedReport(StrEnum):
    """Why a report is refused, by the first check that failed (TRUST-10).

    `unsigned`: the registration has a key, and the report no signature. `unproven`: the report has
    a signature, and the registration no key.
    """

    UNSIGNED = "unsigned"
    UNPROVEN = "unproven"
    TOO_LARGE = "too_large"
    SIGNATURE = "signature"
    MALFORMED = "malformed"
    TENANT = "tenant"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class AuthorizerDescription:
    """The description that an authorizer gives of itself when it registers.

    `public_key` is 64 hexadecimal digits, or empty. If `is_proven`, the authorizer has proved that
    it has the private key. `relay` names the relay that reports for it; it is empty if the
    authorizer reports by itself. `features` are what it supports (FLEET-2).
    """

    name: str
    type: str = ""
    program_version: str = ""
    public_key: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    relay: str = ""
    is_proven: bool = False
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The state that an authorizer reports.

    `sequence` is the last entry of the feed that it applied, None if it holds nothing. `chain` is
    the chain there in hex, empty if it does not report it. `verified_at` is when the service last
    confirmed what it holds. `refused` counts answers that it did not accept, by reason. `seen_at`
    is when a relay heard from it; None means now. `number` is that of a signed report that was
    verified, and `trust` the version of the trust document in it; both are 0 otherwise.
    """

    sequence: int | None
    chain: str = ""
    verified_at: datetime | None = None
    max_staleness_seconds: int | None = None
    allow_when_stale: bool = False
    refused: Mapping[str, int] = field(default_factory=dict)
    seen_at: datetime | None = None
    signed: SignedStatement | None = None
    number: int = 0
    trust: int = 0

    def heard_at(self, now: datetime) -> datetime:
        """Return when the authorizer said this: as the relay says, but not later than `now`.

        The number of a signed report is a time, too. So nobody makes an authorizer seem to run by
        passing its reports on late.
        """
        heard = min(self.seen_at or now, now)
        try:
            signed = times.from_seconds(self.number // 1000) if self.number else now
        except (OverflowError, ValueError, OSError):
            return heard
        return min(heard, signed)


def are_reasons(words: Iterable[str]) -> bool:
    """Return whether a heartbeat may count refused answers by these reasons (FLEET-3)."""
    found = list(words)
    return len(found) <= REASONS_MAX and all(map(_REASON.fullmatch, found))
