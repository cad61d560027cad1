"""Bodies of changes (FLEET-30, FLEET-33)."""

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Annotated, Final, Self

from pydantic import Field, JsonValue

from functions.authorizers import bodies
from functions.authorizers import enforcement as model
from functions.authorizers.enforcement import AuthorizerStatus, EnforcementState
from functions.changes.operations import ChangeProgress, FeedCoverage
from functions.changes.records import ChangeFilters, ChangeKind
from shared.errors import InvalidRequest
from shared.model.feed import PublishedEntry
from shared.model.identifiers import API_KEY, BATCH, REVOCATION, SIGNING_KEY
from shared.model.revocations import EARLIEST_END
from shared.web.fields import (
    CURSOR,
    MomentIn,
    MomentOut,
    NextCursor,
    RecordBody,
    ResponseBody,
    attribute,
    example,
    field,
    omittable,
    optional,
    sample,
)
from shared.web.paging import PageBody, PageQuery

ChangeId = Annotated[
    str,
    field(
        "Identifier of the change: of the revocation, batch, key or SRL signer.",
        examples=[sample(BATCH), sample(SIGNING_KEY)],
    ),
]
_WINDOW: Final = timedelta(days=7)
_CHANGE: Final[dict[str, JsonValue]] = {
    "id": sample(REVOCATION),
    "kind": "warrant",
    "name": "svc_wrt_laptop-17",
    "recorded_at": "2026-11-21T12:00:00Z",
    "reason": "The laptop was stolen.",
    "actor": {"identity": "admin@acme.svc", "key_id": sample(API_KEY), "name": "Anna"},
}
_LAGGING_CHANGE: Final = bodies.LAGGING | {
    "owner": "checkout@acme.svc",
    "sequence": 58,
    "lag_entries": 3,
    "fail_open": False,
}


class ActorBody(RecordBody):
    """The caller that made a change."""

    identity: str = field("Name of the caller in the audit log.")
    key_id: str | None = field("Identifier of the API key; null if none was used.")
    name: str | None = field("Name of the API key or the person at that time; null if unknown.")


class ListedChange(RecordBody):
    """A change that revoked trust."""

    model_config = example(**_CHANGE)

    id: str = field("Identifier of the revocation, batch, key or SRL signer.")
    kind: ChangeKind = field("Kind of the revoked resource.")
    name: str | None = field(
        "Identifier of the warrant, or name of the key; null if there is none."
    )
    recorded_at: MomentOut = field(
        "Time of the change. The service rejects the revoked resource from this time on."
    )
    reason: str | None = field("Reason; null if none was given, or if it is unknown.")
    actor: ActorBody | None = field("Caller that made the change; null if unknown.")


class ChangeList(PageBody):
    """A page of changes."""

    model_config = example(changes=[_CHANGE], total=1, cursor=CURSOR)

    changes: list[ListedChange] = field("The changes of this page, newest first.")
    total: int | None = field("Always null. Changes are not counted.", minimum=0)
    cursor: NextCursor


class ChangesQuery(PageQuery):
    """The query of GET /v1/changes. Both times are inclusive."""

    kind: ChangeKind | None = omittable("Return only changes of this kind.")
    from_: MomentIn | None = Field(
        default=None,
        alias="from",
        description="Earliest time, inclusive. The default is 7 days before `to`.",
    )
    to: MomentIn | None = omittable("Latest time, inclusive. The default is now.")

    def filters(self, now: datetime) -> ChangeFilters:
        """Return the filters. Raises `InvalidRequest` if the window ends before it begins."""
        end = self.to or now
        start = self.from_ or (end - _WINDOW if end > EARLIEST_END else end)
        if start > end:
            raise InvalidRequest("from: must not be later than to.")
        return ChangeFilters(self.kind, start, end)


class ChangeReachBody(RecordBody):
    """The number of keys and warrants that a change revoked."""

    keys: int = field("Number of keys, including revoked descendants of a signing key.", minimum=0)
    warrants: int = field(
        "Number of warrants: the named warrants, or the warrants that the key signed."
    )


