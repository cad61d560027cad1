"""Publish a trust document, in an order that is safe against crashes (TRUST-16).

1. Read the facts (`facts`). The root key of this service signs the document, or people do
   (TRUST-17).
2. Verify it as a client does that starts from the first root.
3. Store its blob. If a blob of this version exists, continue with a higher version.
4. Store the key bundle. Then write the head of the documents, the audit entry and the feed head in
   one write. The feed head names the new document. The previous head is a precondition.

A crash before step 3 leaves no trace. A later crash leaves a blob that no head names. The service
keeps the documents of all tenants up to date: it creates and renews them, and names them in the
feed.
"""

import logging
from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import Final

from functions.trust import documents, published_keys, records
from functions.trust.facts import TrustFacts, read_facts
from functions.trust.records import PendingDraft, TrustHead
from shared.authorizer.formats import documents as formats
from shared.authorizer.formats.documents import NotTrusted, RootReason, SignedDocument
from shared.authorizer.formats.signing_keys import PublishedKey, PublishedKeys, covering
from shared.authorizer.formats.trust import RootSet, TrustDocument
from shared.errors import (
    BlobExists,
    Conflict,
    DataCorrupt,
    InvalidRequest,
    NotSignedByRoots,
    PreconditionFailed,
    Unavailable,
)
from shared.model import times
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.operations.base import audit, tenants
from shared.operations.base.operation import operation, settle
from shared.operations.lists import in_force, storage
from shared.ports import Ports
from shared.ports.outside import RootSigner
from shared.ports.store import Change, Delete, Expect, Put, VersionIs

_log = logging.getLogger(__name__)

# Retries after another process stored the same version, or wrote the feed head, first.
_TRIES: Final = 20

_NO_ROOTS: Final = (
    "roots: is required, because there is no document yet; pass the public keys of the roots."
)
_NOT_SIGNED: Final = (
    "Signatures: must meet Threshold, with root keys of the current document and of this document."
)
_OUTDATED: Final = "The document is outdated; sign the one that GET /v1/trust/draft returns now."


def make(ports: Ports, caller: Caller, facts: TrustFacts, root: RootSigner) -> TrustHead:
    """Create the next document, sign it with `root`, and publish it; return its head.

    Raises `PreconditionFailed` if another document was published first; `DataCorrupt` if clients
    would reject this one; `SeedUnavailable`, `Unavailable`.
    """
    pen = storage.SeedCache(ports)
    # Without its seed, no head would name the document, and each call would leave an unused blob.
    pen.unwrap(in_force.read_active_signer(ports, facts.tenant_id))
    roots = facts.newest_document.roots if facts.newest_document else RootSet((root.public_key,), 1)
    version = facts.head.next_version if facts.head else 1
    for _ in range(_TRIES):
        document = facts.draft(roots, version=version, lifetime=records.LIFETIME, now=ports.now())
        payload = document.encode()
        signature = root.sign(formats.signed_part(payload))
        signed = SignedDocument(payload, {root.public_key: signature}, document)
        try:
            _check(ports, facts, signed)
            _store(ports, signed)
        except NotTrusted as error:
            problem = f"refusing to publish a trust document that clients would reject: {error}"
            raise DataCorrupt(problem) from error
        except BlobExists:
            # The blob belongs to a process that was stopped, or is about to publish it.
            version = max(version, documents.highest(ports, facts.tenant_id)) + 1
        else:
            return _write(ports, pen, caller, facts, signed, facts.keys)
    raise Unavailable("gave up after conflicting trust documents in every attempt")


@operation(Scope.ADMIN)
def draft(ports: Ports, caller: Caller, *, roots: RootSet | None) -> SignedDocument:
    """Return the next document, without a signature; `roots` replace its root keys if given.

    Raises `InvalidRequest` if the tenant has no document yet and `roots` is None; `DataCorrupt`,
    `Unavailable`.
    """
    facts = read_facts(ports, caller.tenant_id)
    if roots is None and facts.newest_document is None:
        raise InvalidRequest(_NO_ROOTS)
    roots = roots or facts.chain[-1].document.roots
    version, now = _next(ports, facts), ports.now()
    document = facts.draft(roots, version=version, lifetime=records.LIFETIME_BY_HAND, now=now)
    return SignedDocument(document.encode(), {}, document)


