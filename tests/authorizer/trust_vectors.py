"""Answers of `GET /v1/trust` with a document that is altered, as right and wrong ones.

The conformance suite has wrong signers, roots, times, versions, sizes and forms of an answer.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import cbor2

from shared.authorizer.formats import documents
from shared.authorizer.formats.documents import SignedDocument
from shared.authorizer.formats.following import TrustState
from shared.authorizer.formats.trust import LogAnchor, Witnesses
from tests.authorizer.feeds import TENANT
from tests.authorizer.roots import (
    document,
    first,
    pinned,
    public_of,
    signature,
    signed,
)
from tests.model.lists.vectors import flips

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
    """The state of a client, and an answer that it gets."""

    state: TrustState
    body: bytes


def answer(*given: SignedDocument) -> bytes:
    """The body of an answer with these documents."""
    return documents.answer(given)


def _form(payload: bytes) -> dict[str, Any]:
    """A document of any bytes as the API has it, signed by the root."""
    signed_by = {
        "Key": base64.b64encode(public_of(1)).decode(),
        "Signature": base64.b64encode(signature(1, payload)).decode(),
    }
    return {"Payload": base64.b64encode(payload).decode(), "Signatures": [signed_by]}


def _given(form: Any) -> Asked:
    return Asked(pinned(), json.dumps({"documents": [form]}).encode())


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
        yield from (_given(_form(_put(path, other))) for other in others)
    for name in cbor2.loads(_WHOLE.encode()):
        left = {k: v for k, v in cbor2.loads(_WHOLE.encode()).items() if k != name}
        yield _given(_form(cbor2.dumps(left, canonical=True)))


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
        yield _given(_form(data))


def flipped() -> Iterator[Asked]:
    """Each bit of the answer, of the payload, and of a payload that the root signs nevertheless."""
    good = signed(_WHOLE, 1)
    for payload in flips(good.payload):
        yield _given({**good.form(), "Payload": base64.b64encode(payload).decode()})
        yield _given(_form(payload))
    ((key, made),) = good.signatures.items()
    for flipped in flips(made):
        yield _given(SignedDocument(good.payload, {key: flipped}, good.document).form())
    for flipped in flips(key):
        yield _given(SignedDocument(good.payload, {flipped: made}, good.document).form())
    yield from (Asked(pinned(), body) for body in flips(answer(first())))


def vectors() -> list[Asked]:
    """All of them but those with a flipped bit."""
    return [*_altered_members(), *_encodings()]
