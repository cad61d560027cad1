"""Names and reasons (API-18)."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model import text

EACH = pytest.mark.parametrize(("rule", "most"), [(text.name, 255), (text.reason, 1024)])
VISIBLE = st.characters(
    categories=["L", "N", "P", "S"], exclude_characters="\u115f\u1160\u2800\u3164\uffa0"
)
PLAIN = st.text(st.characters(categories=["L", "N", "P", "S", "M", "Zs", "Co"]), max_size=100)

Rule = Callable[[str], str]


@EACH
@given(first=VISIBLE, rest=PLAIN)
def test_plain_text_is_kept(rule: Rule, most: int, first: str, rest: str) -> None:
    """Text with something visible in it is kept, trimmed; trimming it again changes nothing."""
    kept = rule(f" {first}{rest} ")
    assert kept == f"{first}{rest}".strip()
    assert rule(kept) == kept


@EACH
@given(
    value=st.text(max_size=50),
    hidden=st.characters(
        categories=["Cc", "Cf", "Cs", "Cn", "Zl", "Zp"], exclude_characters="\n\t\u200c\u200d"
    ),
)
def test_what_hides_or_turns_text_is_refused(
    rule: Rule, most: int, value: str, hidden: str
) -> None:
    """F87a: A text with control, format or unassigned characters is refused and not repeated."""
    with pytest.raises(ValueError, match="must") as caught:
        rule(f"a{value}{hidden}b")
    assert hidden not in str(caught.value)
