"""Bodies of propagation proofs, changes and searches (FLEET-10, FLEET-30, FLEET-33)."""

from datetime import datetime, timedelta
from typing import Annotated, Final, Self

from fastapi import Query
from pydantic import BaseModel, Field, JsonValue

from functions.revocations.schemas import RevocationId
from shared.errors import InvalidRequest
from shared.model.changes import ChangeFilters, ChangeKind
from shared.model.fleet import propagation as model
from shared.model.fleet.propagation import AuthorizerStatus, EnforcementState, PublishedEntry
from shared.model.identifiers import API_KEY, AUTHORIZER, BATCH, REVOCATION, SIGNING_KEY
from shared.model.revocations import EARLIEST_END
from shared.operations.fleet.changes import ChangeProgress, FeedCoverage
from shared.operations.fleet.propagation import PropagationProgress
from shared.web.fields import (
    CURSOR,
    MomentIn,
    MomentOut,
    NextCursor,
    RecordBody,
    ResponseBody,
    SignedWarrantId,
    decimal,
    example,
    identifier,
    optional,
    response_field,
    sample,
)
from shared.web.paging import PageBody, PageQuery
from shared.web.unregistered import UNREGISTERED, UnregisteredClientBody, UnregisteredClients

ChangeId = Annotated[
    str,
    response_field(
        "Identifier of what was revoked.", examples=[sample(BATCH), sample(SIGNING_KEY)]
    ),
]
_WAIT_MAX: Final = 3600
_WAIT: Final = decimal("0|[1-9][0-9]{0,3}", must=f"be a whole number from 0 to {_WAIT_MAX}")
_WINDOW: Final = timedelta(days=7)
_CHANGE: Final[dict[str, JsonValue]] = {
    "id": sample(REVOCATION),
    "kind": "warrant",
    "name": "svc_wrt_laptop-17",
    "recorded_at": "2026-11-21T12:00:00Z",
    "reason": "The laptop was stolen.",
    "actor": {"identity": "admin@acme.svc", "key_id": sample(API_KEY), "name": "Anna"},
}
_LAGGING: Final[dict[str, JsonValue]] = {
    "id": sample(AUTHORIZER),
    "name": "gateway-7",
    "enforcement": "unknown",
    "last_seen_at": "2026-11-21T11:58:02Z",
    "fail_closed_at": "2026-11-21T12:01:31Z",
}
_LAGGING_REVOCATION: Final = _LAGGING | {"key_verified": True, "sequence": 58}
_LAGGING_CHANGE: Final = _LAGGING | {
    "owner": "checkout@acme.svc",
    "sequence": 58,
    "lag_entries": 3,
    "fail_open": False,
}


class PropagationQuery(BaseModel):
    """The query of a propagation proof."""

    # The order matters: the API document omits constraints that follow a validator.
    wait: Annotated[int, Field(ge=0, le=_WAIT_MAX), _WAIT] = Field(
        default=0,
        description="How many seconds the service may wait until the propagation is complete. It "
        "waits for 25 seconds at most, and on Lambda not at all.",
    )


Wait = Annotated[PropagationQuery, Query()]


class PropagatedEntry(RecordBody):
    """The first feed entry that makes clients refuse the revoked warrants."""

    sequence: int = response_field("Its number.", minimum=0)
    issued_at: MomentOut = response_field("When it was published.")


class PropagatedSrl(ResponseBody):
    """The first SRL that contains the revocation."""

    version: int = response_field("Its version.", minimum=1)


class ChangeCounts(RecordBody):
    """The number of registered authorizers, and their states."""

    total: int = response_field(
        "All that are registered, and were seen in the last 30 days; for an API key, those that it "
        "registered.",
        minimum=0,
    )
    enforced: int = response_field(
        "Those that reported this entry or a later one, with the right chain.", minimum=0
    )
    fail_closed: int = response_field(
        "Those that did not, but refuse every request unless they have the entry: it is older than "
        "the state that they accept.",
        minimum=0,
    )
    unknown: int = response_field("The others.", minimum=0)
    unsupported: int = response_field(
        "Those of the unknown that do not support subject cutoffs, if one was revoked.", minimum=0
    )


class AuthorizerCounts(ChangeCounts):
    """The number of registered authorizers, their states, and the number without a key."""

    key_unverified: int = response_field(
        "Those of all that are registered without a key of their own, so that others may report "
        "for them."
    )


