"""What a verifier checks before it accepts a warrant."""

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.authorizer.formats.warrants import (
    CLOCK_TOLERANCE,
    Claims,
    CoseMessage,
    InvalidWarrant,
    header,
    verify,
)
from shared.model import seeds, warrant_format
from shared.model.lists import content as srl
from shared.model.lists.content import Payload

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SEED, OTHER_SEED = bytes(range(32)), bytes(32)
TENANT = "svc_tnt_01m7yzmhg014scvmqfzcb3mfmb"
KEY = "svc_key_01m7yzmhg014scvmqfzcb3mfmg"
CLAIMS = Claims(TENANT, "svc_wrt_a", NOW, NOW + timedelta(hours=1), b"may pay up to 100")
MEMBERS: dict[Any, Any] = cbor2.loads(CLAIMS.encode())
HEADER = header(key_id=b"kid", content_type=61)


def public(seed: bytes) -> bytes:
    return base64.b64decode(seeds.public_key(seed))


def signed(claims: Claims = CLAIMS, *, seed: bytes = SEED) -> bytes:
    return warrant_format.sign(claims, key_id=KEY, key_version=1, seed=seed).encode()


def stating(claims: Any) -> bytes:
    """A message that is signed well, over any claims."""
    encoded = claims if isinstance(claims, bytes) else cbor2.dumps(claims, canonical=True)
    return warrant_format.signed_message(HEADER, encoded, seed=SEED).encode()


def accepted(warrant: bytes, **options: Any) -> Claims:
    given: dict[str, Any] = {"public_keys": [public(SEED)], "tenant_id": TENANT, "now": NOW}
    return verify(warrant, **(given | options))


def refused(warrant: bytes, reason: str, **options: Any) -> None:
    with pytest.raises(InvalidWarrant) as caught:
        accepted(warrant, **options)
    assert caught.value.reason == reason


def test_a_warrant_says_what_it_is() -> None:
    """WARRANT-9, F42, S4: A warrant's signed bytes name identifier, tenant, times and payload."""
    assert accepted(signed()) == CLAIMS
    forever = replace(CLAIMS, expires_at=None)
    assert accepted(signed(forever)) == forever


def test_the_claims_are_those_of_rfc_8392() -> None:
    """iss, exp, iat and cti by their numbers, the payload under a number for private use."""
    start = int(NOW.timestamp())
    assert {
        1: TENANT,
        4: start + 3600,
        6: start,
        7: b"svc_wrt_a",
        -65537: b"may pay up to 100",
    } == MEMBERS
    assert list(MEMBERS) == [1, 4, 6, 7, -65537]


def test_no_bit_may_be_flipped() -> None:
    """F42: whatever is altered, somewhere it is noticed."""
    warrant = signed()
    for place in range(len(warrant)):
        for bit in (1, 16, 128):
            altered = bytearray(warrant)
            altered[place] ^= bit
            with pytest.raises(InvalidWarrant):
                accepted(bytes(altered))


@pytest.mark.parametrize("data", [b"", b"\xff", b"{}", signed()[1:], signed() + b"\x00"])
def test_what_is_no_warrant(data: bytes) -> None:
    """F42: other bytes, an untagged message, or more after it, are malformed."""
    refused(data, "malformed")


def test_another_kind_of_message() -> None:
    """F42: a message of another algorithm or content type is not a warrant."""
    for fields in ({1: -8, 3: 60, 4: b"k"}, {1: -7, 3: 61, 4: b"k"}):
        message = warrant_format.signed_message(cbor2.dumps(fields), CLAIMS.encode(), seed=SEED)
        refused(message.encode(), "header")


@pytest.mark.parametrize(
    "claims",
    [
        b"",
        b"\xf6",
        {},
        {name: value for name, value in MEMBERS.items() if name != 1},
        {name: value for name, value in MEMBERS.items() if name != 6},
        {name: value for name, value in MEMBERS.items() if name != 7},
        {name: value for name, value in MEMBERS.items() if name != -65537},
        MEMBERS | {2: "subject"},
        MEMBERS | {"exp": 1},
        MEMBERS | {1: TENANT.encode()},
        MEMBERS | {7: "svc_wrt_a"},
        MEMBERS | {7: b"svc_wrt_a\nsvc_wrt_b"},
        MEMBERS | {7: b"svc_wrt_\xff"},
        MEMBERS | {7: b"a"},
        MEMBERS | {6: MEMBERS[6] + 0.5},
        MEMBERS | {6: True},
        MEMBERS | {6: str(MEMBERS[6])},
        MEMBERS | {4: None},
        MEMBERS | {4: 10**18},
        MEMBERS | {4: -(10**18)},
        MEMBERS | {4: 2**70},
        MEMBERS | {-65537: "text"},
        cbor2.dumps(dict(reversed(MEMBERS.items()))),
        CLAIMS.encode() + b"\x00",
        b"\xa6" + CLAIMS.encode()[1:] + cbor2.dumps(7) + cbor2.dumps(b"svc_wrt_b"),
        b"\xbf" + CLAIMS.encode()[1:] + b"\xff",
    ],
    ids=lambda claims: str(claims)[:60],
)
def test_claims_that_no_warrant_has(claims: Any) -> None:
    """WARRANT-9, F42c: A verifier refuses missing, unknown, repeated or mistyped claims."""
    refused(stating(claims), "claims")


def test_times() -> None:
    """F43: exp is the first moment at which it holds no more; iat may be ahead by five minutes."""
    end = NOW + timedelta(hours=1)
    accepted(signed(), now=end - timedelta(microseconds=1))
    refused(signed(), "expired", now=end)
    accepted(signed(), now=NOW - CLOCK_TOLERANCE)
    refused(signed(), "future", now=NOW - CLOCK_TOLERANCE - timedelta(seconds=1))
    refused(signed(replace(CLAIMS, expires_at=NOW)), "times")


def test_a_list_is_no_warrant() -> None:
    """F42: what a list signer signs passes for a warrant in no form."""
    listed = Payload(2, NOW, NOW + timedelta(hours=1), [])
    refused(listed.cbor, "malformed")
    refused(srl.sign(listed, seed=SEED), "malformed")
    signature = seeds.signature(listed.cbor, seed=SEED)
    refused(CoseMessage(HEADER, listed.cbor, signature).encode(), "signature")


@given(
    st.text("abcXYZ019_-", min_size=1, max_size=64),
    st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 31)),  # noqa: DTZ001 (made aware below)
    st.none() | st.integers(1, 10**9),
    st.binary(max_size=300),
)
def test_what_is_signed_comes_back(
    name: str, start: datetime, seconds: int | None, payload: bytes
) -> None:
    """Whatever identifier, times and payload."""
    issued = start.replace(microsecond=0, tzinfo=UTC)
    try:
        end = None if seconds is None else issued + timedelta(seconds=seconds)
    except OverflowError:
        end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    claims = Claims(TENANT, f"svc_wrt_{name}", issued, end, payload)
    assert accepted(signed(claims), now=issued) == claims


@given(st.binary(max_size=300))
def test_any_bytes_get_a_verdict(data: bytes) -> None:
    """No bytes end in another error."""
    refused(data, "malformed")
    with pytest.raises(InvalidWarrant):
        accepted(stating(data))
