"""Points of small order, found by arithmetic of its own."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shared.authorizer.formats import ed25519

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT_OF_MINUS_ONE = pow(2, (_P - 1) // 4, _P)
# The order of the large group: every point times this is a point of small order.
_ORDER = 2**252 + 27742317777372353535851937790883648493

Point = tuple[int, int]
_NEUTRAL: Point = (0, 1)


def _add(one: Point, other: Point) -> Point:
    (x1, y1), (x2, y2) = one, other
    both = _D * x1 * x2 * y1 * y2 % _P
    x = (x1 * y2 + x2 * y1) * pow(1 + both, -1, _P) % _P
    y = (y1 * y2 + x1 * x2) * pow(1 - both, -1, _P) % _P
    return x, y


def _times(number: int, point: Point) -> Point:
    result = _NEUTRAL
    for digit in f"{number:b}":
        result = _add(result, result)
        if digit == "1":
            result = _add(result, point)
    return result


def _x_of(y: int) -> int | None:
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    root = pow(square, (_P + 3) // 8, _P)
    for x in (root, root * _ROOT_OF_MINUS_ONE % _P):
        if x * x % _P == square:
            return x
    return None


def _small() -> list[Point]:
    """The eight points of small order, as multiples of one that has order 8."""
    for y in range(2, 100):
        x = _x_of(y)
        if x is not None:
            torsion = _times(_ORDER, (x, y))
            if _times(4, torsion) != _NEUTRAL:
                return [_times(number, torsion) for number in range(8)]
    raise AssertionError("no point of order 8 was found")


_SMALL = _small()
# Each y, also as y + p where that fits into 255 bits, with either sign of x.
_ENCODINGS = sorted(
    {
        (value | sign << 255).to_bytes(32, "little")
        for _, y in _SMALL
        for value in (y, y + _P)
        if value < 2**255
        for sign in (0, 1)
    }
)


def test_there_are_eight_of_them() -> None:
    """The arithmetic of this test finds the whole subgroup."""
    assert len(set(_SMALL)) == 8


@pytest.mark.parametrize("key", _ENCODINGS, ids=bytes.hex)
def test_a_point_of_small_order_is_not_safe(key: bytes) -> None:
    """F64: in whatever way it is encoded."""
    assert not ed25519.is_safe(key)


def test_anybody_signs_for_a_point_of_small_order() -> None:
    """F64: that is why: the library accepts a signature that was made without a private key."""
    neutral = (1).to_bytes(32, "little")
    base = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw()
    assert ed25519.is_safe(base)
    forged = neutral + bytes(32)
    Ed25519PublicKey.from_public_bytes(neutral).verify(forged, b"any list")


def test_every_other_key_is_safe() -> None:
    """Keys that were made in the usual way."""
    for _ in range(100):
        key = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
        assert ed25519.is_safe(key)


@pytest.mark.parametrize("length", [0, 31, 33])
def test_another_length_is_no_key(length: int) -> None:
    """A key has 32 bytes."""
    assert not ed25519.is_safe(b"\x05" * length)
