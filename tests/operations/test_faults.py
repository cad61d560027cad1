"""Every mutation, broken at every call: all of it happened, or none of it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from shared.errors import NotFound, RescindError, Unavailable
from shared.model.callers import Scope
from shared.model.fleet.authorizers import Description, Heartbeat
from shared.model.revocation_batches import Batch, BatchAction
from shared.model.signing_keys import SigningKey
from shared.model.tenants import SettingsChange
from shared.operations.access import api_key_rotation, api_keys, service_accounts, tenant_settings
from shared.operations.changes import (
    key_revocation,
    list_signers,
    revocation_batches,
    revocations,
    signing_keys,
    warrants,
)
from shared.operations.changes.warrants import Order
from shared.operations.fleet import authorizers
from shared.operations.lists import in_force
from shared.operations.webhooks import managing
from shared.ports import Ports
from tests.kit.faults import Crash, Hook, Script, raises, scripted
from tests.kit.scheduler import World
from tests.kit.tenants import Tenant

pytestmark = pytest.mark.usefixtures("few_partitions")

Mutation = Callable[[Ports, Tenant, str], object]

_KEY = "svc_ak_01kbm4xt3rfz8c5w7y2q9n6d1e"


@dataclass(frozen=True)
class Case:
    """A mutation, what it needs to exist, the audit action that it leaves."""

    action: str
    prepare: Callable[[Ports, Tenant], str]
    run: Mutation


def _key(ports: Ports, tenant: Tenant) -> str:
    created = api_keys.create(ports, tenant.operator, name="k", scopes=(Scope.ADMIN,))
    return created.api_key.id


def _nothing(_ports: Ports, _tenant: Tenant) -> str:
    return ""


def _create_key(ports: Ports, tenant: Tenant, _id: str) -> object:
    account = api_keys.page(ports, tenant.operator, before=None, limit=1).entries[-1][0]
    return api_keys.create(
        ports,
        tenant.operator,
        name="k",
        scopes=(Scope.ADMIN,),
        service_account_id=account.service_account_id,
    )


def _rotate_key(grace_seconds: int, ports: Ports, tenant: Tenant, key_id: str) -> object:
    return api_key_rotation.rotate(
        ports, tenant.operator, key_id=key_id, grace_seconds=grace_seconds
    )


def _root(ports: Ports, tenant: Tenant) -> str:
    return tenant.key(ports).id


def _suspended(ports: Ports, tenant: Tenant) -> str:
    key_id = _root(ports, tenant)
    signing_keys.suspend(ports, tenant.operator, key_id=key_id)
    return key_id


def _busy(ports: Ports, tenant: Tenant) -> str:
    """A key below another, which has signed, been rotated, and signed again."""
    key = tenant.key(ports, tenant.key(ports))
    tenant.sign(ports, key)
    signing_keys.rotate(ports, tenant.operator, key_id=key.id)
    tenant.sign(ports, key)
    return key.id


def _superseded(ports: Ports, tenant: Tenant) -> str:
    key_id = _busy(ports, tenant)
    return signing_keys.versions(ports, tenant.operator, key_id=key_id)[1].id


def _create_child(ports: Ports, tenant: Tenant, parent_id: str) -> SigningKey:
    parent = signing_keys.get(ports, tenant.operator, key_id=parent_id)
    return tenant.key(ports, parent)


def _revoke_signing_key(ports: Ports, tenant: Tenant, key_id: str) -> object:
    return key_revocation.revoke(ports, tenant.operator, key_id=key_id, reason="lost")


def _sign(ports: Ports, tenant: Tenant, key_id: str) -> object:
    return warrants.sign(ports, tenant.operator, key_id=key_id, order=Order(b"grant"))


def _register(ports: Ports, tenant: Tenant) -> str:
    described = Description("edge")
    return authorizers.register(ports, tenant.operator, described=described).authorizer.id


def _of_key(ports: Ports, tenant: Tenant) -> str:
    caller = replace(tenant.operator, key_id=_KEY)
    return authorizers.register(ports, caller, described=Description("edge")).authorizer.id


def _removed_authorizer(ports: Ports, tenant: Tenant) -> str:
    authorizer_id = _register(ports, tenant)
    authorizers.remove(ports, tenant.operator, authorizer_id=authorizer_id)
    return authorizer_id


def _account(ports: Ports, tenant: Tenant) -> str:
    return service_accounts.create(ports, tenant.operator, name="ci").id


def _staffed(ports: Ports, tenant: Tenant) -> str:
    """An account with an admin key, another one, and one that is revoked."""
    account_id = _account(ports, tenant)
    *_, last = [
        api_keys.create(
            ports, tenant.operator, name="k", scopes=(scope,), service_account_id=account_id
        )
        for scope in (Scope.ADMIN, Scope.READ_ONLY, Scope.READ_ONLY)
    ]
    api_keys.revoke(ports, tenant.operator, key_id=last.api_key.id)
    return account_id


def _disabled(ports: Ports, tenant: Tenant) -> str:
    account_id = _staffed(ports, tenant)
    service_accounts.disable(ports, tenant.operator, account_id=account_id)
    return account_id


def _signer(ports: Ports, tenant: Tenant) -> str:
    return in_force.signer(ports, tenant.id).id


def _pending_signer(ports: Ports, tenant: Tenant) -> str:
    return list_signers.create(ports, tenant.operator).record.id


def _activate_signer(ports: Ports, tenant: Tenant, key_id: str) -> object:
    return list_signers.activate(ports, tenant.operator, key_id=key_id, force=True)


def _revoke_signer(ports: Ports, tenant: Tenant, key_id: str) -> object:
    return list_signers.revoke(ports, tenant.operator, key_id=key_id)


def _revoke_batch(ports: Ports, tenant: Tenant) -> object:
    batch = Batch(BatchAction.REVOKE, ("svc_wrt_a",), reason="stolen")
    return revocation_batches.apply(ports, tenant.operator, batch=batch)


def _revoked_one(ports: Ports, tenant: Tenant) -> str:
    return tenant.revoke(ports, "svc_wrt_a")


def _take_back(ports: Ports, tenant: Tenant, revocation_id: str) -> object:
    batch = Batch(BatchAction.TAKE_BACK, (revocation_id,), "r", by_revocation=True)
    return revocation_batches.apply(ports, tenant.operator, batch=batch)


def _update_settings(ports: Ports, tenant: Tenant, _id: str) -> object:
    return tenant_settings.update(
        ports, tenant.operator, change=SettingsChange(srl_ttl_seconds=300)
    )


def _webhook(ports: Ports, tenant: Tenant) -> str:
    url = "https://hooks.example.com/"
    made = managing.create(ports, tenant.operator, url=url, events=("*",), description=None)
    return made.webhook.id


def _disabled_webhook(ports: Ports, tenant: Tenant) -> str:
    webhook_id = _webhook(ports, tenant)
    managing.disable(ports, tenant.operator, webhook_id=webhook_id)
    return webhook_id


def _rotate_secret(ports: Ports, tenant: Tenant, webhook_id: str) -> object:
    operator = tenant.operator
    return managing.rotate_secret(ports, operator, webhook_id=webhook_id, grace_seconds=60)


CASES = [
    Case("api_key.create", _nothing, _create_key),
    Case("api_key.rotate", _key, partial(_rotate_key, 60)),
    Case("api_key.rotate", _key, partial(_rotate_key, 0)),
    Case("api_key.revoke", _key, lambda p, t, i: api_keys.revoke(p, t.operator, key_id=i)),
    Case("api_key.delete", _key, lambda p, t, i: api_keys.delete(p, t.operator, key_id=i)),
    Case("revocation.create", _nothing, lambda p, t, _: t.revoke(p, "svc_wrt_a")),
    Case("revocation.create_batch", _nothing, lambda p, t, _: _revoke_batch(p, t)),
    Case("revocation.delete_batch", _revoked_one, _take_back),
    Case(
        "revocation.delete",
        lambda p, t: t.revoke(p, "svc_wrt_a"),
        lambda p, t, i: revocations.delete(p, t.operator, revocation_id=i),
    ),
    Case("srl.rotate_key", _nothing, lambda p, t, _: list_signers.rotate(p, t.operator)),
    Case("srl.rotate_key", _pending_signer, lambda p, t, _: list_signers.rotate(p, t.operator)),
    Case("srl.create_key", _nothing, lambda p, t, _: list_signers.create(p, t.operator)),
    Case("srl.activate_key", _pending_signer, _activate_signer),
    Case("srl.revoke_key", _pending_signer, _revoke_signer),
    Case("srl.revoke_key", _signer, _revoke_signer),
    Case(
        "srl.revoke_key",
        _nothing,
        lambda p, t, _: list_signers.rotate(p, t.operator, compromised=True),
    ),
    Case("key.create", _nothing, lambda p, t, _: t.key(p)),
    Case("key.create", _root, _create_child),
    Case("key.rotate", _busy, lambda p, t, i: signing_keys.rotate(p, t.operator, key_id=i)),
    Case("key.suspend", _busy, lambda p, t, i: signing_keys.suspend(p, t.operator, key_id=i)),
    Case("key.enable", _suspended, lambda p, t, i: signing_keys.enable(p, t.operator, key_id=i)),
    Case("key.revoke", _busy, _revoke_signing_key),
    Case("key.revoke", _suspended, _revoke_signing_key),
    Case("key.revoke", _superseded, _revoke_signing_key),
    Case("key.sign", _busy, _sign),
    Case("service_account.create", _nothing, lambda p, t, _: _account(p, t)),
    Case(
        "service_account.disable",
        _staffed,
        lambda p, t, i: service_accounts.disable(p, t.operator, account_id=i),
    ),
    Case(
        "service_account.enable",
        _disabled,
        lambda p, t, i: service_accounts.enable(p, t.operator, account_id=i),
    ),
    Case(
        "service_account.delete",
        _account,
        lambda p, t, i: service_accounts.delete(p, t.operator, account_id=i),
    ),
    Case("authorizer.register", _nothing, lambda p, t, _: _register(p, t)),
    Case(
        "authorizer.remove_batch",
        _of_key,
        lambda p, t, _: authorizers.remove_of_key(p, t.operator, key_id=_KEY),
    ),
    Case("authorizer.register", _removed_authorizer, lambda p, t, _: _register(p, t)),
    Case(
        "authorizer.remove",
        _register,
        lambda p, t, i: authorizers.remove(p, t.operator, authorizer_id=i),
    ),
    Case("tenant.update_settings", _nothing, _update_settings),
    Case("webhook.create", _nothing, lambda p, t, _: _webhook(p, t)),
    Case(
        "webhook.update",
        _webhook,
        lambda p, t, i: managing.update(p, t.operator, webhook_id=i, events=("key.sign",)),
    ),
    Case("webhook.rotate_secret", _webhook, _rotate_secret),
    Case(
        "webhook.enable",
        _disabled_webhook,
        lambda p, t, i: managing.enable(p, t.operator, webhook_id=i),
    ),
    Case(
        "webhook.disable", _webhook, lambda p, t, i: managing.disable(p, t.operator, webhook_id=i)
    ),
    Case("webhook.test", _webhook, lambda p, t, i: managing.test(p, t.operator, webhook_id=i)),
    Case(
        "webhook.replay",
        _webhook,
        lambda p, t, i: managing.replay(p, t.operator, webhook_id=i, from_index=0),
    ),
    Case("webhook.delete", _webhook, lambda p, t, i: managing.delete(p, t.operator, webhook_id=i)),
]
_EACH_CASE = pytest.mark.parametrize(
    "case", CASES, ids=[f"{case.action}-{case.prepare.__name__}" for case in CASES]
)


def _calls(ports: Ports, case: Case, tenant: Tenant, prepared: str) -> list[str]:
    script = Script()
    case.run(scripted(ports, script), tenant, prepared)
    return script.calls


def _attempt(ports: Ports, tenant: Tenant, case: Case, prepared: str) -> bool:
    try:
        case.run(ports, tenant, prepared)
    except (RescindError, Crash):
        return False
    return True


@_EACH_CASE
@pytest.mark.parametrize("error", [Unavailable("down"), Crash()], ids=["fault", "crash"])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_broken_at_every_call(
    ports: Ports, tenant: Tenant, tmp_path: Path, case: Case, error: BaseException, late: bool
) -> None:
    """AUDIT-1, F25a, F31a, S7: At any fault, change, entry and totals stand or fall together."""
    prepared = case.prepare(ports, tenant)
    before = tenant.actions(ports).count(case.action)
    world = World(ports, tmp_path / "blobs")
    calls = _calls(ports, case, tenant, prepared)
    for number, call in enumerate(calls):
        world.restore()
        hooks: dict[int, Hook] = {number: raises(error)}
        script = Script(after=hooks) if late else Script(before=hooks)
        assert not _attempt(scripted(ports, script), tenant, case, prepared)
        took_effect = int("write" in calls[:number] or (late and call == "write"))
        assert tenant.actions(ports).count(case.action) == before + took_effect
        tenant.check_totals(ports)


@_EACH_CASE
def test_every_write_has_its_audit_entry_in_it(ports: Ports, tenant: Tenant, case: Case) -> None:
    """F25: a mutation is one write, so its entry cannot be lost without it."""
    prepared = case.prepare(ports, tenant)
    assert _calls(ports, case, tenant, prepared).count("write") == 1


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_heartbeat_is_broken_at_every_call(ports: Ports, late: bool) -> None:
    """F255d: At any fault of a heartbeat, the authorizer is stored and counted, or neither."""
    for number in range(20):
        tenant = Tenant.create(ports, f"t{number}")
        made = _register(ports, tenant)
        hooks: dict[int, Hook] = {number: raises(Unavailable("down"))}
        script = Script(after=hooks) if late else Script(before=hooks)
        beat = partial(authorizers.heartbeat, authorizer_id=made, beat=Heartbeat(sequence=0))
        with suppress(Unavailable):
            beat(scripted(ports, script), tenant.operator)
        tenant.check_totals(ports)
        if len(script.calls) <= number:
            break
        assert beat(ports, tenant.operator).status == "ok"
        tenant.check_totals(ports)
    assert number > 2


def test_two_authorizers_register_by_one_name(ports: Ports, tenant: Tenant) -> None:
    """F252c: Two simultaneous registrations of one authorizer both return the same identifier."""
    first: list[str] = []
    (case, *_) = [each for each in CASES if each.action == "authorizer.register"]
    rehearsal = Tenant.create(ports, "rehearsal")
    calls = _calls(ports, case, rehearsal, case.prepare(ports, rehearsal))
    number = calls.index("write")
    script = Script(before={number: lambda: first.append(_register(ports, tenant))})
    assert _register(scripted(ports, script), tenant) == first[0]
    assert tenant.actions(ports).count("authorizer.register") == 1
    tenant.check_totals(ports)


def test_two_revocations_of_one_warrant(ports: Ports, tenant: Tenant) -> None:
    """F30b: Two simultaneous revocations of a warrant both return the same record."""
    first: list[str] = []
    script = Script(before={2: lambda: first.append(tenant.revoke(ports, "svc_wrt_a"))})
    record, is_new = revocations.create(
        scripted(ports, script), tenant.operator, warrant_id="svc_wrt_a", reason="again"
    )
    assert (record.id, record.reason, is_new) == (first[0], "stolen", False)
    assert tenant.actions(ports).count("revocation.create") == 1
    tenant.check_totals(ports)


def test_two_deletions_of_one_revocation(ports: Ports, tenant: Tenant) -> None:
    """F30c: Of two simultaneous deletions of a revocation, one finds nothing."""
    revocation_id = tenant.revoke(ports, "svc_wrt_a")

    def delete(through: Ports) -> None:
        revocations.delete(through, tenant.operator, revocation_id=revocation_id)

    script = Script(before={2: lambda: delete(ports)})
    with pytest.raises(NotFound):
        delete(scripted(ports, script))
    assert tenant.actions(ports).count("revocation.delete") == 1
    tenant.check_totals(ports)


def test_a_warrant_taken_back_between_two_reads(ports: Ports, tenant: Tenant) -> None:
    """F05: a revocation that met a deletion takes effect itself."""
    old = tenant.revoke(ports, "svc_wrt_a")

    def take_back() -> None:
        revocations.delete(ports, tenant.operator, revocation_id=old)

    _, is_new = revocations.create(
        scripted(ports, Script(before={1: take_back})),
        tenant.operator,
        warrant_id="svc_wrt_a",
        reason="again",
    )
    assert is_new
    tenant.check_totals(ports)
