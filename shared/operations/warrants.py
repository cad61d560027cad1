"""Warrants: sign one, list what a key signed (decisions 3, signing keys)."""

import base64
from dataclasses import dataclass, replace
from datetime import datetime

from shared.errors import Corrupt, InvalidRequest, InvalidState, RequestConflict
from shared.model import seeds, signing_keys, times, warrant_format
from shared.model import warrants as model
from shared.model.audit_log import Action
from shared.model.callers import Caller, Scope
from shared.model.identifiers import WARRANT, before_all_of
from shared.model.signing_keys import SigningKey, Status
from shared.model.warrant_format import Claims, Format
from shared.model.warrants import Standing, Warrant
from shared.operations import audit_log, expiry, seals, tenants
from shared.operations.operation import operation
from shared.operations.paging import Page, Walk, count, newest
from shared.operations.signing_keys import find_key
from shared.ports import Ports
from shared.ports.store import At, Check, Expect, Increment, Put


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be signed, and how: `payload` is at most 64 KiB."""

    payload: bytes
    format: Format = Format.COSE
    warrant_id: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Signed:
    """A warrant that was signed, and the public key (base64) that verifies it.

    `signature` is over the payload as it came; `message` is a whole COSE_Sign1. Both are base64,
    and one of them is None, by the format.
    """

    warrant: Warrant
    public_key: str
    signature: str | None = None
    message: str | None = None


@operation(Scope.ADMIN)
def sign(ports: Ports, caller: Caller, *, key_id: str, order: Order) -> Signed:
    """Sign with the key's present version, and remember which key signed the warrant.

    Raises `NotFound`, `InvalidRequest` if the order cannot be signed in its format or `expires_at`
    has passed, `InvalidState` if the key cannot sign, `RequestConflict` if the identifier is taken
    (decisions 3, sign).
    """
    _check_order(ports, order)
    key = find_key(ports, caller, key_id)
    ancestors = _line(ports, key)
    # Before anything is signed: it is among the signed bytes.
    warrant_id = order.warrant_id or ports.new_id(WARRANT)
    _check_free(ports, caller.tenant_id, warrant_id)
    settings = tenants.settings(ports, caller.tenant_id)
    now = times.whole(ports.now())
    warrant = Warrant(warrant_id, key.id, key.key_version, now, order.expires_at)
    signed = _signed(ports, key, warrant, order)
    amounts = {"count": 1, model.version_count(key.key_version): 1}
    standing = Standing(key.id, key.key_version, order.format, warrant.ends_at)
    ports.store.write(
        Put(model.warrant_key(caller.tenant_id, warrant_id), standing.to_item(), Expect.ABSENT),
        Put(
            model.signed_by(caller.tenant_id, key.id).key(ports.new_id(WARRANT)),
            warrant.to_item(),
            Expect.ABSENT,
        ),
        Increment(model.signed_count_key(caller.tenant_id, key.id), amounts, Expect.ANYTHING),
        # Whoever suspends or revokes one of them meanwhile makes this write lose.
        *(Check(each.key, At(each.version)) for each in (key, *ancestors)),
        audit_log.entry(
            ports,
            caller,
            Action.KEY_SIGN,
            key.id,
            settings=settings,
            warrant_id=warrant_id,
            key_version=key.key_version,
            format=order.format.value,
            expires_at=times.text(order.expires_at) if order.expires_at else None,
        ),
    )
    return signed


def _check_order(ports: Ports, order: Order) -> None:
    """Raise `InvalidRequest` unless the order can be signed in its format."""
    expiry.check(ports, order.expires_at)
    if order.format is not Format.RAW:
        return
    if order.warrant_id is None:
        raise InvalidRequest("warrant_id: is required with format raw; put it into the payload.")
    if order.expires_at is not None:
        raise InvalidRequest("expires_at: is not signed with format raw; leave it out.")
    if warrant_format.is_reserved(order.payload):
        raise InvalidRequest(
            "payload: must not be a revocation list or a message of COSE with format raw."
        )


def _signed(ports: Ports, key: SigningKey, warrant: Warrant, order: Order) -> Signed:
    """The signature, checked against the public key that it will be verified with."""
    seed = seals.opened(ports, key)
    if order.format is Format.RAW:
        signature = seeds.signature(order.payload, seed=seed)
        _check_signature(key, order.payload, signature)
        return Signed(warrant, key.public_key, signature=_base64(signature))
    claims = Claims(
        key.tenant_id, warrant.warrant_id, warrant.signed_at, warrant.ends_at, order.payload
    )
    message = warrant_format.sign(claims, key_id=key.id, key_version=key.key_version, seed=seed)
    _check_signature(key, message.signed, message.signature)
    return Signed(warrant, key.public_key, message=_base64(message.encode()))


def _check_signature(key: SigningKey, signed: bytes, signature: bytes) -> None:
    if not seeds.is_signed(signed, signature, public_key=key.public_bytes):
        raise Corrupt("the seed of a signing key is another key's")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@operation(Scope.ADMIN, Scope.READ_ONLY)
def page(
    ports: Ports, caller: Caller, *, key_id: str, before: str | None, limit: int
) -> Page[Warrant]:
    """What a key signed, newest first: by all of its versions, or by the superseded one named."""
    key = find_key(ports, caller, key_id)
    signed = model.signed_by(caller.tenant_id, key.signer.key_id)
    walk = Walk(signed, Warrant.from_item, before, limit)
    if key.current_id is not None:
        walk = _of_version(walk, key)
    version = key.signer.key_version
    name = "count" if version is None else model.version_count(version)
    counts = model.signed_count_key(caller.tenant_id, key.signer.key_id)
    return newest(ports, walk, total=lambda: count(ports, counts, names=[name]))


def _of_version(walk: Walk[Warrant], superseded: SigningKey) -> Walk[Warrant]:
    """The walk over what a superseded version signed: it reads the time of that version alone."""
    signed_from = superseded.version_created_at - times.CLOCK_TOLERANCE
    until = (superseded.rotated_at or superseded.version_created_at) + times.CLOCK_TOLERANCE
    last = before_all_of(until, kind=WARRANT)
    return replace(
        walk,
        after=before_all_of(signed_from, kind=WARRANT),
        before=last if walk.before is None else min(walk.before, last),
        keep=lambda warrant: warrant.key_version == superseded.key_version,
    )


def _line(ports: Ports, key: SigningKey) -> list[SigningKey]:
    """The ancestors of a key that may sign. Raises `InvalidState` for one that may not."""
    if key.status is not Status.ACTIVE:
        raise InvalidState(f"The key is {key.status}; only an active key signs.")
    if key.has_expired(ports.now()):
        raise InvalidState("The key has expired; create another one.")
    places = [signing_keys.keys(key.tenant_id).key(each) for each in key.ancestors]
    items = ports.store.get_many(places)
    if len(items) != len(places):
        raise Corrupt("a key has an ancestor that does not exist")
    ancestors = [SigningKey.from_item(items[place]) for place in places]
    if any(each.status is not Status.ACTIVE for each in ancestors):
        raise InvalidState("A key above this one is not active; until it is, this key cannot sign.")
    return ancestors


def _check_free(ports: Ports, tenant_id: str, warrant_id: str) -> None:
    item = ports.store.get(model.warrant_key(tenant_id, warrant_id))
    if item is not None:
        raise RequestConflict("warrant_id: is signed or revoked already; choose another.")
