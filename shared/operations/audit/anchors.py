"""Anchors: what signed records outside the store say of the sealed log (LOG-12).

Each list, each blob of the journal and each trust document names the checkpoint of its time. Their
signatures are not checked here, because an anchor makes nothing valid: a log that does not extend
it is not extended.
"""

from collections.abc import Callable, Iterator

from shared.authorizer.formats import documents
from shared.authorizer.formats.documents import NotTrusted
from shared.authorizer.formats.members import Malformed
from shared.authorizer.formats.trust import LogAnchor
from shared.errors import Corrupt
from shared.model.audit.kept import Kept
from shared.model.lists import journal, signed_blob, state
from shared.model.lists.head import states_folder, version_of
from shared.model.trust import head as trust
from shared.ports import Ports


def newest(ports: Ports, tenant_id: str) -> set[Kept]:
    """Return what the newest blob of the journal and the newest trust document name.

    Raises `Corrupt`, `Unavailable`.
    """
    found = ports.gather(
        lambda: _of(ports, tenant_id, next(_journal(ports, tenant_id), None), _in_journal),
        lambda: _of(ports, tenant_id, _newest_document(ports, tenant_id), _in_document),
    )
    return {*found[0], *found[1]}


def all_of(ports: Ports, tenant_id: str, *, passes_over: bool = False) -> set[Kept]:
    """Return what any blob of the journal, any trust document and the newest list name.

    If `passes_over`, blobs that cannot be read do not count, as in a recovery, which names them.
    Raises `Corrupt`, `Unavailable`.
    """
    found = set[Kept]()
    for name, among in _every(ports, tenant_id):
        try:
            found |= _of(ports, tenant_id, name, among)
        except Corrupt:
            if not passes_over:
                raise
    return found


_Among = Callable[[bytes], LogAnchor | None]


def _every(ports: Ports, tenant_id: str) -> Iterator[tuple[str, _Among]]:
    """Yield the names of all blobs that may have an anchor, each with how to read it."""
    for name in _journal(ports, tenant_id):
        yield name, _in_journal
    for name in ports.blobs.names(trust.folder(tenant_id)):
        if trust.version_of(name) is not None:
            yield name, _in_document
    newest_state = max(ports.blobs.names(states_folder(tenant_id)), key=version_of, default=None)
    if newest_state is not None:
        yield newest_state, lambda blob: state.claimed_log(blob, tenant_id)


def _of(ports: Ports, tenant_id: str, name: str | None, among: _Among) -> set[Kept]:
    """Return what the blob of this name says of the log. Raises `Corrupt`, which has the name."""
    blob = None if name is None else ports.blobs.get(name)
    if blob is None:
        return set()  # There is none, or it has expired since it was listed.
    try:
        found = among(blob)
        return set() if found is None else {Kept.named(found, tenant_id)}
    except (Malformed, NotTrusted, Corrupt, ValueError) as error:
        raise Corrupt(f"{name}: {error}") from None


def _journal(ports: Ports, tenant_id: str) -> Iterator[str]:
    names = ports.blobs.names(journal.folder(tenant_id))
    return (each for each in names if journal.number_of(each) is not None)


def _newest_document(ports: Ports, tenant_id: str) -> str | None:
    item = ports.store.get(trust.head_address(tenant_id))
    if item is None:
        return None
    return trust.document_blob(tenant_id, trust.TrustHead.from_item(item).version)


def _in_journal(blob: bytes) -> LogAnchor | None:
    # What is no number of the journal names nothing.
    is_number = bool(journal.payload_of(blob))
    return LogAnchor.among(signed_blob.claimed(blob, journal.PREFIX)) if is_number else None


def _in_document(blob: bytes) -> LogAnchor | None:
    (found,) = documents.documents(blob)
    return found.document.log