@operation(Scope.ADMIN)
def publish(
    ports: Ports, caller: Caller, *, payload: bytes, signatures: dict[bytes, bytes]
) -> TrustHead:
    """Publish a document that people signed; return its head. May be repeated.

    Raises `Conflict` if it does not follow from the current document or names other signers than
    the records; `NotSignedByRoots`; `InvalidRequest`; `DataCorrupt`, `Unavailable`.
    """
    facts = read_facts(ports, caller.tenant_id)
    try:
        signed = SignedDocument.decode(payload, signatures)
    except NotTrusted as error:
        raise InvalidRequest(f"Payload: is not a trust document ({error.reason}).") from None
    document = signed.document
    if facts.head is not None and signed.reference == facts.head.reference:
        return facts.head
    if document.tenant_id != caller.tenant_id:
        raise InvalidRequest("Payload: the document belongs to another tenant.")
    if _is_outdated(facts, document, _next(ports, facts), ports.now()):
        raise Conflict(_OUTDATED)
    # It covers all signing keys, or the keys that existed at its draft.
    covers = [*facts.keys]
    if covering(covers) != document.signing_keys:
        covers = [each for each in facts.keys if each.created_at <= document.issued_at]
    if covering(covers) != document.signing_keys:
        raise Conflict(_OUTDATED)
    _check_submitted(ports, facts, signed)
    try:
        _store(ports, signed)
    except BlobExists:
        # A blob with the same payload belongs to a call that was stopped.
        stored = documents.read_document(ports, facts.tenant_id, document.version)
        if stored.payload != signed.payload:
            raise Conflict(_OUTDATED) from None
    return _write(ports, storage.SeedCache(ports), caller, facts, signed, covers)


def _next(ports: Ports, facts: TrustFacts) -> int:
    """Return the version of the next draft, which is not in use."""
    highest = documents.highest(ports, facts.tenant_id)
    return max(highest + 1, facts.head.next_version if facts.head else 1)


def _is_outdated(facts: TrustFacts, document: TrustDocument, next_: int, now: datetime) -> bool:
    """Return whether a document does not follow from the current state of the tenant."""
    lowest = facts.head.next_version if facts.head else 1
    feed, end = document.feed, facts.feed_position
    return (
        not lowest <= document.version <= next_
        or document.expires_at <= now
        or not facts.uses.are_those_of(document)
        or feed.sequence > end.sequence
        or (feed.sequence == end.sequence and feed.chain != end.chain)
    )


def _check_submitted(ports: Ports, facts: TrustFacts, document: SignedDocument) -> None:
    try:
        _check(ports, facts, document)
    except NotTrusted as error:
        if error.reason is RootReason.ROOT:
            raise NotSignedByRoots(_NOT_SIGNED) from None
        message = f"Payload: clients would reject the document ({error.reason})."
        raise InvalidRequest(message) from None


def _check(ports: Ports, facts: TrustFacts, document: SignedDocument) -> None:
    """Follow the documents from the first root to this one. Raises `NotTrusted`."""
    if facts.reachable_document(ports.now(), document) != document:
        raise NotTrusted(RootReason.EQUIVOCATION)


def _store(ports: Ports, document: SignedDocument) -> None:
    """Store the blob: a response with only this document. Raises `BlobExists`, `Unavailable`."""
    name = records.document_blob(document.document.tenant_id, document.document.version)
    ports.blobs.put(name, formats.answer((document,)))


