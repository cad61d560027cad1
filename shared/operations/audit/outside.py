"""The head of the sealed log, compared with what is outside the store (LOG-12).

An attacker who can write only to the store could otherwise remove the head, or put back an older
one, and the next pass would sign another history.

Each list, each blob of the journal and each trust document names the checkpoint of its time, an
anchor. Their signatures are not checked here, because an anchor makes nothing valid: a log that
does not extend it is not extended.
"""

from collections.abc import Callable, Iterable, Iterator

from shared.authorizer.formats import documents
from shared.authorizer.formats.documents import NotTrusted
from shared.authorizer.formats.members import Malformed
from shared.authorizer.formats.trust import LogAnchor
from shared.errors import Corrupt
from shared.model import trust
from shared.model.audit import head as model
from shared.model.audit.checkpoint import Kept
from shared.model.audit.head import LogHead
from shared.model.lists import content, journal
from shared.model.lists.head import states_folder, version_of
from shared.operations.audit import log, signers
from shared.operations.base import audit
from shared.operations.base.operation import reread
from shared.ports import Ports


def newest_anchors(ports: Ports, tenant_id: str) -> set[Kept]:
    """Return what the newest blob of the journal and the newest trust document name.

    Raises `Corrupt`, `Unavailable`.
    """
    found = ports.gather(
        lambda: _of(ports, tenant_id, next(_journal(ports, tenant_id), None), _in_journal),
        lambda: _of(ports, tenant_id, _newest_document(ports, tenant_id), _in_document),
    )
    return {*found[0], *found[1]}


def all_anchors(ports: Ports, tenant_id: str, *, passes_over: bool = False) -> set[Kept]:
    """Return what any blob of the journal, any trust document and the newest list name.

    If `passes_over`, blobs that cannot be read do not count, as in a recovery, which names them.
    Otherwise only those of the journal do not that a readable number follows, as after a recovery.
    Raises `Corrupt`, `Unavailable`.
    """
    found = set[Kept]()
    is_followed = False
    for name, among in _every(ports, tenant_id):
        try:
            found |= _of(ports, tenant_id, name, among)
        except Corrupt:
            if not (passes_over or (is_followed and among is _in_journal)):
                raise
        else:
            is_followed = True
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
        yield newest_state, lambda blob: content.claimed_log(blob, tenant_id)


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
    return LogAnchor.among(content.claimed_members(blob, journal.PREFIX)) if is_number else None


def _in_document(blob: bytes) -> LogAnchor | None:
    (found,) = documents.documents(blob)
    return found.document.log


def head(ports: Ports, tenant_id: str) -> LogHead | None:
    """Return the head of a tenant's log, or None if nothing was ever sealed.

    Raises `Corrupt` if the head is missing, older or another one than what is kept outside says, or
    than the signers or tiles say; `Unavailable`.
    """
    return reread(lambda: compared(ports, tenant_id, ()))


def check_anchors(ports: Ports, tenant_id: str) -> None:
    """Compare the log with what the newest signed records outside the store name.

    Raises `Corrupt` if the log does not extend that, `Unavailable`.
    """
    reread(lambda: compared(ports, tenant_id, newest_anchors(ports, tenant_id)))


def compared(ports: Ports, tenant_id: str, anchored: Iterable[Kept]) -> LogHead | None:
    """Return the same, also compared with these anchors, without another look."""
    # Before the head: it was stored before any checkpoint that is found now.
    kept = audit.newest_checkpoint(ports, tenant_id)
    found = log.head(ports, tenant_id)
    if found is None:
        known = {*anchored, *all_anchors(ports, tenant_id), *([kept] if kept else [])}
        _check_never_begun(ports, tenant_id, known)
        return None
    if kept is not None:
        _check_continues(ports, tenant_id, found, kept)
        # A recovery keeps a checkpoint of the generation that it begins. An anchor may be older.
        if found.generation > kept.generation:
            raise _cut(tenant_id, f"no recovery began its generation {found.generation}")
    for each in {*anchored} - {kept}:
        _check_continues(ports, tenant_id, found, each)
    return found


def _check_never_begun(ports: Ports, tenant_id: str, known: set[Kept]) -> None:
    if known:
        sealed = max(each.size for each in known)
        raise _cut(tenant_id, f"it has no head, but {sealed} leaves were sealed")
    if next(ports.blobs.names(model.folder(tenant_id)), None) is not None:
        raise _cut(tenant_id, "it has no head, but tiles")
    # Any other is stored together with the first head, or after it.
    if not all(each.precedes_log for each in signers.all_of(ports, tenant_id)):
        raise _cut(tenant_id, "it has no head, but a signer")


def _check_continues(ports: Ports, tenant_id: str, found: LogHead, known: Kept) -> None:
    if (found.generation, found.size) < known[:2]:
        raise _cut(
            tenant_id,
            f"it has {found.size} leaves in generation {found.generation}, but {known.size} were "
            f"sealed in generation {known.generation}",
        )
    if found.generation > known.generation:
        return
    is_newest = found.size == known.size
    root = found.root if is_newest else log.Tree(ports, tenant_id, found).root(known.size)
    if root != known.root:
        raise _cut(tenant_id, f"its first {known.size} leaves are not those that were sealed")


def _cut(tenant_id: str, why: str) -> Corrupt:
    return Corrupt(f"the sealed log of {tenant_id} was cut, or its store is older: {why}")
