"""Bodies of the endpoints of authorizers (FLEET-2, FLEET-4)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from types import SimpleNamespace
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
)

from shared.authorizer.formats.wire import NUMBER_MAX
from shared.errors import InvalidRequest
from shared.model import text, times
from shared.model.callers import Caller
from shared.model.fleet.authorizers import REPORTS_MAX, native_version
from shared.model.fleet.heartbeats import (
    AuthorizerDescription,
    Heartbeat,
    RefusedReport,
    SignedStatement,
)
from shared.model.fleet.native import STALE_AFTER_SECONDS
from shared.model.fleet.propagation import AuthorizerStatus, EnforcementState, PublishedEntry
from shared.model.identifiers import API_KEY, AUTHORIZER, is_identifier
from shared.operations.fleet.authorizers import HeartbeatStatus
from shared.operations.fleet.heartbeats import AcceptedReports, HeartbeatOutcome
from shared.operations.fleet.present import ListingCursor, StatusPage
from shared.web.fields import (
    CURSOR,
    MomentIn,
    MomentOut,
    Name,
    NextCursor,
    RecordBody,
    ResponseBody,
    Total,
    attribute,
    example,
    field,
    identifier,
    omittable,
    optional,
    sample,
)
from shared.web.paging import CursorCodec, PageBody, PageQuery
from shared.web.unregistered import UNREGISTERED, UnregisteredClients

_AUTHORIZER: Final[dict[str, JsonValue]] = {
    "id": sample(AUTHORIZER),
    "name": "checkout-7c9f",
    "type": "rescind-authorizer",
    "version": "0.3.0",
    "public_key": "d75a" * 16,
    "metadata": {"zone": "a"},
    "features": ["subject-cutoffs"],
    "owner": "checkout@acme.svc",
    "relay": "site-a",
    "registered_at": "2026-11-20T08:00:00Z",
    "last_seen_at": "2026-11-21T12:00:00Z",
    "sequence": 61,
    "chain": "9c2f" * 16,
    "verified_at": "2026-11-21T11:59:59Z",
    "max_staleness_seconds": 30,
    "fail_open": False,
    "refused": {},
    "equivocation": False,
    "api_key_id": sample(API_KEY),
    "key_verified": True,
    "trust_version": 7,
}
_SIGNED: Final[dict[str, JsonValue]] = {"report": "qmJJZHgh…", "signature": "mYsK…"}

# The maximum number of features of an authorizer.
FEATURES_MAX: Final = 5

# The longest base64 of a payload, with room for a payload that is rejected as too large (TRUST-10).
_BASE64_MAX: Final = 8192

WORD_BYTES_MAX: Final = 64
METADATA_BYTES_MAX: Final = 512


def _at_most(size: int) -> AfterValidator:
    """Return a validator for a text of at most `size` bytes."""

    def check(value: str) -> str:
        if len(value.encode()) > size:
            raise ValueError(f"must have at most {size} bytes as UTF-8")
        return value

    return AfterValidator(check)


def _metadata(value: dict[str, str]) -> dict[str, str]:
    size = sum(len(part.encode(errors="surrogatepass")) for pair in value.items() for part in pair)
    if size > METADATA_BYTES_MAX:
        raise ValueError(f"must have at most {METADATA_BYTES_MAX} bytes in total, as UTF-8")
    for part in filter(None, [*value.values(), *value]):
        text.name(part)
    if "" in value:
        raise ValueError("must not contain an empty name")
    return value


def _authorizer_id(value: str) -> str:
    if not is_identifier(value, kind=AUTHORIZER):
        raise ValueError("must be the identifier of an authorizer")
    return value


def _each_once(value: list["RelayedReport"]) -> list["RelayedReport"]:
    if len({each.id for each in value}) < len(value):
        raise ValueError("must not contain an id twice")
    return value


# A registration is stored in one item of at most 2.25 KB (FLEET-3).
ShortName = Annotated[Name, _at_most(255)]
Word = Annotated[Name, _at_most(WORD_BYTES_MAX)]
Features = Annotated[
    list[Annotated[str, Field(pattern="^[a-z-]{1,32}$")]], Field(max_length=FEATURES_MAX)
]
Number = Annotated[int, Field(ge=0, le=NUMBER_MAX)]
Base64 = Annotated[str, Field(max_length=_BASE64_MAX)]
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
# A text that is stored as empty if it is absent.
OrNull = Annotated[str | None, BeforeValidator(lambda value: value or None)]


class OpenBody(BaseModel):
    """A JSON object with strictly typed fields. Unknown fields are ignored (FLEET-7).

    An authorizer that gets 400 may never report again, and a newer authorizer may report more.
    """

    model_config = ConfigDict(extra="ignore", strict=True)


class RegistrationProof(OpenBody):
    """A registration signed by the authorizer (TRUST-10). Unknown fields are ignored."""

    payload: Base64 = Field(description="The registration: base64 of deterministic CBOR.")
    signature: Base64 = Field(
        description="Base64 of the Ed25519 signature over `rescind-register-v1`, a line feed and "
        "the payload."
    )


class RegisterAuthorizer(OpenBody):
    """The authorizer to register. Unknown fields are ignored."""

    model_config = example(
        name="checkout-7c9f",
        type="rescind-authorizer",
        version="0.3.0",
        metadata={"zone": "a"},
        proof={"payload": "pGROYW1l…", "signature": "mYsK…"},
    )

    name: ShortName = Field(
        description="Name of the authorizer, unique for the caller, of at most 255 bytes."
    )
    type: Word | None = omittable("Type of the program.")
    version: Word | None = omittable("Version of the program.")
    metadata: Annotated[dict[str, str], AfterValidator(_metadata)] | None = omittable(
        "Labels for people, as names with values; at most 512 bytes in total."
    )
    relay: Word | None = omittable("Name of the relay that polls and reports for the authorizer.")
    proof: RegistrationProof = Field(
        description="Proof of possession of the authorizer's private key."
    )
    features: Features | None = omittable(
        "Supported features. `subject-cutoffs`: the authorizer refuses all tokens of a subject by "
        "one identifier."
    )

    def statement(self) -> SignedStatement:
        """Return the proof."""
        return SignedStatement(self.proof.payload, self.proof.signature)

    def description(self) -> AuthorizerDescription:
        """Return the argument of the operation."""
        return AuthorizerDescription(
            self.name,
            self.type or "",
            self.version or "",
            metadata=self.metadata or {},
            relay=self.relay or "",
            features=tuple(self.features or ()),
        )


_REPORT: Final = Field(
    max_length=_BASE64_MAX,
    description="The signed report: base64 of deterministic CBOR.",
)
_SIGNATURE: Final = Field(
    max_length=_BASE64_MAX,
    description="Base64 of the Ed25519 signature over `rescind-report-v1`, a line feed and "
    "`report`.",
)


class ReportBody(OpenBody):
    """The state of an authorizer, signed by it. Unknown fields are ignored."""

    model_config = example(**_SIGNED)

    report: Annotated[str, _REPORT]
    signature: Annotated[str, _SIGNATURE]

    def beat(self) -> Heartbeat:
        """Return the argument of the operation."""
        return Heartbeat(None, signed=SignedStatement(self.report, self.signature))


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


class RelayedReport(StockReport):
    """The state of an authorizer behind a relay: `report`, or the members of a stock authorizer.

    Unknown fields are ignored.
    """

    model_config = example(id=sample(AUTHORIZER), seen_at="2026-11-21T12:00:00Z", **_SIGNED)

    id: Annotated[str, AfterValidator(_authorizer_id)] = Field(
        description="Identifier from the registration by the relay.",
        json_schema_extra=identifier(AUTHORIZER),
    )
    seen_at: MomentIn | None = omittable(
        "Time of the authorizer's last contact with the relay; now if omitted."
    )
    report: Annotated[str | None, _REPORT] = None
    signature: Annotated[str | None, _SIGNATURE] = None

    def beat(self) -> Heartbeat:
        """Return the argument of the operation."""
        if self.report is None:
            return replace(super().beat(), seen_at=self.seen_at)
        signed = SignedStatement(self.report, self.signature or "")
        return Heartbeat(None, seen_at=self.seen_at, signed=signed)


class SendReports(OpenBody):
    """Reports of the authorizers behind a relay. Unknown fields are ignored."""

    model_config = example(
        relay="site-a",
        reports=[{"id": sample(AUTHORIZER), **_SIGNED}],
    )

    relay: Word = Field(description="Name of the relay.")
    reports: Annotated[
        list[RelayedReport], Field(min_length=1, max_length=REPORTS_MAX), AfterValidator(_each_once)
    ] = Field(description="Reports of 1 to 100 different authorizers.")

    def beats(self) -> dict[str, Heartbeat]:
        """Return the argument of the operation."""
        return {each.id: each.beat() for each in self.reports}


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


class HeartbeatResponse(Pace):
    """The response to a heartbeat."""

    model_config = example(
        status="ok",
        feed_sequence=61,
        srl_version=62,
        report_after_seconds=300,
        jitter_seconds=0,
    )

    status: ReportedStatus
    feed_sequence: FeedSequence
    srl_version: NativeVersion


class ReportResult(ResponseBody):
    """The outcome of one report of a relay."""

    model_config = example(id=sample(AUTHORIZER), status="refused", reason="signature")

    id: AuthorizerId
    status: HeartbeatOutcome = field(
        "`ok`: accepted. `equivocation`: accepted, but the authorizer reported entries that this "
        "service did not publish. `not_found`: the authorizer is not registered by the caller, or "
        "was removed; register it again. `refused`: the report failed the check in `reason`."
    )
    reason: RefusedReport | None = field(
        "Reason for the rejection; null unless `status` is `refused`."
    )

    @classmethod
    def of(cls, authorizer_id: str, outcome: HeartbeatOutcome | RefusedReport) -> Self:
        """Return the body for an outcome."""
        if isinstance(outcome, RefusedReport):
            return cls(id=authorizer_id, status=HeartbeatOutcome.REFUSED, reason=outcome)
        return cls(id=authorizer_id, status=outcome, reason=None)


class ReportsResponse(Pace):
    """The response to the reports of a relay."""

    model_config = example(
        results=[{"id": sample(AUTHORIZER), "status": "refused", "reason": "signature"}],
        feed_sequence=61,
        srl_version=62,
        report_after_seconds=300,
        jitter_seconds=0,
    )

    results: list[ReportResult] = field("One result per report, in the order of the request.")
    feed_sequence: FeedSequence
    srl_version: NativeVersion

    @classmethod
    def of_reports(cls, ids: Iterable[str], reports: AcceptedReports) -> Self:
        """Return the body for the outcomes of the reports with these identifiers."""
        results = [ReportResult.of(*each) for each in zip(ids, reports.outcomes, strict=True)]
        return cls.of(SimpleNamespace(results=results, **reports._asdict()))


class AuthorizerBody(RecordBody):
    """An authorizer with its last report."""

    model_config = example(**_AUTHORIZER)

    id: AuthorizerId
    name: str = field("Name from the registration.")
    type: OrNull = field("Type of the program; null if not reported.")
    version: OrNull = attribute("program_version", "Version of the program; null if not reported.")
    public_key: OrNull = attribute(
        "any_key", "Ed25519 public key in hexadecimal; null if the authorizer has none."
    )
    metadata: dict[str, str] = field("Labels for people, as names with values.")
    features: tuple[str, ...] = field("Supported features, such as `subject-cutoffs`.")
    owner: str = field("Identity that registered the authorizer, as in the audit log.")
    relay: OrNull = field("Relay that reports for the authorizer; null if it reports directly.")
    registered_at: MomentOut = field("Time of the registration.")
    last_seen_at: MomentOut = field(
        "Time of the last stored heartbeat. Heartbeats without changes are stored every 270 "
        "seconds."
    )
    sequence: int | None = field("Sequence of the last applied feed entry; null if there is none.")
    chain: Annotated[str | None, BeforeValidator(lambda value: value.hex() or None)] = field(
        "Reported chain hash at `sequence`, in hexadecimal; null if not reported."
    )
    verified_at: MomentOut | None = field(
        "Time of the last confirmation of the state by the service; null if there was none."
    )
    max_staleness_seconds: int | None = field(
        "Staleness limit in seconds: after this time without confirmation, the authorizer refuses "
        "every warrant; null if not reported."
    )
    fail_open: bool = field("Whether the authorizer accepts warrants while its state is stale.")
    refused: dict[str, int] = field("Number of rejected responses of the service, by reason.")
    equivocation: bool = field(
        "Whether the authorizer reported entries that this service did not publish."
    )
    api_key_id: OrNull = attribute(
        "key_id", "API key that registered the authorizer; null if a session did."
    )
    key_verified: bool = field(
        "Whether the authorizer has proved `public_key`. If true, only signed reports are accepted."
    )
    trust_version: int = attribute(
        "trust", "Version of the authorizer's trust document; 0 if it has none."
    )
    enforcement: EnforcementState | None = optional(
        "State for the newest feed entry, only with `include=enforcement`. `enforced`: the "
        "authorizer reported the entry. `fail_closed`: it refuses every request without the "
        "entry. `unknown`: it may accept requests."
    )
    fail_closed_at: MomentOut | None = optional(
        "Time from which the authorizer refuses every request without the entry, only with "
        "`include=enforcement`; absent if unknown."
    )
    lag_entries: int | None = optional(
        "Number of missing entries up to the newest, only with `include=enforcement`; absent if "
        "the authorizer reported no entry."
    )

    @classmethod
    def from_status(cls, status: AuthorizerStatus, newest: PublishedEntry | None) -> Self:
        """Return the body for the state of an authorizer at the newest entry."""
        body, last = cls.of(status.authorizer), 0 if newest is None else newest.sequence
        body.enforcement, body.fail_closed_at = status.enforcement, status.fail_closed_at
        body.lag_entries = None if body.sequence is None else max(0, last - body.sequence)
        return body


class AuthorizerList(PageBody):
    """A page of authorizers. Fields after `cursor` are present only with `include=enforcement`."""

    model_config = example(authorizers=[_AUTHORIZER], total=240, cursor=CURSOR)

    authorizers: list[AuthorizerBody] = field("The authorizers of this page, newest first.")
    total: Total
    cursor: NextCursor
    sequence: int | None = optional("Sequence of the newest feed entry; absent if there is none.")
    issued_at: MomentOut | None = optional(
        "Publication time of the newest feed entry; absent if there is none."
    )
    removed: list[str] | None = optional(
        "Identifiers of authorizers that were removed since `changed_since`, or did not report "
        "for 30 days. An identifier may be repeated."
    )
    changed_since: str | None = optional("Pass this as `changed_since` to get only later changes.")
    next_change_at: MomentOut | None = optional(
        "Time at which the `enforcement` of an authorizer on this page changes without a new "
        "report; absent if there is none."
    )

    @classmethod
    def from_statuses(cls, page: StatusPage, pager: CursorCodec, tokens: CursorCodec) -> Self:
        """Return the body for a page with states. `tokens` creates its `changed_since`."""
        newest = page.newest
        return cls(
            authorizers=[AuthorizerBody.from_status(each, newest) for each in page.judged],
            total=page.total,
            cursor=pager.cursor_after(page.next_before),
            sequence=None if newest is None else newest.sequence,
            issued_at=None if newest is None else newest.issued_at,
            removed=page.removed,
            changed_since=tokens.cursor_after(str(page.token)),
            next_change_at=page.next_change_at,
        )


class AuthorizerInclude(StrEnum):
    """Optional parts of a list of authorizers."""

    ENFORCEMENT = "enforcement"


class AuthorizerQuery(PageQuery):
    """The query of GET /v1/authorizers."""

    include: AuthorizerInclude | None = omittable(
        "`enforcement`: include the state of each authorizer for the newest feed entry."
    )
    changed_since: str | None = omittable(
        "The `changed_since` of an earlier response, with `include=enforcement`. Returns only "
        "authorizers that have changed since then. After a new feed entry, all authorizers have "
        "changed."
    )

    def pages(self, caller: Caller) -> CursorCodec:
        """Return the position in the list. Raises `InvalidRequest`."""
        if self.changed_since is not None and self.include is None:
            raise InvalidRequest("changed_since: requires include=enforcement.")
        listed = "authorizers" if self.include is None else f"authorizers?{self.changed_since}"
        return CursorCodec(caller, self.cursor, listed)

    def tokens(self, caller: Caller) -> CursorCodec:
        """Return the codec for `changed_since`."""
        return CursorCodec(caller, self.changed_since, "authorizers#since")

    def read_cursor(self, caller: Caller) -> ListingCursor | None:
        """Return the position in `changed_since`. Raises `InvalidRequest`."""
        try:
            position = self.tokens(caller).position
        except InvalidRequest:
            problem = "changed_since: must be the value of an earlier response."
            raise InvalidRequest(problem) from None
        return None if position is None else ListingCursor.parse(position)


class FleetSummaryBody(RecordBody):
    """The number of registered authorizers, and their states for the newest entry."""

    model_config = example(
        sequence=61,
        issued_at="2026-11-21T12:00:01Z",
        total=240,
        enforced=236,
        fail_closed=3,
        unknown=1,
        missed_heartbeat=2,
        fail_open=1,
        without_cutoffs=0,
        next_change_at="2026-11-21T12:01:31Z",
        unregistered=[UNREGISTERED],
    )

    sequence: int | None = field("Sequence of the newest feed entry; null if there is none.")
    issued_at: MomentOut | None = field(
        "Publication time of the newest feed entry; null if there is none."
    )
    total: int = field("Number of registered authorizers that reported within the last 30 days.")
    enforced: int = field(
        "Number of authorizers that reported the entry with the right chain hash."
    )
    fail_closed: int = field(
        "Number of authorizers that refuse every request because they did not report the entry."
    )
    unknown: int = field("Number of authorizers in neither of these states.")
    missed_heartbeat: int = field("Number of authorizers with a missed heartbeat.")
    fail_open: int = field("Number of authorizers that accept warrants while their state is stale.")
    without_cutoffs: int = field("Number of authorizers that do not support subject cutoffs.")
    next_change_at: MomentOut | None = field(
        "Time at which the next authorizer changes from `unknown` to `fail_closed` without a "
        "report; null if none will."
    )
    unregistered: UnregisteredClients
