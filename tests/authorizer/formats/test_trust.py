"""The trust document: what is written, and what is read."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.authorizer.formats import documents
from shared.authorizer.formats.documents import NotTrusted, RootReason, SignedDocument
from shared.authorizer.formats.members import Malformed
from shared.authorizer.formats.trust import (
    LogAnchor,
    NamedSigner,
    Roots,
    TrustDocument,
    Witnesses,
)
from shared.authorizer.formats.wire import Position
from tests.authorizer.feeds import NOW, TENANT, public, signer
from tests.authorizer.roots import ROOTS, document, first, public_of, roots, signed

_LOG = LogAnchor(f"rescind/{TENANT}/1", 12345, b"r" * 32)
_WHOLE = document(42, log=_LOG, witnesses=Witnesses(("w1+00000001+BA", "w2+00000002+BA"), 1))
_NEUTRAL = (1).to_bytes(32, "little")


def _members(made: TrustDocument = _WHOLE) -> dict[str, Any]:
    members: dict[str, Any] = cbor2.loads(made.encode())
    return members


def _encoded(members: object) -> bytes:
    return cbor2.dumps(members, canonical=True)


def _put(path: str, value: object, within: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The members of a document with another value at a path such as `Feed.Chain`."""
    members = dict(_members() if within is None else within)
    name, _, rest = path.partition(".")
    members[name] = _put(rest, value, members[name]) if rest else value
    return members


def test_a_document_has_the_members_that_the_page_lists() -> None:
    """TRUST-6, F661a: A document names tenant, roots, signers, feed, log, witnesses and times."""
    assert _members() == {
        "Tenant": TENANT,
        "Version": 42,
        "IssuedAt": "2026-11-21T12:00:00Z",
        "ExpiresAt": "2026-12-05T12:00:00Z",
        "Roots": {"Keys": [public_of(1)], "Threshold": 1},
        "Signers": [{"Key": key, "Uses": list(uses)} for key, uses in _WHOLE.signers],
        "Feed": {"Sequence": 7, "Chain": b"c" * 32},
        "Log": {"Origin": f"rescind/{TENANT}/1", "Size": 12345, "Root": b"r" * 32},
        "Witnesses": {"Keys": ["w1+00000001+BA", "w2+00000002+BA"], "Quorum": 1},
    }
    assert TrustDocument.decode(_WHOLE.encode()) == _WHOLE
    east = NOW.astimezone(timezone(timedelta(hours=9)))
    assert replace(_WHOLE, issued_at=east).encode() == _WHOLE.encode()


def test_the_signed_bytes_and_the_pin_never_change() -> None:
    """TRUST-7, TRUST-8, F661b: The pin and the 49 signed bytes are the hashes that are specified.

    The bytes were made once, and are the contract.
    """
    sha256 = hashlib.sha256
    assert documents.signed_part(b"payload") == b"rescind-trust-v1\n" + sha256(b"payload").digest()
    assert len(documents.signed_part(bytes(70_000))) == 49
    encoded = b"\xa2\x64Keys\x81\x58\x20" + public_of(1) + b"\x69Threshold\x01"
    assert ROOTS.pin == sha256(b"rescind-roots-v1\n" + encoded).hexdigest()
    assert ROOTS.pin == "e616cada949bfc9e669640b0901490a8a4b7421cf6c58d6f2d8b17879b9d0be7"
    assert sha256(_WHOLE.encode()).hexdigest() == (
        "ea0d8b182a34f817914acbbecc4f4e2845fec0f5c7759cb4d64c916741d1ddd0"
    )
    assert roots(2, 1, threshold=2).pin == roots(1, 2, threshold=2).pin != roots(1, 2).pin


_KEYS = st.sets(st.integers(1, 250).map(lambda each: public(signer(each))), min_size=1, max_size=8)
_NUMBERS = st.integers(0, 2**53)
_TEXTS = st.sets(st.text(max_size=5), min_size=1, max_size=3).map(lambda each: tuple(sorted(each)))
_HASHES = st.binary(min_size=32, max_size=32)


