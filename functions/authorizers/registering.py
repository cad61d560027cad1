"""Register an authorizer: a new one, or one with a known name (FLEET-2, FLEET-27).

A new authorizer is registered only if the registry has room for another one of its caller
(FLEET-3).
"""

from dataclasses import replace
from typing import Final, NamedTuple

from functions.authorizers import proofs, unregistered
from functions.authorizers import records as model
from functions.authorizers import registrations as rules
from functions.authorizers.records import (
    Authorizer,
    AuthorizerDescription,
    OwnerRegistrationCount,
    RegistrationCounts,
    SignedStatement,
)
from shared.errors import AuthorizerLimit, Conflict
from shared.model import times
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.identifiers import AUTHORIZER
from shared.model.items import Item
from shared.model.tenants import TenantSettings
from shared.operations.base import audit, tenants
from shared.operations.base.idempotency import Keep, OutcomeCodec, idempotent, nested_item
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


def _restore_registration(ports: Ports, caller: Caller, outcome: Item, **_: object) -> Registration:
    authorizer = Authorizer.from_item(nested_item(outcome, "authorizer"))
    # The reporting interval is the current one.
    numbers = rules.read_counts(ports, caller.tenant_id)
    return Registration(authorizer, bool(outcome["is_new"]), numbers)


_KEPT: Final = OutcomeCodec[Registration](
    lambda each: {"authorizer": each.authorizer.to_item(), "is_new": each.is_new},
    _restore_registration,
)


@idempotent(Scope.ADMIN, Scope.AUTHORIZER, keeps=_KEPT)
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
    """Create the registration of a name, or update it. Raises the same errors as `register`."""
    tenant_id, owner, now = caller.tenant_id, caller.identity, times.truncate_to_second(ports.now())
    name = rules.name_address(tenant_id, description, owner)
    plain = rules.name_address(tenant_id, AuthorizerDescription(description.name), owner)
    counter = model.registered_address(tenant_id)
    items = ports.store.get_many([*dict.fromkeys((name, plain)), counter])
    ids = {each: str(items[each]["id"]) for each in (name, plain) if each in items}
    present = rules.registered_by_id(ports, tenant_id, set(ids.values()))
    absent = [each for each in ids.values() if each not in present]
    ended = rules.read_ended(ports, tenant_id, absent)
    every, numbers = present | ended, rules.parse_counts(items.get(counter))
    # `before` has the same name and unverified key, and `holder` has the name without such a key.
    holder, before = every.get(ids.get(plain, "")), every.get(ids.get(name, ""))
    if holder and not holder.is_expired(now) and not holder.is_named_by(description):
        raise Conflict(_TAKEN.format(id=holder.id))
    key_id, is_revived = caller.key_id or "", before is not None and before.is_expired(now)
    if before is None:
        settings = tenants.settings(ports, tenant_id)
        check_room(ports, caller, numbers, settings)
        authorizer_id = ports.new_id(AUTHORIZER)
        after = Authorizer.new(authorizer_id, description, owner=owner, key_id=key_id, now=now)
        # If the item exists without a registration, another write may have removed the
        # registration.
        expect = Expect.ANYTHING if name in items else Expect.ABSENT
        changes = [*rules.creation(tenant_id, after), Put(name, {"id": after.id}, expect)]
    else:
        after = before.described_as(description, now)
        if not is_revived and after.any_key == before.any_key:
            registration = Registration(after, is_new=False, numbers=numbers)
            if news := rules.change(tenant_id, before, after):
                ports.store.write(*news, *keep(registration))
            return registration
        after = replace(after, key_id=key_id)
        settings, is_kept = tenants.settings(ports, tenant_id), before.id in ended
        if is_kept:
            check_room(ports, caller, numbers, settings)
        changes = rules.revival(tenant_id, before, after, is_kept=is_kept)
    registration = Registration(after, is_new=before is None, numbers=numbers)
    details = rules.details(after, is_revived=is_revived)
    action = AuditAction.AUTHORIZER_REGISTER
    entry = audit.entry(ports, caller, action, after.id, settings=settings, **details)
    ports.store.write(*changes, entry, *keep(registration))
    return registration


# Seconds that a client waits if there is no room. The registrations are counted again by then.
_RETRY_AFTER: Final = 300

_FULL: Final = (
    f"The tenant has {model.REGISTERED_MAX:,} authorizers, the maximum; remove some, or retry "
    "after the time in Retry-After."
)
_AT_QUOTA: Final = (
    "{owner} has registered {most:,} authorizers, the maximum by the tenant's setting "
    "max_authorizers; remove some (`rescind authorizers remove`), or raise the setting (`rescind "
    "settings set max_authorizers=…`)."
)


def check_room(
    ports: Ports, caller: Caller, numbers: RegistrationCounts, settings: TenantSettings
) -> None:
    """Raise `AuthorizerLimit` if the caller or the tenant has the maximum number of authorizers."""
    most, of_owner = settings.max_authorizers, OwnerRegistrationCount()
    # The service itself has no quota.
    if caller.key_id is not None:
        address = model.of_owners(caller.tenant_id).address(caller.identity)
        of_owner = OwnerRegistrationCount.from_optional(ports.store.get(address)) or of_owner
    is_at_quota = of_owner.count >= most
    if numbers.room and not is_at_quota:
        return
    if rules.is_due(numbers, ports.now(), is_full=True):
        rules.recount(ports, caller.tenant_id, numbers)
    message = _AT_QUOTA.format(owner=caller.identity, most=most) if is_at_quota else _FULL
    raise AuthorizerLimit(retry_after=_RETRY_AFTER, message=message)
