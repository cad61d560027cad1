"""Identifiers of the form `svc_<kind>_<ULID>`, which sort by creation (API-14)."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from shared.authorizer.formats.ids import WARRANT_ID_PATTERN as WARRANT_ID_PATTERN
from shared.authorizer.formats.ids import warrant_id as warrant_id
from shared.authorizer.formats.tokens import MOMENT_MAX as MOMENT_MAX
from shared.authorizer.formats.tokens import TOKEN_KINDS as TOKEN_KINDS
from shared.authorizer.formats.tokens import TOKEN_PART_MAX as TOKEN_PART_MAX
from shared.authorizer.formats.tokens import jwt_id as jwt_id
from shared.authorizer.formats.tokens import token_id as token_id

API_KEY: Final = "ak"
SIGNING_KEY: Final = "key"
REVOCATION: Final = "rev"
SERVICE_ACCOUNT: Final = "sa"
AUDIT_ENTRY: Final = "evt"
TENANT: Final = "tnt"
WARRANT: Final = "wrt"
AUTHORIZER: Final = "azr"
WEBHOOK: Final = "whk"
BATCH: Final = "bat"
IDENTITY_PROVIDER: Final = "idp"
PERSON: Final = "usr"
SESSION: Final = "ses"
APPROVAL: Final = "apr"
MANIFEST: Final = "man"
STATUS_LIST: Final = "tsl"

# A ULID has 128 bits in 26 digits of five bits each, so its first digit is at most 7.
ULID: Final = "[0-7][0-9a-hjkmnp-tv-z]{25}"
_DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_DIGIT_BITS: Final = 5
_TIME_DIGITS: Final = 10
# The last supported time, in the year 9999, in milliseconds.
_LATEST: Final = 253_370_764_800_000
# A line matches in one way only. `(?>` and `*+` therefore prevent backtracking, for speed.
_WARRANT_ID_LINES: Final = re.compile(f"(?>{WARRANT_ID_PATTERN}\n)*+{WARRANT_ID_PATTERN}")
_RUN: Final = 10_000

# Every warrant identifier sorts after this one.
BEFORE_WARRANT_IDS: Final = "svc_wrt_"


def is_identifier(value: str, *, kind: str) -> bool:
    """Return whether `value` has the form of a generated identifier of `kind`."""
    return re.fullmatch(f"svc_{kind}_{ULID}", value) is not None


def before_all_of(moment: datetime, *, kind: str) -> str:
    """Return a text that separates identifiers of `kind` made at `moment` from earlier ones.

    The text sorts before all identifiers of `moment`, and after earlier ones. A time before 1970
    counts as the start of 1970, because a ULID has no earlier time.
    """
    milliseconds = max(int(moment.timestamp() * 1000), 0)
    return f"svc_{kind}_{encode_base32(milliseconds, _TIME_DIGITS)}"


def span_of(prefix: str) -> tuple[int, int]:
    """Return the first and last millisecond of identifiers with this prefix."""
    digits = prefix.split("_", 2)[2][:_TIME_DIGITS]
    if not set(digits) <= set(_DIGITS):
        digits = ""
    first, last = (digits.ljust(_TIME_DIGITS, each) for each in (_DIGITS[0], _DIGITS[-1]))
    return decode_base32(first), min(decode_base32(last), _LATEST)


def encode_base32(number: int, length: int) -> str:
    """Return the last digits of a number, five bits each, as in a ULID."""
    shifts = range(_DIGIT_BITS * (length - 1), -1, -_DIGIT_BITS)
    return "".join(_DIGITS[number >> shift & 31] for shift in shifts)


def decode_base32(digits: str) -> int:
    """Return the number in digits of five bits each."""
    number = 0
    for each in digits:
        number = number << _DIGIT_BITS | _DIGITS.index(each)
    return number


def are_warrant_ids(values: Sequence[str]) -> bool:
    """Return whether all `values` are warrant identifiers. Faster than separate checks."""
    runs = (values[start : start + _RUN] for start in range(0, len(values), _RUN))
    return all(map(_are_lines, runs))


def _are_lines(values: Sequence[str]) -> bool:
    lines = "\n".join(values)
    # A value that contains a line feed would otherwise count as two.
    is_joined_once = lines.count("\n") == len(values) - 1
    return is_joined_once and _WARRANT_ID_LINES.fullmatch(lines) is not None
