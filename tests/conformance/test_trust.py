"""The TypeScript client decides about trust documents as ours does."""

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from shared.authorizer.formats import documents
from shared.authorizer.formats.documents import NotTrusted
from shared.authorizer.formats.following import follow
from tests.authorizer.feeds import NOW
from tests.authorizer.root_chains import chain_of
from tests.authorizer.roots import pinned
from tests.authorizer.trust_vectors import Asked, answer, flipped, vectors
from tests.conformance import runner
from tests.conformance.cases import text_of
from tests.kit import typescript

pytestmark = pytest.mark.slow


def _decided(asked: Asked) -> dict[str, Any]:
    """What our client decides."""
    try:
        given = documents.documents(asked.body)
        return {"version": follow(asked.state, given, NOW).version}
    except NotTrusted as refused:
        return {"refused": refused.reason.value}


def _chains() -> list[Asked]:
    random, found = Random(13), []
    for _ in range(600):
        chain = chain_of(random)
        start = chain.start.signed()
        state = pinned(start.document.roots, start if chain.is_held else None)
        found.append(Asked(state, answer(*(each.signed() for each in chain.answer))))
    return found


def _compare(answers: Iterable[Asked]) -> int:
    """Check that the TypeScript client decides about each answer as ours does; return the count."""
    differ, count = [], 0
    with runner.started(typescript.command()) as ask:
        for asked in answers:
            try:
                text = asked.body.decode()
            except UnicodeDecodeError:
                continue
            pin, held = asked.state.pin, asked.state.held
            ask({"init": {"tenant": asked.state.tenant_id, "trust_root": pin, "floor": None}})
            if held is not None:
                told = {"now": text_of(NOW), "response": answer(held).decode()}
                assert ask({"trust": told}) == {"version": held.document.version}
            found = ask({"trust": {"now": text_of(NOW), "response": text}})
            count += 1
            if found != _decided(asked):
                differ.append((found, _decided(asked), asked))
    assert differ == []
    return count


def test_a_second_client_decides_about_documents_as_ours() -> None:
    """TRUST-6, TRUST-8, TRUST-12, F880a: Two clients decide alike about 1,100 answers.

    The answers have members left out or of another form, other encodings, and 600 random chains of
    roots. The console has the trust module of the TypeScript client.
    """
    assert _compare([*vectors(), *_chains()]) > 1100


def test_a_second_client_decides_about_each_flipped_bit_as_ours() -> None:
    """TRUST-8, F880b: Two clients decide alike about an answer with any bit flipped.

    So they do about a document with a flipped bit that the root signed nevertheless.
    """
    assert _compare(flipped()) > 15_000
