"""What a list is made of: the revoked warrants, and what the next list is to know of them."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import filterfalse
from typing import Final

from shared.model import times

_RUN: Final = 1000


@dataclass(frozen=True, slots=True)
class Content:
    """Revoked warrants, sorted bytewise, each once.

    `ends` has those that are known to end, and when, as RFC 3339 text in UTC; `signers` are the
    revoked signers whose warrants are among them.
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
        """The content of these warrants, each once, in any order, with the known ends."""
        return cls(sorted(revoked_ids), _texts(ends), signers)

    def changed(
        self,
        looked_at: Collection[str],
        revoked: Mapping[str, datetime | None],
        *,
        signers: tuple[str, ...],
    ) -> "Content":
        """With `looked_at` revoked if they are among `revoked`, and else not; the rest stays."""
        gone = {*looked_at, *revoked}
        ids = [*filterfalse(gone.__contains__, self.revoked_ids), *revoked]
        ids.sort()
        # Of what was not looked at, an end that is known stays known.
        ends = {each: at for each, at in self.ends.items() if each not in looked_at}
        return Content(ids, ends | _texts(revoked), signers)

    def missing(self, revoked_ids: Sequence[str]) -> set[str]:
        """Those of `revoked_ids` that are not among ours; quickest where they are sorted too."""
        unseen: set[str] = set()
        # By runs, nearly all of which are equal: quicker than one set of them all.
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
        """Without those that ended more than one list lifetime before `now`, a whole second."""
        # Texts of whole seconds in UTC are in order of time.
        limit = times.text(now - ttl)
        gone = {each for each, at in self.ends.items() if at < limit}
        return self.changed(gone, {}, signers=self.signers) if gone else self


def _texts(revoked: Mapping[str, datetime | None]) -> dict[str, str]:
    return {each: times.text(at) for each, at in revoked.items() if at is not None}
