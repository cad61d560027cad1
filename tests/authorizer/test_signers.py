"""Which list signers a client accepts: its walk from the pin upwards, and the names of faults."""

from dataclasses import replace
from typing import Any

import pytest

from shared.authorizer.formats.statements import Form, ReportedSigners, Statement
from shared.authorizer.policy import NeedsBase, RefusedAnswer
from shared.authorizer.signers import Trust
from tests.authorizer.feeds import NOW, TENANT, Feed, public, signer


def _stated(new: int, by: int, **changes: Any) -> Form:
    statement = Statement(
        TENANT, new, f"svc_key_{new}", public(signer(new)), public(signer(by)), NOW
    )
    return replace(statement, **changes).signed(seed=signer(by).private_bytes_raw())


def _listed(*keys: tuple[int, Form | None]) -> dict[bytes, Form | None]:
    return {public(signer(number)): form for number, form in keys}


def _numbers(keys: frozenset[bytes]) -> list[int]:
    return [number for number in range(1, 10) if public(signer(number)) in keys]


def _walked(*pinned: int) -> Trust:
    """A client with these pins that has come to signer 3."""
    listed = _listed((3, _stated(3, by=2)), (2, _stated(2, by=1)), (1, None))
    trust = Trust(TENANT, frozenset(public(signer(each)) for each in pinned), listed=listed)
    return trust.with_current(public(signer(3)))


def _refusal(trust: Trust, by: int) -> str:
    """The name by which a head of a signer is refused; empty if it is accepted."""
    feed = Feed(key=signer(by))
    try:
        trust.advance(None, feed.answer(), base=None, now=NOW, floor=None)
    except NeedsBase:
        return ""
    except RefusedAnswer as refused:
        return refused.reason.value
    raise AssertionError("a client without a state needs the base")


def test_the_pin_moves_with_the_signer() -> None:
    """F280a, FEED-9: Once a client accepted a head by a newer signer, that signer is its pin."""
    trust = Trust(TENANT, frozenset({public(signer(1))}))
    assert _numbers(trust.accepted()) == [1]
    trust = _walked(1)
    assert _numbers(trust.accepted()) == [3]
    # Also without the report, as after a restart.
    assert _numbers(replace(trust, listed={}).accepted()) == [3]
    assert [_refusal(trust, by) for by in (1, 2, 3)] == ["signer_older", "signer_older", ""]


def test_a_statement_about_the_present_signer_by_another_one_changes_nothing() -> None:
    """F280b: Nobody but the signer before can raise the number that the next statement needs."""
    high = _listed((3, _stated(3, by=2, number=2**40)), (4, _stated(4, by=3)))
    other = _listed((5, _stated(3, by=9, number=2**50)))
    trust = replace(_walked(1), listed={**high, **other})
    assert _numbers(trust.accepted()) == [3, 4]


def test_other_pins_take_effect() -> None:
    """F280c: If other keys are pinned, what was reached from the old ones is not accepted."""
    trust = _walked(1)
    assert _numbers(replace(trust, pinned=frozenset({public(signer(5))})).accepted()) == [5]
    both = frozenset({public(signer(1)), public(signer(5))})
    assert _numbers(replace(trust, pinned=both).accepted()) == [3, 5]
    # The same chain from a later pin.
    assert _numbers(replace(trust, pinned=frozenset({public(signer(2))})).accepted()) == [3]
    assert _numbers(replace(trust, pinned=frozenset({public(signer(3))})).accepted()) == [3]


def test_a_stolen_signer_below_the_present_one() -> None:
    """F280d, VERIFY-4: If a signer is reported as revoked, those that it led to are refused too."""
    revoked = ReportedSigners(_walked(1).listed, frozenset({public(signer(2))}))
    trust = _walked(1).with_report(revoked)
    assert _numbers(trust.accepted()) == []
    assert _refusal(trust, 2) == _refusal(trust, 3) == "signer_revoked"
    assert _refusal(trust, 1) == "signer_older"
    # Whoever pins the present signer itself is not affected.
    assert _numbers(replace(trust, pinned=frozenset({public(signer(3))})).accepted()) == [3]


_GOOD = _stated(2, by=1)


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        (_listed(), "signature"),
        (_listed((3, _stated(3, by=1))), "signature"),
        (_listed((2, None)), "statement_missing"),
        (_listed((2, _stated(2, by=3))), "statement_missing"),
        (_listed((2, {})), "statement_forged"),
        (_listed((2, {**_GOOD, "Signature": _stated(3, by=1)["Signature"]})), "statement_forged"),
        (_listed((2, _stated(3, by=1))), "statement_forged"),
        (_listed((2, _stated(2, by=1, tenant_id="svc_tnt_other"))), "statement_tenant"),
        (_listed((2, _stated(2, by=3)), (3, _stated(3, by=1))), "statement_order"),
        (_listed((2, _stated(2, by=3)), (3, _stated(3, by=2))), "statement_order"),
        (_listed((2, _stated(2, by=3)), (3, {})), "statement_forged"),
        (_listed((2, _GOOD)), ""),
        (_listed((2, _stated(2, by=3, number=4)), (3, _stated(3, by=1))), ""),
    ],
)
def test_each_fault_has_a_name(listed: dict[bytes, Form | None], reason: str) -> None:
    """F281a, FEED-10: A signer is refused by the name of the first fault between it and the pin."""
    trust = Trust(TENANT, frozenset({public(signer(1))}), listed=listed)
    assert _refusal(trust, 2) == reason


def test_a_long_chain_is_walked() -> None:
    """F281b: A client follows a hundred statements, and names a fault at their end."""
    listed = _listed(*((number, _stated(number, by=number - 1)) for number in range(2, 102)))
    trust = Trust(TENANT, frozenset({public(signer(1))}), listed=listed)
    assert len(trust.accepted()) == 101
    assert _refusal(trust, 101) == ""
    other = replace(trust, pinned=frozenset({public(signer(250))}))
    assert _refusal(other, 101) == "statement_missing"
