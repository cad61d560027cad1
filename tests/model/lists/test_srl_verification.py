"""What a verifier checks before it accepts a list (F06)."""

import base64
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.errors import InvalidSrl
from shared.model import identifiers
from shared.model.lists import content as srl
from shared.model.lists import verification as srl_verification
from shared.model.lists.content import Payload
from shared.model.lists.verification import verify, verify_own
from shared.model.times import CLOCK_TOLERANCE
from tests.model.lists.vectors import (
    CONTENTS,
    ENCODINGS,
    HOUR,
    MALFORMED,
    MEMBERS,
    NOW,
    OTHER_SEED,
    PAYLOAD,
    RIGHT,
    SECOND,
    SEED,
    SHOWN,
    SPELLINGS,
    VERSION_MAX,
    WEEK,
    body,
    changed,
    document,
    flips,
    moved,
    public,
)


def refused(value: Any, reason: str, **options: Any) -> None:
    arguments: dict[str, Any] = {"public_key": public(), "now": NOW} | options
    with pytest.raises(InvalidSrl) as caught:
        verify(body(value), **arguments)
    assert caught.value.reason == reason, caught.value


@settings(max_examples=25)
@given(
    st.integers(1, VERSION_MAX),
    st.lists(st.from_regex("svc_wrt_[A-Za-z0-9_-]{1,64}", fullmatch=True), unique=True),
)
def test_any_right_list_is_believed(version: int, warrant_ids: list[str]) -> None:
    """Lists of any version and any identifiers pass, as long as they are sorted."""
    payload = Payload(version, NOW, NOW + HOUR, sorted(warrant_ids))
    served = srl.sign(payload, seed=SEED)
    assert verify(served, public_key=public(), now=NOW) == payload
    verify_own(served, payload, public_key=public(), now=NOW)
    assert srl.revoked_ids(served) == payload.revoked_ids


@pytest.mark.parametrize("number", [0, 1, 23, 24, 255, 256, 65_535, 65_536])
@pytest.mark.parametrize("size", [13, 23, 24, 72, 128])
@pytest.mark.parametrize("fill", "0é")
def test_identifiers_of_one_size_are_encoded_like_others(number: int, size: int, fill: str) -> None:
    """F940a: Lists of any length, of identifiers of any one size, have the encoding of RFC 8949."""
    ids = [f"svc_wrt_{each:{fill}>{size - len('svc_wrt_')}}" for each in range(number)]
    payload = replace(PAYLOAD, revoked_ids=ids)
    assert payload.cbor == cbor2.dumps(payload.members(), canonical=True)


