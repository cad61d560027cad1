"""Recovery of trust documents: take over the newest stored one, then jump to a far higher version.

Clients reject a version below their own. The blobs are not restored with the records, but some may
be lost, too.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from functions.trust import documents, published_keys, publishing
from functions.trust.records import TrustHead, document_blob, head_address, keys_folder
from shared.authorizer.formats.documents import NotTrusted, SignedDocument
from shared.authorizer.formats.following import TrustState, follow
from shared.authorizer.formats.signing_keys import covering
from shared.capabilities import RecoveryContext
from shared.errors import DataCorrupt, Unavailable
from shared.operations.lists import in_force, marks
from shared.ports import Ports
from shared.ports.store import Expect, Put, VersionIs

# A recovery adds this to the version, which then exceeds every version that clients have seen.
_LEAP: Final = 2**20


def list_keys(ports: Ports, tenant_id: str) -> tuple[bytes, ...]:
    """Return the keys (32 bytes each) that sign SRLs according to the newest document.

    The trust chain from the documents in the records ends at the newest document. The result is
    empty without documents in the records. Raises `DataCorrupt`, `Unavailable`.
    """
    before = documents.read_head(ports, tenant_id)
    if before is None:
        return ()
    head = _follow_documents(
        ports, tenant_id, before, documents.highest(ports, tenant_id), lambda _: None
    )
    return documents.list_keys(ports, tenant_id, (head or before).version)


def check_not_ahead(ports: Ports, tenant_id: str) -> None:
    """Raise `DataCorrupt` if a trust document is newer than the feed in the records; `Unavailable`.

    A document that no head names is ignored. It is not newer than the records, because an
    interrupted process stored it.
    """
    known, newest = documents.read_head(ports, tenant_id), documents.highest(ports, tenant_id)
    if known is None or newest <= known.version:
        return
    current = documents.read_document(ports, tenant_id, known.version).document
    newer = documents.decode_document(ports.blobs.get(document_blob(tenant_id, newest)) or b"")
    # After other root keys signed, the journal names their documents.
    if newer is None or not newer.is_signed_by(current.roots):
        return
    feed = in_force.read_feed_head(ports, tenant_id)
    sequence = 0 if feed is None else feed.sequence
    if newer.document.feed.sequence > sequence:
        raise DataCorrupt(
            f"the records are older than trust document {newest}: they end at feed entry "
            f"{sequence}, and the document was created at entry {newer.document.feed.sequence}"
        )


def publish(run: RecoveryContext) -> None:
    """Publish the next document if the root key is online; otherwise report that it waits."""
    if documents.read_head(run.ports, run.tenant_id) is None:
        return
    try:
        outcome = publishing.keep(run.ports, run.tenant_id)
    except Unavailable as error:
        run.report(f"Cannot create the next trust document yet: {error}")
        return
    if outcome is publishing.TrustOutcome.WAITS:
        run.report("The next trust document requires root signatures; run: rescind trust draft")


def apply_newest(run: RecoveryContext) -> None:
    """Make the newest valid document the head, and require a far higher next version.

    Without a document, no change is made. Raises `DataCorrupt`, `PreconditionFailed`,
    `Unavailable`.
    """
    ports, tenant_id = run.ports, run.tenant_id
    head = documents.read_head(ports, tenant_id)
    newest = in_force.read_feed_head(ports, tenant_id)
    named = newest.signed_head.trust if newest is not None else None
    stored = documents.highest(ports, tenant_id)
    known = [run.trust_version, stored, head.version if head else 0, named.number if named else 0]
    after = _follow_documents(ports, tenant_id, head, stored, run.report)
    if after is None:
        return
    after = replace(after, floor=max(known) + _LEAP)
    try:
        published_keys.read_covered_keys(ports, tenant_id, after.keys_sha256)
    except DataCorrupt:
        # The key bundle is lost. The next document then covers the keys of the records.
        after = replace(after, keys_sha256=b"")
    if head is None or after.version != head.version:
        run.report(f"Adopted: trust document {after.version}, pin {after.pin}")
    expect = VersionIs(head.version) if head else Expect.ABSENT
    put = Put(head_address(tenant_id), after.to_item(), expect)
    ports.store.write(put, marks.trust_mark(tenant_id))


def _follow_documents(
    ports: Ports,
    tenant_id: str,
    previous: TrustHead | None,
    stored_version: int,
    report: Callable[[str], None],
) -> TrustHead | None:
    """Return the head of the newest document of the trust chain from `previous`.

    Without `previous`, or if its document is lost, the chain begins at the oldest stored document
    that its root keys signed. A copy may contain the item without the blob.
    """
    head = previous
    state = None
    if previous is not None:
        try:
            document = documents.read_document(ports, tenant_id, previous.version)
            state = TrustState(tenant_id, previous.pin, document)
        except DataCorrupt as error:
            report(f"Skipped: {error}")
            head = None
    if head is not None and head.version >= stored_version:
        return head
    above = head.version if head else 0
    for version in sorted(
        each for each in documents.stored_versions(ports, tenant_id) if each > above
    ):
        try:
            document = documents.read_document(ports, tenant_id, version)
            state = state or TrustState(tenant_id, document.document.roots.pin)
            state = follow(state, [document], ports.now())
        except DataCorrupt as error:
            report(f"Skipped: {error}")
        except NotTrusted as error:
            report(f"Skipped: trust document {version} ({error.reason})")
        else:
            head = TrustHead.with_document(
                head, document, keys_sha256=_find_covered_keys(ports, document)
            )
    return head


def _find_covered_keys(ports: Ports, document: SignedDocument) -> bytes:
    """Return the hash of the key bundle of a document, or empty bytes if it is lost."""
    tenant_id = document.document.tenant_id
    for name in ports.blobs.names(keys_folder(tenant_id)):
        sha256 = bytes.fromhex(name.rpartition("/")[2])
        try:
            covers = published_keys.read_covered_keys(ports, tenant_id, sha256)
        except DataCorrupt:
            continue
        if covering(covers) == document.document.signing_keys:
            return sha256
    return b""
