"""Publishing a Signed Revocation List, in the one order that loses nothing (docs/adr/0004).

1. read the head          2. read what is revoked      3. build, sign, check
4. store the blob         5. move the head on, expecting the one that was read

Stopped anywhere, it leaves the old list in force and at most a blob that nobody points to.
"""

import hashlib
import logging
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import chain

from shared.errors import Conflict, Corrupt, InvalidSrl
from shared.model import identifiers, revocations, srl, times, warrants
from shared.model.audit_log import Action
from shared.model.callers import Caller
from shared.model.items import Partition
from shared.model.records import integer, moment
from shared.model.seeds import seal_context
from shared.model.signing_keys import RevokedSigners, revoked_signers_key
from shared.model.srl import Head, Payload
from shared.model.srl_keys import SrlKey
from shared.model.srl_schedule import Turn
from shared.model.srl_verification import verify
from shared.model.tenants import Settings
from shared.model.warrants import Warrant, left_behind
from shared.operations import audit_log, srl_keys, tenants
from shared.operations.verdicts import verdicts
from shared.ports import Ports
from shared.ports.store import At, Change, Check, Delete, Expect, Put

_log = logging.getLogger(__name__)


def first(ports: Ports, settings: Settings, signer: SrlKey) -> list[Change]:
    """Store version 1, which is empty, and return the writes that publish it (decisions 3, SRL)."""
    payload = _payload(settings, version=1, issued_at=ports.now(), revoked_ids=[])
    head = _store(ports, signer, payload, changes=0)
    return _writes(settings.tenant_id, head, Expect.ABSENT)


def publish(ports: Ports, caller: Caller, *, above: int = 0) -> Head:
    """Publish the next version, whether or not anything changed (one attempt: see `settle`).

    `above` is a version that was published once, though the records know nothing of it.
    Raises `Conflict` where another publication or a rotation of the signer came between,
    `Unavailable` where a port did, `Corrupt` where the list would not be right; the old list stays.
    """
    settings, head, signer = ports.together(
        lambda: tenants.settings(ports, caller.tenant_id),
        lambda: current(ports, caller.tenant_id),
        lambda: srl_keys.current(ports, caller.tenant_id),
    )
    # Only now that the head is known: what is revoked after this read is not surely in the list.
    changes, signers = _changes_and_signers(ports, caller.tenant_id)
    # The clock may have stepped back; the list's own time never does.
    issued_at = max(ports.now(), head.issued_at)
    revoked_ids = _revoked_ids(ports, settings, signers, issued_at)
    _check_departures(ports, settings, head, revoked_ids, issued_at)
    version = max(head.version, above) + 1
    payload = _payload(settings, version=version, issued_at=issued_at, revoked_ids=revoked_ids)
    published = _store(ports, signer, payload, changes=changes)
    action, resource = Action.SRL_REGENERATE, f"srl/{published.version}"
    ports.store.write(
        *_writes(caller.tenant_id, published, At(head.version)),
        Delete(Turn.after(head, caller.tenant_id).key, Expect.ANYTHING),
        Check(signer.key, At(signer.version)),
        audit_log.entry(ports, caller, action, resource, settings=settings, count=published.count),
    )
    return published


def current(ports: Ports, tenant_id: str) -> Head:
    """The head of the tenant: which list is in force. Raises `Corrupt` where there is none."""
    item = ports.store.get(srl.head_key(tenant_id))
    if item is None:
        raise Corrupt("a tenant has no published list")
    return Head.from_item(item)


def count_changes(ports: Ports, tenant_id: str) -> int:
    """How many changes were ever made to what the tenant has revoked, keys included."""
    return _changes_and_signers(ports, tenant_id)[0]


def read(ports: Ports, head: Head) -> bytes:
    """The response body that `head` points to, unaltered. Raises `Corrupt` where it is not."""
    if srl.sha256_of(head.blob) != head.sha256:
        raise Corrupt(f"the head of version {head.version} contradicts itself")
    return read_blob(ports, head.blob)


def read_blob(ports: Ports, blob: str) -> bytes:
    """The response body in a blob, unaltered. Raises `Corrupt` where it is not."""
    body = ports.blobs.get(blob)
    if body is None or hashlib.sha256(body).hexdigest() != srl.sha256_of(blob):
        raise Corrupt(f"the blob of version {srl.version_of(blob)} is missing or altered")
    return body