class ChangeEntry(ResponseBody):
    """The part of a change that the feed contains."""

    sequence: int | None = field(
        "Sequence of the first entry with which the feed contains the whole change; null if there "
        "is none yet."
    )
    issued_at: MomentOut | None = field(
        "Publication time of that entry; null if there is none yet."
    )
    published: int = field("Number of published parts of the change.", minimum=0)
    total: int = field(
        "Number of parts of the change: revoked warrants of a batch that have not expired."
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


class ChangeSrl(bodies.PropagatedSrl, RecordBody):
    """The first SRL that contains a change."""

    issued_at: MomentOut = field("Issue time of the SRL.")


class LaggingAuthorizer(bodies.LaggingBody):
    """An authorizer that did not report the entry."""

    model_config = example(**_LAGGING_CHANGE)

    owner: str = attribute("authorizer.owner", "Identity that registered the authorizer.")
    sequence: int | None = attribute(
        "authorizer.sequence", "Sequence of the last reported entry; null if none was reported."
    )
    lag_entries: int | None = field(
        "Number of missing entries up to the change; null if none was reported, or if the change "
        "is not published."
    )
    fail_open: bool = attribute(
        "authorizer.fail_open", "Whether the authorizer accepts warrants while its state is stale."
    )

    @classmethod
    def of_entry(cls, status: AuthorizerStatus, entry: PublishedEntry | None) -> Self:
        """Return the body for an authorizer."""
        sequence, lag_entries = status.authorizer.sequence, None
        if entry is not None and sequence is not None:
            lag_entries = max(0, entry.sequence - sequence)
        return cls.of(
            SimpleNamespace(
                authorizer=status.authorizer,
                enforcement=status.enforcement,
                fail_closed_at=status.fail_closed_at,
                lag_entries=lag_entries,
            )
        )


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
        unregistered=[bodies.UNREGISTERED],
    )

    can_unrevoke: bool = field("Whether the change has a revocation that can still be removed.")
    unrevoked_at: MomentOut | None = optional(
        "Time at which the warrant was unrevoked; absent unless the change is a removed revocation."
    )
    reach: ChangeReachBody = field("Number of revoked keys and warrants.")
    feed: ChangeEntry | None = field(
        "Publication in the feed; null for an API key, which only the service accepts."
    )
    srl: ChangeSrl | None = field("First SRL that contains the change; null if there is none yet.")
    srl_due_at: MomentOut | None = field(
        "Time by which the next SRL must be published; null if an SRL contains the change, or if "
        "none will."
    )
    authorizers: bodies.ChangeCounts
    is_complete: bool = field(
        "Whether every registered authorizer enforces the change. For an API key: whether it has "
        "no registered authorizers."
    )
    completed_at: MomentOut | None = field(
        "Time at which the last authorizer was known to enforce the change; null if the change is "
        "not complete."
    )
    propagation_curve: list[tuple[int, EnforcementState]] = field(
        "Seconds after `recorded_at` at which each authorizer was known to enforce the change, "
        "with its state, in ascending order. More than 200 points are sampled evenly.",
        maxItems=model.CURVE_MAX,
    )
    is_upper_bound: bool = field(
        "Whether the times are upper bounds. Authorizers may have enforced the change earlier, "
        "but not later."
    )
    lagging_authorizers: list[LaggingAuthorizer] = field(
        bodies.LAGGING_AUTHORIZERS, maxItems=model.LAGGING_MAX
    )
    unregistered: bodies.UnregisteredClients

    @classmethod
    def following(cls, progress: ChangeProgress) -> Self:
        """Return the body for a change."""
        facts, propagation, curve = progress.facts, progress.propagation, progress.propagation_curve
        entry = facts.feed and facts.feed.entry
        return cls(
            **ListedChange.of(facts.change).model_dump(),
            can_unrevoke=facts.can_unrevoke,
            unrevoked_at=facts.unrevoked_at,
            reach=ChangeReachBody.of(facts.reach),
            feed=facts.feed and ChangeEntry.of_feed(facts.feed),
            srl=None if progress.listed is None else ChangeSrl.of(progress.listed),
            srl_due_at=progress.srl_due_at,
            authorizers=bodies.ChangeCounts.of(propagation),
            is_complete=progress.is_complete,
            completed_at=progress.completed_at,
            propagation_curve=[*curve.points],
            is_upper_bound=curve.is_upper_bound,
            lagging_authorizers=[
                LaggingAuthorizer.of_entry(each, entry) for each in propagation.lagging_authorizers
            ],
            unregistered=[
                bodies.UnregisteredClientBody.of(each) for each in propagation.unregistered
            ],
        )
