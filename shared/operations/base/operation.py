"""Base of all operations: enforce scopes, and retry after a conflict.

An operation reads, decides, and writes once. The items that it read are preconditions of the write.
If one has changed, the store applies no change, and the operation runs again on the new state. A
request or a pass that changes many items makes several independent writes (REVOKE-21).
"""

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from random import SystemRandom
from typing import Concatenate, Final, Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar

from shared.errors import (
    DataCorrupt,
    InsufficientScope,
    PreconditionFailed,
    ReauthenticationRequired,
    Unavailable,
)
from shared.model.callers import Caller, Scope
from shared.operations.base.guard import guard_writes
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Change

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound=Hashable)
F = TypeVar("F")

# Whether an operation requires reauthentication, or a function of its arguments that decides it.
Fresh: TypeAlias = bool | Callable[..., bool]

_LIMITED: Final = (
    "Your role is limited to some warrants or signing keys, and does not allow this endpoint."
)

# Uses the operating system. Any other generator would have the same state in all Lambda instances
# that start from one snapshot.
_RANDOM: Final = SystemRandom()

# Seconds for attempts at a whole group. After that, each member is attempted alone.
_TOGETHER: Final = 1.0


@dataclass(frozen=True, slots=True)
class RetryPacing:
    """Timing of retries, in seconds. Tests set `sleep` and `clock`.

    `settle` gives up after `limit`, which is less than the timeout of any gateway. `pause` is the
    longest wait between two attempts. After `in_flight`, all items of a write are visible.
    """

    limit: float = 10.0
    pause: float = 0.1
    in_flight: float = 0.2
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic


PACING = RetryPacing()


class AccessPolicy(NamedTuple):
    """The callers that an operation admits. They need at least one of the scopes (AUTH-5).

    With `fresh`, a person must have signed in recently (AUTH-17). Callers with role limits may call
    the operation only with `limited`, because the operation then checks the limits (AUTH-18).
    """

    scopes: tuple[Scope, ...]
    fresh: Fresh = False
    limited: bool = False


