"""The answer to a poll, as JSON: what is read of it, and what is refused before it is read."""

import base64
import json
from typing import Any

import pytest

from shared.authorizer.answers import (
    ANSWER_BYTES_MAX,
    POLL_SECONDS_MAX,
    WAIT_SECONDS_MAX,
    Answer,
    parse_answer,
)
from shared.authorizer.policy import Reason, RefusedAnswer

_HEAD = {"Payload": "cGF5", "Signature": "c2ln"}
_MEMBERS: dict[str, Any] = {"head": _HEAD, "entries": ["b25l", ""], "new": None}

_NO_ENTRIES: list[Any] = [{}, "", None, [1], [None], [["b25l"]]]
_NO_NUMBERS: list[Any] = ["1", None, True, False, [], {}]
_NO_BASE64: list[Any] = ["cGF", "cGF5\n", " cGF5", "cGE_", "cGE=cGE=", "cGF=", "c\u00e4F5", 1, None]


def _refusal(data: bytes) -> Reason:
    with pytest.raises(RefusedAnswer) as refused:
        parse_answer(data)
    return refused.value.reason


def test_an_answer_is_read_as_it_was_written() -> None:
    """F169a: An answer is read with its hints, and members that are not known are ignored."""
    assert parse_answer(json.dumps(_MEMBERS).encode()) == Answer(b"pay", b"sig", (b"one", b""))
    full = Answer(b"pay", b"sig", (b"one",), 2.5, 25)
    assert parse_answer(full.encode()) == full


def test_what_is_not_an_answer_is_malformed() -> None:
    """F169b: A body that is not an answer, or has another form of base64, is refused by name."""
    head, text = {"head": _HEAD}, json.dumps(_MEMBERS)
    wrong: list[Any] = [None, 1, "text", [], {}, head, {"entries": []}, {"head": 1, "entries": []}]
    wrong += [head | {"entries": each} for each in _NO_ENTRIES]
    wrong += [{"head": {**_HEAD, "Payload": each}, "entries": []} for each in _NO_BASE64]
    wrong += [_MEMBERS | {"poll_seconds": each} for each in _NO_NUMBERS]
    wrong += [_MEMBERS | {"wait_max": each} for each in _NO_NUMBERS]
    bodies = [json.dumps(each).encode() for each in wrong]
    bodies += [b"", b"\xff", text[:-1].encode(), text.encode("utf-16"), b"[" * 100_000]
    bodies += [json.dumps(_MEMBERS | {"poll_seconds": float("nan")}).encode()]
    bodies += [b'{"wait_max": ' + b"9" * 5000 + b", " + text[1:].encode()]
    for body in bodies:
        assert _refusal(body) == Reason.MALFORMED, body[:100]


def test_an_answer_that_is_too_large_is_not_read() -> None:
    """F169c: An answer of more than 4 MiB is refused before it is parsed."""
    body = json.dumps(_MEMBERS).encode()
    assert parse_answer(body.ljust(ANSWER_BYTES_MAX)).payload == b"pay"
    assert _refusal(body.ljust(ANSWER_BYTES_MAX + 1)) == Reason.TOO_LARGE
    assert ANSWER_BYTES_MAX == 4 * 1024 * 1024


def test_hints_are_bounded() -> None:
    """F169d: No answer silences a client for more than a minute, or makes it wait for longer."""
    given = {-1: 0, 0: 0, 0.25: 0.25, 60: 60, 61: POLL_SECONDS_MAX, 1e999: POLL_SECONDS_MAX}
    for seconds, taken in given.items():
        body = json.dumps(_MEMBERS | {"poll_seconds": seconds}).replace("Infinity", "1e999")
        assert parse_answer(body.encode()).poll_seconds == taken
    waits = {-1: 0, 25: 25, 25.5: 25, 61: WAIT_SECONDS_MAX, 1e999: WAIT_SECONDS_MAX}
    for wait, taken in waits.items():
        body = json.dumps(_MEMBERS | {"wait_max": wait}).replace("Infinity", "1e999")
        assert parse_answer(body.encode()).wait_max == taken
    assert (POLL_SECONDS_MAX, WAIT_SECONDS_MAX) == (60, 60)


def test_base64_has_one_form() -> None:
    """F169e: Each head has one form in base64, so two answers with one head are equal."""
    for size in range(5):
        text = base64.b64encode(bytes(size)).decode()
        body: dict[str, Any] = {"head": {**_HEAD, "Payload": text}, "entries": []}
        assert parse_answer(json.dumps(body).encode()).payload == bytes(size)
        if text.endswith("="):
            body["head"]["Payload"] = text.replace("A=", "B=", 1)
            assert _refusal(json.dumps(body).encode()) == Reason.MALFORMED