@pytest.mark.parametrize("value", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_answer_of_the_endpoint(value: Any) -> None:
    """F06: a body of another form is `malformed`."""
    refused(value, "malformed")


@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
def test_base64_has_one_spelling(spell: Callable[[str], str]) -> None:
    """F06: a signature in any other spelling than padded standard base64 is `malformed`."""
    served = document()
    assert served["srl"]["Signature"].endswith("==")
    served["srl"]["Signature"] = spell(served["srl"]["Signature"])
    refused(served, "malformed")


def test_a_cut_list_is_refused() -> None:
    """F06: a list that ends early, wherever, is `malformed`."""
    served = srl.sign(PAYLOAD, seed=SEED)
    for length in range(len(served)):
        refused(served[:length], "malformed")


def test_the_list_of_another_signer_is_refused() -> None:
    """VERIFY-1, F06c, S5: A verifier refuses a list that another key or another tenant signed."""
    refused(document(seed=OTHER_SEED), "signature")
    refused(document(), "signature", public_key=public(OTHER_SEED))


def test_an_altered_list_is_refused() -> None:
    """VERIFY-1, F06d: A verifier refuses an altered list or one made of two lists."""
    older, newer = changed(Version=4), document()
    for part in ("Payload", "Signature"):
        refused({"payload": MEMBERS, "srl": newer["srl"] | {part: older["srl"][part]}}, "signature")
    for part, value in (("Signature", ""), ("Payload", ""), ("Signature", "AA==")):
        refused({"payload": MEMBERS, "srl": newer["srl"] | {part: value}}, "signature")


@pytest.mark.slow
def test_no_bit_may_be_flipped_on_the_way() -> None:
    """VERIFY-1, F06, S5: A verifier refuses a list with any bit flipped."""
    for flipped in flips(srl.sign(PAYLOAD, seed=SEED)):
        with pytest.raises(InvalidSrl) as caught:
            verify(flipped, public_key=public(), now=NOW)
        assert caught.value.reason in ("malformed", "mixed", "signature")


def test_no_bit_may_be_flipped_before_signing() -> None:
    """F06: no two encodings say the same, so that rightly signed bytes that differ are refused."""
    for flipped in flips(RIGHT):
        with pytest.raises(InvalidSrl) as caught:
            verify(body(document(encoded=flipped)), public_key=public(), now=NOW)
        assert caught.value.reason in ("encoding", "content", "mixed")


@pytest.mark.parametrize("encoded", ENCODINGS.values(), ids=ENCODINGS)
def test_what_is_signed_has_one_encoding(encoded: bytes) -> None:
    """F06: signed bytes that are not the deterministic encoding of a value are `encoding`."""
    assert encoded != RIGHT
    refused(document(encoded=encoded), "encoding")


@pytest.mark.parametrize("members", CONTENTS.values(), ids=CONTENTS)
def test_what_is_signed_is_a_list(members: Any) -> None:
    """F06: signed content that is no list, down to each member's type, is `content`."""
    encoded = cbor2.dumps(members, canonical=True)
    refused(document(MEMBERS, encoded=encoded), "content")


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
def test_what_is_shown_is_what_is_signed(shown: Any) -> None:
    """VERIFY-1, F06e: A verifier refuses a list whose `payload` differs from the signed content."""
    refused(document() | {"payload": shown}, "mixed")


def test_true_is_not_version_one() -> None:
    """F06: `true` or 1.0 shown for a signed 1 is `mixed`, though Python finds them equal."""
    for value in (True, 1.0):
        refused(changed(Version=1) | {"payload": MEMBERS | {"Version": value}}, "mixed")


@pytest.mark.parametrize(
    "warrant_ids",
    [["svc_wrt_b", "svc_wrt_a"], ["svc_wrt_a", "svc_wrt_a"], ["svc_wrt_a", "svc_wrt_B"],
     ["svc_wrt_a0", "svc_wrt_a"], ["svc_wrt_a", "svc_wrt_c", "svc_wrt_b", "svc_wrt_d"]],
)  # fmt: skip
def test_identifiers_are_sorted_and_unique(warrant_ids: list[str]) -> None:
    """F06: identifiers out of order, or one twice, are `order`."""
    refused(changed(RevokedIDs=warrant_ids), "order")


def test_a_list_expires_after_it_is_issued() -> None:
    """F06: a list that expires when it is issued, or before, is `times`."""
    for lifetime in (timedelta(0), -SECOND, -HOUR):
        refused(moved(timedelta(0), lifetime), "times")


def test_a_list_lives_for_seven_days_at_most() -> None:
    """VERIFY-1, F06, S5: A verifier refuses a list that is valid for more than seven days."""
    refused(moved(timedelta(0), WEEK + SECOND), "times")
    assert verify(moved(timedelta(0), WEEK), public_key=public(), now=NOW).version == 5


def test_a_list_of_the_future_is_refused() -> None:
    """F06: a list issued further ahead than clocks may differ is `future`; up to that it passes."""
    refused(moved(CLOCK_TOLERANCE + SECOND, HOUR), "future")
    assert verify(moved(CLOCK_TOLERANCE, HOUR), public_key=public(), now=NOW).version == 5


def test_an_expired_list_is_refused() -> None:
    """VERIFY-1, F06b, S5: A verifier refuses a list from the second of its `ExpiresAt` on."""
    refused(moved(-HOUR, timedelta(0)), "expired")
    refused(moved(-HOUR, -SECOND), "expired")
    assert verify(moved(-HOUR, SECOND), public_key=public(), now=NOW).version == 5


def test_a_version_out_of_reach_is_refused() -> None:
    """VERIFY-1, F06, S5: A verifier refuses a version so high that none could follow it."""
    for version in (VERSION_MAX + 1, 2**63, 2**64 - 1):
        refused(changed(Version=version), "version")
    served = body(changed(Version=VERSION_MAX))
    assert verify(served, public_key=public(), now=NOW).version == VERSION_MAX


@pytest.mark.parametrize("seen", [6, 7, VERSION_MAX])
def test_an_older_list_is_refused(seen: int) -> None:
    """VERIFY-1, F06a: A verifier refuses a list that is older than one that it has seen."""
    refused(document(), "rollback", min_version=seen)
    assert verify(body(document()), public_key=public(), now=NOW, min_version=5) == PAYLOAD


def test_a_public_key_is_read_from_base64() -> None:
    """The 32 bytes of a listed public key come out of its base64."""
    text = base64.b64encode(public()).decode()
    assert srl_verification.public_key_bytes(text) == public()


@pytest.mark.parametrize("value", ["", "AA==", "A" * 43, "A" * 44, "!" * 44, "é", "A" * 43 + "=\n"])
def test_another_text_is_no_public_key(value: str) -> None:
    """Text that is not base64 of 32 bytes is ValueError."""
    with pytest.raises(ValueError, match=r"base64|32 bytes|ASCII"):
        srl_verification.public_key_bytes(value)


def withheld(served: bytes, reason: str, *, payload: Payload = PAYLOAD) -> None:
    with pytest.raises(InvalidSrl) as caught:
        verify_own(served, payload, public_key=public(), now=NOW)
    assert caught.value.reason == reason, caught.value


def test_the_publisher_lets_no_altered_list_out() -> None:
    """A body in which any bit is another than it should be is withheld."""
    for flipped in flips(srl.sign(PAYLOAD, seed=SEED)):
        with pytest.raises(InvalidSrl) as caught:
            verify_own(flipped, PAYLOAD, public_key=public(), now=NOW)
        assert caught.value.reason in ("malformed", "signature")


_JOINED = [
    ["svc_wrt_a\nsvc_wrt_b"],
    ["svc_wrt_a\n"],
    ["\nsvc_wrt_a"],
    ["svc_wrt_a", "svc_wrt_b\nsvc_wrt_c"],
    [*(f"svc_wrt_{number:05}" for number in range(10_000)), "svc_wrt_a\nsvc_wrt_b"],
    [f"svc_wrt_{number:05}" + "\nsvc_wrt_x" * (number == 7) for number in range(20_000)],
]


@pytest.mark.parametrize("ids", _JOINED, ids=lambda ids: f"{len(ids)} elements")
def test_two_identifiers_in_one_element_are_refused(ids: list[str]) -> None:
    """F64a: A verifier refuses a list in which one element contains two identifiers."""
    assert not identifiers.are_warrant_ids(ids)
    refused(changed(RevokedIDs=ids), "content")


@pytest.mark.parametrize("alter", [lambda b: b[:-1], lambda b: b + b" ", lambda b: b" " + b])
def test_the_publisher_lets_nothing_more_or_less_out(alter: Callable[[bytes], bytes]) -> None:
    """Not a byte before or after what `sign` makes, though JSON would allow it."""
    withheld(alter(srl.sign(PAYLOAD, seed=SEED)), "malformed")


def test_the_publisher_signs_what_it_shows() -> None:
    """A body that shows what is to be published, and signs something else, is withheld."""
    other = replace(PAYLOAD, revoked_ids=["svc_wrt_a"])
    shown = srl.sign(PAYLOAD, seed=SEED).partition(b',"srl":')[0]
    signed = srl.sign(other, seed=SEED).partition(b',"srl":')[2]
    withheld(shown + b',"srl":' + signed, "malformed")
    withheld(srl.sign(other, seed=SEED), "malformed")
    mixed = replace(PAYLOAD)
    vars(mixed)["cbor"] = other.cbor
    withheld(srl.sign(mixed, seed=SEED), "mixed", payload=mixed)
    withheld(srl.sign(PAYLOAD, seed=OTHER_SEED), "signature")


@pytest.mark.parametrize(
    ("now", "reason"), [(NOW - CLOCK_TOLERANCE - SECOND, "future"), (NOW + HOUR, "expired")]
)
def test_the_publisher_goes_by_its_own_clock(now: datetime, reason: str) -> None:
    """F35: a list that verifiers would refuse at this time is withheld, whatever it says itself."""
    with pytest.raises(InvalidSrl) as caught:
        verify_own(srl.sign(PAYLOAD, seed=SEED), PAYLOAD, public_key=public(), now=now)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"revoked_ids": ["svc_wrt_b", "svc_wrt_a"]}, "order"),
        ({"revoked_ids": ["svc_wrt_a", "svc_wrt_a"]}, "order"),
        ({"revoked_ids": ['svc_wrt_a","svc_wrt_b']}, "content"),
        ({"revoked_ids": ["svc_wrt_"]}, "content"),
        ({"expires_at": NOW}, "times"),
        ({"expires_at": NOW + timedelta(days=7, seconds=1)}, "times"),
        ({"version": VERSION_MAX + 1}, "version"),
    ],
    ids=str,
)
def test_the_publisher_lets_no_wrong_list_out(other: dict[str, Any], reason: str) -> None:
    """What verifiers would refuse is withheld, even if it was to be published so."""
    payload = replace(PAYLOAD, **other)
    served = srl.sign(payload, seed=SEED)
    withheld(served, reason, payload=payload)
    with pytest.raises(InvalidSrl):
        verify(served, public_key=public(), now=NOW)