class Operation(Generic[P, R]):
    """A function `(ports, caller, …)` with its access policy."""

    def __init__(
        self, run: Callable[Concatenate[Ports, Caller, P], R], admits: AccessPolicy
    ) -> None:
        self._run = run
        self.scopes, self.fresh, self.limited = admits
        self.__doc__ = run.__doc__
        self.__name__, self.__module__ = run.__name__, run.__module__

    def __reduce__(self) -> str:
        """Return the module-level name of the operation, by which another process finds it."""
        return self.__name__

    def authorize(self, ports: Ports, caller: Caller) -> None:
        """Raise `InsufficientScope` unless the caller has one of the scopes (AUTH-5).

        Raises `ReauthenticationRequired` if every call is fresh and the caller's sign-in is not
        recent (AUTH-17).
        """
        if not set(self.scopes).intersection(caller.scopes):
            raise InsufficientScope(self.scopes)
        if caller.limits is not None and not self.limited:
            raise InsufficientScope((), _LIMITED)
        if self.fresh is True and caller.has_to_sign_in(ports.now()):
            raise ReauthenticationRequired

    def admit(self, ports: Ports, caller: Caller, *args: P.args, **kwargs: P.kwargs) -> None:
        """Raise the errors of `authorize`, also if calls with these arguments are fresh."""
        self.authorize(ports, caller)
        is_fresh = callable(self.fresh) and self.fresh(*args, **kwargs)
        if is_fresh and caller.has_to_sign_in(ports.now()):
            raise ReauthenticationRequired

    def __call__(self, ports: Ports, caller: Caller, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Authorize the caller and run the function, again after each conflict.

        Raises the errors of the function except `PreconditionFailed` (see `settle`).
        """
        self.admit(ports, caller, *args, **kwargs)
        guarded = guard_writes(ports, caller)
        return settle(lambda: self._run(guarded, caller, *args, **kwargs))


def operation(
    *scopes: Scope, fresh: Fresh = False, rate_limited: bool = False
) -> Callable[[Callable[Concatenate[Ports, Caller, P], R]], Operation[P, R]]:
    """Decorate a function as an `Operation`; the arguments form its `AccessPolicy`."""
    return lambda run: Operation(run, AccessPolicy(scopes, fresh, rate_limited))


def settle(attempt: Callable[[], R], *, limit: float | None = None) -> R:
    """Return the result of `attempt`. Retry if it raises `PreconditionFailed`.

    Raises `Unavailable` if it still fails after `limit` seconds, or after the limit of `PACING`.
    """
    deadline = PACING.clock() + (PACING.limit if limit is None else limit)
    while True:
        try:
            return attempt()
        except PreconditionFailed as lost:
            if PACING.clock() >= deadline:
                raise Unavailable(
                    "gave up after conflicts with other writers in every attempt"
                ) from lost
            PACING.sleep(_RANDOM.uniform(0, PACING.pause))


def wait_for_writes() -> None:
    """Wait until every write that is partly visible is fully visible (docs/adr/02)."""
    PACING.sleep(PACING.in_flight)


def reread(read: Callable[[], R]) -> R:
    """Return the result of `read`. Retry once, after a pause, if it raises `DataCorrupt`.

    Records may contradict each other during a write, because its items become visible one by one
    (shared/ports/store.py). Raises `DataCorrupt` if the retry does.
    """
    try:
        return read()
    except DataCorrupt:
        wait_for_writes()
    return read()


def group_by_key(
    members: Iterable[M], key: Callable[[M], Hashable], *, most: int
) -> list[Sequence[M]]:
    """Divide into groups of at most `most` members with the same key."""
    alike: dict[Hashable, list[M]] = defaultdict(list)
    for each in members:
        alike[key(each)].append(each)
    return [
        group[start : start + most]
        for group in alike.values()
        for start in range(0, len(group), most)
    ]


@dataclass(frozen=True, slots=True)
class GroupRunner(Generic[M, F]):
    """Runs attempts for groups. None begins after `deadline`, by the clock of `PACING`.

    `on_failure` returns the result of a member that fails.
    """

    ports: Ports
    deadline: float
    on_failure: Callable[[M, Unavailable], F]

    def each(
        self, groups: Iterable[Sequence[M]], attempt: Callable[[Sequence[M]], dict[M, R]]
    ) -> dict[M, R | F]:
        """Return the results of `attempt` for all groups, run concurrently and retried by `settle`.

        If a group fails, each of its members is attempted alone, because a damaged record must not
        block the other members.
        """
        runs = (partial(self._try, group, attempt) for group in groups)
        return dict(chain.from_iterable(each.items() for each in self.ports.gather(*runs)))

    def run_first_then_rest(
        self, groups: Sequence[Sequence[M]], attempt: Callable[[Sequence[M]], dict[M, R]]
    ) -> dict[M, R | F]:
        """Return the same as `each`, but attempt the first group before the others begin.

        If the first group fails, it is attempted again with the others.
        """
        done: dict[M, R | F] = {}
        if len(groups) > 1 and PACING.clock() < self.deadline:
            with suppress(Unavailable):
                done |= settle(lambda: attempt(groups[0]), limit=_TOGETHER)
        return done | self.each(groups[1:] if done else groups, attempt)

    def _try(
        self, group: Sequence[M], attempt: Callable[[Sequence[M]], dict[M, R]]
    ) -> dict[M, R | F]:
        if PACING.clock() >= self.deadline:
            late = Unavailable("the request exceeded its time limit")
            return {each: self.on_failure(each, late) for each in group}
        try:
            return {**settle(lambda: attempt(group), limit=_TOGETHER)}
        except Unavailable as error:
            if len(group) == 1:
                return {group[0]: self.on_failure(group[0], error)}
        alone = (self._try([each], attempt).items() for each in group)
        return dict(chain.from_iterable(alone))


def apply_steps(ports: Ports, steps: Iterable[Sequence[Change]], *, most: int) -> int:
    """Apply each step with met preconditions; return how many steps were skipped.

    A step has at most `most` changes. Raises `Unavailable`; some steps may then be applied.
    """
    rest = iter(steps)
    batches = iter(lambda: list(islice(rest, MOST_CHANGES // most)), [])
    return sum(ports.gather(*(partial(_write, ports, batch) for batch in batches)))


def _write(ports: Ports, batch: list[Sequence[Change]]) -> int:
    wanted = len(batch)
    while batch:
        try:
            ports.store.write(*chain.from_iterable(batch))
        except PreconditionFailed as conflict:
            lost = set(conflict.lost)
            batch = [step for step in batch if lost.isdisjoint(each.address for each in step)]
        else:
            break
    return wanted - len(batch)
