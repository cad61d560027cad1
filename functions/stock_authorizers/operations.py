"""The native list for stock authorizers, its signer, and signed events (NATIVE-1, docs/adr/17).

A native list is created when it is first requested after a change of the feed. It contains exactly
the current SRL with the later feed entries applied. One version therefore always names the same
warrants.
"""

import base64
import gzip
import hashlib
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from functions.authorizers.records import Authorizer, authorizers
from functions.stock_authorizers import records as native
from functions.stock_authorizers.records import NativeList, NativeSigner
from shared import logs
from shared.authorizer.formats import wire
from shared.authorizer.formats.ed25519 import SIGNATURE_BYTES
from shared.authorizer.formats.wire import MalformedBytes
from shared.errors import BlobExists, DataCorrupt, NotFound, OutOfSpace, Unavailable
from shared.model import feed, times
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.feed import FeedHead
from shared.model.identifiers import AUTHORIZER, SIGNING_KEY, is_identifier
from shared.model.lists.head import StoredBody, sha256_of
from shared.operations.base import audit, seals
from shared.operations.base.operation import operation, reread
from shared.operations.lists import in_force, marks
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put, VersionIs

T = TypeVar("T")

_log = logging.getLogger(__name__)

# Seconds that a replaced native list is kept, because a request may be about to open it.
_REPLACED_SECONDS: Final = 10


class _NativeFacts(NamedTuple):
    """The stored native list. The write that replaces it has `stored` as its precondition."""

    newest: FeedHead | None
    signer: NativeSigner | None
    stored: NativeList | None


@operation(*Scope)
def signer(ports: Ports, caller: Caller) -> NativeSigner:
    """Return the native signer of the tenant. Creates it if there is none (NATIVE-2).

    Raises `Unavailable`.
    """
    item = ports.store.get(native.signer_address(caller.tenant_id))
    return _make_signer(ports, caller) if item is None else NativeSigner.from_item(item)


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def read_cached(ports: Ports, caller: Caller) -> tuple[StoredBody, FeedHead] | None:
    """Return the native list that covers the feed to its end, or None if it must be created.

    Also returns the feed head. Raises the same errors as `current`.
    """
    return reread(lambda: _cached_if_current(_facts(ports, caller.tenant_id), ports.now()))


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def current(ports: Ports, caller: Caller) -> tuple[StoredBody, FeedHead]:
    """Return the native list that covers the feed to its end. Creates it if necessary.

    Also returns the feed head.

    Raises `Unavailable` if the feed does not contain the current revocations: before the first SRL,
    after a discontinuity that no SRL covers yet, or if the feed head has expired (NATIVE-5). Raises
    `DataCorrupt`.
    """

    def attempt() -> tuple[StoredBody, FeedHead]:
        facts, now = _facts(ports, caller.tenant_id), ports.now()
        if cached := _cached_if_current(facts, now):
            return cached
        newest = _usable(facts.newest, now)
        signer = facts.signer or _make_signer(ports, caller)
        ids = native.native_ids(_revoked_ids(ports, caller.tenant_id, newest))
        seed = seals.unwrap_seed(ports, signer)
        at = times.truncate_to_second(now)
        body = native.signed_body(ids, sequence=newest.sequence, issued_at=at, seed=seed)
        return _replace(ports, facts, signer, newest, body).form, newest

    return reread(attempt)


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def body(ports: Ports, caller: Caller, *, of: StoredBody) -> bytes:
    """Read a native list and check its hash. Raises `DataCorrupt`, `Unavailable`."""
    return _read_or_forget(ports, caller, lambda: in_force.read_blob(ports, of.blob))


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def file(ports: Ports, caller: Caller, *, of: StoredBody) -> Path | None:
    """Return the file of a native list after a check of its hash, or None without files.

    Raises `DataCorrupt`, `Unavailable`.
    """
    sha256 = sha256_of(of.blob)
    return _read_or_forget(ports, caller, lambda: ports.blobs.get_file(of.blob, sha256=sha256))


def _read_or_forget(ports: Ports, caller: Caller, read: Callable[[], T]) -> T:
    """Return the result of `read`. If the blob is damaged, the next request creates it again."""
    try:
        return read()
    except DataCorrupt:
        ports.store.write(Delete(native.list_address(caller.tenant_id), Expect.ANYTHING))
        raise


def _cached_if_current(facts: _NativeFacts, now: datetime) -> tuple[StoredBody, FeedHead] | None:
    """Return the stored native list if it covers the feed to its end, with the feed head."""
    newest, stored, signer = _usable(facts.newest, now), facts.stored, facts.signer
    if stored is not None and stored.sequence > newest.sequence:
        raise DataCorrupt("a native list is newer than the feed")
    if stored is None or signer is None or not stored.is_kept(now):
        return None
    expected = (newest.sequence, newest.signed_head.chain, signer.id)
    is_current = (stored.sequence, stored.chain, stored.signer_id) == expected
    return (stored.form, newest) if is_current else None


def _facts(ports: Ports, tenant_id: str) -> _NativeFacts:
    addresses = (
        feed.head_address(tenant_id),
        native.signer_address(tenant_id),
        native.list_address(tenant_id),
    )
    items = ports.store.get_many(addresses)
    head, signer, stored = (items.get(each) for each in addresses)
    return _NativeFacts(
        None if head is None else FeedHead.from_item(head),
        NativeSigner.from_optional(signer),
        NativeList.from_optional(stored),
    )


def _usable(newest: FeedHead | None, now: datetime) -> FeedHead:
    """Return the head of a usable feed. Raises `Unavailable` if the feed is out of date."""
    if newest is None:
        raise Unavailable("the tenant has no feed yet; its next SRL starts it")
    if newest.is_broken:
        raise Unavailable("no SRL follows the discontinuity of the feed yet")
    if newest.signed_head.expires_at <= now:
        # A stock authorizer does not see that the service stopped publishing.
        raise Unavailable("the feed head has expired")
    return newest