@st.composite
def _documents(draw: st.DrawFn) -> TrustDocument:
    keys = tuple(sorted(draw(_KEYS)))
    uses = {key: draw(_TEXTS) for key in draw(_KEYS) if key not in keys}
    names = draw(_TEXTS)
    return document(
        draw(st.integers(1, 2**53)),
        tenant_id=draw(st.text(max_size=9)),
        roots=Roots(keys, draw(st.integers(1, len(keys)))),
        signers=tuple(NamedSigner(key, uses[key]) for key in sorted(uses)),
        feed=Position(draw(_NUMBERS), draw(_HASHES)),
        log=draw(st.none() | st.builds(LogAnchor, st.text(), _NUMBERS, _HASHES)),
        witnesses=draw(st.none() | st.integers(0, len(names)).map(lambda n: Witnesses(names, n))),
        issued_at=NOW + timedelta(seconds=draw(st.integers(-(10**9), 10**9))),
    )


@given(_documents())
def test_a_document_is_read_as_it_was_written(made: TrustDocument) -> None:
    """TRUST-6, F661c: Any document is read as it was written, and has only one encoding."""
    payload = made.encode()
    assert TrustDocument.decode(payload) == made
    turned = replace(
        made,
        roots=replace(made.roots, keys=made.roots.keys[::-1]),
        signers=made.signers[::-1],
    )
    assert turned.encode() == payload


def test_unknown_members_are_signed_and_ignored() -> None:
    """TRUST-6, F661d: A reader ignores members and uses that it does not know, but not in `Roots`.

    They are signed with the others.
    """
    for path in ("More", "Feed.More", "Log.More", "Witnesses.More"):
        payload = _encoded(_put(path, {"any": [1, None, "x"]}))
        assert TrustDocument.decode(payload) == _WHOLE
        opened = SignedDocument.opened(payload, first().signatures)
        assert not opened.is_signed_by(ROOTS)
    uses = [{"Key": key, "Uses": [*uses, "z-new"], "More": 1} for key, uses in _WHOLE.signers]
    found = TrustDocument.decode(_encoded(_put("Signers", uses)))
    assert found.named("lists") == _WHOLE.named("lists") != ()
    assert len(found.named("z-new")) == 3
    with pytest.raises(Malformed):
        TrustDocument.decode(_encoded(_put("Roots.More", 1)))


_BAD: dict[str, list[Any]] = {
    "Tenant": [1, b"t", None],
    "Version": [0, -1, 2**53 + 1, 1.0, "1", True],
    "IssuedAt": ["2026-11-21", "2026-11-31T12:00:00Z", 1, "2026-11-21T12:00:00+00:00"],
    "ExpiresAt": ["2026-13-21T12:00:00Z", None],
    "Roots": [[], None],
    "Roots.Keys": [
        [],
        [b"short"],
        ["x" * 32],
        [public_of(1)] * 2,
        [*sorted(map(public_of, (1, 2)))][::-1],
        sorted(map(public_of, range(1, 10))),
        [_NEUTRAL],
        sorted([_NEUTRAL, public_of(1)]),
    ],
    "Roots.Threshold": [0, 2, -1, 2**60, "1", None],
    "Signers": [
        {},
        [1],
        [{"Key": public_of(9)}],
        [{"Uses": ["lists"]}],
        [{"Key": public_of(9), "Uses": []}],
        [{"Key": public_of(9), "Uses": "lists"}],
        [{"Key": public_of(9), "Uses": [1]}],
        [{"Key": public_of(9), "Uses": ["native", "lists"]}],
        [{"Key": public_of(9), "Uses": ["lists", "lists"]}],
        [{"Key": public_of(9), "Uses": ["lists"], 1: 1}],
        [{"Key": public_of(9), "Uses": ["lists"]}] * 2,
        [{"Key": each, "Uses": ["lists"]} for each in sorted(map(public_of, (8, 9)))][::-1],
        [{"Key": _NEUTRAL, "Uses": ["lists"]}],
        [{"Key": public_of(1), "Uses": ["lists"]}],
        [{"Key": number.to_bytes(31, "big") + b"\5", "Uses": ["lists"]} for number in range(257)],
    ],
    "Feed": [None, [], {"Sequence": 7}],
    "Feed.Sequence": [-1, 2**53 + 1, "7"],
    "Feed.Chain": [b"c" * 31, b"c" * 33, "c" * 32],
    "Log": [None, []],
    "Log.Origin": [1],
    "Log.Size": [-1],
    "Log.Root": [b""],
    "Witnesses": [None, []],
    "Witnesses.Keys": [[1], ["b", "a"], ["a", "a"]],
    "Witnesses.Quorum": [3, -1, "1"],
}


