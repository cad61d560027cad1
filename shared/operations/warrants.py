"""Warrants: sign one, list what a key signed (decisions 3, signing keys)."""

from dataclasses import dataclass
from datetime import datetime

from shared.errors import Corrupt, InvalidState, RequestConflict
from shared.model import seeds, signing_keys
from shared.model import warrants as model
from shared.model.audit_log import Action
from shared.model.callers import Caller, Scope
from shared.model.identifiers import WARRANT
from shared.model.signing_keys import SigningKey, Status
from shared.model.warrants import Standing, Warrant
from shared.operations import audit_log, expiry, tenants
from shared.operations.operation import operation
from shared.operations.paging import Page, Walk, count, newest
from shared.operations.signing_keys import find_key
from shared.ports import Ports
from shared.ports.store import At, Check, Expect, Increment, Put


@dataclass(frozen=True, slots=True)
class Signed:
    """A warrant with the signature that makes it one, and the public key that verifies it."""

    warrant: Warrant
    public_key: str
    signature: str


@operation(Scope.ADMIN)
def sign(
    ports: Ports,
    caller: Caller,
    *,
    key_id: str,
    payload: bytes,
    warrant_id: str | None = None,
    expires_at: datetime | None = None,
) -> Signed:
    """Sign `payload` with the key's present version, and remember which key signed the warrant.

    Raises `NotFound`, `InvalidRequest` where `expires_at` has passed, `InvalidState` where the key
    cannot sign, `RequestConflict` where `warrant_id` is taken.
    """
    expiry.check(ports, expires_at)
    key = find_key(ports, caller, key_id)
    ancestors = _line(ports, key)
    warrant_id = warrant_id or ports.new_id(WARRANT)
    _check_free(ports, caller.tenant_id, warrant_id)
    settings = tenants.settings(ports, caller.tenant_id)
    warrant = Warrant(warrant_id, key.id, key.key_version, ports.now(), expires_at)
    signature = seeds.sign(payload, seed=_seed(ports, key))
    standing = Standing(key.id, key.key_version, expires_at)
    amounts = {"count": 1, model.version_count(key.key_version): 1}
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
            ports, caller, Action.KEY_SIGN, key.id, settings=settings, warrant_id=warrant_id
        ),
    )
    return Signed(warrant, key.public_key, signature)


@operation(Scope.ADMIN, Scope.READ_ONLY)
def page(
    ports: Ports, caller: Caller, *, key_id: str, before: str | None, limit: int
) -> Page[Warrant]:
    """What a key signed, newest first: by all of its versions, or by the superseded one named."""
    signer = find_key(ports, caller, key_id).signer
    version = signer.key_version

    def matches(warrant: Warrant) -> bool:
        return warrant.key_version == version

    name = model.version_count(version) if version else "count"
    signed = model.signed_by(caller.tenant_id, signer.key_id)
    walk = Walk(signed, Warrant.from_item, before, limit, keep=matches if version else None)
    counts = model.signed_count_key(caller.tenant_id, signer.key_id)
    return newest(ports, walk, total=lambda: count(ports, counts, names=[name]))


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
        raise InvalidState("A key above this one is not active; only below active keys one signs.")
    return ancestors


def _check_free(ports: Ports, tenant_id: str, warrant_id: str) -> None:
    item = ports.store.get(model.warrant_key(tenant_id, warrant_id))
    if item is not None:
        raise RequestConflict("warrant_id: is signed or revoked already; choose another.")


def _seed(ports: Ports, key: SigningKey) -> bytes:
    if key.sealed_seed is None:
        raise Corrupt("an active key has no seed")
    return ports.keys.unwrap(key.sealed_seed, context=key.seal_context)
