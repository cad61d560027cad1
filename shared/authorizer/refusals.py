"""Why a client refuses an answer, by names that never change (docs/feed.md)."""

from enum import StrEnum

from .wire import Base


class Reason(StrEnum):
    """Why an answer or a base was refused, in the order of the checks."""

    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    SIGNATURE = "signature"
    SIGNER_REVOKED = "signer_revoked"
    SIGNER_OLDER = "signer_older"
    STATEMENT_MISSING = "statement_missing"
    STATEMENT_FORGED = "statement_forged"
    STATEMENT_TENANT = "statement_tenant"
    STATEMENT_ORDER = "statement_order"
    TENANT = "tenant"
    LIFETIME = "lifetime"
    FUTURE = "future"
    EXPIRED = "expired"
    ROLLBACK = "rollback"
    EQUIVOCATION = "equivocation"
    REPLAY = "replay"
    CHAIN = "chain"
    BREAK = "break"
    GAP = "gap"
    FAST_FORWARD = "fast_forward"
    HASH = "hash"
    VERSION = "version"


class Refused(Exception):
    """An answer or a base that a client must not use. What it held before remains in force."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class NeedsBase(Exception):
    """The entries do not continue what is held: `advance` needs the payload of the list `base`."""

    def __init__(self, base: Base) -> None:
        super().__init__(f"the list of version {base.version} is needed")
        self.base = base
