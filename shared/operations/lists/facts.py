"""The facts that a publication relies on, each item read once (docs/adr/09).

Each line is a trip. All reads of a line are made at the same time:

1. the marks on the tenant, its settings, the head of the list, the counters
2. the list signers, the marks on warrants and on signers
3. the head of the feed

Counters and the list's head come before the marks: a later change makes the next list due. The
marks come before the feed's head, which then covers what another process states and unmarks.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple, TypeVar

from shared.authorizer.formats import wire
from shared.authorizer.formats.wire import FeedEntry
from shared.errors import Corrupt
from shared.model import feed as feed_model
from shared.model.audit.checkpoint import Kept
from shared.model.feed import FeedHead, StoredEntry
from shared.model.items import Address, Item
from shared.model.lists import content
from shared.model.lists import signers as signer_model
from shared.model.lists.content import ListState
from shared.model.lists.head import ListHead, head_address
from shared.model.lists.schedule import Mark, SignersMark
from shared.model.lists.signers import ListSigner, SignerStatus
from shared.model.lists.tombstones import Tombstones
from shared.model.tenants import TenantSettings, settings_address
from shared.operations.base import audit, counters, tenants
from shared.operations.base.counters import Counted
from shared.operations.lists import in_force, marks, records
from shared.ports import Ports

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Told(NamedTuple):
    """An entry of the feed, with the ends of the warrants that it revokes."""

    entry: FeedEntry
    ends: list[datetime | None]


class Marked(NamedTuple):
    """The marks on warrants and on revoked signers, read from `read_at` on.

    `are_all` is false if more warrants may be marked.
    """

    read_at: datetime
    warrants: Mapping[Address, Mark]
    are_all: bool
    signers: Mapping[Address, SignersMark]


def _unread() -> dict[Address, Mark]:
    return {}


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts for the entries and the list of a publication, whose writes expect them.

    `listed` is the head of the list in force, `signer` signs what follows, `newest` is the head of
    the feed: None if the tenant has none yet. `own` are the entries that this publication wrote.
    `stored_signers`, `counted` and `on_tenant`, which a list alone needs, raise `Corrupt` only when
    they are used, because damage there must not stop the feed.
    """

    settings: TenantSettings
    listed: ListHead
    signer: ListSigner
    newest: FeedHead | None
    marked: Marked
    own: tuple[Told, ...] = ()
    stored_signers: Callable[[], Mapping[Address, Item]] = field(default=dict)
    counted: Callable[[], Counted] = field(default=lambda: Counted(0, 0))
    on_tenant: Callable[[], dict[Address, Mark]] = field(default=_unread)

    @property
    def tenant_id(self) -> str:
        """The tenant that is published for."""
        return self.settings.tenant_id

    @property
    def is_left_behind(self) -> bool:
        """Whether no list can follow from the list in force by the feed, and no break says so."""
        is_broken = self.newest is not None and self.newest.is_broken
        return self.listed.sequence is None and not is_broken


class Prior(NamedTuple):
    """The list in force and what came since; each is None if it cannot be read.

    `told` are the entries since. `ended` are the revoked signers and the tombstones, None if they
    are those of the state. `log` is what the sealed log of the tenant has stated.
    """

    revoked_ids: list[str] | None
    state: ListState | None
    told: list[Told] | None
    ended: tuple[tuple[str, ...], Tombstones] | None = None
    log: Kept | None = None


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


def read(ports: Ports, tenant_id: str, *, sees_tenant: bool = False) -> Facts:
    """Read what the entries and the list rely on. Raises `Corrupt`, `Unavailable`.

    The marks on the tenant are read only if `sees_tenant` is true.
    """
    reads = Reads()
    of_tenant = partial(marks.of_tenant, ports, tenant_id)
    on_tenant = reads.add(of_tenant) if sees_tenant else _unread
    basis = reads.add(partial(_settings_and_head, ports, tenant_id))
    counts = reads.add(partial(counters.of_revocations, ports, tenant_id))
    ended = reads.add(partial(counters.of_tombstones, ports, tenant_id))
    reads.make(ports)
    settings, listed = basis()
    # After the list's head, which names one of them.
    stored = reads.add(partial(in_force.stored_signers, ports, tenant_id))
    marked = _marked(ports, tenant_id, reads)
    return Facts(
        settings,
        listed,
        _signer(ports, listed, tenant_id, stored),
        in_force.feed_head(ports, tenant_id),
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
    return marked, in_force.feed_head(ports, tenant_id)


def of_feed(ports: Ports, tenant_id: str, marked: Marked, newest: FeedHead) -> Facts:
    """Read what an entry needs beside these marks and this head, which was read after them.

    Raises `Corrupt`, `Unavailable`.
    """
    settings, (listed, signer) = ports.gather(
        lambda: tenants.settings(ports, tenant_id),
        lambda: in_force.head_and_signer(ports, tenant_id),
    )
    return Facts(settings, listed, signer, newest, marked)


def with_marks(ports: Ports, facts: Facts) -> Facts:
    """Read the marks and the head of the feed again. Raises `Corrupt`, `Unavailable`."""
    marked, newest = read_marks(ports, facts.tenant_id)
    return replace(facts, marked=marked, newest=newest)


def with_heads(ports: Ports, facts: Facts) -> Facts:
    """Read the heads and the signer again, because a write lost. Raises `Corrupt`."""
    (listed, signer), newest = ports.gather(
        lambda: in_force.head_and_signer(ports, facts.tenant_id),
        lambda: in_force.feed_head(ports, facts.tenant_id),
    )
    return replace(facts, listed=listed, signer=signer, newest=newest)


def prior(ports: Ports, facts: Facts, beside: Iterable[Callable[[], None]]) -> Prior:
    """Read the list in force and what came since; log what cannot be read.

    `beside` is done at the same time. Raises `Corrupt`, `Unavailable`.
    """
    reads = Reads()
    for each in beside:
        reads.add(each)
    body = reads.add(lambda: in_force.body(ports, facts.listed))
    stated = reads.add(lambda: in_force.state(ports, facts.listed, facts.signer))
    since = reads.add(lambda: told(ports, facts))
    log = reads.add(lambda: audit.newest_checkpoint(ports, facts.tenant_id))
    reads.make(ports)
    listed, state = _readable(body), _readable(stated)
    ids = None if listed is None else content.revoked_ids(listed)
    ended, changes = None, facts.counted().tombstones
    if state is not None and state.tombstones.changes != changes:
        ended = read_ended(ports, facts)
    return Prior(ids, state, since(), ended, log())


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
    for each in in_force.entries(ports, facts.tenant_id, after=start, until=newest.sequence):
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
        found = ListSigner.from_item(
            stored()[signer_model.signers(tenant_id).address(listed.key_id)]
        )
    except (Corrupt, KeyError):
        found = None
    if found is not None and found.status is SignerStatus.ACTIVE:
        return found
    return in_force.head_and_signer(ports, tenant_id)[1]


def _marked(ports: Ports, tenant_id: str, reads: Reads) -> Marked:
    """Make `reads`, and with them those of the marks on warrants and signers."""
    read_at, limit = ports.now(), feed_model.ENTRY_MAX
    on_warrants = reads.add(partial(marks.set_on_warrants, ports, tenant_id, limit=limit))
    on_signers = reads.add(partial(marks.of_revoked_signers, ports, tenant_id))
    reads.make(ports)
    found, are_all = on_warrants()
    return Marked(read_at, found, are_all, on_signers())
