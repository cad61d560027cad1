"""Policies, decided as IAM decides them, as far as the templates use its language.

A statement that uses anything else fails the test rather than count as a match.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Statement = Mapping[str, Any]
# What IAM is asked of a transaction: an action, and the partitions that its condition sees. AWS
# does not document which of the ways below it takes.
Judged = list[tuple[str, list[str]]]
Way = Callable[[Judged], Judged]


@dataclass(frozen=True)
class Request:
    """An action on a resource, with what is known of it: one text a key, or several."""

    action: str
    resource: str
    context: Mapping[str, str | Sequence[str]] = field(default_factory=dict)


def allowed(statements: Iterable[Statement], request: Request) -> bool:
    """Whether a policy allows a request: some statement does, and none denies it."""
    effects = {each["Effect"] for each in statements if _applies(each, request)}
    return effects == {"Allow"}


def _applies(statement: Statement, request: Request) -> bool:
    assert set(statement) <= {"Sid", "Effect", "Principal", "Action", "Resource", "Condition"}
    return (
        any(_like(request.action, each) for each in _each(statement["Action"]))
        and any(_like(request.resource, each) for each in _each(statement["Resource"]))
        and all(
            _holds(operator, key, _each(values), request.context)
            for operator, keys in statement.get("Condition", {}).items()
            for key, values in keys.items()
        )
    )


def _holds(
    operator: str, key: str, values: Sequence[str], context: Mapping[str, str | Sequence[str]]
) -> bool:
    found = _each(context.get(key, ()))
    if operator == "Null":
        return (not found) == (values == ["true"])
    quantifier, _, plain = operator.rpartition(":")
    positive = plain.replace("StringNot", "String")
    matches = _OPERATORS[positive]
    hits = [any(matches(each, value) for value in values) == (plain == positive) for each in found]
    match quantifier:
        case "ForAllValues":
            return all(hits)
        case "ForAnyValue":
            return any(hits)
        case _:
            assert len(found) <= 1
            return any(hits)


def _like(text: str, pattern: str) -> bool:
    parts = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(parts, text) is not None


_OPERATORS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "ArnLike": _like,
    "Bool": str.__eq__,
    "StringEquals": str.__eq__,
    "StringLike": _like,
}


def _each(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def by_item(items: Judged) -> Judged:
    """Each item alone."""
    return items


def by_action(items: Judged) -> Judged:
    """All items of an action together."""
    actions = dict.fromkeys(action for action, _ in items)
    return [
        (name, [k for action, keys in items if action == name for k in keys]) for name in actions
    ]


def by_table(items: Judged) -> Judged:
    """All items of the transaction together."""
    keys = [key for _, keys in items for key in keys]
    return [(action, keys) for action, _ in items]


def never(_items: Judged) -> Judged:
    """Not at all."""
    return []
