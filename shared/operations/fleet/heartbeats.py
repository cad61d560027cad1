"""Heartbeats: of one authorizer, or of many that a relay reports (FLEET-4)."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from shared import logs
from shared.errors import ExpectationLost
from shared.model import feed, times
from shared.model.callers import Caller
from shared.model.fleet import authorizers as model
from shared.model.fleet.authorizers import Authorizer, Heartbeat, Registered
from shared.model.identifiers import AUTHORIZER, is_identifier
from shared.operations.base import steps
from shared.operations.fleet import chains
from shared.operations.fleet import registrations as rules
from shared.operations.fleet.chains import Chains
from shared.ports import Ports
from shared.ports.store import Change

_log = logging.getLogger(__name__)


class HeartbeatOutcome(StrEnum):
    """What became of a heartbeat.

    `foreign`: it was taken, but the authorizer holds entries that this service did not publish.
    `not_found`: the authorizer is not registered, or another owner registered it.
    """

    OK = "ok"
    FOREIGN = "foreign"
    NOT_FOUND = "not_found"


_Decision: TypeAlias = tuple[HeartbeatOutcome, Sequence[Change]]


class Taken(NamedTuple):
    """The outcomes, in the order of the heartbeats.

    `latest` is the last entry of the feed, None before the first list.
    """

    outcomes: list[HeartbeatOutcome]
    latest: int | None
    numbers: Registered


@dataclass(frozen=True, slots=True)
class _HeartbeatFacts:
    """The records that were read, and the reporter. `relay` is as in `take`."""

    caller: Caller
    relay: str
    now: datetime
    own: Mapping[str, Authorizer]
    chains: Chains
    numbers: Registered


def take(ports: Ports, caller: Caller, beats: Mapping[str, Heartbeat], *, relay: str) -> Taken:
    """Take heartbeats by identifier of the authorizer; store those that say something new.

    `relay` names the relay that reports them, empty if the authorizer itself does. Raises
    `ExpectationLost` if a registration changed meanwhile; some heartbeats may then be stored.
    """
    facts = _read(ports, caller, beats, relay)
    outcomes, changes = list[HeartbeatOutcome](), list[Sequence[Change]]()
    for authorizer_id, beat in beats.items():
        outcome, change = _report(facts, facts.own.get(authorizer_id), beat)
        outcomes.append(outcome)
        changes.append(change)
    _store(ports, changes)
    _tell_of_foreign(facts, dict(zip(beats, outcomes, strict=True)))
    if rules.is_due(facts.numbers, facts.now):
        rules.recount(ports, caller.tenant_id, facts.numbers)
    return Taken(outcomes, facts.chains.newest, facts.numbers)


def _read(
    ports: Ports, caller: Caller, beats: Mapping[str, Heartbeat], relay: str
) -> _HeartbeatFacts:
    tenant_id = caller.tenant_id
    partition = model.authorizers(tenant_id)
    counter, head = model.registered_address(tenant_id), feed.head_address(tenant_id)
    # Malformed identifiers are not valid as keys of every store, and nobody has them.
    ids = [each for each in beats if is_identifier(each, kind=AUTHORIZER)]
    items = ports.store.get_many([counter, head, *map(partition.address, ids)])
    own = {each: items[at] for each in ids if (at := partition.address(each)) in items}
    return _HeartbeatFacts(
        caller,
        relay,
        times.whole(ports.now()),
        {each: Authorizer.from_item(item) for each, item in own.items()},
        chains.of(ports, tenant_id, items.get(head), beats.values()),
        rules.registered(items.get(counter)),
    )


def _report(facts: _HeartbeatFacts, before: Authorizer | None, beat: Heartbeat) -> _Decision:
    """Decide about a heartbeat. A heartbeat registers nobody (FLEET-5)."""
    if before is None or before.owner != facts.caller.identity:
        return HeartbeatOutcome.NOT_FOUND, []
    after = _after(facts, before, beat)
    return _outcome(after), rules.change(facts.caller.tenant_id, before, after)


def _after(facts: _HeartbeatFacts, before: Authorizer, beat: Heartbeat) -> Authorizer:
    is_foreign = facts.chains.is_foreign(beat)
    if is_foreign is None:
        # It cannot be compared any more, so the last comparison of the same counts.
        is_same = (before.sequence, before.chain.hex()) == (beat.sequence, beat.chain)
        is_foreign = before.is_foreign and is_same
    return before.after(beat, facts.now, relay=facts.relay, is_foreign=is_foreign)


def _outcome(authorizer: Authorizer) -> HeartbeatOutcome:
    return HeartbeatOutcome.FOREIGN if authorizer.is_foreign else HeartbeatOutcome.OK


def _tell_of_foreign(facts: _HeartbeatFacts, outcomes: Mapping[str, HeartbeatOutcome]) -> None:
    """Log which authorizers report a foreign chain that did not do so before (FLEET-16)."""
    told = {each for each, before in facts.own.items() if before.is_foreign}
    found = [each for each, outcome in outcomes.items() if outcome is HeartbeatOutcome.FOREIGN]
    if new := [each for each in found if each not in told]:
        figures = {"EquivocationReported": len(new)}
        more = logs.fields(tenant_id=facts.caller.tenant_id, authorizer_ids=new, metrics=figures)
        _log.warning("equivocation", extra=more)


def _store(ports: Ports, changes: Sequence[Sequence[Change]]) -> None:
    """Store what says something new. Those that change the numbers have a write of their own."""
    for each in changes:
        if len(each) > 1:
            ports.store.write(*each)
    if steps.apply(ports, [each for each in changes if len(each) == 1], most=1):
        raise ExpectationLost(())
