"""Requests, and what the contract answers to them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import httpx2

from tests.state_machine.books import Books, Fields

# The status and the error code of an answer.
Outcome = tuple[int, str]
Span = tuple[datetime, datetime]

OK: Final = (200, "")
CREATED: Final = (201, "")
DELETED: Final = (204, "")
NOT_MODIFIED: Final = (304, "")
INVALID: Final = (400, "invalid_request")
INVALID_KEY: Final = (401, "invalid_api_key")
WRONG_SCOPE: Final = (403, "insufficient_scope")
NOT_FOUND: Final = (404, "not_found")
WRONG_STATE: Final = (409, "invalid_state")
CONFLICT: Final = (409, "conflict")

ADMIN, AUTHORIZERS = ("admin",), ("admin", "authorizer")
READERS, CHECKERS = ("admin", "read-only", "auditor"), (*AUTHORIZERS, "revoker", "auditor")
REVOKERS, SIGNERS = ("admin", "revoker"), ("admin", "signer")


@dataclass(frozen=True)
class Done:
    """Something that took effect: what was answered or read back, by whom and when."""

    fields: Fields
    actor: str
    span: Span


def _nothing(_done: Done) -> None:
    pass


def _no_evidence() -> Fields | None:
    return None


@dataclass(frozen=True)
class Attempt:
    """A request, what the contract answers to it, and what that means.

    `decide` depends on the time; `effect` follows a success, and enters it in the books;
    `evidence` reads back whether a success was lost. `goal` is the outcome that makes a rule's step
    count as successful, where that is not a success.
    """

    method: str
    path: str
    decide: Callable[[datetime], Outcome]
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    scopes: tuple[str, ...] = ADMIN
    effect: Callable[[Done], None] = _nothing
    evidence: Callable[[], Fields | None] = _no_evidence
    goal: Outcome | None = None


def outcomes(books: Books, caller: str, attempt: Attempt, span: Span) -> set[Outcome]:
    """All that may be answered: while a request is served, the clock may go on."""
    found = set()
    for admitted in span:
        if not books.is_live(caller, admitted):
            found.add(INVALID_KEY)
        elif not set(books.api_keys[caller]["scopes"]) & set(attempt.scopes):
            found.add(WRONG_SCOPE)
        else:
            found |= {attempt.decide(decided) for decided in span}
    return found


def outcome_of(answer: httpx2.Response) -> Outcome:
    """The outcome that an answer is."""
    code = "" if answer.status_code < 400 else answer.json()["error"]["code"]
    return answer.status_code, code
