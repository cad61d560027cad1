"""The head of the sealed log, compared with what is outside the store (LOG-12).

An attacker who can write only to the store could otherwise remove the head, or put back an older
one, and the next pass would sign another history.
"""

from collections.abc import Iterable

from shared.errors import Corrupt
from shared.model.audit import head as model
from shared.model.audit.head import LogHead
from shared.model.audit.kept import Kept
from shared.operations.audit import anchors, log, signers
from shared.operations.base import checkpoints
from shared.operations.base.operation import reread
from shared.ports import Ports


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
    reread(lambda: compared(ports, tenant_id, anchors.newest(ports, tenant_id)))


def compared(ports: Ports, tenant_id: str, anchored: Iterable[Kept]) -> LogHead | None:
    """Return the same, also compared with these anchors, without another look."""
    # Before the head: it was stored before any checkpoint that is found now.
    kept = checkpoints.newest(ports, tenant_id)
    found = log.head(ports, tenant_id)
    if found is None:
        known = {*anchored, *anchors.all_of(ports, tenant_id), *([kept] if kept else [])}
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
    root = found.root if found.size == known.size else _root(ports, tenant_id, found, known.size)
    if root != known.root:
        raise _cut(tenant_id, f"its first {known.size} leaves are not those that were sealed")


def _root(ports: Ports, tenant_id: str, found: LogHead, size: int) -> bytes:
    return log.Tree(ports, tenant_id, found).root(size)


def _cut(tenant_id: str, why: str) -> Corrupt:
    return Corrupt(f"the sealed log of {tenant_id} was cut, or its store is older: {why}")