def _changes_and_signers(ports: Ports, tenant_id: str) -> tuple[int, RevokedSigners]:
    counters = [revocations.counter_key(shard) for shard in revocations.shards(tenant_id)]
    signers_key = revoked_signers_key(tenant_id)
    items = ports.store.get_many([*counters, signers_key])
    signers = RevokedSigners.of(items.pop(signers_key, None))
    changes = sum(integer(item, "changes") for item in items.values())
    return changes + signers.version, signers


def _revoked_ids(
    ports: Ports, settings: Settings, signers: RevokedSigners, now: datetime
) -> list[str]:
    """Every warrant with a revocation, or of a revoked key, that did not expire long ago."""
    tenant_id, ttl = settings.tenant_id, settings.srl_ttl

    def walk(shard: Partition) -> list[str]:
        return [
            _warrant_id(entry.sk)
            for entry in ports.store.query(shard, after=identifiers.BEFORE_WARRANT_IDS)
            if not left_behind(moment(entry.item, "expires_at"), now, ttl=ttl)
        ]

    shards = revocations.shards(tenant_id)
    revoked = set(chain.from_iterable(ports.together(*(partial(walk, each) for each in shards))))
    for key_id, versions in signers.by_key().items():
        entries = ports.store.query(warrants.signed_by(tenant_id, key_id))
        signed = (Warrant.from_item(entry.item) for entry in entries)
        revoked.update(
            _warrant_id(warrant.warrant_id)
            for warrant in signed
            if versions & {None, warrant.key_version}
            and not left_behind(warrant.expires_at, now, ttl=ttl)
        )
    return sorted(revoked)


def _warrant_id(value: str) -> str:
    # Never skipped: a record that cannot be read may be the one that keeps a thief out.
    if not identifiers.is_warrant_id(value):
        raise Corrupt("a revoked warrant is stored under a malformed identifier")
    return value


def _check_departures(
    ports: Ports, settings: Settings, head: Head, revoked_ids: list[str], now: datetime
) -> None:
    """Let no identifier leave the list that is still revoked, whatever the walk missed."""
    try:
        previous = srl.revoked_ids(read(ports, head))
    except Corrupt:
        _log.exception("the previous list cannot be read; publishing a full rebuild without it")
        return
    gone = set(previous).difference(revoked_ids)
    still_revoked = [
        verdict
        for verdict in verdicts(ports, settings.tenant_id, gone).values()
        if verdict.revoked and not left_behind(verdict.expires_at, now, ttl=settings.srl_ttl)
    ]
    if still_revoked:
        raise Conflict(still_revoked)


def _payload(
    settings: Settings, *, version: int, issued_at: datetime, revoked_ids: list[str]
) -> Payload:
    issued_at = times.whole(issued_at)
    return Payload(version, issued_at, issued_at + settings.srl_ttl, revoked_ids)


def _store(ports: Ports, signer: SrlKey, payload: Payload, *, changes: int) -> Head:
    """Sign the list, check it as a stranger would, store it; the head that would publish it."""
    context = seal_context(signer.tenant_id, signer.id)
    body = srl.sign(payload, seed=ports.keys.unwrap(signer.sealed_seed, context=context))
    try:
        seen = verify(body, public_key=signer.public_bytes, now=payload.issued_at)
    except InvalidSrl as error:
        raise Corrupt(f"refusing to publish a list that is not valid: {error}") from error
    if seen != payload:
        raise Corrupt("refusing to publish a list that does not say what was revoked")
    sha256 = hashlib.sha256(body).hexdigest()
    name = srl.blob_name(signer.tenant_id, version=payload.version, sha256=sha256)
    # A name that is taken holds these very bytes, left by a run that stopped here.
    with suppress(Conflict):
        ports.blobs.put(name, body)
    return Head(
        version=payload.version,
        issued_at=payload.issued_at,
        expires_at=payload.expires_at,
        count=len(payload.revoked_ids),
        changes=changes,
        blob=name,
        sha256=sha256,
        size=len(body),
        key_id=signer.id,
    )


def _writes(tenant_id: str, head: Head, expected: At | Expect) -> list[Change]:
    turn = Turn.after(head, tenant_id)
    item = head.to_item()
    return [
        Put(srl.head_key(tenant_id), item, expected),
        Put(head.history_key(tenant_id), item, Expect.ABSENT),
        Put(turn.key, turn.to_item(), Expect.ABSENT),
    ]
