"""Names and reasons (decisions 1, names and reasons)."""

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model import text

EACH = pytest.mark.parametrize(("rule", "most"), [(text.name, 255), (text.reason, 1024)])
PLAIN = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=255)

Rule = Callable[[str], str]


@EACH
@given(value=PLAIN)
def test_text_without_control_characters_is_kept(rule: Rule, most: int, value: str) -> None:
    """Whatever is not blank is kept, trimmed; trimming it again changes nothing."""
    if not value.strip():
        with pytest.raises(ValueError, match="1 to"):
            rule(value)
        return
    kept = rule(value)
    assert kept == value.strip()
    assert rule(kept) == kept


@EACH
@given(value=st.text(max_size=50), control=st.characters(categories=["Cc", "Cs"]))
def test_a_control_character_within_is_refused(
    rule: Rule, most: int, value: str, control: str
) -> None:
    """No control character, no half of a surrogate pair is taken; the message repeats nothing."""
    with pytest.raises(ValueError, match="no control characters") as caught:
        rule(f"a{value}{control}b")
    assert control not in str(caught.value)


@EACH
@pytest.mark.parametrize("character", ["a", "é", "🔑", "\u0301"])
def test_the_length_is_in_code_points(rule: Rule, most: int, character: str) -> None:
    """As many characters as the contract says are taken, after trimming; one more is not."""
    assert rule(f"  {character * most}  ") == character * most
    with pytest.raises(ValueError, match=f"1 to {most}"):
        rule(character * (most + 1))


@EACH
@pytest.mark.parametrize("blank", ["", " ", "\t\r\n", "\u3000", "\u00a0", "\u2028", "\x1f", "\x85"])
def test_blank_text_is_refused(rule: Rule, most: int, blank: str) -> None:
    """White space alone, of any script, is no text."""
    with pytest.raises(ValueError, match="1 to"):
        rule(blank)


@EACH
def test_text_is_not_normalised(rule: Rule, most: int) -> None:
    """F19: composed and decomposed forms stay what they are."""
    forms = [unicodedata.normalize(form, "Å") for form in ("NFC", "NFD")]
    assert [rule(form) for form in forms] == forms
