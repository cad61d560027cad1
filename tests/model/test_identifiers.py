"""Identifiers: their form, and how they sort (API-14, API-15)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model import identifiers
from shared.model.identifiers import (
    API_KEY,
    AUDIT_ENTRY,
    REVOCATION,
    SERVICE_ACCOUNT,
    SIGNING_KEY,
    TENANT,
)
from shared.wiring import identifiers as maker
from tests.worlds import Clock

KINDS = [API_KEY, SIGNING_KEY, REVOCATION, SERVICE_ACCOUNT, AUDIT_ENTRY, TENANT]
ULID = "01m7yzmhg0ynzqw1fmh6whgvm5"
CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


def test_the_kinds_are_those_of_the_contract() -> None:
    """Each kind of thing has the letters that the contract gives it."""
    assert KINDS == ["ak", "key", "rev", "sa", "evt", "tnt"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_made_is_recognised(clock: Clock, kind: str) -> None:
    """What the service makes has the form of its kind, and of no other."""
    made = maker(clock)(kind)
    assert [each for each in KINDS if identifiers.is_identifier(made, kind=each)] == [kind]


def test_identifiers_sort_by_creation(clock: Clock) -> None:
    """Later ones sort after earlier ones, within a millisecond and when the clock steps back."""
    new_id = maker(clock)
    made = []
    for step in (0, 0, 0, 1, 1000, -5000, 0, 10_000):
        clock.advance(milliseconds=step)
        made.append(new_id(API_KEY))
    assert made == sorted(set(made))


@given(st.text(CROCKFORD, min_size=25, max_size=25), st.sampled_from("01234567"))
def test_any_ulid_is_an_identifier(digits: str, first: str) -> None:
    """26 digits of lower-case Crockford base32, of 128 bits, are an identifier."""
    assert identifiers.is_identifier(f"svc_ak_{first}{digits}", kind=API_KEY)


@pytest.mark.parametrize(
    "value",
    ["", "svc_ak_", ULID, f"ak_{ULID}", f"svc_ak{ULID}", f"svc_ak_{ULID.upper()}", f"SVC_ak_{ULID}",
     f"svc_ak_{ULID}0", f"svc_ak_{ULID[:-1]}", f"svc_ak_8{ULID[1:]}", f"svc_ak_{ULID}\n",
     f" svc_ak_{ULID}", f"svc_ak_{ULID[:-1]}i", f"svc_ak_{ULID[:-1]}l", f"svc_ak_{ULID[:-1]}o",
     f"svc_ak_{ULID[:-1]}u", f"svc_ak_{ULID[:-1]}٣", f"svc_ak_{ULID[:-1]}-", f"svc_rev_{ULID}"],
)  # fmt: skip
def test_nothing_else_is(value: str) -> None:
    """F19: another case, length, alphabet or kind is no identifier."""
    assert not identifiers.is_identifier(value, kind=API_KEY)


@given(st.from_regex(r"svc_wrt_[A-Za-z0-9_-]{1,64}", fullmatch=True))
def test_a_warrant_may_have_any_name_of_its_alphabet(value: str) -> None:
    """Callers name warrants with 1 to 64 letters, digits, '_' and '-'."""
    assert identifiers.is_warrant_id(value)
    assert identifiers.warrant_id(value) == value
    assert value > identifiers.BEFORE_WARRANT_IDS


@given(st.text(max_size=80).filter(lambda text: not text.startswith("svc_wrt_")))
def test_a_warrant_has_no_other_name(value: str) -> None:
    """Any other text is refused, with a message that repeats nothing of it."""
    assert not identifiers.is_warrant_id(value)
    with pytest.raises(ValueError, match="must be svc_wrt_ followed by"):
        identifiers.warrant_id(value)
