"""The journal: what was published since the newest list, in blobs outside the store (OPS-23).

A blob has the entries of the feed, and the tombstones, since the blob before. After a loss of the
store, lists with their states and the journal are what is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Self

import cbor2

from shared.authorizer.formats.wire import FeedEntry, Malformed
from shared.errors import Corrupt
from shared.model import times
from shared.model.feed import StoredEntry
from shared.model.lists import signed_blob
from shared.model.lists.tombstones import Tombstone, Tombstones, TombstoneStatus
from shared.model.signing_keys import KeyStatus, SigningKey

PREFIX: Final = b"rescind-journal-v1\n"
# Before the first blob.
NOTHING: Final = bytes(32)
_DIGITS: Final = 20
_LAST: Final = 10**_DIGITS - 1


@dataclass(frozen=True, slots=True)
class Journal:
    """One blob of a tenant's journal.

    The feed ends at `sequence`. `entries` are encoded, and `ends` has for each of them when the
    warrants that it revokes end, as `StoredEntry` has it. `previous` is the SHA-256 (32 bytes) of
    the blob before. `tombstones.changes` is always that of now, and `changes` that of the blob
    before; if they are the same, the rest of `tombstones` is empty.
    """

    tenant_id: str
    number: int
    issued_at: datetime
    previous: bytes
    sequence: int
    changes: int = 0
    entries: tuple[bytes, ...] = ()
    ends: tuple[bytes, ...] = ()
    tombstones: Tombstones = field(default_factory=Tombstones)

    @property
    def name(self) -> str:
        """The name of the blob."""
        return name_of(self.tenant_id, self.number)

    def with_entries(self, stored: Sequence[StoredEntry]) -> Self:
        """Return the journal with these entries."""
        entries, ends = (tuple(getattr(each, name) for each in stored) for name in _OF_ENTRIES)
        return replace(self, entries=entries, ends=ends)

    def opened_entries(self) -> list[tuple[FeedEntry, list[datetime | None]]]:
        """Return the entries with the ends of what they revoke. Raises `Corrupt`."""
        pairs = zip(self.entries, self.ends, strict=True)
        return [StoredEntry(entry, ends, self.issued_at).opened() for entry, ends in pairs]

    def sign(self, *, seed: bytes) -> bytes:
        """Return the blob, signed with the seed of the list signer."""
        members = {
            # Of a later document; this release has none.
            "Trust": 0,
            "Number": self.number,
            "Tenant": self.tenant_id,
            "Entries": self.entries,
            "Ends": self.ends,
            "IssuedAt": times.text(self.issued_at),
            "Previous": self.previous,
            "Sequence": self.sequence,
            "Changes": self.changes,
            "Tombstones": self.tombstones.members(),
        }
        return signed_blob.sign(members, PREFIX, seed=seed)

    @classmethod
    def of(cls, members: dict[str, Any], *, name: str) -> Self:
        """Return the journal of these members, from a blob of this name. Raises `Corrupt`."""
        try:
            made = cls(
                str(members["Tenant"]),
                int(members["Number"]),
                times.parse(members["IssuedAt"]),
                bytes(members["Previous"]),
                int(members["Sequence"]),
                int(members["Changes"]),
                tuple(map(bytes, members["Entries"])),
                tuple(map(bytes, members["Ends"])),
                Tombstones.of(members["Tombstones"]),
            )
            made.opened_entries()
        except (AttributeError, KeyError, TypeError, ValueError, Malformed, cbor2.CBORError):
            raise Corrupt("a blob of a journal is malformed") from None
        if made.name != name:
            raise Corrupt("a blob of a journal is that of another place")
        return made


_OF_ENTRIES: Final = ("entry", "ends")


def folder(tenant_id: str) -> str:
    """Return the folder of a tenant's journal."""
    return f"journal/{tenant_id}"


def name_of(tenant_id: str, number: int) -> str:
    """Return the name of a blob. The newest one is the first of its folder."""
    return f"{folder(tenant_id)}/{_LAST - number:0{_DIGITS}d}"


def number_of(name: str) -> int:
    """Return the number of a blob from its name. Raises `Corrupt`."""
    try:
        return _LAST - int(name.rpartition("/")[2])
    except ValueError:
        raise Corrupt("a blob among those of a journal has another name") from None


def since(found: Tombstones, moment: datetime) -> Tombstones:
    """Return the tombstones that a list of that moment may lack.

    Those of states that can be undone are always among them: suspended keys, disabled accounts.
    """
    return replace(
        found,
        api_keys=tuple(each for each in found.api_keys if each.at is None or each.at >= moment),
        accounts=tuple(each for each in found.accounts if each.at is None or each.at >= moment),
        keys=tuple(each for each in found.keys if _is_of(each, moment)),
    )


def merged(found: Sequence[Tombstones]) -> Tombstones:
    """Return what several say, the newest last: what can be undone is as the last one says."""
    last = found[-1]
    undone = {each.id for each in last.accounts} | {each.id for each in last.keys}
    api_keys: dict[str, Tombstone] = {}
    accounts: dict[str, Tombstone] = {}
    keys: dict[str, SigningKey] = {}
    for some in found:
        api_keys |= {each.id: each for each in some.api_keys}
        accounts |= {each.id: each for each in some.accounts}
        keys |= {each.id: each for each in some.keys}
    return Tombstones(
        changes=last.changes,
        api_keys=tuple(api_keys[each] for each in sorted(api_keys)),
        accounts=tuple(
            each
            for _, each in sorted(accounts.items())
            if each.status is not TombstoneStatus.DISABLED or each.id in undone
        ),
        keys=tuple(
            each
            for _, each in sorted(keys.items())
            if each.status is not KeyStatus.SUSPENDED or each.id in undone
        ),
    )


def _is_of(key: SigningKey, moment: datetime) -> bool:
    known = (key.rotated_at, key.suspended_at, key.revoked_at, key.version_created_at)
    is_new = any(at is not None and at >= moment for at in known)
    return is_new or key.status is KeyStatus.SUSPENDED
