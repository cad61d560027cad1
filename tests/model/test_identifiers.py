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
from tests.kit.worlds import Clock

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
