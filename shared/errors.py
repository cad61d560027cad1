"""What can go wrong, in the words of the service.

    RescindError
    ├── RequestError                the caller's to mend; each has a code of the contract
    │   ├── InvalidRequest          invalid_request
    │   ├── InvalidApiKey           invalid_api_key
    │   ├── InsufficientScope       insufficient_scope
    │   ├── NotFound                not_found
    │   ├── InvalidState            invalid_state
    │   ├── Conflict                conflict
    │   └── RateLimited             rate_limited
    ├── Unavailable                 unavailable: a store or key service cannot answer now
    │   ├── Corrupt                 what was read cannot be trusted; never skipped
    │   └── OutOfSpace              the disk has no room for what was to be stored
    ├── ExpectationLost             a write lost its expectation; operations know what to do
    ├── BlobExists                  a blob of this name is stored already
    ├── InvalidSrl                  a Signed Revocation List that must not be believed
    ├── InvalidWarrant              a warrant that must not be accepted
    └── InvalidSettings             the process cannot start with these settings

A message may reach a caller: it names the field and what is allowed, and never repeats a
submitted value, a secret or an internal name (API-9). HTTP statuses are in
`shared.web.errors`.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from shared.model.items import Address


class RescindError(Exception):
    """Anything this service raises on purpose."""


class RequestError(RescindError):
    """A request that is refused. `code` is the contract's (API-10)."""

    code: ClassVar[str]


class InvalidRequest(RequestError):
    """The body, a parameter or the cursor is not acceptable."""

    code = "invalid_request"


class InvalidApiKey(RequestError):
    """Malformed, unknown, revoked, expired or disabled: one answer, so none can be told apart."""

    code = "invalid_api_key"

    def __init__(self) -> None:
        super().__init__("The provided API key is invalid.")


class InsufficientScope(RequestError):
    """The key lacks every one of the scopes that the operation accepts."""

    code = "insufficient_scope"

    def __init__(self, scopes: Iterable[str]) -> None:
        self.scopes = tuple(scopes)
        super().__init__(f"This endpoint requires the scope {' or '.join(self.scopes)}.")


class NotFound(RequestError):
    """No such resource for this tenant, or no such route."""

    code = "not_found"

    def __init__(self, message: str = "The resource does not exist.") -> None:
        super().__init__(message)


class InvalidState(RequestError):
    """The transition is not allowed from the present state."""

    code = "invalid_state"


class Conflict(RequestError):
    """An identifier is taken, a quota is reached, or the last admin key would go."""

    code = "conflict"


class RateLimited(RequestError):
    """The bucket is empty; `retry_after` is in seconds."""

    code = "rate_limited"

    def __init__(self, *, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__("The rate limit is exceeded; retry after the time in Retry-After.")


class Unavailable(RescindError):
    """A port cannot answer now. Nothing is half done, and nothing may be concluded from it."""

    code = "unavailable"
    retry_after = 1
    says: ClassVar[str] = "The service cannot answer now; retry."

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.says)


class Corrupt(Unavailable):
    """A record, blob or sealed seed is not what was once written."""

    says = "Stored data cannot be read as it was written."


class OutOfSpace(Unavailable):
    """The disk has no room for what was to be stored; nothing was."""


class ExpectationLost(RescindError):
    """A write lost its expectation and changed nothing. `lost` has the addresses of those items."""

    def __init__(self, lost: Iterable["Address"]) -> None:
        self.lost: tuple[Address, ...] = tuple(lost)
        super().__init__(f"{len(self.lost)} expectation(s) did not hold")


class BlobExists(RescindError):
    """A blob of this name is stored already, and never changes."""

    def __init__(self) -> None:
        super().__init__("a blob of this name exists")


class SrlReason(StrEnum):
    """Why a list must not be believed; the first reason that applies, in this order.

    The words are stable: programs compare them (VERIFY-1).
    """

    MALFORMED = "malformed"
    SIGNATURE = "signature"
    ENCODING = "encoding"
    CONTENT = "content"
    MIXED = "mixed"
    ORDER = "order"
    TIMES = "times"
    FUTURE = "future"
    EXPIRED = "expired"
    VERSION = "version"
    ROLLBACK = "rollback"
    EQUIVOCATION = "equivocation"
    STEP = "step"


class InvalidSrl(RescindError):
    """The list must not be believed."""

    def __init__(self, reason: SrlReason, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class WarrantReason(StrEnum):
    """Why a warrant must not be accepted; the first reason that applies, in this order.

    The words are stable: programs compare them (WARRANT-9).
    """

    MALFORMED = "malformed"
    HEADER = "header"
    SIGNATURE = "signature"
    CLAIMS = "claims"
    ISSUER = "issuer"
    FUTURE = "future"
    TIMES = "times"
    EXPIRED = "expired"


class InvalidWarrant(RescindError):
    """The warrant must not be accepted."""

    def __init__(self, reason: WarrantReason, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class InvalidSettings(RescindError):
    """One or more settings are missing or wrong; `problems` has a line for each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))
