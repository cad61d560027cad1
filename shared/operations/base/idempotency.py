"""Operations that run once for each `Idempotency-Key` (API-30, docs/adr/04).

The outcome is stored in the write of the change. A repeated request finds it and returns the same
result.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar

from shared.errors import Conflict, DataCorrupt, PreconditionFailed, RequestError, Unavailable
from shared.model.callers import Caller, Scope
from shared.model.idempotency import IdempotencyKey, IdempotencyRecord
from shared.model.items import Item, Value
from shared.model.records import Record
from shared.operations.base.guard import guard_writes
from shared.operations.base.operation import AccessPolicy, Fresh, Operation, settle, wait_for_writes
from shared.ports import Ports
from shared.ports.store import Change, Delete, Put, VersionIs, expect_version

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Record)

# Returns the write that stores a result, to be applied together with the operation's changes.
# Returns an empty sequence if the caller sent no Idempotency-Key.
Keep: TypeAlias = Callable[[R], Sequence[Change]]


class OutcomeCodec(NamedTuple, Generic[R]):
    """How the result of an operation is stored. The stored item must not contain secrets.

    `again` takes the ports, the caller, the stored item, and the arguments of the operation. It
    returns the result again, or raises the reason why that is not possible.
    """

    kept: Callable[[R], Item]
    again: Callable[..., R]


class StoredAnswer(NamedTuple, Generic[R]):
    """The result of an operation, and whether an earlier request produced it."""

    result: R
    replayed: bool


def of_record(kind: type[S], *, but: Iterable[str] = ()) -> OutcomeCodec[S]:
    """Return the codec of a result that is a record, without the secrets in the fields `but`.

    A repeated request returns empty bytes in these fields.
    """
    return OutcomeCodec(
        lambda record: item(record, but=but),
        lambda _ports, _caller, outcome, **_: kind.from_item(outcome),
    )


def item(record: Record, *, but: Iterable[str] = ()) -> dict[str, Value]:
    """Return the item of a record, with empty bytes for the wrapped secrets in the fields `but`."""
    stored = record.to_item()
    return stored | {name: b"" for name in but if name in stored}


def nested_item(outcome: Item, name: str) -> Item:
    """Return the item stored under `name`. Raises `DataCorrupt` if there is none."""
    nested = outcome.get(name)
    if not isinstance(nested, dict):
        raise DataCorrupt(f"an idempotency record lacks {name}")
    return nested


def secret_shown(owner_id: Callable[[R], str]) -> OutcomeCodec[R]:
    """Return the codec of a result with a secret, which stores only its owner's identifier.

    The result can therefore never be repeated.
    """

    def restore(_ports: Ports, _caller: Caller, outcome: Item, **_: Any) -> R:
        raise Conflict(
            f"This request created the secret of {outcome['id']!s}, which is shown once and not "
            "stored. Rotate the secret, or delete its resource."
        )

    return OutcomeCodec(lambda result: {"id": owner_id(result)}, restore)


class IdempotentOperation(Operation[P, R]):
    """An operation `(ports, caller, keep, …)` that a caller may repeat under one `Idempotency-Key`.

    Its write contains `keep(result)`. An operation without changes need not call `keep`. With
    `claims`, a repeated request is refused while the first request is in progress.
    """

    def __init__(
        self,
        run: Callable[Concatenate[Ports, Caller, Keep[R], P], R],
        admits: AccessPolicy,
        outcome: OutcomeCodec[R],
        *,
        claims: bool,
    ) -> None:
        def run_freely(ports: Ports, caller: Caller, /, *args: P.args, **kwargs: P.kwargs) -> R:
            return run(ports, caller, lambda _result: (), *args, **kwargs)

        super().__init__(run_freely, admits)
        self.__doc__, self.__name__, self.__module__ = run.__doc__, run.__name__, run.__module__
        self._keeping, self._outcome, self._claims = run, outcome, claims

    def run_once(
        self,
        ports: Ports,
        caller: Caller,
        request: IdempotencyKey,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> StoredAnswer[R]:
        """Run the operation once for `request`, or return the result of its first run.

        Errors of the operation are raised and not stored. Raises `Conflict` if the key was used
        with another body, or if its first request is in progress and claimed it.
        """
        self.admit(ports, caller, *args, **kwargs)
        ports = guard_writes(ports, caller)

        def attempt(claim: IdempotencyRecord | None = None) -> StoredAnswer[R]:
            record = _read_live(ports, request, claim)
            if record is not None and record.outcome is not None and record.is_kept(ports.now()):
                again = self._outcome.again(ports, caller, record.outcome, *args, **kwargs)
                return StoredAnswer(again, replayed=True)
            keep = _OutcomeWriter(ports, request, record, self._outcome)
            try:
                result = self._keeping(ports, caller, keep, *args, **kwargs)
            except RequestError:
                # The same request may have finished since, and its own changes cause this error.
                if _is_done_since(ports, request, record):
                    raise PreconditionFailed([request.address]) from None
                raise
            if not keep.is_called:
                ports.store.write(*keep(result))
            return StoredAnswer(result, replayed=False)

        if not self._claims:
            return settle(attempt)
        claim = settle(lambda: _claim(ports, request))
        try:
            return settle(lambda: attempt(claim))
        except Exception:
            if claim is not None:
                # The request can be repeated at once. If this fails, the claim expires.
                with suppress(PreconditionFailed, Unavailable):
                    ports.store.write(Delete(request.address, VersionIs(claim.version)))
            raise


def idempotent(
    *scopes: Scope,
    keeps: OutcomeCodec[R],
    claims: bool = False,
    fresh: Fresh = False,
    rate_limited: bool = False,
) -> Callable[[Callable[Concatenate[Ports, Caller, Keep[R], P], R]], IdempotentOperation[P, R]]:
    """Decorate a function as an `IdempotentOperation`; the arguments form its `AccessPolicy`."""
    return lambda run: IdempotentOperation(
        run, AccessPolicy(scopes, fresh, rate_limited), keeps, claims=claims
    )


@dataclass(slots=True)
class _OutcomeWriter(Generic[R]):
    """The `Keep` of one attempt. `previous` is the item that the outcome replaces."""

    ports: Ports
    request: IdempotencyKey
    previous: IdempotencyRecord | None
    codec: OutcomeCodec[R]
    is_called: bool = False

    def __call__(self, result: R) -> Sequence[Change]:
        self.is_called = True
        record = IdempotencyRecord.for_outcome(
            self.request,
            self.ports.now(),
            previous=self.previous,
            outcome=self.codec.kept(result),
        )
        return [Put(self.request.address, record.to_item(), expect_version(record.version - 1))]


def _read(ports: Ports, request: IdempotencyKey) -> IdempotencyRecord | None:
    return IdempotencyRecord.from_optional(ports.store.get(request.address))


def _is_done_since(ports: Ports, request: IdempotencyKey, record: IdempotencyRecord | None) -> bool:
    """Return whether an outcome was stored since `record` was read.

    The items of a write become visible one by one, so its changes may be visible before the
    outcome.
    """
    if _read(ports, request) not in (None, record):
        return True
    wait_for_writes()
    return _read(ports, request) not in (None, record)


def _read_live(
    ports: Ports, request: IdempotencyKey, claim: IdempotencyRecord | None
) -> IdempotencyRecord | None:
    """Read the idempotency record of a request, which may have expired.

    Raises `Conflict` if the record has another body, or is a claim and this request does not have
    `claim`. If another request took over the claim, the outcome of the request that ends first
    counts.
    """
    record, now = _read(ports, request), ports.now()
    if record is None or not record.is_kept(now):
        return record
    if record.body != request.body:
        raise Conflict("Idempotency-Key: was used with another body; use a new key.")
    if record.claimed_until is not None and claim is None:
        raise Conflict(
            "Idempotency-Key: its first request is in progress; retry after the time in "
            "Retry-After.",
            retry_after=max(1, ceil((record.claimed_until - now).total_seconds())),
        )
    return record


def _claim(ports: Ports, request: IdempotencyKey) -> IdempotencyRecord | None:
    """Claim a request and return the claim, or None if its outcome is already stored."""
    previous, now = _read_live(ports, request, None), ports.now()
    if previous is not None and previous.is_kept(now):
        return None
    claim = IdempotencyRecord.for_outcome(request, now, previous=previous)
    ports.store.write(Put(request.address, claim.to_item(), expect_version(claim.version - 1)))
    return claim
