"""Descriptions and heartbeats of authorizers (FLEET-2)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from shared.model import times

# Maximum number of reasons in a heartbeat (FLEET-3).
REASONS_MAX: Final = 20
_REASON: Final = re.compile("[a-z_]{1,16}")


class SignedStatement(NamedTuple):
    """A registration or report as received: the payload and its signature, both in base64."""

    payload: str
    signature: str


class RefusedReport(StrEnum):
    """Why a report was rejected: the first failed check (TRUST-10).

    `unsigned`: the registration has a key, but the report no signature. `key_unverified`: the
    report has a signature, but the registration no key.
    """

    UNSIGNED = "unsigned"
    KEY_UNVERIFIED = "key_unverified"
    TOO_LARGE = "too_large"
    SIGNATURE = "signature"
    MALFORMED = "malformed"
    TENANT = "tenant"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class AuthorizerDescription:
    """Description of an authorizer in its registration.

    `public_key` is 64 hexadecimal digits, or empty. If `key_verified`, the authorizer has proved
    possession of the private key. `relay` names the relay that reports for it, or is empty if the
    authorizer reports directly. `features` are the supported features (FLEET-2).
    """

    name: str
    type: str = ""
    program_version: str = ""
    public_key: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    relay: str = ""
    key_verified: bool = False
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The reported state of an authorizer.

    `sequence` is the last applied feed entry, or None. `chain` is its chain hash in hex, or empty
    if it is not reported. `verified_at` is when the service last confirmed the state. `refused`
    counts rejected responses by reason. `seen_at` is when a relay received the report, or None for
    now. `number` is the number of a verified signed report, and `trust` its version of the trust
    document. Both are 0 for other reports.
    """

    sequence: int | None
    chain: str = ""
    verified_at: datetime | None = None
    max_staleness_seconds: int | None = None
    fail_open: bool = False
    refused: Mapping[str, int] = field(default_factory=dict)
    seen_at: datetime | None = None
    signed: SignedStatement | None = None
    number: int = 0
    trust: int = 0

    def heard_at(self, now: datetime) -> datetime:
        """Return the time of the report: the relay's time, but at most `now`.

        The number of a signed report is also a time, and limits the result. A late replay of
        reports therefore cannot make an authorizer appear to run.
        """
        heard = min(self.seen_at or now, now)
        try:
            signed = times.from_seconds(self.number // 1000) if self.number else now
        except (OverflowError, ValueError, OSError):
            return heard
        return min(heard, signed)


def are_reasons(words: Iterable[str]) -> bool:
    """Return whether a heartbeat may count rejected responses by these reasons (FLEET-3)."""
    found = list(words)
    return len(found) <= REASONS_MAX and all(map(_REASON.fullmatch, found))