def _revoked_ids(ports: Ports, tenant_id: str, newest: FeedHead) -> list[str]:
    """Return the warrants that the feed revokes, sorted.

    Raises `DataCorrupt` if the stored data does not match the hashes in the feed head;
    `Unavailable`.
    """
    base = newest.base
    listed = in_force.read_head_of_version(ports, tenant_id, base.version)
    if listed is None:
        raise DataCorrupt("the base of the feed is missing")
    if listed.sequence is None:
        raise Unavailable("the current SRL is a full rebuild, which the feed does not contain")
    try:
        ids = wire.base_ids(gzip.decompress(in_force.read_blob(ports, listed.base)), base)
    except (MalformedBytes, OSError, EOFError) as error:
        raise DataCorrupt("the base of the feed does not match its feed head") from error
    stored = in_force.read_entries(ports, tenant_id, after=base.sequence, until=newest.sequence)
    entries = [each.entry for each in stored]
    if reduce(wire.next_chain, entries, base.chain) != newest.signed_head.chain:
        raise DataCorrupt("a feed entry was altered")
    if not entries:
        return ids
    revoked = set(ids)
    for entry in map(wire.FeedEntry.decode, entries):
        revoked.difference_update(entry.removed)
        revoked.update(entry.revoked)
    return sorted(revoked)


def _make_signer(ports: Ports, caller: Caller) -> NativeSigner:
    """Create the signer. Raises `PreconditionFailed` if another caller did; `Unavailable`."""
    tenant_id, key_id = caller.tenant_id, ports.new_id(SIGNING_KEY)
    public_key, sealed = seals.create(ports, NativeSigner, tenant_id, key_id)
    signer = NativeSigner(key_id, tenant_id, public_key, ports.now(), sealed)
    entry = audit.entry(ports, caller, AuditAction.NATIVE_SIGNER_CREATE, key_id)
    mark = marks.trust_mark(tenant_id)
    ports.store.write(Put(signer.address, signer.to_item(), Expect.ABSENT), entry, mark)
    return signer


def _replace(
    ports: Ports, facts: _NativeFacts, signer: NativeSigner, newest: FeedHead, body: bytes
) -> NativeList:
    """Store a native list as the newest. Raises `PreconditionFailed` after a concurrent store."""
    tenant_id, before = signer.tenant_id, facts.stored
    sha256 = hashlib.sha256(body).hexdigest()
    blob = f"{native.folder(tenant_id)}/{native.blob_prefix(newest.sequence)}-{sha256}.json"
    version = 1 if before is None else before.version + 1
    after = NativeList(
        newest.sequence, newest.signed_head.chain, signer.id, ports.now(), blob, len(body), version
    )
    _discard(ports, tenant_id, newest.sequence, older_than=_REPLACED_SECONDS)
    try:
        _store_blob(ports, blob, body)
    except OutOfSpace:
        _discard(ports, tenant_id, newest.sequence)
        _store_blob(ports, blob, body)
    expected = Expect.ABSENT if before is None else VersionIs(before.version)
    ports.store.write(Put(native.list_address(tenant_id), after.to_item(), expected))
    return after


def _store_blob(ports: Ports, blob: str, body: bytes) -> None:
    # A blob with this name has the same bytes, from an earlier run that was interrupted.
    with suppress(BlobExists):
        ports.blobs.put(blob, body)


def _discard(
    ports: Ports, tenant_id: str, sequence: int, *, older_than: float | None = None
) -> None:
    """Remove native lists that cover the feed only to before `sequence`."""
    before, folder = native.blob_prefix(sequence), native.folder(tenant_id)
    ports.blobs.discard(folder, before=before, older_than_seconds=older_than)


class SignedEvent(NamedTuple):
    """The signed bytes of an event and their signature, in the caller's base64."""

    signing_payload: object
    signature: object


class StockCounts(NamedTuple):
    """How many events of a batch the registered key signed, and how many it did not."""

    accepted: int
    rejected: int


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def count_events(
    ports: Ports, caller: Caller, *, authorizer_id: str, events: Sequence[SignedEvent]
) -> StockCounts:
    """Count the events that the authorizer signed with its registered key, without storing them.

    If its registration has expired, its key is unknown, and no event verifies. Raises `NotFound` if
    another caller registered it; `DataCorrupt`, `Unavailable`.
    """
    if not is_identifier(authorizer_id, kind=AUTHORIZER):
        raise NotFound
    item = ports.store.get(authorizers(caller.tenant_id).address(authorizer_id))
    key = b""
    if item is not None:
        authorizer = Authorizer.from_item(item)
        if authorizer.owner != caller.identity:
            raise NotFound
        key = bytes.fromhex(authorizer.any_key)
    accepted = sum(_is_signed(each, key) for each in events) if key else 0
    counts = StockCounts(accepted, len(events) - accepted)
    metrics = {"EventsVerified": counts.accepted, "EventsRefused": counts.rejected}
    line = logs.fields(tenant_id=caller.tenant_id, authorizer_id=authorizer_id, metrics=metrics)
    _log.info("events of a stock authorizer", extra=line)
    return counts


def _is_signed(event: SignedEvent, public_key: bytes) -> bool:
    payload, signature = _decode_base64(event.signing_payload), _decode_base64(event.signature)
    if payload is None or signature is None or len(signature) != SIGNATURE_BYTES:
        return False
    return native.is_event_signed(payload, signature, public_key=public_key)


def _decode_base64(value: object) -> bytes | None:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except ValueError:
        return None
