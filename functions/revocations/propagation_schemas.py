"""Bodies of the proof of propagation (FLEET-10)."""

from typing import Annotated, Final, Self

from fastapi import Query
from pydantic import BaseModel, Field, JsonValue

from functions.revocations.schemas import RevocationId
from shared.model.fleet import propagation as model
from shared.model.fleet.propagation import Judged, Proof
from shared.model.identifiers import AUTHORIZER
from shared.operations.fleet.propagation import Progress
from shared.web.fields import (
    MomentOut,
    RecordBody,
    ResponseBody,
    SignedWarrantId,
    decimal,
    example,
    identifier,
    optional,
    sample,
    shown,
)

_WAIT_MAX: Final = 3600
_WAIT: Final = decimal("0|[1-9][0-9]{0,3}", must=f"be a whole number from 0 to {_WAIT_MAX}")

_STRAGGLER: Final[dict[str, JsonValue]] = {
    "id": sample(AUTHORIZER),
    "name": "gateway-7",
    "proof": "unknown",
    "proven": True,
    "holds": 58,
    "seen_at": "2026-11-21T11:58:02Z",
    "denies_all_from": "2026-11-21T12:01:31Z",
}


class PropagationQuery(BaseModel):
    """The query of a proof."""

    # The order matters: what follows a validator is checked, but is not in the API document.
    wait: Annotated[int, Field(ge=0, le=_WAIT_MAX), _WAIT] = Field(
        default=0,
        description="How many seconds the service may wait until the propagation is complete. It "
        "waits for 25 seconds at most, and on Lambda not at all.",
    )


Wait = Annotated[PropagationQuery, Query()]


class PropagatedEntry(RecordBody):
    """The first entry of the feed that says so."""

    sequence: int = shown("Its number.", minimum=0)
    issued_at: MomentOut = shown("When it was published.")


class PropagatedList(ResponseBody):
    """The first list that says so."""

    version: int = shown("Its version.", minimum=1)


class AuthorizerCounts(RecordBody):
    """How many authorizers are registered, and what is known of them."""

    registered: int = shown("All that are registered, and were seen in the last 30 days.")
    holding: int = shown("Those that reported this entry or a later one, with the right chain.")
    closed: int = shown(
        "Those that did not, but refuse every request unless they have the entry: it is older than "
        "the state that they accept."
    )
    unknown: int = shown("The others.")
    unproven: int = shown(
        "Those of all that are registered without a key of their own, so that others may report "
        "for them."
    )


class StragglerBody(ResponseBody):
    """An authorizer that did not report the entry."""

    model_config = example(**_STRAGGLER)

    id: str = shown("Identifier of the authorizer.", **identifier(AUTHORIZER))
    name: str = shown("The name that it registered with.")
    proof: str = shown("What is known of it.", enum=[Proof.CLOSED, Proof.UNKNOWN])
    proven: bool = shown("Whether it has a key, and signs its reports.")
    holds: int | None = shown("The last entry that it reported; null if it reported none.")
    seen_at: MomentOut = shown("The time of its last heartbeat that was stored.")
    denies_all_from: MomentOut | None = shown(
        "From when on it refuses every request unless it has the entry by then; null if that is "
        "not known, or if it lets requests through with an old state."
    )

    @classmethod
    def of(cls, judged: Judged) -> Self:
        """Return the body for an authorizer."""
        authorizer = judged.authorizer
        return cls(
            id=authorizer.id,
            name=authorizer.name,
            proof=judged.proof,
            proven=authorizer.is_proven,
            holds=authorizer.sequence,
            seen_at=authorizer.seen_at,
            denies_all_from=judged.denies_all_from,
        )


# `list` is a field below.
Stragglers = list[StragglerBody]


class RevocationPropagation(ResponseBody):
    """How far a revocation has got among the authorizers."""

    model_config = example(
        revocation_id="svc_rev_01kbm4xt3rfz8c5w7y2q9n6d1e",
        warrant_id="svc_wrt_laptop-17",
        revoked_at="2026-11-21T12:00:00Z",
        feed={"sequence": 61, "issued_at": "2026-11-21T12:00:01Z"},
        list={"version": 44},
        authorizers={
            "registered": 240,
            "holding": 236,
            "closed": 3,
            "unknown": 1,
            "unproven": 0,
        },
        complete=False,
        proven=False,
        stragglers=[_STRAGGLER],
    )

    revocation_id: RevocationId
    warrant_id: SignedWarrantId
    revoked_at: MomentOut = shown("When the warrant was revoked.")
    feed: PropagatedEntry | None = shown(
        "The first entry of the feed that says so; null if there is none yet, or if the warrant "
        "has left the list. If more than 1000 entries followed, a later one."
    )
    list: PropagatedList | None = shown(
        "The first list that says so, of those whose heads are kept; null if there is none yet."
    )
    ended_at: MomentOut | None = optional(
        "When the warrant ended; only if it has left the list for that. Authorizers refuse it "
        "because it ended, and need no entry."
    )
    authorizers: AuthorizerCounts
    complete: bool = shown(
        "Whether every registered authorizer refuses the warrant: none is unknown, and at least "
        "one is registered."
    )
    proven: bool = shown("Whether it is complete, and no registered authorizer is unproven.")
    stragglers: Stragglers = shown(
        "The authorizers that are not holding: the unknown ones first, then those that were not "
        "seen for the longest time.",
        maxItems=model.STRAGGLERS_MAX,
    )

    @classmethod
    def of(cls, progress: Progress) -> Self:
        """Return the body for a revocation."""
        record, traced, found = progress
        entry, version = traced.published, traced.list_version
        return cls(
            revocation_id=record.id,
            warrant_id=record.warrant_id,
            revoked_at=record.created_at,
            feed=None if entry is None else PropagatedEntry.of(entry),
            list=None if version is None else PropagatedList(version=version),
            ended_at=traced.ended_at,
            authorizers=AuthorizerCounts.of(found),
            complete=found.is_complete,
            proven=found.is_proven,
            stragglers=[StragglerBody.of(each) for each in found.stragglers],
        )
