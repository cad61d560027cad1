"""Which trust documents and heads a client accepts, by what it holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.authorizer.formats.documents import NotTrusted
from shared.authorizer.formats.following import TrustState, follow
from tests.authorizer.feeds import NOW, TENANT
from tests.authorizer.roots import ROOTS, document, first, pinned, roots, signed

_2_OF_3 = roots(1, 2, 3, threshold=2)
_2_OF_3_LATER = roots(3, 4, 5, threshold=2)


# Of the roots of the first document, one stays.
_CHAIN = (
    signed(document(3, roots=_2_OF_3), 1, 2),
    signed(document(4, roots=_2_OF_3_LATER), 1, 2, 4, 5),
)


_KEYS = st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True)
_STEPS = st.lists(
    st.tuples(
        st.integers(1, 6), _KEYS, st.integers(1, 2), st.lists(st.integers(1, 5), unique=True)
    ),
    max_size=6,
)


@pytest.mark.slow
@given(_STEPS, st.booleans())
def test_a_client_never_goes_back(
    steps: list[tuple[int, list[int], int, list[int]]], is_held: bool
) -> None:
    """TRUST-12, F664a: No answer brings an older version, or roots without those before them."""
    given = [
        signed(document(version, roots=roots(*keys, threshold=min(threshold, len(keys)))), *by)
        for version, keys, threshold, by in steps
    ]
    state = pinned(held=first(3)) if is_held else pinned()
    for each in given:
        try:
            after = follow(state, [each], NOW)
        except NotTrusted:
            continue
        assert after.version >= state.version
        assert after.held
        before = state.held.document.roots if state.held else ROOTS
        assert after.held is state.held or after.held.is_signed_by(before)
        assert after.held is state.held or after.held.is_signed_by(after.held.document.roots)
        state = after
    assert state.pin == ROOTS.pin


def test_another_pin_begins_anew() -> None:
    """TRUST-7, F663a: A client that gets another pin forgets its document, but not at a rotation.

    The pin of the roots that it holds may replace the one with which it began.
    """
    held = follow(pinned(_2_OF_3), _CHAIN, NOW)
    assert held.with_pin(_2_OF_3.pin) == held
    later = held.with_pin(_2_OF_3_LATER.pin)
    assert later.held == held.held
    assert later.pin == _2_OF_3_LATER.pin
    assert held.with_pin(ROOTS.pin) == pinned()
    assert pinned().with_pin(_2_OF_3.pin) == pinned(_2_OF_3)


@pytest.mark.parametrize("pin", ["", "a" * 63, "A" * 64, "g" * 64, "a" * 65, "a" * 64 + "\n"])
def test_a_pin_has_one_form(pin: str) -> None:
    """TRUST-7: A pin is 64 digits; another text is refused before anything is believed."""
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        TrustState(TENANT, pin)


# --- heads ---