class _LaggingBody(ResponseBody):
    """An authorizer that did not report the entry."""

    id: str = response_field("Identifier of the authorizer.", **identifier(AUTHORIZER))
    name: str = response_field("The name that it registered with.")
    enforcement: str = response_field(
        "What is known of it. `unsupported`: it does not refuse tokens by subject cutoffs.",
        enum=[EnforcementState.FAIL_CLOSED, EnforcementState.UNKNOWN, EnforcementState.UNSUPPORTED],
    )
    last_seen_at: MomentOut = response_field("The time of its last heartbeat that was stored.")
    fail_closed_at: MomentOut | None = response_field(
        "From when on it refuses every request unless it has the entry by then; null if that is "
        "not known, or if it lets requests through with an old state."
    )

    @classmethod
    def from_status(cls, status: AuthorizerStatus, **more: object) -> Self:
        """Return the body for an authorizer, with the fields of `more`."""
        found = status.authorizer
        return cls.model_validate(
            {
                "id": found.id,
                "name": found.name,
                "enforcement": status.enforcement,
                "last_seen_at": found.last_seen_at,
                "fail_closed_at": status.fail_closed_at,
                **more,
            }
        )


_LAGGING_AUTHORIZERS: Final = (
    "The authorizers whose state is not `enforced`: the unknown ones first, then those that were "
    "not seen for the longest time."
)


class RevocationLaggingAuthorizer(_LaggingBody):
    """An authorizer that did not report the entry."""

    model_config = example(**_LAGGING_REVOCATION)

    key_verified: bool = response_field("Whether it has a key, and signs its reports.")
    sequence: int | None = response_field(
        "The last entry that it reported; null if it reported none."
    )

    @classmethod
    def of(cls, status: AuthorizerStatus) -> Self:
        """Return the body for an authorizer."""
        found = status.authorizer
        return cls.from_status(status, key_verified=found.key_verified, sequence=found.sequence)


RevocationLaggingAuthorizers = list[RevocationLaggingAuthorizer]


class RevocationPropagation(ResponseBody):
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

    revocation_id: RevocationId
    warrant_id: SignedWarrantId
    revoked_at: MomentOut = response_field("When the warrant was revoked.")
    feed: PropagatedEntry | None = response_field(
        "The first entry of the feed that says so; null if there is none yet, or if the warrant "
        "has left the list. If more than 1000 entries followed, a later one."
    )
    srl: PropagatedSrl | None = response_field(
        "The first list that says so, of those whose heads are kept; null if there is none yet."
    )
    ended_at: MomentOut | None = optional(
        "When the warrant ended; only if it has left the list for that. Authorizers refuse it "
        "because it ended, and need no entry."
    )
    authorizers: AuthorizerCounts
    is_complete: bool = response_field(
        "Whether every registered authorizer refuses the warrant: none is unknown, and at least "
        "one is registered."
    )
    is_verified: bool = response_field(
        "Whether it is complete, and each registered authorizer has a verified key."
    )
    lagging_authorizers: RevocationLaggingAuthorizers = response_field(
        _LAGGING_AUTHORIZERS, maxItems=model.LAGGING_MAX
    )
    unregistered: UnregisteredClients

    @classmethod
    def of(cls, progress: PropagationProgress) -> Self:
        """Return the body for a revocation."""
        record, traced, found = progress
        entry, version = traced.published, traced.srl_version
        return cls(
            revocation_id=record.id,
            warrant_id=record.warrant_id,
            revoked_at=record.created_at,
            feed=None if entry is None else PropagatedEntry.of(entry),
            srl=None if version is None else PropagatedSrl(version=version),
            ended_at=traced.ended_at,
            authorizers=AuthorizerCounts.of(found),
            is_complete=found.is_complete,
            is_verified=found.is_verified,
            lagging_authorizers=[
                RevocationLaggingAuthorizer.of(each) for each in found.lagging_authorizers
            ],
            unregistered=[UnregisteredClientBody.of(each) for each in found.unregistered],
        )


class ActorBody(RecordBody):
    """The caller that made a change."""

    identity: str = response_field("As the audit log names callers.")
    key_id: str | None = response_field("The API key that was used; null if none was.")
    name: str | None = response_field(
        "The name that the key or the person had; null if it is not known."
    )


