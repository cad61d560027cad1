"""The errors of the service.

    RescindError
    ├── RequestError                the caller can correct it; `code` is one of API-10
    │   ├── InvalidRequest          invalid_request
    │   ├── InvalidApiKey           invalid_api_key
    │   ├── ReauthenticationRequired reauthentication_required
    │   ├── InsufficientScope       insufficient_scope
    │   ├── ApprovalRequired        approval_required
    │   ├── NotFound                not_found
    │   ├── InvalidState            invalid_state
    │   ├── Conflict                conflict
    │   ├── NotSignedByRoots        invalid_signature
    │   ├── TooFewApprovers         too_few_approvers
    │   ├── ListFull                full
    │   ├── TrustUnsigned           trust_unsigned
    │   └── RateLimited             rate_limited
    │       └── AuthorizerLimit     authorizer_limit
    ├── Unavailable                 unavailable: a store or key service cannot respond now
    │   ├── DataCorrupt             stored data is damaged; it is never skipped
    │   ├── OutOfSpace              the disk is full; the data was not stored
    │   ├── ReadOnly                this process rejects all writes for now (RESCIND_MODE)
    │   └── StaleProcess            another release or another store has taken over the data
    ├── ApprovalRequested           the request was not executed and waits for an approval
    ├── PreconditionFailed          a precondition of a write failed; operations handle it
    ├── BlobExists                  a blob of this name exists
    ├── InvalidSrl                  a Signed Revocation List that must not be accepted
    └── InvalidSettings             the process cannot start with these settings

A message may reach a caller. It names the field and the allowed values, and never repeats a
submitted value, a secret or an internal name (API-9). HTTP statuses are in `shared.web.errors`.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from shared.model.identities.approvals import Approval
    from shared.model.items import Address


class RescindError(Exception):
    """The base of all errors that this service raises. `default_message` is used without one."""

    default_message: ClassVar[str] = ""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.default_message)


class RequestError(RescindError):
    """A rejected request. `code` is the error code of API-10."""

    code: ClassVar[str]


class InvalidRequest(RequestError):
    """The body, a parameter or the cursor is not valid."""

    code = "invalid_request"


class InvalidApiKey(RequestError):
    """The API key is not accepted. Only its holder is told the reason (AUTH-2)."""

    code = "invalid_api_key"
    default_message = "The provided API key is invalid."


class ReauthenticationRequired(RequestError):
    """The person signed in too long ago for this action (AUTH-17)."""

    code = "reauthentication_required"
    default_message = "Sign in again; this action requires a sign-in within the last 15 minutes."


class InsufficientScope(RequestError):
    """The caller has none of the scopes that the operation accepts."""

    code = "insufficient_scope"

    def __init__(self, scopes: Iterable[str], message: str | None = None) -> None:
        self.scopes = tuple(scopes)
        named = " or ".join(self.scopes)
        super().__init__(message or f"This endpoint requires the scope {named}.")


class ApprovalRequired(RequestError):
    """The action needs an approval that the request does not have."""

    code = "approval_required"


class NotFound(RequestError):
    """The tenant has no such resource, or there is no such route."""

    code = "not_found"
    default_message = "The resource does not exist."


class Gone(RequestError):
    """Changes from before that time are no longer available."""

    code = "gone"


class InvalidState(RequestError):
    """The current state does not allow the transition."""

    code = "invalid_state"


class Conflict(RequestError):
    """An identifier is taken, a quota is reached, or the last admin key would be lost.

    `retry_after` is in seconds if the same request is in progress, so that a retry helps.
    """

    code = "conflict"

    def __init__(self, message: str, *, retry_after: int | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class TooFewApprovers(RequestError):
    """Fewer than two people could approve protected actions (APPROVAL-5)."""

    code = "too_few_approvers"
    default_message = (
        "Fewer than two people could approve protected actions. First have another person with the "
        "role admin sign in."
    )


class ListFull(RequestError):
    """A status list has too few entries left (TOKEN-6)."""

    code = "quota_exceeded"


class NotSignedByRoots(RequestError):
    """Not enough root keys signed a trust document."""

    code = "invalid_signature"


class TrustUnsigned(RequestError):
    """The trust document does not name a key yet, so clients would reject its signatures."""

    code = "trust_unsigned"


class RateLimited(RequestError):
    """The bucket is empty, or there is no room yet. `retry_after` is in seconds."""

    code = "rate_limited"

    def __init__(
        self,
        *,
        retry_after: int,
        message: str = "The rate limit is exceeded; retry after the time in Retry-After.",
    ) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class AuthorizerLimit(RateLimited):
    """The owner or the tenant has its maximum number of authorizers (FLEET-3)."""

    code = "authorizer_limit"


class Unavailable(RescindError):
    """A port cannot respond now. Callers must not draw conclusions from it."""

    code = "unavailable"
    retry_after = 1
    default_message = "The service cannot answer now; retry."


class DataCorrupt(Unavailable):
    """A stored record, blob or wrapped seed is damaged."""

    default_message = "Stored data is damaged."


class OutOfSpace(Unavailable):
    """The disk is full, and the data was not stored."""


class ReadOnly(Unavailable):
    """This process rejects all writes for now, because the data is being migrated (OPS-14)."""

    retry_after = 30
    default_message = "The service is read-only for now; no data was changed."


class StaleProcess(Unavailable):
    """This process must not use the store any longer and needs a restart (OPS-12, OPS-13)."""

    retry_after = 30
    default_message = "The service is being updated or migrated; restart this process."


class ApprovalRequested(RescindError):
    """The request was not executed and waits for `approval`."""

    def __init__(self, approval: "Approval") -> None:
        self.approval = approval
        super().__init__("an approval was requested")


class PreconditionFailed(RescindError):
    """A precondition of a write failed, so the write was not applied. `lost` has the addresses."""

    def __init__(self, addresses: Iterable["Address"]) -> None:
        self.lost: tuple[Address, ...] = tuple(addresses)
        super().__init__(f"{len(self.lost)} precondition(s) failed")


class BlobExists(RescindError):
    """A blob of this name exists, and blobs never change."""

    default_message = "a blob of this name exists"


class SrlReason(StrEnum):
    """Why an SRL must not be accepted: the first check that failed, in this order.

    Programs compare these words, so they do not change (VERIFY-1).
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
    """The SRL must not be accepted. `reason` is the first check that failed."""

    def __init__(self, reason: SrlReason, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class InvalidSettings(RescindError):
    """One or more settings are missing or wrong. `problems` has a line for each."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))
