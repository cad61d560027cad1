"""Reads of the list in force, its state, the feed, and the signer of the next list (SIGNER-2).

The signer of the list in force also signs the next one. A new signer takes over in one write with
the head of its first list, so the head determines which signer is active. If a head and a signer
were read during that write, a write that expects this head fails.

A publication reads its facts once each (docs/adr/09). Each line is a trip, whose reads are made at
the same time:

1. the marks on the tenant, its settings, the head of the list, the counters
2. the list signers, the marks on warrants and on signers
3. the head of the feed

Counters and the list's head come before the marks: a later change makes the next list due. The
marks come before the feed's head, which then covers what another process states and unmarks.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from shared.authorizer.formats import wire
from shared.errors import Corrupt
from shared.model import feed, trust
from shared.model.feed import FeedHead, StoredEntry
from shared.model.lists import content
from shared.model.lists.content import ListState
from shared.model.lists.head import (
    ListHead,
    head_address,
    history_address,
    publications,
    sha256_of,
    version_of,
)
from shared.model.lists.schedule import Mark
from shared.model.lists.signers import ListSigner, SignerStatus, signers
from shared.model.lists.tombstones import Tombstones
from shared.model.tenants import TenantSettings, settings_address
from shared.model.trust import TrustHead
from shared.operations.base import audit, counters, tenants
from shared.operations.base.counters import Counted
from shared.operations.base.operation import reread
from shared.operations.lists import marks, records
from shared.operations.lists.decisions import Facts, Marked, Prior, Told
from shared.ports import Ports
from shared.ports.store import Address, Change, Delete, Item, Put

T = TypeVar("T")

_log = logging.getLogger(__name__)


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
    active = ListSigner.from_optional(ports.store.get(signers(tenant_id).address(current.key_id)))
    if active is None or active.status is not SignerStatus.ACTIVE:
        # A restore was partial.
        found = ListSigner.from_rows(ports.store.query(signers(tenant_id), newest_first=True))
        active = next((each for each in found if each.status is SignerStatus.ACTIVE), None)
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
    """Read the head of the feed; None if it is lost.

    Raises `Corrupt`, `Unavailable`.
    """
    return FeedHead.from_optional(ports.store.get(feed.head_address(tenant_id)))


def trust_head(ports: Ports, tenant_id: str) -> TrustHead | None:
    """Read the head of the trust documents; None before the first.

    Raises `Corrupt`, `Unavailable`.
    """
    return TrustHead.from_optional(ports.store.get(trust.head_address(tenant_id)))


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

    Raises `Corrupt` if its signature or content is not valid; `Unavailable`.
    """
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


class Reads:
    """Reads of several kinds that are made at the same time."""

    def __init__(self) -> None:
        self._reads: list[Callable[[], None]] = []

    def add(self, read: Callable[[], T]) -> Callable[[], T]:
        """Return what gives the result after `make`; it raises `Corrupt` if the read did."""
        found, damage = list[T](), list[Corrupt]()

        def make() -> None:
            try:
                found.append(read())
            except Corrupt as error:
                damage.append(error)

        def result() -> T:
            if damage:
                raise damage[0]
            return found[0]

        self._reads.append(make)
        return result

    def make(self, ports: Ports) -> None:
        """Make what was added since. Raises `Unavailable`."""
        reads, self._reads = self._reads, []
        ports.gather(*reads)


def read_facts(ports: Ports, tenant_id: str, *, sees_tenant: bool = False) -> Facts:
    """Read what the entries and the list rely on. Raises `Corrupt`, `Unavailable`.

    The marks on the tenant are read only if `sees_tenant` is true.
    """
    reads = Reads()
    of_tenant = partial(marks.of_tenant, ports, tenant_id)
    on_tenant = reads.add(of_tenant) if sees_tenant else dict[Address, Mark]
    basis = reads.add(partial(_settings_and_head, ports, tenant_id))
    counts = reads.add(partial(counters.of_revocations, ports, tenant_id))
    ended = reads.add(partial(counters.of_tombstones, ports, tenant_id))
    reads.make(ports)
    settings, listed = basis()
    # After the list's head, which names one of them.
    stored = reads.add(partial(stored_signers, ports, tenant_id))
    marked = _marked(ports, tenant_id, reads)
    return Facts(
        settings,
        listed,
        _signer(ports, listed, tenant_id, stored),
        feed_head(ports, tenant_id),
        marked,
        stored_signers=stored,
        counted=lambda: Counted(counts()["changes"] + ended(), ended()),
        on_tenant=on_tenant,
    )


def read_marks(ports: Ports, tenant_id: str) -> tuple[Marked, FeedHead | None]:
    """Read the marks that the feed has yet to state, and then its head.

    Raises `Corrupt`, `Unavailable`.
    """
    marked = _marked(ports, tenant_id, Reads())
    return marked, feed_head(ports, tenant_id)


def of_feed(ports: Ports, tenant_id: str, marked: Marked, newest: FeedHead) -> Facts:
    """Read what an entry needs beside these marks and this head, which was read after them.

    Raises `Corrupt`, `Unavailable`.
    """
    settings, (listed, signer) = ports.gather(
        lambda: tenants.settings(ports, tenant_id),
        lambda: head_and_signer(ports, tenant_id),
    )
    return Facts(settings, listed, signer, newest, marked)


