"""The set of revoked warrants that a client holds: large, and changed a little at a time."""

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Final, Self

from .wire import FeedEntry

# How many changes are kept beside the large set before they are folded into a copy of it.
_FOLD_AT: Final = 16_384


WARRANT_ID_PATTERN: Final = "svc_wrt_[A-Za-z0-9_-]{1,64}"
_WARRANT_ID: Final = re.compile(WARRANT_ID_PATTERN)


@dataclass(frozen=True, slots=True)
class RevokedIds:
    """The identifiers of revoked warrants. It never changes: `after` returns another set.

    `added` are not in `whole`, and `removed` are, so that a change copies only these two.
    """

    whole: Set[str]
    added: Set[str] = frozenset()
    removed: Set[str] = frozenset()

    def __contains__(self, warrant_id: str) -> bool:
        if warrant_id in self.whole:
            return warrant_id not in self.removed
        return warrant_id in self.added

    def __len__(self) -> int:
        return len(self.whole) + len(self.added) - len(self.removed)

    def ids(self) -> set[str]:
        """Return the identifiers in a new set."""
        ids = set(self.whole)
        ids.update(self.added)
        ids.difference_update(self.removed)
        return ids

    def after(self, entries: Iterable[FeedEntry]) -> Self:
        """Return the set after `entries`, in their order. It takes time in proportion to them."""
        added, removed = set(self.added), set(self.removed)
        for entry in entries:
            added.difference_update(entry.removed)
            removed.update(each for each in entry.removed if each in self.whole)
            removed.difference_update(entry.revoked)
            added.update(each for each in entry.revoked if each not in self.whole)
        changed = type(self)(self.whole, added, removed)
        if len(added) + len(removed) <= _FOLD_AT:
            return changed
        return type(self)(changed.ids())


def is_warrant_id(value: str) -> bool:
    """Return whether `value` is a warrant identifier. Callers choose these themselves (API-15)."""
    return _WARRANT_ID.fullmatch(value) is not None


def warrant_id(value: str) -> str:
    """Return `value`. Raises `ValueError`, for the caller, if it is no warrant identifier."""
    if not is_warrant_id(value):
        raise ValueError("must be svc_wrt_ followed by 1 to 64 letters, digits, '_' or '-'")
    return value
