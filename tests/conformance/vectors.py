"""The vectors of the conformance suite, made anew: keys, times and identifiers are fixed."""

from typing import Any

from tests.conformance import accepted as accepted
from tests.conformance import refused as refused
from tests.conformance import tokens as tokens
from tests.conformance import trusted as trusted
from tests.conformance.cases import cases


def vectors() -> list[dict[str, Any]]:
    """All cases: name, what each shows, and its requests with the expected answers."""
    return [case.written() for case in cases()]