def with_marks(ports: Ports, facts: Facts) -> Facts:
    """Read the marks and the head of the feed again. Raises `Corrupt`, `Unavailable`."""
    marked, newest = read_marks(ports, facts.tenant_id)
    return replace(facts, marked=marked, newest=newest)


def with_heads(ports: Ports, facts: Facts) -> Facts:
    """Read the heads and the signer again, because a write lost. Raises `Corrupt`."""
    (listed, signer), newest = ports.gather(
        lambda: head_and_signer(ports, facts.tenant_id),
        lambda: feed_head(ports, facts.tenant_id),
    )
    return replace(facts, listed=listed, signer=signer, newest=newest)


def prior(ports: Ports, facts: Facts, beside: Iterable[Callable[[], None]]) -> Prior:
    """Read the list in force and what came since; log what cannot be read.

    `beside` is done at the same time. Raises `Corrupt`, `Unavailable`.
    """
    reads = Reads()
    for each in beside:
        reads.add(each)
    listed = reads.add(lambda: body(ports, facts.listed))
    its_state = reads.add(lambda: state(ports, facts.listed, facts.signer))
    since = reads.add(lambda: told(ports, facts))
    log = reads.add(lambda: audit.newest_checkpoint(ports, facts.tenant_id))
    reads.make(ports)
    payload, known = _readable(listed), _readable(its_state)
    ids = None if payload is None else content.revoked_ids(payload)
    ended, changes = None, facts.counted().tombstones
    if known is not None and known.tombstones.changes != changes:
        ended = read_ended(ports, facts)
    return Prior(ids, known, since(), ended, log())


def told(ports: Ports, facts: Facts, known: Iterable[Told] = ()) -> list[Told] | None:
    """Return the entries since the list in force; read them if not all are `known` or its own.

    Returns None if they cannot be followed. Raises `Unavailable`.
    """
    start, newest = facts.listed.sequence, facts.newest
    if start is None or newest is None:
        return None
    found = {each.entry.sequence: each for each in (*known, *facts.own)}
    wanted = range(start + 1, newest.sequence + 1)
    if newest.sequence >= start and len(found) >= len(wanted) and found.keys() >= set(wanted):
        return [found[each] for each in wanted]
    try:
        return [Told(*each.opened()) for each in _checked(ports, facts, start, newest)]
    except Corrupt as error:
        # Normal after a restore: the feed went on, and the records did not.
        _log.warning("the feed cannot be followed (%s); reading all records instead", error)
        return None


def read_ended(ports: Ports, facts: Facts) -> tuple[tuple[str, ...], Tombstones]:
    """Read the revoked signers and the tombstones. Raises `Corrupt`, `Unavailable`."""
    signers = records.revoked_signers(ports, facts.tenant_id)
    changes = facts.counted().tombstones
    return signers, records.tombstones(ports, facts.tenant_id, changes=changes)


def _checked(ports: Ports, facts: Facts, start: int, newest: FeedHead) -> Iterator[StoredEntry]:
    """Read the entries after `start`. Raises `Corrupt` if one was altered or is missing."""
    chain = newest.base.chain
    for each in entries(ports, facts.tenant_id, after=start, until=newest.sequence):
        chain = wire.next_chain(chain, each.entry)
        yield each
    if newest.base.version == facts.listed.version and chain != newest.signed.chain:
        raise Corrupt("an entry of the feed was altered")


def _readable(read_it: Callable[[], T]) -> T | None:
    try:
        return read_it()
    except Corrupt as error:
        _log.warning("the list in force cannot be read (%s); reading all records instead", error)
        return None


def _settings_and_head(ports: Ports, tenant_id: str) -> tuple[TenantSettings, ListHead]:
    of_settings, of_list = settings_address(tenant_id), head_address(tenant_id)
    found = ports.store.get_many([of_settings, of_list])
    if of_settings not in found:
        raise Corrupt("a tenant has no settings")
    if of_list not in found:
        raise Corrupt("a tenant has no published list")
    return TenantSettings.from_item(found[of_settings]), ListHead.from_item(found[of_list])


def _signer(
    ports: Ports, listed: ListHead, tenant_id: str, stored: Callable[[], Mapping[Address, Item]]
) -> ListSigner:
    """Return the signer of what follows `listed`, which is read if `stored` does not have it."""
    try:
        found = ListSigner.from_item(stored()[signers(tenant_id).address(listed.key_id)])
    except (Corrupt, KeyError):
        found = None
    if found is not None and found.status is SignerStatus.ACTIVE:
        return found
    return head_and_signer(ports, tenant_id)[1]


def _marked(ports: Ports, tenant_id: str, reads: Reads) -> Marked:
    """Make `reads`, and with them those of the marks on warrants and signers."""
    read_at, limit = ports.now(), feed.ENTRY_MAX
    on_warrants = reads.add(partial(marks.set_on_warrants, ports, tenant_id, limit=limit))
    on_signers = reads.add(partial(marks.of_revoked_signers, ports, tenant_id))
    reads.make(ports)
    found, are_all = on_warrants()
    return Marked(read_at, found, are_all, on_signers())
