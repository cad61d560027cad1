"""The trust documents in the browser: they are decided as by the authorizers' client."""

import base64
import json
import shutil
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from functions.console.files import STATIC
from shared.authorizer.formats import documents
from shared.authorizer.formats.documents import NotTrusted, RootReason
from shared.authorizer.formats.following import follow
from tests.authorizer.feeds import NOW
from tests.authorizer.root_chains import chain_of
from tests.authorizer.roots import pinned
from tests.authorizer.trust_vectors import Asked, answer, flipped, vectors

pytestmark = pytest.mark.slow

_CLIENT: Final = Path(__file__).with_name("trust_client.mjs")
_CHAINS: Final = 300


def _python(asked: Asked) -> Any:
    """What our client in Python decides."""
    try:
        state = follow(asked.state, documents.documents(asked.body + b" " * asked.spaces), NOW)
    except NotTrusted as refused:
        return refused.reason.value
    return {
        "version": state.version,
        "lists": [base64.b64encode(each).decode() for each in state.named("lists")],
        "expired": state.held.document.expires_at <= NOW if state.held else None,
    }


def _browser(asked: list[Asked], static: Path = STATIC) -> list[Any]:
    """What the module of the page decides, in Node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node")
    given = [
        {
            "tenant": state.tenant_id,
            "pin": state.pin,
            "held": state.held and state.held.form(),
            "body": base64.b64encode(body).decode(),
            "spaces": spaces,
            "now": round(NOW.timestamp() * 1000),
        }
        for state, body, spaces in asked
    ]
    output = subprocess.check_output([node, _CLIENT, static], input=json.dumps(given), text=True)
    decided: list[Any] = json.loads(output)
    return decided


def _differences(asked: list[Asked], ours: list[Any]) -> list[tuple[Any, Any, Asked]]:
    """Where the page decides otherwise."""
    found = zip(ours, _browser(asked), asked, strict=True)
    return [(one, other, each) for one, other, each in found if one != other]


@cache
def _cases() -> tuple[list[Asked], list[Any]]:
    """Answers, and what Python decides about each."""
    cases = vectors()
    return cases, [_python(each) for each in cases]


def test_the_page_decides_about_documents_as_authorizers_do() -> None:
    """TRUST-6, TRUST-8, TRUST-12, F880a: The console accepts documents as the Python client does.

    It refuses the others by the same reason: members left out or of another form, encodings, keys
    of small order, sizes, times, thresholds, older documents, and two of one version.
    """
    cases, ours = _cases()
    assert _differences(cases, ours) == []
    counted = Counter(each if isinstance(each, str) else "ok" for each in ours)
    print(len(cases), counted)
    refused = {*RootReason} - {"signature", "trust_expired", "behind", "hash", "certificate"}
    assert counted.keys() == {*map(str, refused - {"expired"}), "ok"}
    assert counted["ok"] > 50


def test_each_flipped_bit_is_decided_as_authorizers_do() -> None:
    """TRUST-8, F880b: With any bit flipped, an answer is decided as by the Python client.

    So is a document with a flipped bit that the root signed nevertheless.
    """
    cases = [*flipped()]
    ours = [_python(each) for each in cases]
    assert _differences(cases, ours) == []
    accepted = sum(not isinstance(each, str) for each in ours)
    print(len(cases), accepted)
    assert len(cases) > 15_000 > accepted > 100


def test_random_chains_of_roots_are_decided_as_authorizers_do() -> None:
    """TRUST-12, F880c: Of 300 random chains of roots the console accepts those that Python does."""
    random = Random(11)
    cases = []
    for _ in range(_CHAINS):
        chain = chain_of(random)
        start = chain.start.signed()
        state = pinned(start.document.roots, start if chain.is_held else None)
        cases.append(Asked(state, answer(*(each.signed() for each in chain.answer))))
    ours = [_python(each) for each in cases]
    assert _differences(cases, ours) == []
    accepted = [each for each in ours if not isinstance(each, str)]
    assert 90 < len(accepted) < 210
    assert {each["expired"] for each in accepted} == {True, False}


# For each check: what a module that lacks it has in the place of ours.
_LEFT_OUT: Final = {
    "the size of an answer": ("trust", "answer.length <= ANSWER_BYTES", "true"),
    "the number of documents": ("trust", "given.length <= DOCUMENTS", "true"),
    "the size of a document": ("trust", "payload.length <= DOCUMENT_BYTES", "true"),
    "the number of signatures": ("trust", "form.Signatures.length <= SIGNATURES", "true"),
    "a key that signs twice": ("trust", "size === signatures.length", "size > 0"),
    "the tenant": ("trust", "tenant === state.tenant", "true"),
    "the pin": ("trust", "(await pinOf(next.roots)) === pin", "true"),
    "the roots before": ("trust", "  await signed(next, held.roots)\n", ""),
    "its own roots": ("trust", "return signed(next, next.roots)\n}", "return next\n}"),
    "the threshold": ("trust", "let left = threshold", "let left = 1"),
    "the signature": ("trust", "await isSigned(data, signature, key)", "true"),
    "the prefix": ("trust", "'rescind-trust-v1\\n', ", ""),
    "the equivocation": ("trust", "need(next.version > held.version, 'equivocation')", ""),
    "the rollback": ("trust", ".version >= held.version, 'rollback'", ", 'rollback'"),
    "the lifetime": ("trust", " && held.expiresAt - held.issuedAt <= LIFETIME", ""),
    "the order of times": ("trust", "held.issuedAt < held.expiresAt && ", ""),
    "the future": ("trust", "held.issuedAt - now <= AHEAD", "true"),
    "the expiry": ("trust", "now < held.expiresAt, 'trust", "true, 'trust"),
    "the use": ("trust", "uses.includes(use)", "true"),
    "a root that signs more": ("trust", "roots.includes(hex(key))", "false"),
    "another member of roots": ("trust", "need(members.size === 2)", ""),
    "weak keys": ("ed25519", "!WEAK.has(", "!new Set().has("),
    "the order of keys": ("trust", "isBefore(values[index - 1], value)", "true"),
    "the quorum": ("trust", "witnesses.number('Quorum') <= ", "-1 < "),
    "the shortest head": ("cbor", "check(value >= ", "check(true || value >= "),
    "the order of members": ("cbor", " && isBefore(last, key)", ""),
    "what follows": ("cbor", "check(at === data.length)", ""),
    "the largest number": ("cbor", "value > 2n ** 53n ?", "value > 2n ** 70n ?"),
    "dates of no calendar": ("cbor", "time.toISOString().replace('.000Z', 'Z') === value", "true"),
    "the form of base64": ("bytes", "btoa(bytes) === text", "true"),
    "a byte order mark": ("bytes", ", ignoreBOM: true", ""),
}


@pytest.mark.parametrize("check", _LEFT_OUT)
def test_a_page_that_leaves_a_check_out_decides_otherwise(check: str, tmp_path: Path) -> None:
    """TRUST-12, F880d: For each check, a module that lacks it is found out by these documents."""
    module, line, instead = _LEFT_OUT[check]
    static = Path(shutil.copytree(STATIC, tmp_path / "static"))
    path = static / f"{module}.js"
    text = path.read_text(encoding="utf-8")
    assert text.count(line) == 1
    path.write_text(text.replace(line, instead), encoding="utf-8")
    cases, ours = _cases()
    assert _browser(cases, static) != ours
