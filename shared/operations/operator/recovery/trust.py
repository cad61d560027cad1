"""Recovery of trust documents: take over the newest stored one, then jump to a far higher version.

Clients reject a version below their own. The blobs are not restored with the records, but some may
be lost, too.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from shared.authorizer.formats import following
from shared.authorizer.formats.documents import NotTrusted, SignedDocument
from shared.authorizer.formats.following import TrustState
from shared.authorizer.formats.signing_keys import covering
from shared.authorizer.formats.trust import KeyUse
from shared.errors import DataCorrupt, Unavailable
from shared.model import trust as model
from shared.model.trust import TrustHead
from shared.operations.base.operation import settle
from shared.operations.lists import in_force, marks, published_keys
from shared.operations.operator.recovery.run import RecoveryRun
from shared.operations.trust import documents, publishing
from shared.operations.trust.publishing import TrustOutcome
from shared.ports import Ports
from shared.ports.store import Expect, Put, VersionIs

# A recovery adds this to the version, which then exceeds every version that clients have seen.
_LEAP: Final = 2**20


def apply(run: RecoveryRun, *, version: int = 0) -> None:
    """Make the newest valid document the head, and require a far higher next version.

    `version` is known to be published. Without a document, no change is made. Raises `DataCorrupt`,
    `Unavailable`.
    """
    settle(partial(_apply, run, version))


def list_keys(ports: Ports, tenant_id: str) -> tuple[bytes, ...]:
    """Return the keys (32 bytes each) that sign SRLs according to the newest document.

    The trust chain from the documents in the records ends at the newest document. The result is
    empty without documents in the records. Raises `DataCorrupt`, `Unavailable`.
    """
    before = in_force.read_trust_head(ports, tenant_id)
    if before is None:
        return ()
    head = _follow_documents(
        ports, tenant_id, before, documents.highest(ports, tenant_id), lambda _: None
    )
    version = (head or before).version
    return documents.read_document(ports, tenant_id, version).document.keys_for_use(KeyUse.LISTS)


def publish(run: RecoveryRun) -> None:
    """Publish the next document if the root key is online; otherwise report that it waits."""
    if in_force.read_trust_head(run.ports, run.tenant_id) is None:
        return
    try:
        outcome = publishing.keep(run.ports, run.tenant_id)
    except Unavailable as error:
        run.report(f"Cannot create the next trust document yet: {error}")
        return
    if outcome is TrustOutcome.WAITS:
        run.report("The next trust document requires root signatures; run: rescind trust draft")


def _apply(run: RecoveryRun, version: int) -> None:
    ports, tenant_id = run.ports, run.tenant_id
    before = in_force.read_trust_head(ports, tenant_id)
    newest = in_force.read_feed_head(ports, tenant_id)
    named = newest.signed_head.trust if newest is not None else None
    stored = documents.highest(ports, tenant_id)
    known = [version, stored, before.version if before else 0, named.number if named else 0]
    after = _follow_documents(ports, tenant_id, before, stored, run.report)
    if after is None:
        return
    after = replace(after, floor=max(known) + _LEAP)
    try:
        published_keys.read_covered_keys(ports, tenant_id, after.keys_sha256)
    except DataCorrupt:
        # The key bundle is lost. The next document then covers the keys of the records.
        after = replace(after, keys_sha256=b"")
    if before is None or after.version != before.version:
        run.report(f"Adopted: trust document {after.version}, pin {after.pin}")
    expect = VersionIs(before.version) if before else Expect.ABSENT
    put = Put(model.head_address(tenant_id), after.to_item(), expect)
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
            state = following.follow(state, [document], ports.now())
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
    for name in ports.blobs.names(model.keys_folder(tenant_id)):
        sha256 = bytes.fromhex(name.rpartition("/")[2])
        try:
            covers = published_keys.read_covered_keys(ports, tenant_id, sha256)
        except DataCorrupt:
            continue
        if covering(covers) == document.document.signing_keys:
            return sha256
    return b""