class ListedChange(RecordBody):
    """A change that revoked trust."""

    model_config = example(**_CHANGE)

    id: str = response_field("Identifier of the revocation, the batch, the key or the list signer.")
    kind: ChangeKind = response_field("What was revoked.")
    name: str | None = response_field("The warrant, or the name of the key; null if it has none.")
    recorded_at: MomentOut = response_field(
        "When it was recorded: from then on the service refuses it."
    )
    reason: str | None = response_field("Why; null if no reason is given or known.")
    actor: ActorBody | None = response_field("Who made it; null if that is not known.")


class ChangeList(PageBody):
    """A page of changes."""

    model_config = example(changes=[_CHANGE], total=1, cursor=CURSOR)

    changes: list[ListedChange] = response_field("The changes of this page, newest first.")
    total: int | None = response_field(
        "Number of changes; null, as they are not counted.", minimum=0
    )
    cursor: NextCursor


class ChangesQuery(PageQuery):
    """The query of GET /v1/changes. Both times are inclusive."""

    kind: ChangeKind | None = Field(default=None, description="What was revoked.")
    from_: MomentIn | None = Field(
        default=None, alias="from", description="The earliest time; 7 days before `to` if absent."
    )
    to: MomentIn | None = Field(default=None, description="The latest time; now if absent.")

    def filters(self, now: datetime) -> ChangeFilters:
        """Return the filters. Raises `InvalidRequest` if the window ends before it begins."""
        end = self.to or now
        start = self.from_ or (end - _WINDOW if end > EARLIEST_END else end)
        if start > end:
            raise InvalidRequest("from: must not be later than to.")
        return ChangeFilters(self.kind, start, end)


class ChangeReachBody(RecordBody):
    """The number of keys and warrants that a change revoked."""

    keys: int = response_field(
        "How many keys: those below a signing key if they went with it.", minimum=0
    )
    warrants: int = response_field("How many warrants: those named, or those that the key signed.")


class ChangeEntry(ResponseBody):
    """The part of a change that the feed contains."""

    sequence: int | None = response_field(
        "The entry from which on it has all; null if none has yet."
    )
    issued_at: MomentOut | None = response_field("When that entry was published.")
    published: int = response_field("How many of its parts the feed has.", minimum=0)
    total: int = response_field(
        "How many parts it has: warrants of a batch that are revoked and not ended."
    )

    @classmethod
    def of_feed(cls, coverage: FeedCoverage) -> Self:
        """Return the body for the feed's coverage of a change."""
        entry = coverage.entry
        return cls(
            sequence=None if entry is None else entry.sequence,
            issued_at=None if entry is None else entry.issued_at,
            published=coverage.published,
            total=coverage.total,
        )


class ChangeSrl(PropagatedSrl, RecordBody):
    """The first SRL that contains a change."""

    issued_at: MomentOut = response_field("When it was issued.")


class LaggingAuthorizer(_LaggingBody):
    """An authorizer that did not report the entry."""

    model_config = example(**_LAGGING_CHANGE)

    owner: str = response_field("Who registered it.")
    sequence: int | None = response_field(
        "The last entry that it reported; null if it reported none."
    )
    lag_entries: int | None = response_field(
        "How many entries it lacks until the change; null if it reported none, or no entry has it."
    )
    fail_open: bool = response_field("Whether it lets requests through with an old state.")

    @classmethod
    def of(cls, status: AuthorizerStatus, entry: PublishedEntry | None) -> Self:
        """Return the body for an authorizer."""
        found, lag_entries = status.authorizer, None
        if entry is not None and found.sequence is not None:
            lag_entries = max(0, entry.sequence - found.sequence)
        return cls.from_status(
            status,
            owner=found.owner,
            sequence=found.sequence,
            lag_entries=lag_entries,
            fail_open=found.fail_open,
        )


LaggingAuthorizers = list[LaggingAuthorizer]
CurvePoints = list[tuple[int, EnforcementState]]


