"""Answers of `GET /v1/trust`, each with what the client believes: some are right."""

import base64
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final, NamedTuple

import cbor2

from shared.authorizer.formats import documents
from shared.authorizer.formats.documents import SignedDocument
from shared.authorizer.formats.following import TrustState
from shared.authorizer.formats.trust import DocumentSigner, LogAnchor, Witnesses
from tests.authorizer.feeds import NOW, TENANT
from tests.authorizer.roots import (
    DAY,
    LIST,
    document,
    first,
    named,
    pinned,
    public_of,
    roots,
    signature,
    signed,
)
from tests.model.lists.vectors import flips

_SECOND: Final = timedelta(seconds=1)
_NEUTRAL: Final = (1).to_bytes(32, "little")
_LOG: Final = LogAnchor(f"rescind/{TENANT}/1", 12345, b"r" * 32)
# All that a document may have.
_WHOLE: Final = document(
    42,
    log=_LOG,
    witnesses=Witnesses(("w1+00000001+BA", "w2+00000002+BA"), 1),
    signing_keys=b"k" * 32,
)


class Asked(NamedTuple):
    """What a client believes, and an answer that it gets, with so many spaces after it."""

    state: TrustState
    body: bytes
    spaces: int = 0


def answer(*given: SignedDocument) -> bytes:
    """The body of an answer with these documents."""
    return documents.answer(given)


def _form(payload: bytes, *numbers: int) -> dict[str, Any]:
    """A document of any bytes as the API has it, signed by the keys of these numbers."""
    signatures = [
        {
            "Key": base64.b64encode(public_of(each)).decode(),
            "Signature": base64.b64encode(signature(each, payload)).decode(),
        }
        for each in numbers
    ]
    return {"Payload": base64.b64encode(payload).decode(), "Signatures": signatures}


def _given(*forms: Any, **more: Any) -> Asked:
    return Asked(pinned(), json.dumps({"documents": [*forms], **more}).encode())


def _put(path: str, value: object) -> bytes:
    """The payload of `_WHOLE` with another value at a path such as `Feed.Chain`."""
    members = cbor2.loads(_WHOLE.encode())
    *way, last = path.split(".")
    within = members
    for each in way:
        within = within[each]
    within[last] = value
    return cbor2.dumps(members, canonical=True)


def _altered_members() -> Iterator[Asked]:
    """A document that the root signed, with each member left out, or with another value."""
    others: list[Any] = [
        None,
        -1,
        0,
        1,
        2,
        9,
        2**53,
        2**53 + 1,
        2**63,
        "text",
        "",
        b"c" * 31,
        b"c" * 32,
        True,
    ]
    others += [[], {}, [1], ["a"], ["b", "a"], ["a", "a"], ["\uffff", "\U00010000"], [b"c" * 32]]
    others += [["\U00010000", "\uffff"], [_NEUTRAL], [public_of(1), public_of(1)], {"More": [None]}]
    others += ["2026-11-21T12:00:00Z", "2026-02-30T12:00:00Z", "0000-01-01T00:00:00Z"]
    others += ["2026-11-21T12:00:00+00:00", "2026-11-21T12:00:60Z", "2026-11-21T24:00:00Z", TENANT]
    paths = [*cbor2.loads(_WHOLE.encode()), "More", "Roots.Keys", "Roots.Threshold", "Roots.More"]
    paths += ["Feed.Sequence", "Feed.Chain", "Feed.More", "Log.Origin", "Log.Size", "Log.Root"]
    paths += ["Log.More", "Witnesses.Keys", "Witnesses.Quorum"]
    for path in paths:
        yield from (_given(_form(_put(path, other), 1)) for other in others)
    for name in cbor2.loads(_WHOLE.encode()):
        left = {k: v for k, v in cbor2.loads(_WHOLE.encode()).items() if k != name}
        yield _given(_form(cbor2.dumps(left, canonical=True), 1))


def _signers() -> Iterator[Asked]:
    keys = [number.to_bytes(31, "big") + b"\5" for number in range(257)]
    weak = [bytes(32), _NEUTRAL, (2**255 - 20).to_bytes(32, "little"), b"\xee" + b"\xff" * 31]
    of = {"Uses": ["lists"]}
    for signers in (
        [{"Key": each, **of} for each in keys],
        [{"Key": each, **of} for each in keys[:256]],
        [{"Key": each, **of} for each in keys[1::-1]],
        *([{"Key": each, **of}] for each in weak),
        [{"Key": public_of(1), **of}],
        [{"Key": public_of(9), "Uses": uses} for uses in (["a"], ["b"])],
        *([{"Key": public_of(9), "Uses": each}] for each in ([], "lists", [1], ["b", "a"])),
        [{"Key": public_of(9), "Uses": ["future", "lists"], "More": {"a": [1, None]}}],
        [{"Uses": ["lists"]}],
        [1],
    ):
        yield _given(_form(_put("Signers", signers), 1))


