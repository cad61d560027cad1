"""The trust document: what is written, and what is read."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import cbor2

from shared.authorizer.formats import documents
from shared.authorizer.formats.documents import SignedDocument
from shared.authorizer.formats.trust import LogAnchor, TrustDocument, Witnesses
from tests.authorizer.feeds import NOW, TENANT
from tests.authorizer.roots import ROOTS, document, public_of, roots

_LOG = LogAnchor(f"rescind/{TENANT}/1", 12345, b"r" * 32)
_WHOLE = document(42, log=_LOG, witnesses=Witnesses(("w1+00000001+BA", "w2+00000002+BA"), 1))


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


def test_the_largest_answer_fits() -> None:
    """TRUST-8, F661c: An answer of the most and largest documents is not too large."""
    room = documents.DOCUMENT_BYTES_MAX - len(_encoded(_put("More", b"x" * 60_000)))
    longest = _encoded(_put("More", b"x" * (60_000 + room)))
    signatures = {public_of(each): bytes(64) for each in range(1, documents.SIGNATURES_MAX + 1)}
    body = documents.answer([SignedDocument.decode(longest, signatures)] * documents.DOCUMENTS_MAX)
    assert len(body) < documents.ANSWER_BYTES_MAX
