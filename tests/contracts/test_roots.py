"""What every root signer promises (`shared.ports.outside.RootSigner`)."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from shared.authorizer.formats import ed25519
from shared.authorizer.formats.documents import SignedDocument, signed_part
from shared.authorizer.formats.following import TrustState, follow
from shared.authorizer.formats.trust import RootSet, TrustDocument
from shared.authorizer.formats.wire import FeedPosition
from shared.ports.outside import RootSigner

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_a_client_accepts_the_document_that_a_root_signed(root: RootSigner) -> None:
    """F700a, TRUST-8: A client with the pin of a root accepts the document that it signed."""
    roots = RootSet((root.public_key,), 1)
    document = TrustDocument(
        "t1", 1, NOW, NOW + timedelta(days=14), roots, (), FeedPosition(0, bytes(32))
    )
    payload = document.encode()
    signed = SignedDocument.decode(payload, {root.public_key: root.sign(signed_part(payload))})
    assert follow(TrustState("t1", roots.pin), [signed], NOW).held == signed


@pytest.mark.parametrize("data", [b"\x00", bytes(49), b"x" * 4096], ids=len)
def test_a_signature_is_of_its_data_alone(root: RootSigner, data: bytes) -> None:
    """F700b: A signature verifies with the public key, and for no other data."""
    signature = root.sign(data)
    assert len(root.public_key) == 32
    assert ed25519.is_safe(root.public_key)
    assert ed25519.is_signed(data, signature, public_key=root.public_key)
    assert not ed25519.is_signed(data + b"\x00", signature, public_key=root.public_key)


@pytest.mark.parametrize("data", [b"", b"x" * 4097], ids=len)
def test_a_root_signs_1_to_4096_bytes(root: RootSigner, data: bytes) -> None:
    """What KMS would refuse is refused everywhere."""
    with pytest.raises(ValueError, match="4096"):
        root.sign(data)


def test_many_threads_share_a_root(root: RootSigner) -> None:
    """Signatures made at once are each right."""

    def is_right(number: int) -> bool:
        data = bytes([number]) * 49
        return ed25519.is_signed(data, root.sign(data), public_key=root.public_key)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(is_right, range(32)))


def test_a_root_does_not_show_its_key(root: RootSigner) -> None:
    """F17: how a root shows itself tells nothing of its private key."""
    assert "PRIVATE" not in f"{root!r} {vars(root)!r}"