@pytest.mark.parametrize("path", _BAD)
def test_a_malformed_document_is_refused(path: str) -> None:
    """TRUST-6, TRUST-7, F662a: A document with a member of another form is refused.

    So is one without a member that it must have, a root of small order, a key that is named twice
    or is a root too, and a threshold that cannot be reached.
    """
    for value in _BAD[path]:
        with pytest.raises(NotTrusted) as refused:
            SignedDocument.opened(_encoded(_put(path, value)), {})
        assert refused.value.reason is RootReason.MALFORMED, value


def test_a_document_has_all_members_that_it_must_have() -> None:
    """TRUST-6, F662b: Without any member but `Log` and `Witnesses` it is refused."""
    optional = set()
    for name in _members():
        try:
            TrustDocument.decode(_encoded({k: v for k, v in _members().items() if k != name}))
        except Malformed:
            continue
        optional.add(name)
    assert optional == {"Log", "Witnesses"}


def test_the_most_that_a_document_has_is_read() -> None:
    """TRUST-6, F662c: Eight roots and 256 signers are read, and one more is refused."""
    keys = [number.to_bytes(31, "big") + b"\5" for number in range(256)]
    many = document(
        roots=roots(*range(1, 9), threshold=8),
        signers=tuple(NamedSigner(each, ("lists",)) for each in keys),
    )
    assert TrustDocument.decode(many.encode()) == many
    assert len(many.encode()) < documents.DOCUMENT_BYTES_MAX


_ENCODINGS = {
    "not CBOR": b"\xff",
    "nothing": b"",
    "no map": _encoded([1]),
    "cut": _WHOLE.encode()[:-1],
    "followed by more": _WHOLE.encode() + b"\x00",
    "another order": cbor2.dumps(dict(reversed(_members().items()))),
    "a longer header": b"\xb8\x09" + _WHOLE.encode()[1:],
    "no stated length": b"\xbf" + _WHOLE.encode()[1:] + b"\xff",
    "a member twice": b"\xaa" + _encoded({"Log": _members()["Log"]})[1:] + _WHOLE.encode()[1:],
    "a key that is no text": _encoded(_members() | {1: 1}),
    "a thousand lists": _encoded(_put("A", 0)).replace(
        b"\x61A\x00", b"\x61A" + b"\x81" * 1000 + b"\x80"
    ),
}


@pytest.mark.parametrize("name", _ENCODINGS)
def test_another_encoding_is_refused(name: str) -> None:
    """TRUST-6, F662d: Bytes that the encoder would have written differently are no document."""
    with pytest.raises(Malformed):
        TrustDocument.decode(_ENCODINGS[name])


def test_truncated_documents_are_refused() -> None:
    """TRUST-6, F662e: No beginning of a document is one."""
    payload = _WHOLE.encode()
    for size in range(len(payload)):
        with pytest.raises(Malformed):
            TrustDocument.decode(payload[:size])


def test_no_byte_of_a_document_may_be_altered() -> None:
    """TRUST-8, F662f: With any byte altered, of payload, keys or signatures, it is not signed."""
    good = signed(document(roots=roots(1, 2, threshold=2)), 1, 2)
    form = json.dumps(good.form()["Signatures"])
    assert good.is_signed_by(good.document.roots)
    for place in range(len(good.payload)):
        payload = bytearray(good.payload)
        payload[place] ^= (1, 128)[place % 2]
        try:
            other = SignedDocument.opened(bytes(payload), good.signatures)
        except NotTrusted:
            continue
        assert not other.is_signed_by(good.document.roots), place
    for key, signature in good.signatures.items():
        for place in range(len(signature)):
            flipped = bytearray(signature)
            flipped[place] ^= 1 << place % 8
            altered = {**good.signatures, key: bytes(flipped)}
            assert not replace(good, signatures=altered).is_signed_by(good.document.roots)
        others = {each: by for each, by in good.signatures.items() if each != key}
        flipped_key = bytes([key[0] ^ 1]) + key[1:]
        altered = {**others, flipped_key: signature}
        assert not replace(good, signatures=altered).is_signed_by(good.document.roots)
    assert json.dumps(good.form()["Signatures"]) == form


