"""Operations enforce their scopes, and decide again when a race was lost."""

import pytest

from shared.adapters import retries
from shared.errors import Conflict, InsufficientScope, Unavailable
from shared.model.callers import Caller, Scope
from shared.operations import operation
from shared.ports import Ports
from tests.infra.templates import GLOBALS, LAMBDAS


@operation.operation(Scope.ADMIN, Scope.READ_ONLY)
def _echo(_ports: Ports, _caller: Caller, *, value: str) -> str:
    return value


@pytest.mark.parametrize("scope", Scope)
def test_an_operation_enforces_its_scopes(ports: Ports, scope: Scope) -> None:
    """Whoever calls it: HTTP, a schedule or a command line cannot skip the check."""
    caller = Caller("svc_tnt_x", "someone@x.svc", (scope,))
    if scope in _echo.scopes:
        assert _echo(ports, caller, value="a") == "a"
    else:
        with pytest.raises(InsufficientScope, match="admin or read-only"):
            _echo(ports, caller, value="a")


def test_a_lost_race_is_decided_again() -> None:
    """F24: a conflict is not the caller's to see."""
    outcomes = iter([Conflict(["a"]), Conflict(["b"]), None])

    def attempt() -> str:
        outcome = next(outcomes)
        if outcome:
            raise outcome
        return "won"

    assert operation.settle(attempt) == "won"


def test_contention_ends_before_a_gateway_gives_up() -> None:
    """F24: with the longest write behind it, an operation answers before its function is killed."""
    seconds = operation.CONTENTION_SECONDS + retries.PATIENCE.deadline_seconds
    assert seconds < min(each.get("Timeout", GLOBALS["Timeout"]) for each in LAMBDAS.values())


def test_a_race_lost_for_ever_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends, and says that nothing was done."""
    monkeypatch.setattr(operation, "CONTENTION_SECONDS", 0.01)

    def attempt() -> None:
        raise Conflict(["a"])

    with pytest.raises(Unavailable) as caught:
        operation.settle(attempt)
    assert isinstance(caught.value.__cause__, Conflict)
