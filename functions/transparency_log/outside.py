"""Compare the log head with records outside the store (LOG-12).

An attacker with write access only to the store could otherwise remove the log head or restore an
older one. The next pass would then sign another history.

Each SRL state, journal record and trust document names the checkpoint of its time, a log anchor.
Their signatures are not verified here, because an anchor only prevents the extension of a log that
contradicts it.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from functions.transparency_log import head as model
from functions.transparency_log import log, signers
from functions.transparency_log.checkpoint import PinnedCheckpoint
from functions.transparency_log.head import LogHead
from shared.authorizer.formats.documents import NotTrusted
from shared.authorizer.formats.members import MalformedBytes
from shared.authorizer.formats.trust import LogAnchor
from shared.capabilities import INSTALLED
from shared.errors import DataCorrupt
from shared.model.lists import content, journal
from shared.model.lists.head import states_folder, version_of
from shared.operations.base.operation import reread
from shared.ports import Ports


def all_anchors(
    ports: Ports, tenant_id: str, *, passes_over: bool = False
) -> set[PinnedCheckpoint]:
    """Return the anchors of all journal records, all trust documents and the newest SRL state.

    With `passes_over`, unreadable blobs do not count, as in a recovery, which reports them.
    Otherwise only unreadable journal blobs followed by a readable record do not count, as after a
    recovery. Raises `DataCorrupt`, `Unavailable`.
    """
    anchors = set[PinnedCheckpoint]()
    is_followed = False
    for name, among in _every(ports, tenant_id):
        try:
            anchors |= _of(ports, tenant_id, name, among)
        except DataCorrupt:
            if not (passes_over or (is_followed and among is _in_journal)):
                raise
        else:
            is_followed = True
    return anchors


_Among = Callable[[bytes, str], Iterable[PinnedCheckpoint]]


def _every(ports: Ports, tenant_id: str) -> Iterator[tuple[str, _Among]]:
    """Yield the names of all blobs that may have an anchor, each with its parser."""
    for name in _journal(ports, tenant_id):
        yield name, _in_journal
    for source in INSTALLED.anchor_sources():
        for name in source.list_names(ports, tenant_id):
            yield name, partial(_in_document, source.parse)
    newest_state = max(ports.blobs.names(states_folder(tenant_id)), key=version_of, default=None)
    if newest_state is not None:
        yield newest_state, _in_state


def _of(ports: Ports, tenant_id: str, name: str | None, among: _Among) -> set[PinnedCheckpoint]:
    """Return the anchor in the blob with this name.

    Raises `DataCorrupt` with the name.
    """
    blob = None if name is None else ports.blobs.get(name)
    if blob is None:
        return set()  # The blob does not exist, or expired since it was listed.
    try:
        return {*among(blob, tenant_id)}
    except (MalformedBytes, NotTrusted, DataCorrupt, ValueError) as error:
        raise DataCorrupt(f"{name}: {error}") from None


def _journal(ports: Ports, tenant_id: str) -> Iterator[str]:
    names = ports.blobs.names(journal.folder(tenant_id))
    return (each for each in names if journal.number_of(each) is not None)


def _in_journal(blob: bytes, tenant_id: str) -> Iterator[PinnedCheckpoint]:
    # A blob that is not a journal record has no anchor.
    if journal.payload_of(blob):
        members = content.read_unverified_members(blob, journal.PREFIX)
        if (anchor := LogAnchor.among(members)) is not None:
            yield PinnedCheckpoint.from_anchor(anchor, tenant_id)


def _in_document(
    parse: Callable[[bytes], LogAnchor | None], blob: bytes, tenant_id: str
) -> Iterator[PinnedCheckpoint]:
    if (anchor := parse(blob)) is not None:
        yield PinnedCheckpoint.from_anchor(anchor, tenant_id)


def _in_state(blob: bytes, _tenant_id: str) -> list[PinnedCheckpoint]:
    members = content.read_unverified_members(blob, content.PREFIX)
    return PinnedCheckpoint.list_in_states([members])


def head(ports: Ports, tenant_id: str) -> LogHead | None:
    """Return the log head of a tenant, or None if the log has always been empty.

    Raises `DataCorrupt` if the log head is missing, or if it is older than or contradicts the
    outside records, the signers or the tiles; `Unavailable`.
    """
    return reread(lambda: compare_with_anchors(ports, tenant_id, ()))


def check_anchors(ports: Ports, tenant_id: str) -> None:
    """Compare the log with the anchors of the newest journal record and trust document.

    Raises `DataCorrupt` if the log does not extend them, `Unavailable`.
    """

    def read_document_anchors() -> set[PinnedCheckpoint]:
        added = INSTALLED.anchor_sources()
        newest = [
            (each.find_newest(ports, tenant_id), partial(_in_document, each.parse))
            for each in added
        ]
        return {each for name, among in newest for each in _of(ports, tenant_id, name, among)}

    def attempt() -> LogHead | None:
        in_journal, in_document = ports.gather(
            lambda: _of(ports, tenant_id, next(_journal(ports, tenant_id), None), _in_journal),
            read_document_anchors,
        )
        return compare_with_anchors(ports, tenant_id, in_journal | in_document)

    reread(attempt)


def compare_with_anchors(
    ports: Ports, tenant_id: str, anchors: Iterable[PinnedCheckpoint]
) -> LogHead | None:
    """Return the log head as `head` does, also compared with these anchors, without a retry."""
    # Read before the log head, which was stored before any checkpoint that is found now.
    checkpoint = log.newest_checkpoint(ports, tenant_id)
    head = log.head(ports, tenant_id)
    if head is None:
        known = {*anchors, *all_anchors(ports, tenant_id), *([checkpoint] if checkpoint else [])}
        if known:
            appended = max(each.size for each in known)
            raise _cut(tenant_id, f"it has no log head, but {appended} leaves were appended")
        if next(ports.blobs.names(model.folder(tenant_id)), None) is not None:
            raise _cut(tenant_id, "it has tiles, but no log head")
        # Any other signer is stored together with the first log head, or after it.
        if not all(each.precedes_log for each in signers.all_of(ports, tenant_id)):
            raise _cut(tenant_id, "it has a signer, but no log head")
        return None
    if checkpoint is not None:
        _check_continues(ports, tenant_id, head, checkpoint)
        # A recovery keeps a checkpoint of the generation that it begins. An anchor may be older.
        if head.generation > checkpoint.generation:
            raise _cut(tenant_id, f"no recovery started its generation {head.generation}")
    for each in {*anchors} - {checkpoint}:
        _check_continues(ports, tenant_id, head, each)
    return head


def _check_continues(ports: Ports, tenant_id: str, head: LogHead, anchor: PinnedCheckpoint) -> None:
    if (head.generation, head.size) < anchor[:2]:
        raise _cut(
            tenant_id,
            f"it has {head.size} leaves in generation {head.generation}, but an anchor has "
            f"{anchor.size} in generation {anchor.generation}",
        )
    if head.generation > anchor.generation:
        return
    root = head.root
    if head.size != anchor.size:
        root = log.LogTree(ports, tenant_id, head).root(anchor.size)
    if root != anchor.root:
        message = f"its first {anchor.size} leaves differ from the leaves of an anchor"
        raise _cut(tenant_id, message)


def _cut(tenant_id: str, why: str) -> DataCorrupt:
    return DataCorrupt(
        f"the transparency log of {tenant_id} was truncated, or its store is an older copy: {why}"
    )
