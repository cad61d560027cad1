"""Publishing a trust document, in an order that a crash at any point does not harm (TRUST-16).

1. read the facts (`facts`), make the document, sign it; put the blob of the signing keys
2. verify it as a client does that knows nothing but the first root
3. put its blob; if there is one of its version, go on with a higher one
4. in one write: the head of the documents, which expects the one before; the audit entry; the head
   of the feed, which names the document from now on

A crash before the blob leaves nothing, one after it a blob that no head names.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from shared.authorizer.formats import documents as formats
from shared.authorizer.formats import following
from shared.authorizer.formats.documents import NotTrusted, SignedDocument
from shared.authorizer.formats.following import TrustState
from shared.authorizer.formats.signing_keys import PublishedKey
from shared.authorizer.formats.trust import Roots, TrustDocument
from shared.errors import BlobExists, Corrupt, ExpectationLost, Unavailable
from shared.model import seeds, times
from shared.model.audit.audit_log import Action
from shared.model.callers import Caller
from shared.model.tenants import TenantSettings
from shared.model.trust import head as model
from shared.model.trust import waiting
from shared.model.trust.head import LIFETIME, TrustHead
from shared.operations.base import audit
from shared.operations.lists import in_force, storage
from shared.operations.lists.storage import Named, Pen
from shared.operations.trust import documents, signing_keys
from shared.operations.trust.facts import TrustFacts, draft
from shared.ports import Ports
from shared.ports.held_keys import RootSigner
from shared.ports.store import At, Change, Delete, Expect, Put

# How often another process may store the same version, or write the head of the feed, first.
_TRIES: Final = 20


def make(ports: Ports, caller: Caller, facts: TrustFacts, root: RootSigner) -> TrustHead:
    """Make the next document, sign it with `root`, and publish it; return its head.

    Raises `ExpectationLost` if another document was published first; `Corrupt` if a client would
    refuse this one; `Unavailable`.
    """
    pen = Pen(ports)
    roots = facts.held.roots if facts.held else Roots((root.public_key,), 1)
    version = facts.head.next_version if facts.head else 1
    for _ in range(_TRIES):
        made = draft(facts, roots, version=version, lifetime=LIFETIME, now=ports.now())
        payload = made.encode()
        signature = root.sign(formats.signed_part(payload))
        signed = SignedDocument(payload, {root.public_key: signature}, made)
        with _refused():
            check(ports, facts, signed)
        signed = vouched(pen, facts, signed)
        try:
            ports.blobs.put(model.document_blob(facts.tenant_id, version), stored_form(signed))
        except BlobExists:
            # Of a process that was stopped, or that is about to publish it.
            version = max(version, documents.highest(ports, facts.tenant_id)) + 1
        else:
            return write(ports, pen, caller, facts, signed, facts.keys)
    raise Unavailable("other processes stored documents of the same versions during every attempt")


def check(ports: Ports, facts: TrustFacts, signed: SignedDocument) -> None:
    """Follow the documents from the first root to this one. Raises `NotTrusted`."""
    chain = (*facts.chain, signed)
    state = TrustState(facts.tenant_id, chain[0].document.roots.pin)
    if following.follow(state, chain, ports.now()).held != signed:
        raise NotTrusted(formats.RootReason.EQUIVOCATION)


def vouched(pen: Pen, facts: TrustFacts, signed: SignedDocument) -> SignedDocument:
    """Return the document with the signature of the active list signer too.

    By it, a client adopts its root that knows list signers alone. Raises `SeedLost`.
    """
    part = formats.signed_part(signed.payload)
    own = {facts.signer.public_bytes: seeds.signature(part, seed=pen.seed(facts.signer))}
    return SignedDocument(signed.payload, {**signed.signatures, **own}, signed.document)


def stored_form(signed: SignedDocument) -> bytes:
    """Return the bytes of the blob: an answer with this document alone."""
    return formats.answer((signed,))


def write(
    ports: Ports,
    pen: Pen,
    caller: Caller,
    facts: TrustFacts,
    signed: SignedDocument,
    covers: Collection[PublishedKey],
) -> TrustHead:
    """Let a stored document, which covers these signing keys, be the newest; return its head.

    Raises `ExpectationLost` if another one is, `Corrupt`, `Unavailable`.
    """
    tenant_id, before = facts.tenant_id, facts.head
    keys = signing_keys.put(ports, signing_keys.bare(tenant_id, covers))
    after = TrustHead.after(before, signed, keys_sha256=keys.sha256)
    address = model.head_address(tenant_id)
    changes: list[Change] = [
        Put(address, after.to_item(), At(before.version) if before else Expect.ABSENT),
        Delete(waiting.address(tenant_id), Expect.ANYTHING),
        _entry(ports, caller, facts, signed.document, after),
    ]
    for _ in range(_TRIES):
        try:
            ports.store.write(*changes, *named(ports, pen, facts.settings, after, covers))
        except ExpectationLost as lost:
            if address in lost.lost:
                raise
        else:
            return after
    raise Unavailable("entries of the feed were published during every attempt")


def named(
    ports: Ports,
    pen: Pen,
    settings: TenantSettings,
    head: TrustHead,
    covers: Collection[PublishedKey],
) -> list[Change]:
    """Return the changes that let the head of the feed name the newest document and the keys.

    There are none if it does, or if the tenant has no feed yet. `covers` are the keys that the
    document covers. Raises `Corrupt`, `Unavailable`.
    """
    tenant_id = settings.tenant_id
    # Before the keys: what they say is then newer than what any head so far names.
    newest, (_, signer) = ports.gather(
        partial(in_force.feed_head, ports, tenant_id),
        partial(in_force.head_and_signer, ports, tenant_id),
    )
    if newest is None:
        return []
    known = Named(newest.signed.trust, newest.signed.keys)
    keys = known.keys
    if head.keys_sha256:
        blob = signing_keys.vouched(tenant_id, signing_keys.read(ports, tenant_id), covers)
        keys = signing_keys.put(ports, blob, known.keys)
    wanted = Named(head.reference, keys)
    if known == wanted:
        return []
    return storage.naming(pen, newest, settings, signer, wanted)


def _entry(
    ports: Ports, caller: Caller, facts: TrustFacts, document: TrustDocument, head: TrustHead
) -> Put:
    return audit.entry(
        ports,
        caller,
        Action.TRUST_PUBLISH,
        f"trust/{head.version}",
        settings=facts.settings,
        pin=head.pin,
        signers=len(document.signers),
        expires_at=times.text(head.expires_at),
    )


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except NotTrusted as error:
        raise Corrupt(
            f"refusing to publish a trust document that clients refuse: {error}"
        ) from error
