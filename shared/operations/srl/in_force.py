"""The list in force: its head, its body, its state, and the signer of the next one (SIGNER-2).

The signer of the list in force also signs the next one. A new signer takes over in one write with
the head of its first list, so the head determines which signer is active. If a head and a signer
were read during that write, a write that expects this head fails.
"""

import hashlib
import logging
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from shared.errors import Corrupt
from shared.model.srl import encoding
from shared.model.srl.blobs import sha256_of, version_of
from shared.model.srl.head import Head, head_address, history_address, publications
from shared.model.srl.signers import ListSigner, Status, signers
from shared.model.srl.state import State
from shared.operations.rules.operation import reread
from shared.ports import Ports

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Previous(NamedTuple):
    """The warrant identifiers in the list in force, and its state; each None if unreadable."""

    revoked_ids: list[str] | None
    state: State | None


def head(ports: Ports, tenant_id: str) -> Head:
    """Read the head, which names the list in force. Raises `Corrupt` if there is none."""
    item = ports.store.get(head_address(tenant_id))
    if item is None:
        raise Corrupt("a tenant has no published list")
    return Head.from_item(item)


def history(ports: Ports, tenant_id: str) -> list[Head]:
    """Read the heads of the last lists, in no order. Raises `Corrupt`, `Unavailable`."""
    rows = ports.store.query(publications(tenant_id), before=head_address(tenant_id).sk)
    return [Head.from_item(row.item) for row in rows]


def of_version(ports: Ports, tenant_id: str, version: int) -> Head | None:
    """Read the head of the list of this version; None if it is not kept. Raises `Corrupt`."""
    addresses = [head_address(tenant_id), history_address(tenant_id, version)]
    heads = map(Head.from_item, ports.store.get_many(addresses).values())
    return next((each for each in heads if each.version == version), None)


def of_payload(ports: Ports, tenant_id: str, sha256: str) -> Head | None:
    """Read the head of the list whose signed bytes have this hash, in hex; None if none is kept."""
    heads = history(ports, tenant_id)
    return next((each for each in heads if each.payload_sha256 == sha256), None)


def signer(ports: Ports, tenant_id: str) -> ListSigner:
    """Read the signer of the next list. Raises `Corrupt` if none is active."""
    return head_and_signer(ports, tenant_id)[1]


def head_and_signer(ports: Ports, tenant_id: str) -> tuple[Head, ListSigner]:
    """Read the head of the list in force and the signer of the next list.

    A write that relies on the signer must expect this head. Raises `Corrupt` if no signer is
    active, also after `reread`.
    """
    return reread(lambda: _head_and_signer(ports, tenant_id))


def _head_and_signer(ports: Ports, tenant_id: str) -> tuple[Head, ListSigner]:
    current = head(ports, tenant_id)
    item = ports.store.get(signers(tenant_id).address(current.key_id))
    active = None if item is None else ListSigner.from_item(item)
    if active is None or active.status is not Status.ACTIVE:
        # A restore was partial.
        active = _newest_active(ports, tenant_id)
    if active is None:
        raise Corrupt("none of its list signers is active")
    return current, active


def body(ports: Ports, of: Head) -> bytes:
    """Read the list that a head points to, byte for byte. Raises `Corrupt`, `Unavailable`."""
    return read(ports, of.form().blob)


def state(ports: Ports, of: Head, list_signer: ListSigner) -> State:
    """Read the state of the list that `of` points to; `list_signer` is the signer of the next one.

    Raises `Corrupt` if there is none, or if its signature or content is not valid; `Unavailable`.
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
    """Read the list in force and its state; log what is not readable. Raises `Unavailable`."""
    listed, beside = ports.gather(
        lambda: _readable(lambda: body(ports, of)),
        lambda: _readable(lambda: state(ports, of, list_signer)),
    )
    return Previous(None if listed is None else encoding.revoked_ids(listed), beside)


def _readable(read_it: Callable[[], T]) -> T | None:
    try:
        return read_it()
    except Corrupt as error:
        _log.warning("the list in force cannot be read (%s); reading all records instead", error)
        return None


def read(ports: Ports, blob: str) -> bytes:
    """Read a blob. Raises `Corrupt` if it is missing or its hash is wrong; `Unavailable`."""
    data = ports.blobs.get(blob)
    if data is None or hashlib.sha256(data).hexdigest() != sha256_of(blob):
        raise Corrupt(f"the blob of version {version_of(blob)} is missing or altered")
    return data


def opened_state(ports: Ports, blob: str, list_signer: ListSigner) -> State:
    """Read a state. Raises `Corrupt` if it is altered or of another version; `Unavailable`."""
    data = read(ports, blob)
    return State.opened(
        data,
        public_key=list_signer.public_bytes,
        tenant_id=list_signer.tenant_id,
        version=version_of(blob),
    )


def _newest_active(ports: Ports, tenant_id: str) -> ListSigner | None:
    entries = ports.store.query(signers(tenant_id), newest_first=True)
    found = (ListSigner.from_item(entry.item) for entry in entries)
    return next((each for each in found if each.status is Status.ACTIVE), None)
