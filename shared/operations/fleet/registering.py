"""Register an authorizer: a new one, or one with a known name (FLEET-2, FLEET-27).

A new authorizer is registered only if the registry has room for another one of its caller
(FLEET-3).
"""

from dataclasses import replace
from typing import Final, NamedTuple

from shared.errors import AuthorizerLimit, Conflict
from shared.model import times
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.fleet import authorizers as model
from shared.model.fleet import proofs
from shared.model.fleet.authorizers import Authorizer, OwnerRegistrationCount, RegistrationCounts
from shared.model.fleet.heartbeats import AuthorizerDescription, SignedStatement
from shared.model.identifiers import AUTHORIZER
from shared.model.items import Address, Item
from shared.model.tenants import TenantSettings
from shared.operations.base import audit, tenants
from shared.operations.base.idempotency import Keep, idempotent, nested_item
from shared.operations.base.idempotency import OutcomeCodec as Kept
from shared.operations.fleet import registrations as rules
from shared.operations.fleet import unregistered
from shared.ports import Ports
from shared.ports.store import Expect, Put

_TAKEN: Final = (
    "The authorizer {id} has this name and another key. If it is gone or has lost its key, remove "
    "it (`rescind authorizers remove {id}`), and register again. Otherwise choose another name."
)


class Registration(NamedTuple):
    """The registration of an authorizer. `is_new` is False if it was registered before."""

    authorizer: Authorizer
    is_new: bool
    numbers: RegistrationCounts


def _registration_kept(registration: Registration) -> Item:
    return {"authorizer": registration.authorizer.to_item(), "is_new": registration.is_new}


def _registration_again(ports: Ports, caller: Caller, outcome: Item, **_: object) -> Registration:
    authorizer = Authorizer.from_item(nested_item(outcome, "authorizer"))
    # The reporting interval is the current one.
    numbers = rules.parse_counts(ports.store.get(model.registered_address(caller.tenant_id)))
    return Registration(authorizer, bool(outcome["is_new"]), numbers)


@idempotent(Scope.ADMIN, Scope.AUTHORIZER, keeps=Kept(_registration_kept, _registration_again))
def register(
    ports: Ports,
    caller: Caller,
    keep: Keep[Registration],
    *,
    description: AuthorizerDescription,
    proof: SignedStatement | None = None,
) -> Registration:
    """Register an authorizer, or find the caller's earlier registration (FLEET-2).

    An earlier registration has the same owner and name, and without a proof also the same public
    key. `proof` shows that the authorizer has its private key (FLEET-27).

    Raises `InvalidRequest` if the proof is not valid, and `Conflict` if the name belongs to another
    key. Raises `AuthorizerLimit` if the owner or the tenant has the maximum number of authorizers
    (FLEET-3). The last two are recorded (FLEET-34).
    """
    if proof is not None:
        now = times.truncate_to_second(ports.now())
        description = proofs.verify_registration(
            description, proof, tenant_id=caller.tenant_id, now=now
        )
    try:
        return _register(ports, caller, keep, description)
    except (Conflict, AuthorizerLimit) as refusal:
        unregistered.note(ports, caller, description, refusal)
        raise


def _register(
    ports: Ports, caller: Caller, keep: Keep[Registration], description: AuthorizerDescription
) -> Registration:
    known, now = _read_name(ports, caller, description), times.truncate_to_second(ports.now())
    holder, before = known.holder, known.before
    if holder and not holder.is_expired(now) and not holder.is_named_by(description):
        raise Conflict(_TAKEN.format(id=holder.id))
    if before is None:
        return _create_registration(ports, caller, keep, known, description)
    return _register_again(ports, caller, keep, known, before, description)


class _NameRecord(NamedTuple):
    """The stored state of a name: the counts, its address, and the registrations that have it.

    `before` has the same name and unverified key, and `holder` has the name without such a key.
    `is_kept` is true if `before` has expired and is only remembered.
    """

    numbers: RegistrationCounts
    name: Address
    is_named: bool
    holder: Authorizer | None
    before: Authorizer | None
    is_kept: bool


def _read_name(ports: Ports, caller: Caller, description: AuthorizerDescription) -> _NameRecord:
    tenant_id, owner = caller.tenant_id, caller.identity
    name = rules.name_address(tenant_id, description, owner)
    plain = rules.name_address(tenant_id, AuthorizerDescription(description.name), owner)
    counter = model.registered_address(tenant_id)
    items = ports.store.get_many([*dict.fromkeys((name, plain)), counter])
    ids = {each: str(items[each]["id"]) for each in (name, plain) if each in items}
    found = rules.registered_by_id(ports, tenant_id, set(ids.values()))
    kept = rules.read_ended(ports, tenant_id, [each for each in ids.values() if each not in found])
    all_ = found | kept
    return _NameRecord(
        rules.parse_counts(items.get(counter)),
        name,
        name in items,
        all_.get(ids.get(plain, "")),
        all_.get(ids.get(name, "")),
        ids.get(name) in kept,
    )


