"""Bodies of reports and of propagation. Other capabilities use them too (FLEET-10, NATIVE-6)."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Query, Response
from pydantic import (
    AfterValidator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
)

from functions.authorizers import registering
from functions.authorizers.enforcement import LAGGING_MAX, EnforcementState
from functions.authorizers.operations import HeartbeatStatus
from functions.authorizers.records import (
    STALE_AFTER_SECONDS,
    AuthorizerDescription,
    Heartbeat,
    SignedStatement,
    native_version,
)
from functions.authorizers.unregistered import ALL_MAX
from shared.authorizer.formats.wire import NUMBER_MAX
from shared.model import times
from shared.model.identifiers import AUTHORIZER
from shared.web.fields import (
    MomentOut,
    Name,
    RecordBody,
    ResponseBody,
    RevocationId,
    SignedWarrantId,
    attribute,
    decimal,
    example,
    field,
    identifier,
    omittable,
    optional,
    sample,
)
from shared.web.routes import ApiRequest
from shared.web.work import ProvisionalResponse

WORD_BYTES_MAX: Final = 64
METADATA_BYTES_MAX: Final = 512
_WAIT_MAX: Final = 3600
_WAIT: Final = decimal("0|[1-9][0-9]{0,3}", must=f"be a whole number from 0 to {_WAIT_MAX}")
LAGGING: Final[dict[str, JsonValue]] = {
    "id": sample(AUTHORIZER),
    "name": "gateway-7",
    "enforcement": "unknown",
    "last_seen_at": "2026-11-21T11:58:02Z",
    "fail_closed_at": "2026-11-21T12:01:31Z",
}


_LAGGING_REVOCATION: Final = LAGGING | {"key_verified": True, "sequence": 58}


def _at_most(size: int) -> AfterValidator:
    """Return a validator for a text of at most `size` bytes."""

    def check(value: str) -> str:
        if len(value.encode()) > size:
            raise ValueError(f"must have at most {size} bytes as UTF-8")
        return value

    return AfterValidator(check)


# A registration is stored in one item of at most 2.25 KB (FLEET-3).
ShortName = Annotated[Name, _at_most(255)]
Word = Annotated[Name, _at_most(WORD_BYTES_MAX)]
Number = Annotated[int, Field(ge=0, le=NUMBER_MAX)]
AuthorizerId = Annotated[str, field("Identifier of the authorizer.", **identifier(AUTHORIZER))]
FeedSequence = Annotated[
    int,
    BeforeValidator(lambda value: value or 0),
    attribute("latest", "Sequence of the newest feed entry; 0 if there is none.", minimum=0),
]
NativeVersion = Annotated[
    int,
    BeforeValidator(native_version),
    attribute("latest", "Version of the newest native list; 0 if there is none.", minimum=0),
]
ReportedStatus = Annotated[
    HeartbeatStatus,
    field(
        "`equivocation`: the authorizer reported entries that this service did not publish. Its "
        "feed may be forged, or the service was restored from a backup."
    ),
]


class OpenBody(BaseModel):
    """A JSON object with strictly typed fields. Unknown fields are ignored (FLEET-7).

    An authorizer that gets 400 may never report again, and a newer authorizer may report more.
    """

    model_config = ConfigDict(extra="ignore", strict=True)


class StockReport(OpenBody):
    """The state of a stock authorizer. Unknown fields are ignored."""

    model_config = example(
        srl_version=62,
        srl_health={"last_fetch_at": "2026-11-21T12:00:00+00:00", "last_fetch_success": True},
    )

    srl_version: Number | None = omittable("Version of the authorizer's native list.")
    srl_health: Any = omittable(
        "Health of the native list. Only `last_fetch_at` is read, the time of the last successful "
        "fetch."
    )

    def beat(self) -> Heartbeat:
        """Return the argument of the operation."""
        if not self.srl_version:
            return Heartbeat(None)
        health = self.srl_health if isinstance(self.srl_health, Mapping) else {}
        try:
            verified_at = times.parse(str(health.get("last_fetch_at")))
        except ValueError:
            verified_at = None
        return Heartbeat(
            self.srl_version - 1,
            verified_at=verified_at,
            max_staleness_seconds=STALE_AFTER_SECONDS,
        )


class Pace(RecordBody):
    """When authorizers report."""

    report_after_seconds: int = attribute(
        "numbers.report_after_seconds",
        "Number of seconds after which to send the next heartbeat if nothing changes.",
        minimum=1,
    )
    jitter_seconds: int = attribute(
        "numbers.jitter_seconds",
        "Maximum random delay of the report after each advance, in seconds.",
        minimum=0,
    )


class RegisteredAuthorizer(Pace):
    """A registered authorizer."""

    model_config = example(
        id=sample(AUTHORIZER),
        key_verified=True,
        last_number=0,
        report_after_seconds=300,
        jitter_seconds=0,
    )

    id: AuthorizerId = Field(validation_alias=AliasPath("authorizer", "id"))
    key_verified: bool = attribute(
        "authorizer.key_verified", "Whether only signed reports are accepted."
    )
    last_number: int = attribute(
        "authorizer.number",
        "Number of the last signed report. Later reports must have higher numbers.",
    )


REGISTERED_BEFORE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "model": RegisteredAuthorizer,
        "description": "The caller registered the authorizer before; the `id` is the same",
    }
}


def register(
    request: ApiRequest,
    response: Response,
    description: AuthorizerDescription,
    proof: SignedStatement | None = None,
) -> RegisteredAuthorizer:
    """Register an authorizer, or find it. `response` gets 201 if it is new, and 200 otherwise."""
    registration = request.run(registering.register, description=description, proof=proof)
    response.status_code = 201 if registration.is_new else 200
    return RegisteredAuthorizer.of(registration)


UNREGISTERED: Final[dict[str, JsonValue]] = {
    "name": "gateway-8",
    "owner": "checkout@acme.svc",
    "code": "conflict",
    "last_seen_at": "2026-11-21T12:00:00Z",
}


class UnregisteredClientBody(RecordBody):
    """A client with a rejected registration."""

    model_config = example(**UNREGISTERED)

    name: str = field("Name in the registration request.")
    owner: str = field("Caller of the registration request, as in the audit log.")
    code: str = field(
        "Error code of the rejection: `conflict` if another key has the name, or "
        "`authorizer_limit`."
    )
    last_seen_at: MomentOut = field("Time of the last stored rejection.")


UnregisteredClients = Annotated[
    list[UnregisteredClientBody],
    field(
        "Clients with a registration that was rejected within the last hour. They are not "
        "counted, and their state is unknown.",
        maxItems=ALL_MAX,
    ),
]


class PropagationQuery(BaseModel):
    """The query of a propagation proof."""

    # The order matters: the API document omits constraints that follow a validator.
    wait: Annotated[int, Field(ge=0, le=_WAIT_MAX), _WAIT] = Field(
        default=0,
        description="Maximum number of seconds for which the server waits until the propagation "
        "is complete. It waits for at most 25 seconds, and on AWS Lambda not at all.",
    )


Wait = Annotated[PropagationQuery, Query()]


def respond(request: ApiRequest, body: str, wait: int, *, is_last: bool) -> Response:
    """Return the response, delayed if a later one may be better (FLEET-14)."""
    seconds = min(wait, request.max_wait_seconds)
    if is_last or not seconds:
        return Response(body, media_type="application/json")
    return ProvisionalResponse(body, seconds=seconds, media_type="application/json")


class PropagatedSrl(ResponseBody):
    """The first SRL that contains the revocation."""

    version: int = field("Version of the SRL.", minimum=1)


class ChangeCounts(RecordBody):
    """The number of registered authorizers, and their states."""

    total: int = field(
        "Number of registered authorizers that reported within the last 30 days. For an API key, "
        "only authorizers that it registered.",
        minimum=0,
    )
    enforced: int = field(
        "Number of authorizers that reported this entry or a later one, with the right chain hash.",
        minimum=0,
    )
    fail_closed: int = field(
        "Number of authorizers that did not report the entry, but refuse every request without it "
        "because their state is stale.",
        minimum=0,
    )
    unknown: int = field("Number of authorizers in neither of these states.", minimum=0)
    unsupported: int = field(
        "Number of the unknown authorizers that do not support subject cutoffs, if the change "
        "revoked one.",
        minimum=0,
    )


class LaggingBody(RecordBody):
    """An authorizer that did not report the entry."""

    id: str = attribute("authorizer.id", "Identifier of the authorizer.", **identifier(AUTHORIZER))
    name: str = attribute("authorizer.name", "Name from the registration.")
    enforcement: str = field(
        "State of the authorizer. `unsupported`: it does not support subject cutoffs.",
        enum=[EnforcementState.FAIL_CLOSED, EnforcementState.UNKNOWN, EnforcementState.UNSUPPORTED],
    )
    last_seen_at: MomentOut = attribute(
        "authorizer.last_seen_at", "Time of the last stored heartbeat."
    )
    fail_closed_at: MomentOut | None = field(
        "Time from which the authorizer refuses every request without the entry; null if unknown, "
        "or if it fails open."
    )


LAGGING_AUTHORIZERS: Final = (
    "Authorizers in a state other than `enforced`: unknown authorizers first, then by the "
    "oldest heartbeat."
)

_Srl = Annotated[
    PropagatedSrl | None,
    BeforeValidator(lambda version: None if version is None else {"version": version}),
]


class PropagatedEntry(RecordBody):
    """The first feed entry that makes clients refuse the revoked warrants."""

    sequence: int = field("Sequence of the entry.", minimum=0)
    issued_at: MomentOut = field("Publication time of the entry.")


class AuthorizerCounts(ChangeCounts):
    """The number of registered authorizers, their states, and the number without a key."""

    key_unverified: int = field(
        "Number of registered authorizers without a verified key. Other programs can report for "
        "them."
    )


class RevocationLaggingAuthorizer(LaggingBody):
    """An authorizer that did not report the entry."""

    model_config = example(**_LAGGING_REVOCATION)

    key_verified: bool = attribute(
        "authorizer.key_verified",
        "Whether the authorizer has a verified key and signs its reports.",
    )
    sequence: int | None = attribute(
        "authorizer.sequence", "Sequence of the last reported entry; null if none was reported."
    )


class RevocationPropagation(RecordBody):
    """The propagation of a revocation among the authorizers."""

    model_config = example(
        revocation_id="svc_rev_01kbm4xt3rfz8c5w7y2q9n6d1e",
        warrant_id="svc_wrt_laptop-17",
        revoked_at="2026-11-21T12:00:00Z",
        feed={"sequence": 61, "issued_at": "2026-11-21T12:00:01Z"},
        srl={"version": 44},
        authorizers={
            "total": 240,
            "enforced": 236,
            "fail_closed": 3,
            "unknown": 1,
            "unsupported": 0,
            "key_unverified": 0,
        },
        is_complete=False,
        is_verified=False,
        lagging_authorizers=[_LAGGING_REVOCATION],
        unregistered=[UNREGISTERED],
    )

    revocation_id: RevocationId = Field(validation_alias=AliasPath("revocation", "id"))
    warrant_id: SignedWarrantId = Field(validation_alias=AliasPath("revocation", "warrant_id"))
    revoked_at: MomentOut = attribute("revocation.created_at", "Time of the revocation.")
    feed: PropagatedEntry | None = attribute(
        "traced.published",
        "First feed entry that contains the revocation; null if there is none yet, or if the "
        "warrant has left the SRL. If more than 1000 entries followed, it is a later entry.",
    )
    srl: _Srl = attribute(
        "traced.srl_version",
        "First SRL that contains the revocation, among the SRLs in the history; null if there is "
        "none yet.",
    )
    ended_at: MomentOut | None = optional(
        "Expiry of the warrant, only if it has left the SRL because it expired. Authorizers "
        "refuse an expired warrant without an entry.",
        of="traced.ended_at",
    )
    authorizers: AuthorizerCounts = Field(validation_alias=AliasPath("propagation"))
    is_complete: bool = attribute(
        "propagation.is_complete",
        "Whether every registered authorizer refuses the warrant: at least one is registered, and "
        "none is unknown.",
    )
    is_verified: bool = attribute(
        "propagation.is_verified",
        "Whether the propagation is complete and every registered authorizer has a verified key.",
    )
    lagging_authorizers: list[RevocationLaggingAuthorizer] = attribute(
        "propagation.lagging_authorizers", LAGGING_AUTHORIZERS, maxItems=LAGGING_MAX
    )
    unregistered: UnregisteredClients = Field(
        validation_alias=AliasPath("propagation", "unregistered")
    )