def _encodings() -> Iterator[Asked]:
    """Bytes that no encoder writes, which the root signed."""
    payload = _WHOLE.encode()
    members = cbor2.loads(payload)
    reverse = cbor2.dumps(dict(reversed(members.items())))
    deep = b"\x61A" + b"\x81" * 5000 + b"\x80"
    for data in (
        *(b"", b"\xff", b"\x80", payload[:-1], payload + b"\0", reverse),
        *(b"\xb8\x0a" + payload[1:], b"\xbf" + payload[1:] + b"\xff"),
        payload.replace(b"\x67Version\x18\x2a", b"\x67Version\x19\x00\x2a"),
        _put("A", 0).replace(b"\x61A\0", deep),
        _put("A", 0).replace(b"\x61A\0", b"\x61A\x9b" + b"\xff" * 8),
        _put("A", 0).replace(b"\x61A\0", b"\x61\xff\0"),
        _put("A", 0).replace(b"\x61A\0", b"\x61A\0\x61A\0").replace(b"\xab", b"\xac"),
        _put("Tenant", "\ufeff" + TENANT),
    ):
        yield _given(_form(data, 1))


def _answers() -> Iterator[Asked]:
    """Bodies that are none, and those that are too large."""
    form = first().form()
    key = form["Signatures"][0]
    for body in (b"", b"\xff", b"[]", b"null", b"1", b"{}", b'{"documents": {}}', b"[" * 100_000):
        yield Asked(pinned(), body)
    yield Asked(pinned(), b"\xef\xbb\xbf" + answer(first()))
    room = documents.ANSWER_BYTES_MAX - len(answer(first()))
    yield Asked(pinned(), answer(first()), room)
    yield Asked(pinned(), answer(first()), room + 1)
    others: list[Any] = [1, None, "Payload", [], {}, {**form, "Payload": None}]
    yield from map(_given, [*others, {**form, "Signatures": {}}])
    for text in ("?", "AA", form["Payload"] + "\n", form["Payload"].rstrip("="), ""):
        yield _given({**form, "Payload": text})
        yield _given({**form, "Signatures": [{**key, "Signature": text}]})
        yield _given({**form, "Signatures": [{**key, "Key": text}]})
    entries: list[list[Any]] = [[key, key], [None], [1], [{"Key": key["Key"]}], [], [[]]]
    for each in entries:
        yield _given({**form, "Signatures": each})
    for number in (16, 17):
        yield _given(_form(first().payload, *range(1, number + 1)))
    yield _given(*[form] * 64)
    yield _given(*[form] * 65)
    for size in (documents.DOCUMENT_BYTES_MAX, documents.DOCUMENT_BYTES_MAX + 1):
        padding = size - len(_put("A", b"x" * 256)) + 256
        yield _given(_form(_put("A", b"x" * padding), 1))
    yield _given(_form(b"\0", 1), _form(b"x" * (documents.DOCUMENT_BYTES_MAX + 1), 1))
    yield _given(form, more=1)
    yield _given()


def flipped() -> Iterator[Asked]:
    """Each bit of the answer, of the payload, and of a payload that the root signs nevertheless."""
    good = signed(_WHOLE, 1)
    for payload in flips(good.payload):
        yield _given({**good.form(), "Payload": base64.b64encode(payload).decode()})
        yield _given(_form(payload, 1))
    ((key, made),) = good.signatures.items()
    for flipped in flips(made):
        yield _given(SignedDocument(good.payload, {key: flipped}, good.document).form())
    for flipped in flips(key):
        yield _given(SignedDocument(good.payload, {flipped: made}, good.document).form())
    yield from (Asked(pinned(), body) for body in flips(answer(first())))


def _times() -> Iterator[Asked]:
    for issued, lifetime in (
        (31 * _SECOND, DAY),
        (30 * _SECOND, DAY),
        (-DAY, DAY),
        (-DAY, DAY + _SECOND),
        (0 * DAY, 400 * DAY),
        (0 * DAY, 400 * DAY + _SECOND),
        (0 * DAY, 0 * DAY),
        (DAY, -DAY),
    ):
        made = first(3, issued_at=NOW + issued, expires_at=NOW + issued + lifetime)
        yield Asked(pinned(), answer(made))
        yield Asked(pinned(held=first(5)), answer(made, first(5)))
        yield Asked(pinned(), answer(made, first(5)))


def _states() -> Iterator[Asked]:
    two = roots(1, 2, 3, threshold=2)
    held = pinned(held=first(5))
    for state, given in (
        (held, ()),
        (held, (first(5),)),
        (held, (first(4),)),
        (held, (first(6), first(4))),
        (held, (first(5, expires_at=NOW + DAY),)),
        (held, (signed(document(5, expires_at=NOW + DAY), 2),)),
        (held, (first(2, tenant_id="svc_tnt_b"), first(6))),
        (held, (signed(document(6), LIST),)),
        (held, (signed(document(6, roots=two), 1),)),
        (held, (signed(document(6, roots=two), 1, 3),)),
        (held, (signed(document(6, roots=two), 2, 3),)),
        (held, (signed(document(6), 1, 9),)),
        (pinned(), (signed(document(), 2),)),
        (pinned(), (signed(document(), 2), first(2))),
        (pinned(two), (signed(document(1, roots=two), 1, 9),)),
        (pinned(two), (signed(document(1, roots=two), 3, 9, 2),)),
        (pinned(roots(1, 2, 3)), (signed(document(1, roots=two), 1, 2),)),
        (pinned(), (first(5), first(5, expires_at=NOW + DAY))),
    ):
        yield Asked(state, answer(*given))
    others = (
        named((LIST, "lists")),
        named((LIST, "native")),
        (DocumentSigner(public_of(9), ("x",)),),
    )
    for signers in others:
        yield Asked(pinned(), answer(first(signers=signers)))


def vectors() -> list[Asked]:
    """All of them but those with a flipped bit."""
    makers = (_altered_members, _signers, _encodings, _answers, _times, _states)
    return [case for make in makers for case in make()]
