"""Trust documents as a service makes them, small and in memory: what clients are tested with."""

from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

from shared.authorizer.formats.documents import SignedDocument, signed_part
from shared.authorizer.formats.following import TrustState
from shared.authorizer.formats.trust import DocumentSigner, RootSet, TrustDocument
from shared.authorizer.formats.wire import FeedPosition
from tests.authorizer.feeds import NOW, TENANT, public, signer

DAY = timedelta(days=1)

# The numbers of the list signers of `document`; roots have others.
LIST, STANDBY, NATIVE = 101, 102, 103


@cache
def public_of(number: int) -> bytes:
    """The public key of a number."""
    return public(signer(number))


def roots(*numbers: int, threshold: int = 1) -> RootSet:
    """Roots of these numbers."""
    return RootSet(tuple(sorted(map(public_of, numbers))), threshold)


ROOTS = roots(1)


def named(*uses: tuple[int, str]) -> tuple[DocumentSigner, ...]:
    """Signers of these numbers, each with one use."""
    return tuple(sorted(DocumentSigner(public_of(number), (use,)) for number, use in uses))


def document(version: int = 1, **changes: Any) -> TrustDocument:
    """A document of a day, with three signers and one root."""
    made = TrustDocument(
        tenant_id=TENANT,
        version=version,
        issued_at=NOW,
        expires_at=NOW + 14 * DAY,
        roots=ROOTS,
        signers=named((LIST, "lists"), (STANDBY, "lists"), (NATIVE, "native")),
        feed=FeedPosition(7, b"c" * 32),
    )
    return replace(made, **changes)


@cache
def signature(number: int, payload: bytes) -> bytes:
    """The signature of a document by the key of a number."""
    return signer(number).sign(signed_part(payload))


def signed(made: TrustDocument, *numbers: int) -> SignedDocument:
    """The document, signed by the keys of these numbers."""
    payload = made.encode()
    return SignedDocument.decode(
        payload, {public_of(each): signature(each, payload) for each in numbers}
    )


def first(version: int = 1, **changes: Any) -> SignedDocument:
    """A document of the root 1, signed by it."""
    return signed(document(version, **changes), 1)


def pinned(by: RootSet = ROOTS, held: SignedDocument | None = None) -> TrustState:
    """A client that has the pin of these roots."""
    return TrustState(TENANT, by.pin, held)
