"""The answer to a poll, as JSON: what is read of it, and what is refused before it is read."""

import json
from typing import Any

import pytest

from shared.authorizer.answers import POLL_SECONDS_MAX, WAIT_SECONDS_MAX, FeedResponse, parse_answer
from shared.authorizer.policy import RejectionReason, ResponseRejectedError

_HEAD = {"Payload": "cGF5", "Signature": "c2ln"}
_MEMBERS: dict[str, Any] = {"head": _HEAD, "entries": ["b25l", ""], "new": None}


def _refusal(data: bytes) -> RejectionReason:
    with pytest.raises(ResponseRejectedError) as refused:
        parse_answer(data)
    return refused.value.reason


def test_an_answer_is_read_as_it_was_written() -> None:
    """F169a: An answer is read with its hints, and members that are not known are ignored."""
    assert parse_answer(json.dumps(_MEMBERS).encode()) == FeedResponse(
        b"pay", b"sig", (b"one", b"")
    )
    full = FeedResponse(b"pay", b"sig", (b"one",), 2.5, 25)
    assert parse_answer(full.encode()) == full


def test_what_crashes_a_parser_is_malformed() -> None:
    """F169b: A body that a parser of JSON cannot bear is refused by name.

    The other forms of malformed answers are cases of tests/conformance.
    """
    text = json.dumps(_MEMBERS)
    bodies = [b"\xff", text.encode("utf-16"), b"[" * 100_000]
    bodies += [b'{"max_wait_seconds": ' + b"9" * 5000 + b", " + text[1:].encode()]
    for body in bodies:
        assert _refusal(body) == RejectionReason.MALFORMED, body[:100]


def test_hints_are_bounded() -> None:
    """F169c: No answer silences a client for more than a minute, or makes it wait for longer."""
    given = {-1: 0, 0: 0, 0.25: 0.25, 60: 60, 61: POLL_SECONDS_MAX, 10**30: POLL_SECONDS_MAX}
    for seconds, taken in given.items():
        body = json.dumps(_MEMBERS | {"poll_seconds": seconds}).encode()
        assert parse_answer(body).poll_seconds == taken
    waits = {-1: 0, 25: 25, 25.5: 25, 61: WAIT_SECONDS_MAX, 10**30: WAIT_SECONDS_MAX}
    for wait, taken in waits.items():
        assert (
            parse_answer(
                json.dumps(_MEMBERS | {"max_wait_seconds": wait}).encode()
            ).max_wait_seconds
            == taken
        )
    assert (POLL_SECONDS_MAX, WAIT_SECONDS_MAX) == (60, 60)
    for name in ("poll_seconds", "max_wait_seconds"):
        for hint in ("1e999", "1" * 400):
            text = json.dumps(_MEMBERS | {name: 1e999}).replace("Infinity", hint)
            assert _refusal(text.encode()) == RejectionReason.MALFORMED


def test_nesting_is_limited() -> None:
    """F1604a: JSON of more than 64 nested objects and arrays is malformed, wherever they are.

    A bracket in a text nests nothing.
    """
    deepest = "[" * 63 + "]" * 63
    for member in (deepest, json.dumps('"[' * 200), json.dumps("\\" + "{" * 200)):
        text = json.dumps(_MEMBERS)[:-1] + f', "x": {member}}}'
        assert parse_answer(text.encode()) == FeedResponse(b"pay", b"sig", (b"one", b""))
    for member in (f"[{deepest}]", '{"a": ' * 64 + "1" + "}" * 64):
        text = json.dumps(_MEMBERS)[:-1] + f', "x": {member}}}'
        assert _refusal(text.encode()) == RejectionReason.MALFORMED
