"""Bodies of the revocation endpoints and of daily counts (REVOKE-1, CHECK-4, REVOKE-31)."""

from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import BaseModel, BeforeValidator, Field, JsonValue

from shared.errors import InvalidRequest
from shared.model.identifiers import REVOCATION, token_id
from shared.model.revocation_batches import BATCH_MAX
from shared.model.revocation_counts import (
    DAYS_MAX,
    HOURLY_DAYS_MAX,
    RevocationCountSeries,
)
from shared.model.revocations import Revocation, RevocationFilters
from shared.operations.lists.reach import PublicationStatus
from shared.web.fields import (
    CURSOR,
    WHOLE,
    DateIn,
    DateOut,
    IssuedBefore,
    MomentIn,
    MomentOut,
    NextCursor,
    Reason,
    RecordBody,
    RequestBody,
    ResponseBody,
    RevocationId,
    SignedWarrantId,
    TokenKind,
    TokenPart,
    WarrantId,
    WarrantReferenceBody,
    attribute,
    example,
    field,
    omittable,
    optional,
    sample,
)
from shared.web.paging import PageBody, PageQuery

REASON_PART_MAX: Final = 256


class CreateRevocation(WarrantReferenceBody):
    """The warrant or the token to revoke."""

    model_config = example(warrant_id="svc_wrt_laptop-17", reason="laptop stolen")

    warrant_id: WarrantId | None = omittable(
        "Identifier of the warrant to revoke, which the service need not have signed. Pass either "
        "this or `token`."
    )
    reason: Reason = Field(
        description="Reason, in one or more lines. Leading and trailing white space is removed."
    )
    warrant_expires_at: MomentIn | None = omittable(
        "Expiry of the warrant, in the future. The warrant leaves the Signed Revocation List one "
        "SRL lifetime after this time, so pass it only if verifiers refuse the warrant from then "
        "on. If the service signed the warrant with an `expires_at`, the two must be equal. For a "
        "`jwt-subject` of a bound issuer, the default is `issued_before` plus its "
        "`token_max_seconds`."
    )


class CheckQuery(BaseModel):
    """The query of GET /v1/revocations/check: a warrant, or a token."""

    warrant_id: WarrantId | None = omittable(
        "Identifier of the warrant. Pass either this or a token."
    )
    token_kind: TokenKind | None = omittable("Kind of the token.")
    token_issuer: TokenPart | None = omittable(
        "Issuer of the token, if its kind has one; otherwise omit it."
    )
    token_value: TokenPart | None = omittable("Value of the token.")
    token_issued_before: Annotated[IssuedBefore, WHOLE] | None = omittable(
        "`jwt-subject` only: the `iat` of a token, rounded up to whole seconds, or 0."
    )

    @property
    def one(self) -> str:
        """The warrant identifier. Raises `InvalidRequest` unless exactly one is given."""
        kind, value = self.token_kind, self.token_value
        token = (kind, self.token_issuer, value, self.token_issued_before)
        if token.count(None) == len(token) and self.warrant_id is not None:
            return self.warrant_id
        if self.warrant_id is not None or kind is None or value is None:
            others = "token_kind, token_issuer, token_value and token_issued_before"
            raise InvalidRequest(f"warrant_id: is required; pass either this or {others}.")
        try:
            return token_id(kind, self.token_issuer or "", value, self.token_issued_before)
        except ValueError as error:
            raise InvalidRequest(f"token_{error}.") from None


class CheckRevocations(RequestBody):
    """The warrants to check."""

    model_config = example(warrant_ids=["svc_wrt_laptop-17", "svc_wrt_laptop-18"])

    warrant_ids: Annotated[list[WarrantId], Field(min_length=1, max_length=BATCH_MAX)] = Field(
        description="Identifiers of the warrants."
    )


_RECORD: Final[dict[str, JsonValue]] = {
    "id": sample(REVOCATION),
    "warrant_id": "svc_wrt_laptop-17",
    "reason": "laptop stolen",
    "created_at": "2026-11-21T12:00:00Z",
    "created_by": "admin@acme.svc",
}
_NAME: Final = "Anna's laptop"


