"""Subject cutoffs: one identifier revokes the earlier tokens of a subject (TOKEN-11).

`svc_wrt_sub-<digest>-<T>` covers the tokens of a subject with `iat` at or before T, a time in 12
digits. It is revoked if the set contains it, or a later cutoff of the same subject.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

_PREFIX: Final = "svc_wrt_sub-"
# "." follows "-" in ASCII, so all identifiers with the prefix sort before this one.
_AFTER: Final = "svc_wrt_sub."
_matches: Final = re.compile(_PREFIX + "[A-Za-z0-9_-]{43}-[0-9]{12}").fullmatch
# The length of the part that all cutoffs of a subject share.
_SUBJECT_END: Final = len(_PREFIX) + 44

# The cutoffs of each subject as strings of 12 digits, in ascending order.
Cutoffs: TypeAlias = Mapping[str, Sequence[str]]


def subject_of(warrant_id: str) -> str | None:
    """Return the part that all cutoffs of a subject share, or None for other identifiers."""
    is_cutoff = warrant_id.startswith(_PREFIX) and _matches(warrant_id)
    return warrant_id[:_SUBJECT_END] if is_cutoff else None


def select_cutoffs(sorted_ids: list[str]) -> list[str]:
    """Return the cutoffs among sorted identifiers, by binary search."""
    return sorted_ids[bisect_left(sorted_ids, _PREFIX) : bisect_left(sorted_ids, _AFTER)]


def change_cutoffs(
    cutoffs: Cutoffs, *, additions: Iterable[str], removals: Iterable[str] = ()
) -> Cutoffs:
    """Return the cutoffs after `removals` and then `additions`. `cutoffs` does not change."""
    removed = [(subject, each) for each in removals if (subject := subject_of(each))]
    added = [(subject, each) for each in additions if (subject := subject_of(each))]
    if not removed and not added:
        return cutoffs
    changed = dict(cutoffs)
    for subject, each in removed:
        times = [time for time in changed.pop(subject, ()) if time != each[_SUBJECT_END:]]
        if times:
            changed[subject] = times
    for subject, each in added:
        changed[subject] = sorted({*changed.get(subject, ()), each[_SUBJECT_END:]})
    return changed


def has_cutoff(cutoffs: Cutoffs, warrant_ids: Iterable[str]) -> bool:
    """Return whether any identifier is at or before a cutoff of its subject."""
    for each in warrant_ids:
        # Every check runs this loop, so other identifiers cost no function call.
        if each.startswith(_PREFIX) and _matches(each):
            times = cutoffs.get(each[:_SUBJECT_END])
            if times and each[_SUBJECT_END:] <= times[-1]:
                return True
    return False
