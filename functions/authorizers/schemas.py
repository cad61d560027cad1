"""Bodies of the endpoints of authorizers (FLEET-2, FLEET-4)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from shared.authorizer.formats.wire import NUMBER_MAX
from shared.errors import InvalidRequest
from shared.model import text, times
from shared.model.callers import Caller
from shared.model.fleet.authorizers import REPORTS_MAX, RegistrationCounts, native_version
from shared.model.fleet.heartbeats import (
    AuthorizerDescription,
    Heartbeat,
    RefusedReport,
    SignedStatement,
)
from shared.model.fleet.native import STALE_AFTER_SECONDS
from shared.model.fleet.propagation import AuthorizerStatus, EnforcementState, PublishedEntry
from shared.model.identifiers import API_KEY, AUTHORIZER, is_identifier
from shared.operations.fleet.authorizers import HeartbeatAnswer, HeartbeatStatus
from shared.operations.fleet.heartbeats import AcceptedReports, HeartbeatOutcome
from shared.operations.fleet.present import ListingCursor, StatusPage
from shared.operations.fleet.registering import Registration
from shared.web.fields import (
    CURSOR,
    MomentIn,
    MomentOut,
    Name,
    NextCursor,
    RecordBody,
    ResponseBody,
    Total,
    example,
    identifier,
    optional,
    response_field,
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

# A registration is stored in one item of at most 2.25 KB (FLEET-3).
_NAME_BYTES_MAX: Final = 255
WORD_BYTES_MAX: Final = 64
METADATA_BYTES_MAX: Final = 512


def _short(value: str) -> str:
    if len(value.encode()) > _NAME_BYTES_MAX:
        raise ValueError(f"must have at most {_NAME_BYTES_MAX} bytes as UTF-8")
    return value


def _word(value: str) -> str:
    if len(value.encode()) > WORD_BYTES_MAX:
        raise ValueError(f"must have at most {WORD_BYTES_MAX} bytes as UTF-8")
    return value


def _metadata(value: dict[str, str]) -> dict[str, str]:
    size = sum(len(part.encode(errors="surrogatepass")) for pair in value.items() for part in pair)
    if size > METADATA_BYTES_MAX:
        raise ValueError(f"may have at most {METADATA_BYTES_MAX} bytes in all, as UTF-8")
    for part in filter(None, [*value.values(), *value]):
        text.name(part)
    if "" in value:
        raise ValueError("must have no empty name")
    return value


def _authorizer_id(value: str) -> str:
    if not is_identifier(value, kind=AUTHORIZER):
        raise ValueError("must be the identifier of an authorizer")
    return value


def _each_once(value: list["RelayedReport"]) -> list["RelayedReport"]:
    if len({each.id for each in value}) < len(value):
        raise ValueError("must have each id once")
    return value


ShortName = Annotated[Name, AfterValidator(_short)]
Word = Annotated[Name, AfterValidator(_word)]
Features = Annotated[
    list[Annotated[str, Field(pattern="^[a-z-]{1,32}$")]], Field(max_length=FEATURES_MAX)
]
Number = Annotated[int, Field(ge=0, le=NUMBER_MAX)]
Base64 = Annotated[str, Field(max_length=_BASE64_MAX)]
AuthorizerId = Annotated[
    str, response_field("Identifier of the authorizer.", **identifier(AUTHORIZER))
]
Identifiers = list[str]


FeedSequence = Annotated[
    int, response_field("The last entry of the feed; 0 before the first.", minimum=0)
]
NativeVersion = Annotated[
    int,
    response_field("The version of the newest native list; 0 before the first list.", minimum=0),
]
ReportedStatus = Annotated[
    HeartbeatStatus,
    response_field(
        "`equivocation`: the authorizer holds entries that this service did not publish. Its list "
        "may be forged, or the service was restored from a backup."
    ),
]
# A text that is stored as empty if it is absent.
OrNull = Annotated[str | None, BeforeValidator(lambda value: value or None)]
HexOrNull = Annotated[str | None, BeforeValidator(lambda value: value.hex() or None)]


class OpenBody(BaseModel):
    """A JSON object with strictly typed fields. Unknown fields are ignored (FLEET-7).

    An authorizer that gets 400 may never report again, and a newer authorizer may report more.
    """

    model_config = ConfigDict(extra="ignore", strict=True)


class RegistrationProof(OpenBody):
    """A registration signed by the authorizer (TRUST-10). Unknown fields are ignored."""

    payload: Base64 = Field(description="The registration: deterministic CBOR, in base64.")
    signature: Base64 = Field(
        description="The Ed25519 signature over `rescind-register-v1`, a line feed and the "
        "payload, in base64."
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
        description="A name that the caller gives to one authorizer only, of at most 255 bytes."
    )
    type: Word | None = Field(default=None, description="The kind of program.")
    version: Word | None = Field(default=None, description="The version of the program.")
    metadata: Annotated[dict[str, str], AfterValidator(_metadata)] | None = Field(
        default=None, description="Texts by name that people recognise it by; 512 bytes in all."
    )
    relay: Word | None = Field(
        default=None, description="The name of the relay that polls and reports for it, if any."
    )
    proof: RegistrationProof = Field(description="The proof of its key.")
    features: Features | None = Field(
        default=None,
        description="What it supports. With `subject-cutoffs`, it refuses all tokens of a subject "
        "by one identifier.",
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
    description="What the authorizer holds (TRUST-10): deterministic CBOR, in base64.",
)
_SIGNATURE: Final = Field(
    max_length=_BASE64_MAX,
    description="The Ed25519 signature over `rescind-report-v1`, a line feed and `report`, in "
    "base64.",
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

    srl_version: Number | None = Field(
        default=None, description="The version of the native list that it holds."
    )
    srl_health: Any = Field(
        default=None, description="Of this, `last_fetch_at`: when it received a list last."
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
        description="The identifier that the relay registered it with.",
        json_schema_extra=identifier(AUTHORIZER),
    )
    seen_at: MomentIn | None = Field(
        default=None, description="When the relay heard from it; omit it if that is now."
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

    relay: Word = Field(description="The name of the relay.")
    reports: Annotated[
        list[RelayedReport], Field(min_length=1, max_length=REPORTS_MAX), AfterValidator(_each_once)
    ] = Field(description="The reports of 1 to 100 authorizers, each of another one.")

    def beats(self) -> dict[str, Heartbeat]:
        """Return the argument of the operation."""
        return {each.id: each.beat() for each in self.reports}


class Pace(ResponseBody):
    """When authorizers report."""

    report_after_seconds: int = response_field(
        "How many seconds after a heartbeat the next one is due, if nothing changes.", minimum=1
    )
    jitter_seconds: int = response_field(
        "After each advance, report once, after a random time of up to this many seconds.",
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

    id: AuthorizerId
    key_verified: bool = response_field("Whether only signed reports count.")
    last_number: int = response_field(
        "The number of the last signed report; the next ones have higher ones."
    )

    @classmethod
    def of(cls, registration: Registration) -> Self:
        """Return the body for a registration."""
        found = registration.authorizer
        return cls(
            id=found.id,
            key_verified=found.key_verified,
            last_number=found.number,
            **pace(registration.numbers),
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

    @classmethod
    def of(cls, answer: HeartbeatAnswer) -> Self:
        """Return the body for a heartbeat."""
        return cls(
            status=answer.status,
            feed_sequence=answer.latest or 0,
            srl_version=native_version(answer.latest),
            **pace(answer.numbers),
        )


class ReportResult(ResponseBody):
    """The outcome of one report of a relay."""

    model_config = example(id=sample(AUTHORIZER), status="refused", reason="signature")

    id: AuthorizerId
    status: HeartbeatOutcome = response_field(
        "`ok`: it was taken. `equivocation`: likewise, but the authorizer holds entries that this "
        "service did not publish. `not_found`: the caller has not registered the authorizer, or it "
        "was removed. Register it again. `refused`: it is not the signed report that counts."
    )
    reason: RefusedReport | None = response_field("Why it is refused; null if it is not.")

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

    results: list[ReportResult] = response_field("One for each report, in their order.")
    feed_sequence: FeedSequence
    srl_version: NativeVersion

    @classmethod
    def of(cls, ids: Iterable[str], reports: AcceptedReports) -> Self:
        """Return the body for the outcomes of the reports with these identifiers."""
        pairs = zip(ids, reports.outcomes, strict=True)
        results = [ReportResult.of(each, outcome) for each, outcome in pairs]
        return cls(
            results=results,
            feed_sequence=reports.latest or 0,
            srl_version=native_version(reports.latest),
            **pace(reports.numbers),
        )


class AuthorizerBody(RecordBody):
    """An authorizer with its last report."""

    model_config = example(**_AUTHORIZER)

    id: AuthorizerId
    name: str = response_field("The name that it was registered with.")
    type: OrNull = response_field("The kind of program.")
    version: OrNull = Field(
        validation_alias="program_version", description="The version of the program."
    )
    public_key: OrNull = Field(
        validation_alias="any_key", description="Its Ed25519 public key in hexadecimal."
    )
    metadata: dict[str, str] = response_field("Texts by name that people recognise it by.")
    features: tuple[str, ...] = response_field("What it supports, such as `subject-cutoffs`.")
    owner: str = response_field("Who registered it, as the audit log names callers.")
    relay: OrNull = response_field("The relay that reports for it; null if it reports itself.")
    registered_at: MomentOut = response_field("When it was registered.")
    last_seen_at: MomentOut = response_field(
        "When its last stored heartbeat came. One without news is not stored for 270 seconds."
    )
    sequence: int | None = response_field(
        "The last entry of the feed that it applied; null if it holds nothing."
    )
    chain: HexOrNull = response_field(
        "The chain of the feed there, as it reported it, in hexadecimal."
    )
    verified_at: MomentOut | None = response_field(
        "When the service last confirmed to it what it holds."
    )
    max_staleness_seconds: int | None = response_field(
        "How long after that it refuses every warrant if it hears nothing; null if not reported."
    )
    fail_open: bool = response_field("Whether it then allows warrants instead.")
    refused: dict[str, int] = response_field(
        "How many answers of the service it refused, by reason."
    )
    equivocation: bool = response_field(
        "Whether it holds entries that this service did not publish."
    )
    api_key_id: OrNull = Field(
        validation_alias="key_id",
        description="The API key that registered it; null if a session did.",
    )
    key_verified: bool = response_field(
        "Whether it has proved `public_key`, so that only signed reports count."
    )
    trust_version: int = Field(
        validation_alias="trust",
        description="The version of the trust document that it held; 0 if it held none.",
    )
    enforcement: EnforcementState | None = optional(
        "Its state for the newest entry, in a list with `include=enforcement`. `enforced`: it "
        "reported it. `fail_closed`: it did not, but refuses every request unless it has it. "
        "`unknown`: it may let requests through."
    )
    fail_closed_at: MomentOut | None = optional(
        "Likewise: from when on it refuses every request unless it has the entry; absent if that "
        "is not known."
    )
    lag_entries: int | None = optional(
        "Likewise: how many entries it lacks until the newest; absent if it reported none."
    )

    @classmethod
    def from_status(cls, status: AuthorizerStatus, newest: PublishedEntry | None) -> Self:
        """Return the body for the state of an authorizer at the newest entry."""
        authorizer, last = status.authorizer, 0 if newest is None else newest.sequence
        lag_entries = None if authorizer.sequence is None else max(0, last - authorizer.sequence)
        told = {
            "enforcement": status.enforcement,
            "fail_closed_at": status.fail_closed_at,
            "lag_entries": lag_entries,
        }
        return cls.of(authorizer).model_copy(update=told)


class AuthorizerList(PageBody):
    """A page of authorizers; the fields after `cursor` only with `include=enforcement`."""

    model_config = example(authorizers=[_AUTHORIZER], total=240, cursor=CURSOR)

    authorizers: list[AuthorizerBody] = response_field(
        "The authorizers of this page, newest first."
    )
    total: Total
    cursor: NextCursor
    sequence: int | None = optional("The newest entry of the feed; absent before the first.")
    issued_at: MomentOut | None = optional("When it was published.")
    removed: Identifiers | None = optional(
        "Authorizers that were removed since, or did not report for 30 days; some may come twice."
    )
    changed_since: str | None = optional("Pass this as `changed_since` to get only what changed.")
    next_change_at: MomentOut | None = optional(
        "When the time alone next changes the `enforcement` of an authorizer that was read for the "
        "page."
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

    include: AuthorizerInclude | None = Field(
        default=None,
        description="`enforcement`: each authorizer has its state for the newest entry.",
    )
    changed_since: str | None = Field(
        default=None,
        description="The `changed_since` of an earlier response, with `include=enforcement`. Only "
        "what has changed since is returned; if there is a newer entry, that is all.",
    )

    def pages(self, caller: Caller) -> CursorCodec:
        """Return the position in the list. Raises `InvalidRequest`."""
        if self.changed_since is not None and self.include is None:
            raise InvalidRequest("changed_since: needs include=enforcement.")
        listed = "authorizers" if self.include is None else f"authorizers?{self.changed_since}"
        return CursorCodec(caller, self.cursor, listed)

    def tokens(self, caller: Caller) -> CursorCodec:
        """Return the codec for `changed_since`."""
        return CursorCodec(caller, self.changed_since, "authorizers#since")

    def read_cursor(self, caller: Caller) -> ListingCursor | None:
        """Return the position in `changed_since`. Raises `InvalidRequest`."""
        try:
            found = self.tokens(caller).position
        except InvalidRequest:
            raise InvalidRequest("changed_since: must come from an earlier response.") from None
        return None if found is None else ListingCursor.parse(found)


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

    sequence: int | None = response_field("The newest entry of the feed; null before the first.")
    issued_at: MomentOut | None = response_field("When it was published; null before the first.")
    total: int = response_field("All that are registered, and were seen in the last 30 days.")
    enforced: int = response_field("Those that reported the entry, with the right chain.")
    fail_closed: int = response_field(
        "Those that did not, but refuse every request unless they have the entry."
    )
    unknown: int = response_field("The others.")
    missed_heartbeat: int = response_field("Those whose heartbeat is missing.")
    fail_open: int = response_field("Those that let requests through with an old state.")
    without_cutoffs: int = response_field("Those that do not support subject cutoffs.")
    next_change_at: MomentOut | None = response_field(
        "When the time alone next closes one that is unknown; null if it never will."
    )
    unregistered: UnregisteredClients


def pace(numbers: RegistrationCounts) -> dict[str, int]:
    """Return the fields that specify when authorizers report."""
    return {
        "report_after_seconds": numbers.report_after_seconds,
        "jitter_seconds": numbers.jitter_seconds,
    }
