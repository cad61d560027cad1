"""The content of a list: the revoked warrants, and what the next list needs to know about them."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from shared.authorizer.formats.wire import FeedEntry
from shared.model import times

_RUN: Final = 1000


@dataclass(frozen=True, slots=True)
class Content:
    """The revoked warrants, sorted bytewise, each once.

    `ends` has the known ends by warrant, as RFC 3339 text in UTC. `signers` are the revoked signers
    whose warrants are included.
    """

    revoked_ids: list[str] = field(default_factory=list)
    ends: Mapping[str, str] = field(default_factory=dict)
    signers: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        revoked_ids: Iterable[str],
        ends: Mapping[str, datetime | None],
        *,
        signers: tuple[str, ...],
    ) -> "Content":
        """Return the content for these warrants, each given once, in any order."""
        return cls(sorted(revoked_ids), _texts(ends), signers)

    def after(
        self,
        entries: Iterable[tuple[FeedEntry, Sequence[datetime | None]]],
        *,
        signers: tuple[str, ...],
    ) -> "Content":
        """Return the content after these entries of the feed, in order, with their ends.

        No entry may be a break.
        """
        revoked: dict[str, datetime | None] = {}
        removed: set[str] = set()
        for entry, ends in entries:
            for each in entry.removed:
                revoked.pop(each, None)
            removed.update(entry.removed)
            revoked.update(zip(entry.revoked, ends, strict=True))
        return self.changed({*removed, *revoked}, revoked, signers=signers)

    def differences(self, other: "Content") -> set[str]:
        """Return the warrants that are listed here or in `other`, but not in both."""
        return self.missing(other.revoked_ids) | other.missing(self.revoked_ids)

    def changed(
        self,
        looked_at: Collection[str],
        revoked: Mapping[str, datetime | None],
        *,
        signers: tuple[str, ...],
    ) -> "Content":
        """Return the content after a new look at some warrants.

        Those of `looked_at` are listed if they are in `revoked`, and otherwise not. All others
        stay.
        """
        ids, before, start = list[str](), self.revoked_ids, 0
        # What lies between two changes is copied without a look at the names.
        for each in sorted({*looked_at, *revoked}):
            end = bisect_left(before, each, start)
            ids += before[start:end]
            ids += [each] if each in revoked else []
            start = end + (before[end : end + 1] == [each])
        ids += before[start:]
        # Known ends of the other warrants stay.
        ends = {each: at for each, at in self.ends.items() if each not in looked_at}
        return Content(ids, ends | _texts(revoked), signers)

    def missing(self, revoked_ids: Sequence[str]) -> set[str]:
        """Return those of `revoked_ids` that are not listed here. Sorted input is fastest."""
        unseen: set[str] = set()
        if revoked_ids == self.revoked_ids:
            return unseen
        # Compare run by run. Nearly all runs are equal, which is faster than one set of all.
        for start in range(0, len(revoked_ids), _RUN):
            run = revoked_ids[start : start + _RUN]
            low = bisect_left(self.revoked_ids, run[0])
            own = self.revoked_ids[low : bisect_right(self.revoked_ids, run[-1])]
            if run != own:
                unseen.update(set(run).difference(own))
        return {each for each in unseen if not self._has(each)}

    def _has(self, warrant_id: str) -> bool:
        address = bisect_left(self.revoked_ids, warrant_id)
        return self.revoked_ids[address : address + 1] == [warrant_id]

    def at(self, now: datetime, *, ttl: timedelta) -> "Content":
        """Return the content at `now`, a whole second, without warrants that SRL-9 leaves out."""
        # Texts of whole seconds in UTC sort by time.
        limit = times.text(now - ttl)
        gone = {each for each, at in self.ends.items() if at < limit}
        return self.changed(gone, {}, signers=self.signers) if gone else self


def _texts(revoked: Mapping[str, datetime | None]) -> dict[str, str]:
    return {each: times.text(at) for each, at in revoked.items() if at is not None}
