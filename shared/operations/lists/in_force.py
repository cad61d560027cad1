"""The list in force, its state, the feed, and the signer of the next list (SIGNER-2).

The signer of the list in force also signs the next one. A new signer takes over in one write with
the head of its first list, so the head determines which signer is active. If a head and a signer
were read during that write, a write that expects this head fails.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from shared.errors import Corrupt
from shared.model import feed, trust
from shared.model.feed import FeedHead, StoredEntry
from shared.model.lists.content import ListState
from shared.model.lists.head import (
    ListHead,
    head_address,
    history_address,
    publications,
    sha256_of,
    version_of,
)
from shared.model.lists.signers import ListSigner, SignerStatus, signers
from shared.model.trust import TrustHead
from shared.operations.base.operation import reread
from shared.ports import Ports
from shared.ports.store import Address, Change, Delete, Item, Put


def head(ports: Ports, tenant_id: str) -> ListHead:
    """Read the head, which names the list in force. Raises `Corrupt` if there is none."""
    item = ports.store.get(head_address(tenant_id))
    if item is None:
        raise Corrupt("a tenant has no published list")
    return ListHead.from_item(item)


def history(ports: Ports, tenant_id: str) -> list[ListHead]:
    """Read the heads of the last lists, in no order. Raises `Corrupt`, `Unavailable`."""
    rows = ports.store.query(publications(tenant_id), before=head_address(tenant_id).sk)
    return [ListHead.from_item(row.item) for row in rows]


def of_version(ports: Ports, tenant_id: str, version: int) -> ListHead | None:
    """Read the head of the list of this version; None if it is not kept. Raises `Corrupt`."""
    addresses = [head_address(tenant_id), history_address(tenant_id, version)]
    heads = map(ListHead.from_item, ports.store.get_many(addresses).values())
    return next((each for each in heads if each.version == version), None)


def of_payload(ports: Ports, tenant_id: str, sha256: str) -> ListHead | None:
    """Read the head of the list whose signed bytes have this hash, in hex; None if none is kept."""
    heads = history(ports, tenant_id)
    return next((each for each in heads if each.payload_sha256 == sha256), None)


def signer(ports: Ports, tenant_id: str) -> ListSigner:
    """Read the signer of the next list. Raises `Corrupt` if none is active."""
    return head_and_signer(ports, tenant_id)[1]


def head_and_signer(ports: Ports, tenant_id: str) -> tuple[ListHead, ListSigner]:
    """Read the head of the list in force and the signer of the next list.

    A write that relies on the signer must expect this head. Raises `Corrupt` if no signer is
    active, also after `reread`.
    """
    return reread(lambda: _head_and_signer(ports, tenant_id))


def _head_and_signer(ports: Ports, tenant_id: str) -> tuple[ListHead, ListSigner]:
    current = head(ports, tenant_id)
    item = ports.store.get(signers(tenant_id).address(current.key_id))
    active = None if item is None else ListSigner.from_item(item)
    if active is None or active.status is not SignerStatus.ACTIVE:
        # A restore was partial.
        active = _newest_active(ports, tenant_id)
    if active is None:
        raise Corrupt("none of its list signers is active")
    return current, active


def stored_signers(ports: Ports, tenant_id: str) -> dict[Address, Item]:
    """Read the items of all signers except the archived ones. Raises `Unavailable`."""
    partition = signers(tenant_id)
    return {partition.address(row.sk): row.item for row in ports.store.query(partition)}


def all_signers(ports: Ports, tenant_id: str) -> tuple[ListSigner, ...]:
    """Return all signers except the archived ones, as `without_seeds` does."""
    return without_seeds(tenant_id, stored_signers(ports, tenant_id))


def without_seeds(
    tenant_id: str, items: Mapping[Address, Item], changes: Iterable[Change] = ()
) -> tuple[ListSigner, ...]:
    """Return the signers that are stored as `items`, in order of creation, after `changes`.

    Raises `Corrupt`.
    """
    partition, after = signers(tenant_id), dict(items)
    for each in changes:
        if isinstance(each, Put) and each.address.pk == partition.pk:
            after[each.address] = each.item
        elif isinstance(each, Delete):
            after.pop(each.address, None)
    return tuple(
        replace(ListSigner.from_item(after[key]), sealed_seed=None) for key in sorted(after)
    )


def feed_head(ports: Ports, tenant_id: str) -> FeedHead | None:
    """Read the head of the feed; None if no list of this release was published yet.

    Raises `Corrupt`, `Unavailable`.
    """
    item = ports.store.get(feed.head_address(tenant_id))
    return None if item is None else FeedHead.from_item(item)


def trust_head(ports: Ports, tenant_id: str) -> TrustHead | None:
    """Read the head of the trust documents; None before the first.

    Raises `Corrupt`, `Unavailable`.
    """
    item = ports.store.get(trust.head_address(tenant_id))
    return None if item is None else TrustHead.from_item(item)


def entries(ports: Ports, tenant_id: str, *, after: int, until: int) -> Iterator[StoredEntry]:
    """Read all entries after one sequence, up to and including another one, in order.

    Raises `Corrupt` if one is missing; `Unavailable`.
    """
    if after == until:
        return
    start, end = feed.entry_sk(after), feed.entry_sk(until + 1)
    wanted = after
    for row in ports.store.query(feed.feed(tenant_id), after=start, before=end):
        wanted += 1
        if row.sk != feed.entry_sk(wanted):
            break
        yield StoredEntry.from_item(row.item)
    if wanted != until:
        raise Corrupt(f"entry {wanted} of the feed is missing")


def last_entry(ports: Ports, tenant_id: str) -> int | None:
    """Return the sequence of the last entry that is stored, if any. Raises `Unavailable`."""
    rows = ports.store.query(feed.feed(tenant_id), before=feed.HEAD, newest_first=True, limit=1)
    return next((int(row.sk) for row in rows), None)


def body(ports: Ports, of: ListHead) -> bytes:
    """Read the list that a head points to, byte for byte. Raises `Corrupt`, `Unavailable`."""
    return read(ports, of.form().blob)


def state(ports: Ports, of: ListHead, list_signer: ListSigner) -> ListState:
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


def read(ports: Ports, blob: str) -> bytes:
    """Read a blob. Raises `Corrupt` if it is missing or its hash is wrong; `Unavailable`."""
    data = ports.blobs.get(blob)
    if data is None or hashlib.sha256(data).hexdigest() != sha256_of(blob):
        raise Corrupt(f"the blob of version {version_of(blob)} is missing or altered")
    return data


def opened_state(ports: Ports, blob: str, list_signer: ListSigner) -> ListState:
    """Read a state. Raises `Corrupt` if it is altered or of another version; `Unavailable`."""
    data = read(ports, blob)
    return ListState.opened(
        data,
        public_key=list_signer.public_bytes,
        tenant_id=list_signer.tenant_id,
        version=version_of(blob),
    )


def _newest_active(ports: Ports, tenant_id: str) -> ListSigner | None:
    entries = ports.store.query(signers(tenant_id), newest_first=True)
    found = (ListSigner.from_item(entry.item) for entry in entries)
    return next((each for each in found if each.status is SignerStatus.ACTIVE), None)
