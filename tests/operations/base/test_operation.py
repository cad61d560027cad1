"""Operations enforce their scopes, and decide again when a race was lost."""

from collections.abc import Iterator
from itertools import count

import pytest

from shared.adapters import retries
from shared.errors import DataCorrupt, InsufficientScope, PreconditionFailed, Unavailable
from shared.model.callers import Caller, Scope
from shared.model.items import Address, Table
from shared.operations.base import operation
from shared.ports import Ports
from tests.infra.templates import GLOBALS, LAMBDAS

_KEY = Address(Table.KEYS, "a")


@operation.operation(Scope.ADMIN, Scope.READ_ONLY)
def _echo(_ports: Ports, _caller: Caller, *, value: str) -> str:
    return value


@pytest.mark.parametrize("scope", Scope)
def test_an_operation_enforces_its_scopes(ports: Ports, scope: Scope) -> None:
    """AUTH-5: An operation checks the scopes of each caller itself."""
    caller = Caller("svc_tnt_x", "someone@x.svc", (scope,))
    if scope in _echo.scopes:
        assert _echo(ports, caller, value="a") == "a"
    else:
        with pytest.raises(InsufficientScope, match="admin or read-only"):
            _echo(ports, caller, value="a")


def test_contention_ends_before_a_gateway_gives_up() -> None:
    """F24: with the longest write behind it, an operation answers before its function is killed."""
    seconds = operation.PACING.limit + retries.PATIENCE.deadline_seconds
    assert seconds < min(each.get("Timeout", GLOBALS["Timeout"]) for each in LAMBDAS.values())


def test_a_race_is_lost_until_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again after a pause each time, and no longer than it may take."""
    seconds = count()
    pauses: list[float] = []
    pacing = operation.RetryPacing(
        limit=3, pause=1, sleep=pauses.append, clock=lambda: next(seconds)
    )
    monkeypatch.setattr(operation, "PACING", pacing)
    attempts = 0

    def attempt() -> None:
        nonlocal attempts
        attempts += 1
        raise PreconditionFailed([_KEY])

    with pytest.raises(Unavailable):
        operation.settle(attempt)
    assert attempts == 3
    assert len(pauses) == 2
    assert all(0 <= pause <= 1 for pause in pauses)


def test_what_contradicts_itself_is_read_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """OPS-2, F36b: An operation reads contradictory records again before it calls them corrupt."""
    pauses: list[float] = []
    monkeypatch.setattr(
        operation, "PACING", operation.RetryPacing(in_flight=7, sleep=pauses.append)
    )
    outcomes: Iterator[object] = iter(
        [DataCorrupt("torn"), "whole", DataCorrupt("a"), DataCorrupt("b"), "no"]
    )

    def read() -> object:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    assert operation.reread(read) == "whole"
    with pytest.raises(DataCorrupt, match="b"):
        operation.reread(read)
    assert pauses == [7, 7]


def test_another_fault_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """F36: a store that does not answer is told at once; the adapter has tried again already."""

    def sleep(_seconds: float) -> None:
        pytest.fail("it paused")

    monkeypatch.setattr(operation, "PACING", operation.RetryPacing(sleep=sleep))

    def read() -> None:
        raise Unavailable("down")

    with pytest.raises(Unavailable):
        operation.reread(read)