def test_each_root_counts_once_and_others_do_not() -> None:
    """TRUST-8, F662g: Signatures count up to the threshold, each root once, other keys never."""
    by = roots(1, 2, 3, threshold=2)
    made = document(roots=by)
    assert signed(made, 1, 3).is_signed_by(by)
    assert signed(made, 3, 9, 2).is_signed_by(by)
    assert not signed(made, 1).is_signed_by(by)
    assert not signed(made, 1, 8, 9).is_signed_by(by)
    assert not signed(made).is_signed_by(by)
    payload = made.encode()
    forged = {public_of(1): signer(1).sign(payload), public_of(2): signer(2).sign(payload)}
    assert not SignedDocument.opened(payload, forged).is_signed_by(by)
    one_bad = {public_of(1): bytes(64)} | dict(signed(made, 2, 3).signatures)
    assert SignedDocument.opened(payload, one_bad).is_signed_by(by)


def test_an_answer_is_read_as_it_was_written() -> None:
    """TRUST-8, F661e: An answer has the documents with their signatures, in its order."""
    given = (first(), signed(document(2, roots=roots(1, 2)), 1, 2), first(9))
    assert documents.documents(documents.answer(given)) == given
    assert documents.documents(b'{"documents": [], "more": 1}') == ()
    form = json.loads(documents.answer(given))["documents"][0]
    assert form.keys() == {"Payload", "Signatures"}
    assert [each.keys() for each in form["Signatures"]] == [{"Key", "Signature"}]


def _answer(**changes: object) -> bytes:
    return json.dumps({"documents": [first().form() | changes]}).encode()


_KEY = first().form()["Signatures"][0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b"{}",
        b'{"documents": {}}',
        b'{"documents": [1]}',
        b'{"documents": ["Payload"]}',
        b"[" * 100_000,
        _answer(Payload=None),
        _answer(Payload="?"),
        _answer(Payload=first().form()["Payload"] + "\n"),
        _answer(Payload=first().form()["Payload"].rstrip("=")),
        _answer(Signatures=None),
        _answer(Signatures=[None]),
        _answer(Signatures=[{"Key": _KEY["Key"]}]),
        _answer(Signatures=[_KEY | {"Signature": 1}]),
        _answer(Signatures=[_KEY, _KEY | {"Signature": ""}]),
    ],
    ids=lambda body: repr(body[:24]),
)
def test_a_malformed_answer_is_refused(body: bytes) -> None:
    """TRUST-8, F662h: An answer of another form is refused, also if a key signed twice."""
    with pytest.raises(NotTrusted) as refused:
        documents.documents(body)
    assert refused.value.reason is RootReason.MALFORMED


def test_what_is_too_large_is_refused_before_it_is_read() -> None:
    """TRUST-8, F662i: Answers, documents and lists of signatures have a size, which is allowed."""
    room = documents.DOCUMENT_BYTES_MAX - len(_encoded(_put("More", b"x" * 60_000)))
    longest = _encoded(_put("More", b"x" * (60_000 + room)))
    assert len(longest) == 64 * 1024
    assert SignedDocument.opened(longest, {}).document == _WHOLE
    longer = _encoded(_put("More", b"x" * (60_001 + room)))
    many = [first()] * documents.DOCUMENTS_MAX
    signatures = {bytes([number]): b"" for number in range(documents.SIGNATURES_MAX)}
    assert SignedDocument.opened(longest, signatures).signatures == signatures
    assert len(documents.documents(documents.answer(many))) == 64
    for refused in (
        lambda: SignedDocument.opened(longer, {}),
        lambda: SignedDocument.opened(bytes(64 * 1024 + 1), {}),
        lambda: SignedDocument.opened(longest, signatures | {b"": b""}),
        lambda: documents.documents(documents.answer([*many, first()])),
        lambda: documents.documents(b" " * (documents.ANSWER_BYTES_MAX + 1)),
    ):
        with pytest.raises(NotTrusted) as raised:
            refused()
        assert raised.value.reason is RootReason.TOO_LARGE


def test_the_largest_answer_fits() -> None:
    """TRUST-8, F661f: An answer of the most and largest documents is not too large."""
    room = documents.DOCUMENT_BYTES_MAX - len(_encoded(_put("More", b"x" * 60_000)))
    longest = _encoded(_put("More", b"x" * (60_000 + room)))
    signatures = {public_of(each): bytes(64) for each in range(1, documents.SIGNATURES_MAX + 1)}
    body = documents.answer([SignedDocument.opened(longest, signatures)] * documents.DOCUMENTS_MAX)
    assert len(body) < documents.ANSWER_BYTES_MAX