def _create_registration(
    ports: Ports,
    caller: Caller,
    keep: Keep[Registration],
    name_record: _NameRecord,
    description: AuthorizerDescription,
) -> Registration:
    """Create a registration."""
    settings = tenants.settings(ports, caller.tenant_id)
    check_room(ports, caller, name_record.numbers, settings)
    new = Authorizer.new(
        ports.new_id(AUTHORIZER),
        description,
        owner=caller.identity,
        key_id=caller.key_id or "",
        now=times.truncate_to_second(ports.now()),
    )
    made = Registration(new, is_new=True, numbers=name_record.numbers)
    ports.store.write(
        *rules.creation(caller.tenant_id, new),
        # If the item exists without a registration, another write may have removed the
        # registration.
        Put(
            name_record.name,
            {"id": new.id},
            Expect.ANYTHING if name_record.is_named else Expect.ABSENT,
        ),
        _entry(ports, caller, new, settings),
        *keep(made),
    )
    return made


def _register_again(
    ports: Ports,
    caller: Caller,
    keep: Keep[Registration],
    name_record: _NameRecord,
    previous: Authorizer,
    description: AuthorizerDescription,
) -> Registration:
    """Register an authorizer again. Audited if it had expired or has another key now."""
    tenant_id, now = caller.tenant_id, times.truncate_to_second(ports.now())
    after = previous.described_as(description, now)
    is_revived = previous.is_expired(now)
    if not is_revived and after.any_key == previous.any_key:
        found = Registration(after, is_new=False, numbers=name_record.numbers)
        if changes := rules.change(tenant_id, previous, after):
            ports.store.write(*changes, *keep(found))
        return found
    after = replace(after, key_id=caller.key_id or "")
    found = Registration(after, is_new=False, numbers=name_record.numbers)
    settings = tenants.settings(ports, tenant_id)
    if name_record.is_kept:
        check_room(ports, caller, name_record.numbers, settings)
    ports.store.write(
        *rules.revival(tenant_id, previous, after, is_kept=name_record.is_kept),
        _entry(ports, caller, after, settings, is_revived=is_revived),
        *keep(found),
    )
    return found


def _entry(
    ports: Ports,
    caller: Caller,
    of: Authorizer,
    settings: TenantSettings,
    *,
    is_revived: bool = False,
) -> Put:
    details = rules.details(of, is_revived=is_revived)
    action = AuditAction.AUTHORIZER_REGISTER
    return audit.entry(ports, caller, action, of.id, settings=settings, **details)


# Seconds that a client waits if there is no room. The registrations are counted again by then.
_RETRY_AFTER: Final = 300

_FULL: Final = (
    f"The tenant has {model.REGISTERED_MAX:,} authorizers, the maximum; remove some, or retry "
    "after the time in Retry-After."
)


def check_room(
    ports: Ports, caller: Caller, numbers: RegistrationCounts, settings: TenantSettings
) -> None:
    """Raise `AuthorizerLimit` if the caller or the tenant has the maximum number of authorizers."""
    most = settings.max_authorizers
    is_at_quota = _of_owner(ports, caller) >= most
    if numbers.room and not is_at_quota:
        return
    if rules.is_due(numbers, ports.now(), is_full=True):
        rules.recount(ports, caller.tenant_id, numbers)
    message = _at_quota(caller, most) if is_at_quota else _FULL
    raise AuthorizerLimit(retry_after=_RETRY_AFTER, message=message)


def _of_owner(ports: Ports, caller: Caller) -> int:
    """Return how many authorizers the caller has registered, or 0 for the service itself."""
    if caller.key_id is None:
        return 0
    address = model.of_owners(caller.tenant_id).address(caller.identity)
    item = ports.store.get(address)
    return 0 if item is None else OwnerRegistrationCount.from_item(item).count


def _at_quota(caller: Caller, most: int) -> str:
    return (
        f"{caller.identity} has registered {most:,} authorizers, the maximum by the tenant's "
        "setting max_authorizers; remove some (`rescind authorizers remove`), or raise the "
        "setting (`rescind settings set max_authorizers=…`)."
    )