class RevocationRecord(RecordBody):
    """The record of a revocation."""

    model_config = example(**_RECORD)

    id: RevocationId
    warrant_id: SignedWarrantId
    reason: str = field("Reason of the revocation.")
    created_at: MomentOut = field("Time of the revocation.")
    created_by: str = field(
        "Identity that revoked the warrant, as in the audit log: the e-mail of a person, "
        "`<service account>@<tenant>.svc`, or `<API key id>@<tenant>.svc` for a key without a "
        "service account."
    )
    created_by_id: str | None = optional(
        "Identifier of the person who revoked the warrant; absent if it was not a person."
    )
    batch_id: str | None = optional(
        "Identifier of the batch; absent if the revocation has no batch."
    )
    token_issuer: str | None = optional(
        "Issuer of the token; absent unless the request named a token."
    )
    token_value: str | None = optional(
        "Value of the token; absent unless the request named a token."
    )
    created_by_name: str | None = optional(
        "Name of the API key at that time, only with `include=names`; absent if unknown."
    )


class NamedRevocation(RevocationRecord):
    """The record of a revocation, with the name of its creator."""

    model_config = example(**_RECORD, created_by_name=_NAME)

    created_by_name: str | None = field(
        "Name of the API key at that time; null if the warrant was not revoked over HTTP, or if "
        "the record is older than this field."
    )


class RevocationWithPublication(NamedRevocation):
    """The record of a revocation, with its first feed entry and SRL."""

    model_config = example(**_RECORD, created_by_name=_NAME, feed_sequence=61, srl_version=44)

    feed_sequence: int | None = field(
        "Sequence of the first feed entry that contains the revocation; null if there is none "
        "yet. If more than 1000 entries followed, it is a later entry."
    )
    srl_version: int | None = field(
        "Version of the first SRL that contains the revocation, among the SRLs in the history; "
        "null if there is none yet."
    )

    @classmethod
    def following(cls, record: Revocation, reach: PublicationStatus) -> Self:
        """Return the body for a record and its publication status."""
        fields = {name: getattr(record, name) for name in NamedRevocation.model_fields}
        return cls(**fields, **reach._asdict())


WarrantPrefix = Annotated[str, Field(pattern="^svc_wrt_[A-Za-z0-9_-]{0,64}$")]


class RevocationInclude(StrEnum):
    """Optional parts of the list of revocations."""

    NAMES = "names"


class RevocationQuery(PageQuery):
    """The query of GET /v1/revocations. Both times are inclusive."""

    warrant_id: WarrantId | None = omittable(
        "Return only the revocation of this warrant. A warrant has at most one."
    )
    warrant_prefix: WarrantPrefix | None = omittable(
        "Return only warrants with this identifier prefix, in the order of the identifiers. "
        "Warrants past retention come last."
    )
    batch_id: str | None = omittable("Return only revocations of this batch.")
    created_by: str | None = omittable("Return only revocations with this `created_by`.")
    actor_key_id: str | None = omittable(
        "Return only revocations made with this API key. Older records do not name their API key."
    )
    reason: Annotated[str, Field(min_length=1, max_length=REASON_PART_MAX)] | None = omittable(
        "Return only revocations with this text in the reason. The search ignores case."
    )
    from_: MomentIn | None = Field(
        default=None, alias="from", description="Earliest time of a record, inclusive."
    )
    to: MomentIn | None = omittable("Latest time of a record, inclusive.")
    include: RevocationInclude | None = omittable(
        "`names`: include `created_by_name` in each record."
    )

    def filters(self) -> RevocationFilters:
        """Return the filters. Raises `InvalidRequest` if the window ends before it begins."""
        if self.from_ and self.to and self.from_ > self.to:
            raise InvalidRequest("from: must not be later than to.")
        return RevocationFilters(
            self.warrant_id,
            self.batch_id,
            self.created_by,
            self.actor_key_id,
            self.reason,
            self.from_,
            self.to,
            self.warrant_prefix,
        )


class RevocationList(PageBody):
    """A page of revocation records."""

    model_config = example(revocations=[_RECORD], total=132, cursor=CURSOR)

    revocations: list[RevocationRecord] = field("The records of this page, newest first.")
    total: int | None = field(
        "Number of records on all pages together; null if a filter is given.", minimum=0
    )
    cursor: NextCursor


class RevocationCheck(RecordBody):
    """The revocation status of a warrant."""

    model_config = example(
        warrant_id="svc_wrt_laptop-17",
        revoked=True,
        revoked_at="2026-11-21T12:00:00Z",
        reason="laptop stolen",
    )

    warrant_id: SignedWarrantId
    revoked: bool = field("Whether the warrant is revoked at the time of the request.")
    revoked_at: MomentOut | None = optional(
        "Time at which the warrant or its signing key was revoked; absent unless it is revoked."
    )
    reason: str | None = optional("Reason of the revocation; absent unless the warrant is revoked.")