class ChangeBody(ListedChange):
    """A change, and the authorizers that are known to enforce it."""

    model_config = example(
        **_CHANGE,
        can_unrevoke=True,
        reach={"keys": 0, "warrants": 1},
        feed={"sequence": 61, "issued_at": "2026-11-21T12:00:01Z", "published": 1, "total": 1},
        srl={"version": 44, "issued_at": "2026-11-21T12:01:00Z"},
        srl_due_at="2026-11-21T12:01:00Z",
        authorizers={
            "total": 240,
            "enforced": 239,
            "fail_closed": 1,
            "unknown": 0,
            "unsupported": 0,
        },
        is_complete=True,
        completed_at="2026-11-21T12:01:31Z",
        propagation_curve=[[2, "enforced"], [3, "enforced"], [91, "fail_closed"]],
        is_upper_bound=False,
        lagging_authorizers=[_LAGGING_CHANGE | {"enforcement": "fail_closed"}],
        unregistered=[UNREGISTERED],
    )

    can_unrevoke: bool = response_field("Whether a revocation of it can still be removed.")
    unrevoked_at: MomentOut | None = optional(
        "When the warrant was unrevoked; only if the change is a revocation that was removed."
    )
    reach: ChangeReachBody = response_field("What it revoked.")
    feed: ChangeEntry | None = response_field(
        "How far the feed has it; null for an API key, which only the service accepts."
    )
    srl: ChangeSrl | None = response_field("The first list that has it; null if there is none yet.")
    srl_due_at: MomentOut | None = response_field(
        "By when the next list is due; null if a list has it, or none will."
    )
    authorizers: ChangeCounts
    is_complete: bool = response_field(
        "Whether every registered authorizer refuses it. For an API key: whether no authorizer is "
        "registered by it any more."
    )
    completed_at: MomentOut | None = response_field("When the last one was known to refuse it.")
    propagation_curve: CurvePoints = response_field(
        "Seconds after `recorded_at` at which an authorizer was known to refuse it, and its state, "
        "in order. If there are more than 200, those are evenly chosen.",
        maxItems=model.CURVE_MAX,
    )
    is_upper_bound: bool = response_field("Whether some may have refused it earlier; never later.")
    lagging_authorizers: LaggingAuthorizers = response_field(
        _LAGGING_AUTHORIZERS, maxItems=model.LAGGING_MAX
    )
    unregistered: UnregisteredClients

    @classmethod
    def following(cls, progress: ChangeProgress) -> Self:
        """Return the body for a change."""
        change, entry = progress.change, progress.feed and progress.feed.entry
        return cls(
            **ListedChange.of(change).model_dump(),
            can_unrevoke=progress.can_unrevoke,
            unrevoked_at=progress.unrevoked_at,
            reach=ChangeReachBody.of(progress.reach),
            feed=progress.feed and ChangeEntry.of_feed(progress.feed),
            srl=None if progress.listed is None else ChangeSrl.of(progress.listed),
            srl_due_at=progress.srl_due_at,
            authorizers=ChangeCounts.of(progress.propagation),
            is_complete=progress.is_complete,
            completed_at=progress.completed_at,
            propagation_curve=[*progress.propagation_curve.points],
            is_upper_bound=progress.propagation_curve.is_upper_bound,
            lagging_authorizers=[
                LaggingAuthorizer.of(each, entry)
                for each in progress.propagation.lagging_authorizers
            ],
            unregistered=[
                UnregisteredClientBody.of(each) for each in progress.propagation.unregistered
            ],
        )


_HITS_MAX: Final = 50
_LIMIT: Final = decimal("0|[1-9][0-9]{0,8}", must=f"be a whole number from 1 to {_HITS_MAX}")


_HIT: Final[dict[str, JsonValue]] = {
    "kind": "signing_key",
    "id": sample(SIGNING_KEY),
    "name": "checkout",
    "note": "issuer",
    "status": "active",
}


class SearchQuery(BaseModel):
    """The query of a search."""

    q: str = Field(
        min_length=2, max_length=200, description="An identifier, the beginning of one, or words."
    )
    limit: Annotated[int, Field(ge=1, le=_HITS_MAX), _LIMIT] = Field(
        default=8, description="The maximum number of results."
    )


class SearchHit(RecordBody):
    """A search result."""

    model_config = example(**_HIT)

    kind: str = response_field(
        "What it is.",
        enum=[
            "warrant",
            "revocation",
            "batch",
            "signing_key",
            "api_key",
            "service_account",
            "authorizer",
            "audit_entry",
        ],
    )
    id: str = response_field("Its identifier.")
    name: str | None = response_field(
        "Its name, the warrant of a revocation, or the action of an entry."
    )
    note: str | None = response_field("More of it, such as the reason of a revocation.")
    status: str | None = response_field("Its status; null if it has none.")


class SearchResults(ResponseBody):
    """The results of a search."""

    model_config = example(results=[_HIT])

    results: list[SearchHit] = response_field("Each once.")
