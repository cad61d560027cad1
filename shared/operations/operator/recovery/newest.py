"""The newest stored SRL and its state, if a trusted signer signed them.

After a restore, the records may lack the signer of the newest SRL. It is trusted if the operator
names its public key. It is also trusted if succession statements in the newest states lead to it
from a signer in the records (docs/adr/13).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple

from shared.authorizer.formats.journal import JournalRecord
from shared.authorizer.formats.wire import FeedEntry
from shared.errors import DataCorrupt, InvalidSrl
from shared.model.feed import LEAP
from shared.model.lists import content
from shared.model.lists import journal as model
from shared.model.lists.content import Payload, SrlState
from shared.model.lists.head import lists_folder, states_folder, version_of
from shared.model.lists.journal import merge_tombstones
from shared.model.lists.signers import (
    ENDED,
    SrlSigner,
    SrlSignerStatus,
    SuccessionStatement,
    archive,
    follow,
    signers_partition,
)
from shared.model.lists.tombstones import Tombstones
from shared.model.lists.verification import verify
from shared.operations.lists import in_force, journal
from shared.ports import Ports


@dataclass(frozen=True, slots=True)
class ReplayedJournal:
    """The content of the journal since the newest state.

    `revoked` are warrants with their expiries, and `removed` are unrevoked warrants. `tombstones`
    is None if they did not change. `trust` is the highest version of a trust document that the feed
    named. `gaps` has a sentence for each part that is missing or not valid.
    """

    sequence: int = 0
    issued_at: datetime | None = None
    revoked: Mapping[str, datetime | None] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    tombstones: Tombstones | None = None
    trust: int = 0
    gaps: tuple[str, ...] = ()


def replay(
    ports: Ports,
    tenant_id: str,
    keys: Collection[bytes],
    states: Sequence[SrlState],
    revoked_keys: Collection[bytes] = (),
    *,
    recent_states: Sequence[SrlState] | None = None,
) -> ReplayedJournal:
    """Replay the journal records that are newer than the newest states and SRLs.

    `recent_states` are the states of the newest SRLs, or None if they are the newest states. `keys`
    are the public keys of known signers. Excludes keys in `revoked_keys`, and keys that an SRL
    state lists as revoked: their earlier publications are in an SRL of another signer. Raises
    `Unavailable`.
    """
    if recent_states is None:
        listed, recent_states = max((each.sequence for each in states), default=0), states
    else:
        listed = min((each.sequence for each in recent_states), default=0)
    changes = max((each.tombstones.changes for each in states), default=0)
    signers = [signer for each in recent_states for signer in each.srl_signers]
    theirs = {each.public_bytes for each in signers if each.status is SrlSignerStatus.REVOKED}
    known = _KnownKeys(frozenset(keys), frozenset(theirs.union(revoked_keys)))
    gaps: list[str] = []

    def says_more(record: JournalRecord) -> bool:
        return record.sequence > listed or model.tombstones_of(record).changes > changes

    numbers = list(_list_valid_records(ports, tenant_id, known, says_more, gaps))[::-1]
    version = max((each.trust for each in numbers), default=0)
    newer = [each for each in numbers if says_more(each)]
    if not newer:
        return ReplayedJournal(trust=version, gaps=tuple(gaps))
    revoked: dict[str, datetime | None] = {}
    removed: set[str] = set()
    for entry, ends in _list_entries(newer, listed, gaps):
        revoked |= dict(zip(entry.revoked, ends, strict=True))
        removed = removed.difference(entry.revoked).union(entry.removed)
        for each in entry.removed:
            revoked.pop(each, None)
    # The tombstones of the records with new tombstones, newest last.
    ended: list[Tombstones] = []
    known_changes = changes
    for record in newer:
        if record.changes > known_changes:
            gaps.append(f"the journal lacks tombstones before its record {record.number}")
        tombstones = model.tombstones_of(record)
        if tombstones.changes > known_changes:
            known_changes = tombstones.changes
            ended.append(tombstones)
    return ReplayedJournal(
        newer[-1].sequence,
        newer[-1].issued_at,
        revoked,
        frozenset(removed),
        model.merge_tombstones(ended) if ended else None,
        version,
        tuple(gaps),
    )


def _list_valid_records(
    ports: Ports,
    tenant_id: str,
    keys: "_KnownKeys",
    says_more: Callable[[JournalRecord], bool],
    gaps: list[str],
) -> Iterator[JournalRecord]:
    """Yield the records that are newer than the states, newest first, and the one before."""
    after: JournalRecord | None = None
    expected: int | None = None
    for number, name in journal.list_blobs(ports, tenant_id):
        if expected is not None and number != expected:
            gaps.append(f"the journal lacks the records {number + 1} to {expected}")
            after = None
        expected = number - 1
        blob = ports.blobs.get(name) or b""
        try:
            record = model.verify_and_decode(
                blob, name, tenant_id=tenant_id, keys=keys.keys - keys.revoked
            )
        except DataCorrupt as error:
            if not _is_covered(blob, name, tenant_id, keys.revoked, says_more):
                gaps.append(f"{name}: {error}")
            after = None
            continue
        if after is not None and not after.follows(model.payload_of(blob), number):
            gaps.append(f"{name}: the next record follows another record")
        after = record
        yield record
        if not says_more(record):
            return


def _is_covered(
    blob: bytes,
    name: str,
    tenant_id: str,
    revoked_keys: Collection[bytes],
    says_more: Callable[[JournalRecord], bool],
) -> bool:
    """Return whether a signer that is now revoked signed a record that an SRL covers.

    Such a record does not end the walk, because a thief may have written it.
    """
    try:
        return not says_more(
            model.verify_and_decode(blob, name, tenant_id=tenant_id, keys=revoked_keys)
        )
    except DataCorrupt:
        return False


def _list_entries(
    records: Sequence[JournalRecord], sequence: int, gaps: list[str]
) -> Iterator[tuple[FeedEntry, list[datetime | None]]]:
    """Yield the entries that the states do not cover, and add missing parts to `gaps`."""
    after = sequence
    for each in records:
        for entry, ends in model.entries_of(each):
            if entry.sequence <= after:
                continue
            _note_gap(after, entry.sequence - 1, gaps)
            if entry.is_break:
                gaps.append(f"the SRL after entry {entry.sequence} is missing")
            after = entry.sequence
            yield entry, ends
        _note_gap(after, each.sequence, gaps)
        after = max(after, each.sequence)


def _note_gap(after: int, until: int, gaps: list[str]) -> None:
    if until > after:
        gaps.append(f"the journal lacks the feed entries {after + 1} to {until}")


# How many states are searched for statements. Limited, because others may write to the bucket.
_ASKED: Final = 5
# The assumed number of recoveries since the newest valid state. Clients reject too large a jump.
_LEAPS_MAX: Final = 32
_UNKNOWN_SIGNER: Final = (
    "the records lack the key that signed the newest stored SRL, {}. If the key became the SRL "
    "signer after the backup, pass its public key, as verifiers have it, with --signer "
    "PUBLIC_KEY. If no verifier has the key, the SRL was never current; remove this blob"
)


@dataclass(frozen=True, slots=True)
class NewestPublication:
    """The newest SRLs and states of a tenant in the blob store.

    - `version` is the highest SRL version, or 0 without an SRL.
    - `lists` are the SRLs of this version. After a restore there may be several.
    - `states` are the valid states of the newest version with a valid state.
    - `doubts` names the invalid states with the reasons.
    - `journal` contains the publications after them.
    """

    version: int
    lists: tuple[Payload, ...]
    states: tuple[SrlState, ...]
    doubts: tuple[str, ...]
    journal: ReplayedJournal = field(default_factory=ReplayedJournal)

    @property
    def issued_at(self) -> datetime | None:
        """The issue time of the newest SRL, the latest one if there are several."""
        return max((each.issued_at for each in self.lists), default=None)

    @property
    def horizon(self) -> datetime | None:
        """The time until which all revocations are known, or None without an SRL.

        If the clock was set back after the SRL, the time in the journal is earlier. A journal with
        gaps has no such time.
        """
        stated = None if self.journal.gaps else self.journal.issued_at
        return stated or self.issued_at

    @property
    def changes(self) -> int:
        """The highest known counter of tombstones."""
        return max((each.changes for each in self.tombstones), default=0)

    @property
    def tombstones(self) -> list[Tombstones]:
        """The tombstones of the newest states, updated to the end of the journal."""
        later = self.journal.tombstones
        states = [each.tombstones for each in self.states]
        return [merge_tombstones([each, later]) for each in states] or [later] if later else states

    @property
    def sequence(self) -> int:
        """The highest sequence of the feed that the newest SRL may cover.

        Each SRL after the newest valid state may be from a recovery, with a sequence jump.
        """
        known = max((each.sequence for each in self.states), default=0)
        since = self.version - max((each.version for each in self.states), default=0)
        return max(known + min(max(since, 0), _LEAPS_MAX) * LEAP, self.journal.sequence)

    @property
    def revoked_ids(self) -> list[str]:
        """The warrants in any of the newest SRLs, updated from the journal, sorted."""
        listed = {each for payload in self.lists for each in payload.revoked_ids}
        return sorted((listed - self.journal.removed) | self.journal.revoked.keys())


def find(
    ports: Ports, tenant_id: str, *, trusted_keys: Collection[bytes] = ()
) -> NewestPublication:
    """Find the newest SRL and state.

    `trusted_keys` are public keys (32 bytes) that the operator names. Raises `DataCorrupt` if a
    newest SRL is unreadable or not signed by a trusted signer; `Unavailable`.
    """
    blobs = list(ports.blobs.names(lists_folder(tenant_id)))
    version = max(map(version_of, blobs), default=0)
    states = _list_states(ports, tenant_id)
    known = _read_known_keys(ports, tenant_id)
    keys = _trusted_keys(ports, tenant_id, states[:_ASKED], known, trusted_keys)
    lists = [_read_list(ports, blob, keys) for blob in blobs if version_of(blob) == version]
    valid, doubts = _read_states(ports, tenant_id, states, keys)
    recent_states = valid
    # A state is stored before its SRL. A publication that was stopped in between left a state
    # without one.
    if valid and valid[0].version > version:
        older = [each for each in states if version_of(each) <= version]
        recent_states, _ = _read_states(ports, tenant_id, older, keys)
    if lists and (not valid or valid[0].version < version):
        doubts.append(f"SRL version {version} has no trusted state")
    replayed = replay(ports, tenant_id, keys, valid, known.revoked, recent_states=recent_states)
    return NewestPublication(version, tuple(lists), tuple(valid), tuple(doubts), replayed)


def read_newest(ports: Ports, tenant_id: str) -> NewestPublication:
    """Find the newest state and later publications, without reading SRLs.

    Raises `DataCorrupt` if the name of a blob has no version; `Unavailable`.
    """
    states = _list_states(ports, tenant_id)
    known = _read_known_keys(ports, tenant_id)
    keys = _trusted_keys(ports, tenant_id, states[:_ASKED], known, ())
    valid, doubts = _read_states(ports, tenant_id, states, keys)
    replayed = replay(ports, tenant_id, keys, valid, known.revoked)
    version = valid[0].version if valid else 0
    return NewestPublication(version, (), tuple(valid), tuple(doubts), replayed)


def _list_states(ports: Ports, tenant_id: str) -> list[str]:
    """Return the names of all signed states, newest first."""
    names = ports.blobs.names(states_folder(tenant_id))
    return sorted(names, key=version_of, reverse=True)


def highest(ports: Ports, tenant_id: str) -> int:
    """Return the highest version of a stored SRL, current or not, or 0 if there is none."""
    return max(map(version_of, ports.blobs.names(lists_folder(tenant_id))), default=0)


class _KnownKeys(NamedTuple):
    """The public keys (32 bytes) of the SRL signers in the records, and the revoked ones."""

    keys: frozenset[bytes]
    revoked: frozenset[bytes]


def _read_known_keys(ports: Ports, tenant_id: str) -> _KnownKeys:
    addresses = [signers_partition(tenant_id), *(archive(tenant_id, status) for status in ENDED)]
    entries = (entry for address in addresses for entry in ports.store.query(address))
    signers = [SrlSigner.from_item(entry.item) for entry in entries]
    revoked = (each for each in signers if each.status is SrlSignerStatus.REVOKED)
    return _KnownKeys(
        frozenset(each.public_bytes for each in signers),
        frozenset(each.public_bytes for each in revoked),
    )


def _trusted_keys(
    ports: Ports,
    tenant_id: str,
    states: list[str],
    known_keys: _KnownKeys,
    trusted_keys: Collection[bytes],
) -> set[bytes]:
    """Return the trusted public keys: from records, `trusted_keys`, and statements."""
    keys = {*known_keys.keys, *trusted_keys}
    forms = []
    for blob in states:
        with suppress(DataCorrupt):
            for form in content.read_unverified_statements(in_force.read_blob(ports, blob)):
                with suppress(KeyError, TypeError, ValueError):
                    if SuccessionStatement.parse(form).tenant_id == tenant_id:
                        forms.append(form)
    # Includes keys of revoked signers, because SRLs that they signed were published.
    return keys | set(follow(keys, forms, revoked_keys=known_keys.revoked))


def _read_list(ports: Ports, blob: str, keys: set[bytes]) -> Payload:
    """Return the SRL in a blob. Raises `DataCorrupt` if no key in `keys` signed it.

    Without this check, anyone who can write to the bucket could revoke warrants and use up
    versions.
    """
    body = in_force.read_blob(ports, blob)
    for key in keys:
        with suppress(InvalidSrl):
            payload = verify(body, public_key=key, now=content.issued_at(body))
            if payload.version == version_of(blob):
                return payload
    raise DataCorrupt(_UNKNOWN_SIGNER.format(blob))


def _read_states(
    ports: Ports, tenant_id: str, blobs: list[str], keys: set[bytes]
) -> tuple[list[SrlState], list[str]]:
    """Return the valid states of the newest version with one, and errors of newer states."""
    doubts: list[str] = []
    for _version, same in groupby(blobs, key=version_of):
        valid: list[SrlState] = []
        for blob in same:
            try:
                valid.append(_read_state(ports, tenant_id, blob, keys))
            except DataCorrupt as error:
                doubts.append(f"{blob}: {error}")
        if valid:
            return valid, doubts
    return [], doubts


def _read_state(ports: Ports, tenant_id: str, blob: str, keys: set[bytes]) -> SrlState:
    data = in_force.read_blob(ports, blob)
    for key in keys:
        with suppress(content.BlobNotSigned):
            return in_force.decode_state(data, blob, tenant_id, public_key=key)
    raise DataCorrupt("it is not signed by a signer of this tenant")
