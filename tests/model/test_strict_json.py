"""JSON without liberties (API-4)."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.authorizer.formats import strict_json

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


@pytest.mark.slow
@given(VALUES, st.booleans())
def test_json_is_read(value: Any, ascii_only: bool) -> None:
    """What JSON can say is read as it is, escaped or in UTF-8."""
    assert strict_json.parse(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Whatever comes, the only error is ValueError."""
    with suppress(ValueError):
        strict_json.parse(data)


REFUSED = {
    "nothing": b"",
    "a byte order mark": b"\xef\xbb\xbf1",
    "UTF-16": "1".encode("utf-16"),
    "UTF-16 without a mark": '{"a": 1}'.encode("utf-16-le"),
    "broken UTF-8": b'"\xff"',
    "an overlong form": b'"\xc0\x80"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "a lone surrogate": rb'"\ud800"',
    "a lone surrogate in a key": rb'{"\udc00": 1}',
    "a lone surrogate deep inside": rb'[[{"a": ["\ud83d"]}]]',
    "surrogates in the wrong order": rb'"\udd11\ud83d"',
    "NaN": b"NaN",
    "Infinity": b"[Infinity]",
    "-Infinity": b'{"a": -Infinity}',
    "a float past all bounds": b"1e999",
    "an integer past 64 bits": b"18446744073709551616",
    "a negative one past 64 bits": b"-9223372036854775809",
    "an integer of 21 digits": b"100000000000000000000",
    "an integer of 5000 digits": b"9" * 5000,
    "a duplicate key": b'{"a": 1, "a": 1}',
    "a duplicate key, escaped": rb'{"a": 1, "\u0061": 1}',
    "a duplicate key deep inside": b'[{"b": {"a": 1, "a": 2}}]',
    "100,000 arrays": b"[" * 100_000 + b"]" * 100_000,
    "100,000 objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "an open end": b"[" * 100_000,
    "trailing bytes": b"{} x",
    "two values": b"{}{}",
    "a NUL behind": b"{}\x00",
    "a NUL in text": b'"\x00"',
    "a line break in text": b'"\n"',
    "a comma too many": b"[1,]",
    "single quotes": b"'a'",
    "a bare key": b"{a: 1}",
    "a leading zero": b"01",
    "a plus sign": b"+1",
    "a bare fraction": b".5",
    "other digits": "٣".encode(),
    "a comment": b"1 // one",
    "another white space": "\u00a01".encode(),
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_what_json_does_not_say_is_refused(data: bytes) -> None:
    """F18b: The JSON reader refuses NaN, lone surrogates, duplicate keys and other encodings."""
    with pytest.raises(ValueError, match=r"^must ") as caught:
        strict_json.parse(data)
    # The original error repeats the document.
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 2**64 - 1, 0])
def test_integers_of_64_bits_are_read(number: int) -> None:
    """Every integer of 64 bits is read exactly."""
    assert strict_json.parse(str(number).encode()) == number


def test_a_pair_of_surrogates_is_a_character() -> None:
    """Two escapes that belong together are one character."""
    assert strict_json.parse(rb'"\ud83d\udd11"') == "🔑"
