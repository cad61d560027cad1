"""The list in force: its head, its body, its state, and the signer of the next one (SIGNER-2).

The signer of the list in force signs the next list too. A new signer takes over with a list of its
own, in one write with the head of that list. So the head alone says which signer is active. A write
that rests on a head and a signer that were read in the middle of that write is refused.
"""

import hashlib
import logging
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from shared.errors import Corrupt
from shared.model.srl import encoding
from shared.model.srl.blobs import sha256_of, version_of
from shared.model.srl.head import Head, head_address
from shared.model.srl.signers import ListSigner, Status, signers
from shared.model.srl.state import State
from shared.operations.rules.operation import reread
from shared.ports import Ports

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Previous(NamedTuple):
    """What the next list may follow from: the identifiers in the list in force, and its state.

    Each is None if it cannot be read.
    """

    revoked_ids: list[str] | None
    state: State | None

    @property
    def is_whole(self) -> bool:
        """Whether both could be read."""
        return self.revoked_ids is not None and self.state is not None


def head(ports: Ports, tenant_id: str) -> Head:
    """The head of the tenant: which list is in force. Raises `Corrupt` if there is none."""
    item = ports.store.get(head_address(tenant_id))
    if item is None:
        raise Corrupt("a tenant has no published list")
    return Head.from_item(item)


def signer(ports: Ports, tenant_id: str) -> ListSigner:
    """The signer of the next list. Raises `Corrupt` if none is active."""
    return head_and_signer(ports, tenant_id)[1]


def head_and_signer(ports: Ports, tenant_id: str) -> tuple[Head, ListSigner]:
    """The head of the list in force, and the signer of the next list.

    Only a write that expects this head may rest on the signer. Raises `Corrupt` if no signer is
    active, also when they are read again: so it is not another call in the middle of its write.
    """
    return reread(lambda: _head_and_signer(ports, tenant_id))


def _head_and_signer(ports: Ports, tenant_id: str) -> tuple[Head, ListSigner]:
    current = head(ports, tenant_id)
    item = ports.store.get(signers(tenant_id).address(current.key_id))
    active = None if item is None else ListSigner.from_item(item)
    if active is None or active.status is not Status.ACTIVE:
        # An older release rotated without publishing; or a restore tore the tables apart.
        active = _newest_active(ports, tenant_id)
    if active is None:
        raise Corrupt("none of its list signers is active")
    return current, active


def body(ports: Ports, of: Head) -> bytes:
    """The response body that a head points to, unaltered. Raises `Corrupt`, `Unavailable`."""
    return read(ports, of.form().blob)


def state(ports: Ports, of: Head, list_signer: ListSigner) -> State:
    """The state of the list that `of` points to; `list_signer` is the signer of the next list.

    Raises `Corrupt` if it cannot be believed.
    """
    if of.state is None:
        raise Corrupt(f"version {of.version} has no state")
    if of.key_id != list_signer.id:
        item = ports.store.get(signers(list_signer.tenant_id).address(of.key_id))
        if item is None:
            raise Corrupt("the key that signed the list in force has no record")
        list_signer = ListSigner.from_item(item)
    return opened_state(ports, of.state, list_signer)


def previous(ports: Ports, of: Head, list_signer: ListSigner) -> Previous:
    """What can be read of the list in force; what cannot is logged. Raises `Unavailable`."""
    return Previous(
        *ports.gather(
            lambda: _readable(lambda: encoding.revoked_ids(body(ports, of))),
            lambda: _readable(lambda: state(ports, of, list_signer)),
        )
    )


def _readable(read_it: Callable[[], T]) -> T | None:
    try:
        return read_it()
    except Corrupt:
        _log.exception("the list in force cannot be read whole; reading all records instead")
        return None


def read(ports: Ports, blob: str) -> bytes:
    """The content of a blob, unaltered. Raises `Corrupt` if it is not, `Unavailable`."""
    data = ports.blobs.get(blob)
    if data is None or hashlib.sha256(data).hexdigest() != sha256_of(blob):
        raise Corrupt(f"the blob of version {version_of(blob)} is missing or altered")
    return data


def opened_state(ports: Ports, blob: str, list_signer: ListSigner) -> State:
    """The state in a blob. Raises `Corrupt` if it is altered, or not what its name says."""
    return State.opened(
        read(ports, blob),
        public_key=list_signer.public_bytes,
        tenant_id=list_signer.tenant_id,
        version=version_of(blob),
    )


def _newest_active(ports: Ports, tenant_id: str) -> ListSigner | None:
    entries = ports.store.query(signers(tenant_id), newest_first=True)
    found = (ListSigner.from_item(entry.item) for entry in entries)
    return next((each for each in found if each.status is Status.ACTIVE), None)