def _write(
    ports: Ports,
    pen: storage.SeedCache,
    caller: Caller,
    facts: TrustFacts,
    document: SignedDocument,
    covers: Collection[PublishedKey],
) -> TrustHead:
    """Make a stored document, which covers these signing keys, the newest; return its head.

    Raises `PreconditionFailed` if another document is newer, `DataCorrupt`, `Unavailable`.
    """
    tenant_id, before = facts.tenant_id, facts.head
    # Keys that a document covers need no certificates.
    bundle = PublishedKeys(tenant_id, tuple(each._replace(certificate=None) for each in covers))
    keys = published_keys.store_blob(ports, bundle)
    after = TrustHead.with_document(before, document, keys_sha256=keys.sha256)
    address = records.head_address(tenant_id)
    changes: list[Change] = [
        Put(address, after.to_item(), VersionIs(before.version) if before else Expect.ABSENT),
        Delete(records.waiting_address(tenant_id), Expect.ANYTHING),
        audit.entry(
            ports,
            caller,
            AuditAction.TRUST_PUBLISH,
            f"trust/{after.version}",
            settings=facts.settings,
            pin=after.pin,
            signers=len(document.document.signers),
            expires_at=times.format_utc(after.expires_at),
        ),
    ]
    for _ in range(_TRIES):
        try:
            ports.store.write(
                *changes,
                *published_keys.key_reference_changes(ports, pen, facts.settings, after, covers),
            )
        except PreconditionFailed as lost:
            if address in lost.lost:
                raise
        else:
            return after
    raise Unavailable("gave up after conflicting feed publications in every attempt")


class TrustOutcome(StrEnum):
    """The outcome of a check of a tenant's documents."""

    PUBLISHED = "published"
    KEPT = "kept"
    # The document is due, and people must sign it.
    WAITS = "waits"


def keep(ports: Ports, tenant_id: str) -> TrustOutcome:
    """Publish the next document if it is due, and name it and the key bundle in the feed.

    Repeated and concurrent calls are harmless. If the root keys are elsewhere, a document that is
    due waits for them. Raises `DataCorrupt`, `Unavailable`.
    """

    def attempt() -> TrustOutcome:
        facts, root = read_facts(ports, tenant_id), ports.root
        is_online = facts.may_sign(root.public_key if root else None)
        is_due = facts.is_due(ports.now(), is_online=is_online)
        if is_due and is_online and root is not None:
            caller = Caller.inside(tenant_id, name="schedule", handle=facts.settings.handle)
            make(ports, caller, facts, root)
            return TrustOutcome.PUBLISHED
        if facts.head is not None:
            changes = published_keys.key_reference_changes(
                ports, storage.SeedCache(ports), facts.settings, facts.head, facts.covers
            )
            if changes:
                ports.store.write(*changes)
        # Record since when a document waits, or that none waits now.
        address = records.waiting_address(tenant_id)
        is_noted = ports.store.get(address) is not None
        if is_due and not is_noted:
            ports.store.write(Put(address, PendingDraft(ports.now()).to_item(), Expect.ANYTHING))
        elif is_noted and not is_due:
            ports.store.write(Delete(address, Expect.ANYTHING))
        return TrustOutcome.WAITS if is_due else TrustOutcome.KEPT

    return settle(attempt)


def create_first(ports: Ports, tenant_id: str) -> None:
    """Create the first trust document of a new tenant, if the root key is online.

    A failure is logged, because the service creates the document later.
    """
    if ports.root is None:
        return
    try:
        keep(ports, tenant_id)
    except Unavailable:
        _log.warning("cannot create the first trust document yet", exc_info=True)


def find_named(ports: Ports, tenant_id: str, keys: Collection[bytes]) -> list[bytes] | None:
    """Return the SRL signers among `keys` that the document names, or None without a document.

    Clients reject signatures by other signers. If the document names none of them and the root key
    is online, the next document is created first.
    """

    def attempt() -> list[bytes] | None:
        head = documents.read_head(ports, tenant_id)
        if head is None:
            return None
        named = documents.list_keys(ports, tenant_id, head.version)
        return [each for each in keys if each in named]

    found = attempt()
    if found == [] and ports.root is not None:
        keep(ports, tenant_id)
        found = attempt()
    return found


def replace_root(ports: Ports, caller: Caller) -> bool:
    """Discard the documents of lost root keys; the next one starts from new roots (TRUST-21).

    Clients then need another pin. Returns whether there was a document. Raises `DataCorrupt`,
    `Unavailable`.
    """

    def attempt() -> bool:
        head = documents.read_head(ports, caller.tenant_id)
        if head is None:
            return False
        ports.store.write(
            Delete(records.head_address(caller.tenant_id), VersionIs(head.version)),
            audit.entry(
                ports,
                caller,
                AuditAction.TRUST_REPLACE_ROOT,
                f"trust/{head.version}",
                settings=tenants.settings(ports, caller.tenant_id),
                pin=head.pin,
            ),
        )
        return True

    return settle(attempt)
