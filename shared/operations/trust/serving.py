"""Trust documents for callers: reading them, and the draft that people sign (TRUST-8, TRUST-17)."""

import hashlib
from datetime import datetime
from typing import Final

from shared.authorizer.formats import documents as formats
from shared.authorizer.formats.documents import NotTrusted, RootReason, SignedDocument
from shared.authorizer.formats.signing_keys import PublishedKey, covering
from shared.authorizer.formats.trust import Roots, TrustDocument
from shared.errors import (
    BlobExists,
    Conflict,
    Corrupt,
    InvalidRequest,
    NotFound,
    NotSignedByRoots,
)
from shared.model.callers import Caller, Scope
from shared.model.lists.head import Form
from shared.model.trust import head as model
from shared.model.trust.head import LIFETIME_BY_HAND, TrustHead
from shared.operations.base.operation import operation
from shared.operations.lists.storage import Pen
from shared.operations.trust import documents, publishing
from shared.operations.trust import facts as facts_of
from shared.operations.trust.facts import TrustFacts
from shared.ports import Ports

_NO_ROOTS: Final = "roots: give the public keys of the roots; there is no document yet."
_OUTDATED: Final = "The document is outdated; sign the one that GET /v1/trust/draft returns now."


@operation(*Scope)
def newest(ports: Ports, caller: Caller) -> TrustHead | None:
    """Return the head of the tenant's documents; None before the first.

    Raises `Corrupt`, `Unavailable`.
    """
    return documents.head(ports, caller.tenant_id)


@operation(*Scope)
def since(
    ports: Ports, caller: Caller, *, of: TrustHead | None, after: int
) -> list[SignedDocument]:
    """Return what a client needs that holds the version `after`: 64 documents at most.

    Raises `Corrupt`, `Unavailable`.
    """
    versions = of.since(after) if of else []
    return documents.read_all(ports, caller.tenant_id, versions[: formats.DOCUMENTS_MAX])


@operation(*Scope)
def keys(ports: Ports, caller: Caller, *, sha256: bytes) -> tuple[Form, bytes]:
    """Read the signing keys with this hash, as they are stored.

    Raises `NotFound`; `Corrupt`, `Unavailable`.
    """
    name = model.keys_blob(caller.tenant_id, sha256)
    blob = ports.blobs.get(name)
    if blob is None:
        raise NotFound("There are no signing keys of this hash; poll the feed for the newest.")
    if hashlib.sha256(blob).digest() != sha256:
        raise Corrupt("a blob of signing keys was altered")
    return Form(name, len(blob)), blob


@operation(Scope.ADMIN)
def draft(ports: Ports, caller: Caller, *, roots: Roots | None) -> SignedDocument:
    """Return the next document, without a signature; `roots` are its roots if they change.

    Raises `InvalidRequest` if the tenant has no document yet and `roots` is None; `Corrupt`,
    `Unavailable`.
    """
    facts = facts_of.read(ports, caller.tenant_id)
    if roots is None and facts.held is None:
        raise InvalidRequest(_NO_ROOTS)
    roots = roots or facts.chain[-1].document.roots
    version, now = _next(ports, facts), ports.now()
    made = facts_of.draft(facts, roots, version=version, lifetime=LIFETIME_BY_HAND, now=now)
    return SignedDocument(made.encode(), {}, made)


@operation(Scope.ADMIN)
def publish(
    ports: Ports, caller: Caller, *, payload: bytes, signatures: dict[bytes, bytes]
) -> TrustHead:
    """Publish a document that people signed; return its head. It may be repeated.

    Raises `Conflict` if it does not follow from the present one or names other signers than the
    records; `NotSignedByRoots`; `InvalidRequest`; `Corrupt`, `Unavailable`.
    """
    facts = facts_of.read(ports, caller.tenant_id)
    signed = _opened(payload, signatures)
    if facts.head is not None and signed.reference == facts.head.reference:
        return facts.head
    if signed.document.tenant_id != caller.tenant_id:
        raise InvalidRequest("Payload: the document is of another tenant.")
    if _is_outdated(facts, signed.document, _next(ports, facts), ports.now()):
        raise Conflict(_OUTDATED)
    covers = _covered(facts, signed.document)
    if covers is None:
        raise Conflict(_OUTDATED)
    _check(ports, facts, signed)
    pen = Pen(ports)
    _store(ports, facts, publishing.vouched(pen, facts, signed))
    return publishing.write(ports, pen, caller, facts, signed, covers)


def _covered(facts: TrustFacts, made: TrustDocument) -> list[PublishedKey] | None:
    """Return the signing keys that a document covers: all, or those that were there at its draft.

    None if it covers others.
    """
    drafted = [each for each in facts.keys if each.created_at <= made.issued_at]
    for found in ([*facts.keys], drafted):
        if covering(found) == made.signing_keys:
            return found
    return None


def _next(ports: Ports, facts: TrustFacts) -> int:
    """Return the version of the next draft, which no blob has."""
    highest = documents.highest(ports, facts.tenant_id)
    return max(highest + 1, facts.head.next_version if facts.head else 1)


def _opened(payload: bytes, signatures: dict[bytes, bytes]) -> SignedDocument:
    try:
        return SignedDocument.opened(payload, signatures)
    except NotTrusted as error:
        raise InvalidRequest(f"Payload: is no trust document ({error.reason}).") from None


def _is_outdated(facts: TrustFacts, made: TrustDocument, next_: int, now: datetime) -> bool:
    """Return whether a document does not follow from the present state of the tenant."""
    lowest = facts.head.next_version if facts.head else 1
    feed, end = made.feed, facts.feed
    return (
        not lowest <= made.version <= next_
        or made.expires_at <= now
        or not facts.uses.are_those_of(made)
        or feed.sequence > end.sequence
        or (feed.sequence == end.sequence and feed.chain != end.chain)
    )


def _check(ports: Ports, facts: TrustFacts, signed: SignedDocument) -> None:
    try:
        publishing.check(ports, facts, signed)
    except NotTrusted as error:
        if error.reason is RootReason.ROOT:
            raise NotSignedByRoots(
                "Signatures: as many roots as Threshold says must sign, of the present document "
                "and of this one."
            ) from None
        raise InvalidRequest(f"Payload: clients refuse the document ({error.reason}).") from None


def _store(ports: Ports, facts: TrustFacts, signed: SignedDocument) -> None:
    """Put the blob. One of the same payload is of a call that was stopped."""
    version = signed.document.version
    try:
        name = model.document_blob(facts.tenant_id, version)
        ports.blobs.put(name, publishing.stored_form(signed))
    except BlobExists:
        if documents.read(ports, facts.tenant_id, version).payload != signed.payload:
            raise Conflict(_OUTDATED) from None
