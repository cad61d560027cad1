"""Marks on warrants that a publisher left to the schedule, so that nobody waits (docs/adr/0037)."""

import logging
from collections.abc import Collection, Mapping

from shared.errors import Corrupt
from shared.model.items import Address, Table
from shared.model.srl.state import LeftMark
from shared.operations.srl import marks as srl_marks
from shared.operations.srl import signers as srl_signers
from shared.operations.srl import states as srl_states
from shared.ports import Ports
from shared.ports.store import At

_log = logging.getLogger(__name__)


def marks(read: Mapping[Address, At], revoked: Collection[str]) -> tuple[LeftMark, ...]:
    """What the state of a list tells of the marks that it covers.

    `read` are the marks, as they were before the list was made; `revoked` are the warrants that it
    has by their own revocation.
    """
    return tuple(
        LeftMark(key.pk, key.sk, at.version, key.sk in revoked) for key, at in read.items()
    )


def clear(ports: Ports, tenant_id: str) -> None:
    """Remove the marks that the list in force covers. Raises `Unavailable`.

    They were read before this list was in force, just as those that a publisher removes itself. A
    mark that was set since then stays, so a list that is being made meanwhile loses nothing.
    """
    head, signer = srl_signers.head_and_signer(ports, tenant_id)
    try:
        left = srl_states.of_head(ports, head, signer).marks
    except Corrupt:
        _log.exception("the state of the list in force cannot be read; the next list has its marks")
        return
    read = {Address(Table.REVOCATIONS, each.pk, each.warrant_id): At(each.version) for each in left}
    revoked = {each.warrant_id for each in left if each.revoked}
    srl_marks.clear(ports, tenant_id, read, revoked=revoked)
