"""The texts of the API document about tags, headers and errors, for its users.

`infra/openapi.md` has the text about the API as a whole.
The text of an operation is the docstring of its endpoint, and the text of a field is its
description in the schemas of the function.
"""

from typing import Any, Final, NamedTuple

from shared import errors
from shared.web import approvals
from shared.web.errors import PayloadTooLarge, Unauthorized, UnsupportedMediaType

# In the order of the document.
TAGS: Final = {
    "Revocations": "Revoke warrants, and check whether a warrant is revoked.",
    "Signed Revocation List": "The signed list of revoked warrants, and the keys that sign it.",
    "Feed": "What has changed since a list, for authorizers that follow it within seconds.",
    "Trust": "The signed documents that say which keys sign for the tenant.",
    "Authorizers": "The programs that enforce warrants, and what each of them holds.",
    "Stock authorizers": "What unmodified `tenuo` authorizers ask for.",
    "API keys": "The keys that callers of this API use.",
    "Signing keys": "The keys that sign warrants, and the warrants that they signed.",
    "Status lists": "Lists with one bit for each credential, for verifiers that follow no feed.",
    "Service accounts": "The programs that API keys belong to.",
    "Identities": "Identity providers, people, sessions, roles, and approvals.",
    "Audit log": "Who changed what, and when.",
    "Webhooks": "Addresses that are sent an event for each change.",
    "Tenant settings": "What a tenant can set for itself.",
}

# Names for generated clients, by the names in the code. A name that ends in `Body`, which says that
# a class is one of `functions`, is not in this table: the document has it without that ending.
NAMES: Final = {
    "Action": "AuditAction",
    "Cause": "WebhookDisabledBecause",
    "HeartbeatOutcome": "ReportStatus",
    "Type": "SigningKeyType",
    "AccountStatus": "ServiceAccountStatus",
    "KeyStatus": "SigningKeyStatus",
    "SignerStatus": "SrlKeyStatus",
    "KeyStatus-Input": "SigningKeyStatus",
}


class Repeated(NamedTuple):
    """The header by which a request can be repeated, and the responses to it."""

    request: str
    response: str
    conflict: str


REPEATED: Final = Repeated(
    "A text of your choice, such as a UUID. A request with the same one and the same body gets the "
    "same response for 24 hours, and changes nothing again.",
    "Only if the response is that of an earlier request.",
    "The `Idempotency-Key` was used with another body, its first request is in progress "
    "(`Retry-After` is the number of seconds to wait), or the response had a secret that is not "
    "kept.",
)


# The headers about an approval: what they mean, and their schemas.
APPROVING: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    approvals.HEADER: (
        "`request`, to ask for an approval instead; or the identifier of the approval to use.",
        {"type": "string", "examples": ["request"]},
    ),
    approvals.REASON: (
        "With `request`: why, for the person who approves; percent-encoded UTF-8.",
        {"type": "string"},
    ),
}
NOT_NEEDED: Final = "The request asked for an approval that it does not need."


class ErrorAnswer(NamedTuple):
    """An error response: its name, its meaning, and the errors that it can have."""

    name: str
    meaning: str
    examples: tuple[Exception, ...]


ERRORS: Final = {
    "400": ErrorAnswer(
        "InvalidRequest",
        "The body, a parameter or the cursor is not acceptable; the message says which one and why",
        (errors.InvalidRequest("limit: must be a whole number from 1 to 100."),),
    ),
    "401": ErrorAnswer(
        "Unauthorized",
        "There is no `Authorization` header, or its key is not valid. All keys that are not valid "
        "get the same answer. `reauthentication_required`: the person signed in too long ago",
        (
            Unauthorized("Authorization: the header is required, as Bearer and an API key."),
            errors.InvalidApiKey(),
            errors.SignInAgain(),
        ),
    ),
    "403": ErrorAnswer(
        "InsufficientScope",
        "The key has none of the scopes that the operation accepts; the message names them. Or the "
        "request needs an approval by another person",
        (
            errors.InsufficientScope(["admin"]),
            errors.ApprovalRequired("This needs an approval by another person."),
        ),
    ),
    "404": ErrorAnswer("NotFound", "The tenant has no such resource", (errors.NotFound(),)),
    "409": ErrorAnswer(
        "Conflict",
        "The present state does not allow it",
        (
            errors.InvalidState("The state of the resource does not allow this."),
            errors.Conflict("The identifier is taken, or a limit is reached."),
            errors.TooFewApprovers(),
            errors.ListFull("The list has 12 entries left; create another list."),
        ),
    ),
    "410": ErrorAnswer(
        "Gone",
        "The changes since then are not known any more",
        (errors.Gone("changed_since: is older than an hour; read all authorizers."),),
    ),
    "413": ErrorAnswer(
        "PayloadTooLarge",
        "The body is larger than the operation takes",
        (PayloadTooLarge(262144),),
    ),
    "415": ErrorAnswer(
        "UnsupportedMediaType",
        "The body is not sent as `application/json`, or is compressed",
        (UnsupportedMediaType("Content-Type: a body must be sent as application/json."),),
    ),
    "429": ErrorAnswer(
        "RateLimited",
        "The rate limit is exceeded; wait for the seconds in `Retry-After`",
        (
            errors.RateLimited(retry_after=1),
            errors.AuthorizerLimit(
                retry_after=300, message="checkout@acme.svc has registered 200 authorizers."
            ),
        ),
    ),
    "500": ErrorAnswer(
        "InternalError",
        "A bug of the service; report the `X-Request-Id` to its operator",
        (RuntimeError(),),
    ),
    "503": ErrorAnswer(
        "Unavailable",
        "The service cannot answer now; wait for the seconds in `Retry-After`",
        (errors.Unavailable(),),
    ),
}


class Header(NamedTuple):
    """A header of responses: its type, its meaning, an example."""

    kind: str
    meaning: str
    example: str | int


HEADERS: Final = {
    "X-RateLimit-Limit": Header("integer", "Requests per second that the tenant may make.", 1000),
    "X-RateLimit-Remaining": Header(
        "integer", "Requests that are left at the moment; at most the limit.", 998
    ),
    "X-RateLimit-Reset": Header(
        "integer", "The Unix second at which all requests are available again.", 1795262400
    ),
    "X-Request-Id": Header(
        "string",
        "Identifies this request in the log of the service.",
        "306d9a4be2f14c5f8d0c1b7a6e5f4d3c",
    ),
    "X-Content-Type-Options": Header("string", "Always `nosniff`.", "nosniff"),
    "Cache-Control": Header(
        "string", "`no-store`, except for the Signed Revocation List and the feed.", "no-store"
    ),
    "WWW-Authenticate": Header(
        "string", "`Bearer`; with 403 also the scopes that the operation accepts.", "Bearer"
    ),
    "Retry-After": Header("integer", "Seconds to wait before the next attempt.", 1),
}