class RevocationStatus(RecordBody):
    """The revocation status of one warrant of a batch."""

    model_config = example(revoked=True, revoked_at="2026-11-21T12:00:00Z")

    revoked: bool = field("Whether the warrant is revoked at the time of the request.")
    revoked_at: MomentOut | None = optional(
        "Time at which the warrant or its signing key was revoked; absent unless it is revoked."
    )


class RevocationStatuses(ResponseBody):
    """The revocation status of each warrant of a batch."""

    model_config = example(
        results={
            "svc_wrt_laptop-17": {"revoked": True, "revoked_at": "2026-11-21T12:00:00Z"},
            "svc_wrt_laptop-18": {"revoked": False},
        }
    )

    results: dict[str, RevocationStatus] = field("The result for each identifier of the request.")


DAYS_DEFAULT: Final = 14
_NUMBERS: Final[dict[str, JsonValue]] = {"created": 7, "deleted": 1, "by_key": 0}
_DAY: Final[dict[str, JsonValue]] = {"date": "2026-11-21", **_NUMBERS}
_HOUR: Final[dict[str, JsonValue]] = {"start": "2026-11-21T12:00:00Z", **_NUMBERS}


class CountInterval(StrEnum):
    """The interval of the counts."""

    DAY = "day"
    HOUR = "hour"


class CountsQuery(BaseModel):
    """The query of GET /v1/revocations/counts. Both days are inclusive."""

    from_: DateIn | None = Field(
        default=None,
        alias="from",
        description=f"First day, inclusive. The default gives {DAYS_DEFAULT} days.",
    )
    to: DateIn | None = omittable("Last day, inclusive. The default is today.")
    interval: CountInterval = Field(
        default=CountInterval.DAY,
        description="`hour`: return hourly counts in `hours`, with empty `days`.",
    )

    @property
    def is_hourly(self) -> bool:
        """Whether hourly counts are requested."""
        return self.interval is CountInterval.HOUR

    def window(self, now: datetime) -> tuple[date, date]:
        """Return the first and the last day.

        Raises `InvalidRequest` if they are reversed or too many.
        """
        most = HOURLY_DAYS_MAX if self.is_hourly else DAYS_MAX
        end = self.to or now.date()
        start = self.from_ or end - timedelta(days=DAYS_DEFAULT - 1)
        if start > end:
            raise InvalidRequest("from: must not be later than to.")
        if end - start >= timedelta(days=most):
            raise InvalidRequest(f"from: must be at most {most - 1} days before to.")
        return start, end


class _CountFields(RecordBody):
    """The numbers of created and deleted revocations."""

    created: int | None = field("Number of revoked warrants; null if unknown.", minimum=0)
    deleted: int | None = field(
        "Number of deleted revocations, regardless of when they were created; null if unknown.",
        minimum=0,
    )
    by_key: int | None = field(
        "Number of warrants signed by keys that were revoked; null if unknown.",
        minimum=0,
    )


class RevocationDay(_CountFields):
    """The numbers of created and deleted revocations on one day, in UTC."""

    model_config = example(**_DAY)

    date: Annotated[DateOut, BeforeValidator(datetime.date)] = attribute(
        "start", "The day, in UTC."
    )


class RevocationHour(_CountFields):
    """The numbers of created and deleted revocations in one hour."""

    model_config = example(**_HOUR)

    start: MomentOut = field("Start of the hour.")


class RevocationCounts(RecordBody):
    """The numbers of created and deleted revocations per day or hour."""

    model_config = example(counted_since="2026-10-24", days=[_DAY])

    counted_since: DateOut | None = field("First day with known counts; null if there is none yet.")
    days: list[RevocationDay] = field(
        "One item per requested day, oldest first; empty with `interval=hour`."
    )
    hours: list[RevocationHour] | None = optional(
        "One item per hour of the requested days, oldest first; only with `interval=hour`."
    )

    @classmethod
    def from_counts(cls, counts: RevocationCountSeries, *, hourly: bool) -> Self:
        """Return the body for daily or hourly counts."""
        days = [] if hourly else [RevocationDay.of(each) for each in counts.spans]
        hours = [RevocationHour.of(each) for each in counts.spans] if hourly else None
        return cls(counted_since=counts.counted_since, days=days, hours=hours)
