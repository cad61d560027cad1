"""Bodies of propagation proofs, changes and searches (FLEET-10, FLEET-30, FLEET-33)."""

from datetime import datetime, timedelta
from typing import Annotated, Final, Self

from fastapi import Query
from pydantic import BaseModel, Field, JsonValue

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
    RevocationId,
    SignedWarrantId,
    decimal,
    example,
    field,
    identifier,
    omittable,
    optional,
    sample,
)
from shared.web.paging import PageBody, PageQuery
from shared.web.unregistered import UNREGISTERED, UnregisteredClientBody, UnregisteredClients

ChangeId = Annotated[
    str,
    field(
        "Identifier of the change: of the revocation, batch, key or SRL signer.",
        examples=[sample(BATCH), sample(SIGNING_KEY)],
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
        description="Maximum number of seconds for which the server waits until the propagation "
        "is complete. It waits for at most 25 seconds, and on AWS Lambda not at all.",
    )


Wait = Annotated[PropagationQuery, Query()]


class PropagatedEntry(RecordBody):
    """The first feed entry that makes clients refuse the revoked warrants."""

    sequence: int = field("Sequence of the entry.", minimum=0)
    issued_at: MomentOut = field("Publication time of the entry.")


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


class AuthorizerCounts(ChangeCounts):
    """The number of registered authorizers, their states, and the number without a key."""

    key_unverified: int = field(
        "Number of registered authorizers without a verified key. Other programs can report for "
        "them."
    )


class _LaggingBody(ResponseBody):
    """An authorizer that did not report the entry."""

    id: str = field("Identifier of the authorizer.", **identifier(AUTHORIZER))
    name: str = field("Name from the registration.")
    enforcement: str = field(
        "State of the authorizer. `unsupported`: it does not support subject cutoffs.",
        enum=[EnforcementState.FAIL_CLOSED, EnforcementState.UNKNOWN, EnforcementState.UNSUPPORTED],
    )
    last_seen_at: MomentOut = field("Time of the last stored heartbeat.")
    fail_closed_at: MomentOut | None = field(
        "Time from which the authorizer refuses every request without the entry; null if unknown, "
        "or if it fails open."
    )

    @classmethod
    def from_status(cls, status: AuthorizerStatus, **more: object) -> Self:
        """Return the body for an authorizer, with the fields of `more`."""
        authorizer = status.authorizer
        members = {name: getattr(authorizer, name) for name in ("id", "name", "last_seen_at")}
        members |= {"enforcement": status.enforcement, "fail_closed_at": status.fail_closed_at}
        return cls.model_validate(members | more)


_LAGGING_AUTHORIZERS: Final = (
    "Authorizers in a state other than `enforced`: unknown authorizers first, then by the "
    "oldest heartbeat."
)


class RevocationLaggingAuthorizer(_LaggingBody):
    """An authorizer that did not report the entry."""

    model_config = example(**_LAGGING_REVOCATION)

    key_verified: bool = field("Whether the authorizer has a verified key and signs its reports.")
    sequence: int | None = field("Sequence of the last reported entry; null if none was reported.")

    @classmethod
    def of(cls, status: AuthorizerStatus) -> Self:
        """Return the body for an authorizer."""
        is_verified, sequence = status.authorizer.key_verified, status.authorizer.sequence
        return cls.from_status(status, key_verified=is_verified, sequence=sequence)


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
    revoked_at: MomentOut = field("Time of the revocation.")
    feed: PropagatedEntry | None = field(
        "First feed entry that contains the revocation; null if there is none yet, or if the "
        "warrant has left the SRL. If more than 1000 entries followed, it is a later entry."
    )
    srl: PropagatedSrl | None = field(
        "First SRL that contains the revocation, among the SRLs in the history; null if there is "
        "none yet."
    )
    ended_at: MomentOut | None = optional(
        "Expiry of the warrant, only if it has left the SRL because it expired. Authorizers "
        "refuse an expired warrant without an entry."
    )
    authorizers: AuthorizerCounts
    is_complete: bool = field(
        "Whether every registered authorizer refuses the warrant: at least one is registered, and "
        "none is unknown."
    )
    is_verified: bool = field(
        "Whether the propagation is complete and every registered authorizer has a verified key."
    )
    lagging_authorizers: list[RevocationLaggingAuthorizer] = field(
        _LAGGING_AUTHORIZERS, maxItems=model.LAGGING_MAX
    )
    unregistered: UnregisteredClients

    @classmethod
    def of(cls, progress: PropagationProgress) -> Self:
        """Return the body for a revocation."""
        record, traced, propagation = progress
        entry, version = traced.published, traced.srl_version
        return cls(
            revocation_id=record.id,
            warrant_id=record.warrant_id,
            revoked_at=record.created_at,
            feed=None if entry is None else PropagatedEntry.of(entry),
            srl=None if version is None else PropagatedSrl(version=version),
            ended_at=traced.ended_at,
            authorizers=AuthorizerCounts.of(propagation),
            is_complete=propagation.is_complete,
            is_verified=propagation.is_verified,
            lagging_authorizers=[
                RevocationLaggingAuthorizer.of(each) for each in propagation.lagging_authorizers
            ],
            unregistered=[UnregisteredClientBody.of(each) for each in propagation.unregistered],
        )


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


class ChangeSrl(PropagatedSrl, RecordBody):
    """The first SRL that contains a change."""

    issued_at: MomentOut = field("Issue time of the SRL.")


class LaggingAuthorizer(_LaggingBody):
    """An authorizer that did not report the entry."""

    model_config = example(**_LAGGING_CHANGE)

    owner: str = field("Identity that registered the authorizer.")
    sequence: int | None = field("Sequence of the last reported entry; null if none was reported.")
    lag_entries: int | None = field(
        "Number of missing entries up to the change; null if none was reported, or if the change "
        "is not published."
    )
    fail_open: bool = field("Whether the authorizer accepts warrants while its state is stale.")

    @classmethod
    def of(cls, status: AuthorizerStatus, entry: PublishedEntry | None) -> Self:
        """Return the body for an authorizer."""
        authorizer, lag_entries = status.authorizer, None
        if entry is not None and authorizer.sequence is not None:
            lag_entries = max(0, entry.sequence - authorizer.sequence)
        return cls.from_status(
            status,
            owner=authorizer.owner,
            sequence=authorizer.sequence,
            lag_entries=lag_entries,
            fail_open=authorizer.fail_open,
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
        unregistered=[UNREGISTERED],
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
    authorizers: ChangeCounts
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
        _LAGGING_AUTHORIZERS, maxItems=model.LAGGING_MAX
    )
    unregistered: UnregisteredClients

    @classmethod
    def following(cls, progress: ChangeProgress) -> Self:
        """Return the body for a change."""
        propagation, entry = progress.propagation, progress.feed and progress.feed.entry
        return cls(
            **ListedChange.of(progress.change).model_dump(),
            can_unrevoke=progress.can_unrevoke,
            unrevoked_at=progress.unrevoked_at,
            reach=ChangeReachBody.of(progress.reach),
            feed=progress.feed and ChangeEntry.of_feed(progress.feed),
            srl=None if progress.listed is None else ChangeSrl.of(progress.listed),
            srl_due_at=progress.srl_due_at,
            authorizers=ChangeCounts.of(propagation),
            is_complete=progress.is_complete,
            completed_at=progress.completed_at,
            propagation_curve=[*progress.propagation_curve.points],
            is_upper_bound=progress.propagation_curve.is_upper_bound,
            lagging_authorizers=[
                LaggingAuthorizer.of(each, entry) for each in propagation.lagging_authorizers
            ],
            unregistered=[UnregisteredClientBody.of(each) for each in propagation.unregistered],
        )
