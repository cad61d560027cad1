"""Bodies of the endpoints of authorizers (FLEET-2, FLEET-4)."""

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from types import SimpleNamespace
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from functions.authorizers import bodies
from functions.authorizers.enforcement import AuthorizerStatus, EnforcementState
from functions.authorizers.heartbeats import AcceptedReports, HeartbeatOutcome
from functions.authorizers.records import (
    REPORTS_MAX,
    AuthorizerDescription,
    Heartbeat,
    RefusedReport,
    SignedStatement,
)
from functions.authorizers.statuses import ListingCursor, StatusPage
from shared.errors import InvalidRequest
from shared.model import text
from shared.model.callers import Caller
from shared.model.feed import PublishedEntry
from shared.model.identifiers import API_KEY, AUTHORIZER, is_identifier
from shared.web.fields import (
    CURSOR,
    MomentIn,
    MomentOut,
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


def _metadata(value: dict[str, str]) -> dict[str, str]:
    size = sum(len(part.encode(errors="surrogatepass")) for pair in value.items() for part in pair)
    if size > bodies.METADATA_BYTES_MAX:
        raise ValueError(f"must have at most {bodies.METADATA_BYTES_MAX} bytes in total, as UTF-8")
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


Features = Annotated[
    list[Annotated[str, Field(pattern="^[a-z-]{1,32}$")]], Field(max_length=FEATURES_MAX)
]
Base64 = Annotated[str, Field(max_length=_BASE64_MAX)]

# A text that is stored as empty if it is absent.
OrNull = Annotated[str | None, BeforeValidator(lambda value: value or None)]


class RegistrationProof(bodies.OpenBody):
    """A registration signed by the authorizer (TRUST-10). Unknown fields are ignored."""

    payload: Base64 = Field(description="The registration: base64 of deterministic CBOR.")
    signature: Base64 = Field(
        description="Base64 of the Ed25519 signature over `rescind-register-v1`, a line feed and "
        "the payload."
    )


class RegisterAuthorizer(bodies.OpenBody):
    """The authorizer to register. Unknown fields are ignored."""

    model_config = example(
        name="checkout-7c9f",
        type="rescind-authorizer",
        version="0.3.0",
        metadata={"zone": "a"},
        proof={"payload": "pGROYW1l…", "signature": "mYsK…"},
    )

    name: bodies.ShortName = Field(
        description="Name of the authorizer, unique for the caller, of at most 255 bytes."
    )
    type: bodies.Word | None = omittable("Type of the program.")
    version: bodies.Word | None = omittable("Version of the program.")
    metadata: Annotated[dict[str, str], AfterValidator(_metadata)] | None = omittable(
        "Labels for people, as names with values; at most 512 bytes in total."
    )
    relay: bodies.Word | None = omittable(
        "Name of the relay that polls and reports for the authorizer."
    )
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


class ReportBody(bodies.OpenBody):
    """The state of an authorizer, signed by it. Unknown fields are ignored."""

    model_config = example(**_SIGNED)

    report: Annotated[str, _REPORT]
    signature: Annotated[str, _SIGNATURE]

    def beat(self) -> Heartbeat:
        """Return the argument of the operation."""
        return Heartbeat(None, signed=SignedStatement(self.report, self.signature))


class RelayedReport(bodies.StockReport):
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


class SendReports(bodies.OpenBody):
    """Reports of the authorizers behind a relay. Unknown fields are ignored."""

    model_config = example(
        relay="site-a",
        reports=[{"id": sample(AUTHORIZER), **_SIGNED}],
    )

    relay: bodies.Word = Field(description="Name of the relay.")
    reports: Annotated[
        list[RelayedReport], Field(min_length=1, max_length=REPORTS_MAX), AfterValidator(_each_once)
    ] = Field(description="Reports of 1 to 100 different authorizers.")

    def beats(self) -> dict[str, Heartbeat]:
        """Return the argument of the operation."""
        return {each.id: each.beat() for each in self.reports}


class HeartbeatResponse(bodies.Pace):
    """The response to a heartbeat."""

    model_config = example(
        status="ok",
        feed_sequence=61,
        srl_version=62,
        report_after_seconds=300,
        jitter_seconds=0,
    )

    status: bodies.ReportedStatus
    feed_sequence: bodies.FeedSequence
    srl_version: bodies.NativeVersion


class ReportResult(ResponseBody):
    """The outcome of one report of a relay."""

    model_config = example(id=sample(AUTHORIZER), status="refused", reason="signature")

    id: bodies.AuthorizerId
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


class ReportsResponse(bodies.Pace):
    """The response to the reports of a relay."""

    model_config = example(
        results=[{"id": sample(AUTHORIZER), "status": "refused", "reason": "signature"}],
        feed_sequence=61,
        srl_version=62,
        report_after_seconds=300,
        jitter_seconds=0,
    )

    results: list[ReportResult] = field("One result per report, in the order of the request.")
    feed_sequence: bodies.FeedSequence
    srl_version: bodies.NativeVersion

    @classmethod
    def of_reports(cls, ids: Iterable[str], reports: AcceptedReports) -> Self:
        """Return the body for the outcomes of the reports with these identifiers."""
        results = [ReportResult.of(*each) for each in zip(ids, reports.outcomes, strict=True)]
        return cls.of(SimpleNamespace(results=results, **reports._asdict()))


class AuthorizerBody(RecordBody):
    """An authorizer with its last report."""

    model_config = example(**_AUTHORIZER)

    id: bodies.AuthorizerId
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
        unregistered=[bodies.UNREGISTERED],
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
    unregistered: bodies.UnregisteredClients
