"""Whether the counters of revocations grew by what the entries name (LOG-30)."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import Final

from infra.audit_verification.source import Report
from shared.errors import Corrupt
from shared.model import revocations
from shared.model.audit.audit_log import Action
from shared.model.audit.statements import AuditStatement
from shared.model.items import Item, Value

_ONE: Final = {Action.REVOCATION_CREATE, Action.REVOCATION_DELETE, Action.REVOCATION_EXTEND}
_MANY: Final = {
    Action.REVOCATION_CREATE_BATCH,
    Action.REVOCATION_DELETE_BATCH,
    Action.REVOCATION_EXTEND_BATCH,
}


@dataclass(slots=True)
class Statements:
    """The statements of one generation of the log, and the changes that its entries name.

    `changes` has the shards of the changes of a leaf. `begun` are the leaves at which a recovery
    had the counters stated anew.
    """

    generation: str
    stated: list[tuple[str, AuditStatement]] = field(default_factory=list)
    changes: dict[int, list[int]] = field(default_factory=dict)
    begun: list[int] = field(default_factory=list)

    def noted(self, entries: Iterable[Item], leaf: Callable[[Item], int]) -> Iterator[Item]:
        """Yield the sealed entries, and note what each of them states or changes.

        A malformed one states and changes nothing.
        """
        for each in entries:
            with suppress(Corrupt, KeyError, ValueError):
                self._note(each, leaf(each))
            yield each

    def compare(self, is_absent: Callable[[int], bool], report: Report) -> None:
        """Report the shards whose changes between two statements are not those of the entries.

        Nothing is compared if `is_absent` says that an entry between them has expired.
        """
        ordered = sorted(self.stated, key=lambda each: each[1].size)
        for (first_id, first), (second_id, second) in pairwise(ordered):
            leaves = range(first.size, second.size)
            names = f"{first_id} and {second_id}"
            if any(each in leaves for each in self.begun) or any(map(is_absent, leaves)):
                report.notes.append(f"not compared: the statements {names}")
                continue
            report.statements += 1
            named = Counter(shard for leaf in leaves for shard in self.changes.get(leaf, ()))
            report.findings += _differences(first, second, named, names)

    def _note(self, entry: Item, leaf: int) -> None:
        action, details = entry.get("action"), _map(entry.get("details"))
        if action == Action.AUDIT_LOG_STATEMENT:
            self._state(str(entry["id"]), details, leaf)
        elif action in _ONE:
            self.changes[leaf] = [_shard(details)]
        elif action in _MANY:
            named = details["revocations"]
            self.changes[leaf] = [
                _shard(_map(each)) for each in (named if isinstance(named, list) else [])
            ]
        elif action == Action.REVOCATION_REPAIR:
            self.changes[leaf] = [int(str(details["shard"]))]

    def _state(self, entry_id: str, details: Item, leaf: int) -> None:
        if str(details.get("generation")) != self.generation:
            return
        if details.get("changes") is None:
            self.begun.append(leaf)
        else:
            self.stated.append((entry_id, AuditStatement.from_item(details)))


def _differences(
    first: AuditStatement, second: AuditStatement, named: Counter[int], names: str
) -> Iterator[str]:
    pairs = zip_longest(first.changes, second.changes, fillvalue=0)
    for shard, (before, after) in enumerate(pairs):
        if after - before != named[shard]:
            yield (
                f"shard {shard}: {after - before} changes were counted between the statements "
                f"{names}, but entries name {named[shard]}"
            )


def _map(value: Value) -> Item:
    if not isinstance(value, dict):
        raise Corrupt("an entry has no details")
    return value


def _shard(details: Item) -> int:
    return revocations.shard_number(str(details["warrant_id"]))
