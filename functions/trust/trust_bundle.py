"""The trust bundle: the signing keys and SRL signers, and which of them are no longer valid.

The revision is read first, and the keys after it. A change that the revision counts is therefore in
the keys, unless its write is still in flight (docs/adr/08).
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

from shared.model import revocations, signing_keys
from shared.model.callers import Caller, Scope
from shared.model.lists import tombstones
from shared.model.lists.signers import SrlSigner
from shared.model.signing_keys import KeyStatus, SigningKey, WarrantSigner
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page
from shared.operations.lists import records, signers
from shared.ports import Ports

# A write with a visible counter is completely visible after this time, even if two clocks differ by
# the tolerated five minutes (docs/adr/02).
SETTLED_AFTER: Final = timedelta(minutes=6)

# Counters that a restore or repair set back may repeat earlier values. This limits how long a
# response can be confirmed.
CONFIRMED_FOR: Final = timedelta(hours=1)

# Keys on a page.
PAGE: Final = 1000

_ETAG: Final = re.compile(r'"([0-9a-f]{64})-([0-9]{1,12})-([0-9]{1,12})"')


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A signing key, or a superseded version, and whether its signatures are revoked.

    `revoked` is also true for a version of a key that is revoked as a whole.
    """

    key: SigningKey
    revoked: bool

    @classmethod
    def of(cls, key: SigningKey, *, markers: frozenset[str]) -> Self:
        """Return the key. `markers` are the revoked signers of the tenant, as text.

        If record and marker contradict each other, the key is revoked.
        """
        signers = {str(WarrantSigner(key.signer.key_id, None)), str(key.signer)}
        return cls(key, key.status is KeyStatus.REVOKED or not signers.isdisjoint(markers))

    @property
    def status(self) -> KeyStatus:
        """The state of the key: `revoked` if its signatures are revoked."""
        return KeyStatus.REVOKED if self.revoked else self.key.status


@dataclass(frozen=True, slots=True)
class BundleVersion:
    """Content of a bundle's ETag: the revision, when it was first seen, and when keys were read.

    Both times are whole seconds since 1970. The counters of a write may be visible before the
    changed keys. Keys that were read soon after a new revision are therefore not confirmed.
    """

    revision: str
    first_seen: int
    read_at: int

    @classmethod
    def parse(cls, etag: str) -> Self | None:
        """Return the content of an ETag, or None if it is not from this service."""
        found = _ETAG.fullmatch(etag)
        return None if found is None else cls(found[1], int(found[2]), int(found[3]))

    @classmethod
    def next(cls, revision: str, validators: Iterable[Self], *, now: datetime) -> Self:
        """Return the validator of keys read at `now`, for a client that has `validators`."""
        seconds = int(now.timestamp())
        seen = [each.first_seen for each in validators if each.revision == revision]
        return cls(revision, min([*seen, seconds]), seconds)

    @property
    def etag(self) -> str:
        """The ETag."""
        return f'"{self.revision}-{self.first_seen}-{self.read_at}"'

    def confirms(self, revision: str, *, now: datetime) -> bool:
        """Return whether keys read with this validator still match `revision`."""
        age = now.timestamp() - self.read_at
        return (
            self.revision == revision
            and self.read_at - self.first_seen >= SETTLED_AFTER.total_seconds()
            and age < CONFIRMED_FOR.total_seconds()
        )


@dataclass(frozen=True, slots=True)
class BundleRevision:
    """The revision of a tenant's bundle, the SRL signers, and whether any key is revoked."""

    name: str
    srl_signers: list[SrlSigner]
    has_revoked: bool


@operation(*Scope)
def revision(ports: Ports, caller: Caller) -> BundleRevision:
    """Read the revision of the tenant's bundle (TRUST-3): three items and the SRL signers.

    Raises `DataCorrupt`, `Unavailable`.
    """
    revoked = revocations.marker_count_address(caller.tenant_id)
    addresses = [
        signing_keys.counts_address(caller.tenant_id),
        tombstones.counter_address(caller.tenant_id),
        revoked,
    ]
    counters, records = ports.gather(
        lambda: ports.store.get_many(addresses),
        lambda: signers.read_unarchived(ports, caller.tenant_id),
    )
    listed = signers.filter_listed(records, ports.now())
    # Writes of signing keys increment these counters.
    counted = {address.sk: dict(item) for address, item in counters.items()}
    states = [[each.id, each.version, each.status.value] for each in listed]
    name = hashlib.sha256(json.dumps([counted, states], sort_keys=True).encode()).hexdigest()
    return BundleRevision(name, listed, revoked in counters)


@operation(*Scope)
def page(
    ports: Ports, caller: Caller, *, of: BundleRevision, before: str | None
) -> Page[TrustedKey]:
    """Return a page of the tenant's keys and their superseded versions, newest first (TRUST-1).

    Omits a version without a public key, which only a repair leaves. Raises `DataCorrupt`,
    `Unavailable`.
    """
    rows = ports.store.query(
        signing_keys.keys(caller.tenant_id),
        before=before,
        newest_first=True,
        limit=PAGE + 1,
    )
    signing = [SigningKey.from_item(row.item) for row in rows]
    # Read after the keys. The record of a revoked key may still look active, but its marker does
    # not.
    markers = records.read_revoked_signers(ports, caller.tenant_id) if of.has_revoked else ()
    shown, revoked = signing[:PAGE], frozenset(markers)
    position = shown[-1].id if len(signing) > PAGE else None
    keys = [TrustedKey.of(each, markers=revoked) for each in shown if each.public_key]
    return Page(keys, None, position)
