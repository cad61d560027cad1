"""Anchors: what signed records outside the store say of the sealed log (LOG-12).

Each list, each blob of the journal and each trust document names the checkpoint of its time. Their
signatures are not checked here, because an anchor makes nothing valid: a log that does not extend
it is not extended.
"""

from collections.abc import Iterator

from shared.authorizer.formats.members import Malformed
from shared.authorizer.formats.trust import LogAnchor
from shared.errors import Corrupt
from shared.model.audit.kept import Kept
from shared.model.lists import journal, signed_blob, state
from shared.model.lists.head import states_folder, version_of
from shared.ports import Ports


def newest(ports: Ports, tenant_id: str) -> set[Kept]:
    """Return what the newest blob of the journal names. Raises `Corrupt`, `Unavailable`."""
    name = next(ports.blobs.names(journal.folder(tenant_id)), None)
    return set() if name is None else {*_of_journal(ports, tenant_id, name)}


def all_of(ports: Ports, tenant_id: str, *, passes_over: bool = False) -> set[Kept]:
    """Return what any blob of the journal and the newest list name.

    If `passes_over`, numbers of the journal that cannot be read do not count, as in a recovery,
    which names them. Raises `Corrupt`, `Unavailable`.
    """
    found = set[Kept]()
    for name in ports.blobs.names(journal.folder(tenant_id)):
        try:
            found.update(_of_journal(ports, tenant_id, name))
        except Corrupt:
            if not passes_over:
                raise
    states = list(ports.blobs.names(states_folder(tenant_id)))
    if states:
        name = max(states, key=version_of)
        found.update(state.claimed_log(ports.blobs.get(name) or b""))
    return found


def _of_journal(ports: Ports, tenant_id: str, name: str) -> Iterator[Kept]:
    # It may have expired since it was listed.
    blob = ports.blobs.get(name) or b""
    if not journal.payload_of(blob):
        return
    try:
        found = LogAnchor.among(signed_blob.claimed(blob, journal.PREFIX))
    except Malformed as error:
        raise Corrupt(f"{name}: {error}") from None
    if found is not None:
        yield Kept.named(found, tenant_id)
