"""What the formats of the root of trust cost, beside one verification of Ed25519."""

import pytest

from shared.authorizer.formats import documents, ed25519, wire
from shared.authorizer.formats.documents import SignedDocument
from shared.authorizer.formats.following import follow
from shared.authorizer.formats.signing_keys import PublishedKey, PublishedKeys, reference
from shared.authorizer.formats.trust import LogAnchor
from tests.authorizer.feeds import NOW, TENANT, Feed, signer
from tests.authorizer.roots import DAY, LIST, document, first, pinned, public_of, roots, signed
from tests.kit.processor import seconds

_LOG = LogAnchor(f"rescind/{TENANT}/1", 12345, b"r" * 32)


def _keys(count: int) -> PublishedKeys:
    """So many keys, of which each second one has an end."""
    key = PublishedKey("", 1, "issuer", "active", public_of(1), NOW, "svc_key_" + "0" * 26)
    made = [
        key._replace(key_id=f"svc_key_{number:026}", expires_at=NOW + DAY if number % 2 else None)
        for number in range(count)
    ]
    return PublishedKeys(TENANT, tuple(made))


def test_documents_and_blobs_are_small() -> None:
    """F661d: A document with three signers has at most 643 bytes, a blob of 100 keys 26,985."""
    sizes = len(document(log=_LOG).encode()), len(_keys(100).encode())
    print(f"a document with 3 signers: {sizes[0]} bytes, a blob of 100 keys: {sizes[1]}")
    assert sizes[0] <= 643
    assert sizes[1] <= 26_985


@pytest.mark.slow
def test_a_document_costs_about_two_verifications() -> None:
    """F661e: Documents, heads and keys cost as many verifications as the design allows.

    On a busy machine they are given twice that.
    """
    made = signed(document(2, log=_LOG), 1)
    by = roots(1, 2, 3, threshold=2)
    two_of_three = signed(document(2, roots=by, log=_LOG), 1, 2, 3)
    covered, by_root = documents.signed_part(made.payload), made.signatures[public_of(1)]
    one = seconds(
        lambda: ed25519.is_signed(covered, by_root, public_key=public_of(1)), tries=15, calls=40
    )
    state, held = pinned(held=first(1)), pinned(by, signed(document(1, roots=by), 1, 2))
    head = Feed().head().encode()
    by_signer = signer(LIST).sign(wire.signed_part(head))
    keys = _keys(100).encode()
    name = reference(keys)

    costs = {
        "document": (
            2.34,
            lambda: follow(state, [SignedDocument.decode(made.payload, made.signatures)], NOW),
        ),
        "document by 2 of 3 roots": (
            5.0,
            lambda: follow(
                held, [SignedDocument.decode(two_of_three.payload, two_of_three.signatures)], NOW
            ),
        ),
        "head": (1.5, lambda: state.judge(head, by_signer, NOW, public_of(LIST))),
        "100 keys": (5.5, lambda: PublishedKeys.from_blob(keys, name, tenant_id=TENANT)),
    }
    found = {name: seconds(call, tries=15, calls=40) / one for name, (_, call) in costs.items()}
    print(f"one verification: {one * 1e6:.0f} us; in verifications:", found)
    assert {name: cost for name, cost in found.items() if cost > 2 * costs[name][0]} == {}
