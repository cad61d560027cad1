"""Tenants as the operator sees them: another handle, and a removal that leaves nothing."""

import base64
import hashlib
import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from shared.errors import Conflict, InvalidApiKey, InvalidState, NotFound, Unavailable
from shared.model.audit.audit_log import AuditAction, EntryFilters
from shared.model.items import Address, Item, Table
from shared.operations.access import api_keys, service_accounts
from shared.operations.audit import audit_log
from shared.operations.base import tenants as directory
from shared.operations.operator import doctor, onboarding, removal, tenants
from shared.ports import Ports
from tests.kit import tour
from tests.kit.api import Tenant
from tests.kit.faults import Crash, broken_at, raises
from tests.kit.worlds import Clock, close, embedded


@pytest.fixture(scope="module")
def toured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ports, Clock, Tenant]]:
    """A tenant with an item and a blob of each kind."""
    clock = Clock()
    ports = embedded(tmp_path_factory.mktemp("toured"), clock)
    yield ports, clock, tour.take(ports, clock)
    close(ports)


def _items(ports: Ports) -> dict[Address, Item]:
    return {address: item for table in Table for address, item in ports.store.everything(table)}


def _actions(ports: Ports, tenant_id: str, clock: Clock) -> list[tuple[AuditAction, object]]:
    operator = onboarding.operator(ports, handle="acme")
    filters = EntryFilters(clock() - timedelta(days=1), clock() + timedelta(days=1))
    page = audit_log.page(ports, operator, filters=filters, before=None, limit=10)
    assert tenant_id == operator.tenant_id
    return [(each.action, each.details) for each in page.entries]


def test_a_tenant_is_shown(ports: Ports, clock: Clock) -> None:
    """TENANT-6: The operator is shown a tenant's settings, its list, and what it has."""
    settings, _ = onboarding.create_tenant(ports, handle="acme")
    shown = tenants.show(ports, handle="acme")
    assert (shown.settings, shown.api_keys, shown.service_accounts) == (settings, 1, 1)
    assert (shown.list.version, shown.list.issued_at) == (1, clock())
    with pytest.raises(NotFound):
        tenants.show(ports, handle="globex")


def test_another_handle_changes_no_identity(ports: Ports, clock: Clock) -> None:
    """F406a, TENANT-6: A tenant gets another handle; identities that exist keep their meaning."""
    made, created = onboarding.create_tenant(ports, handle="acme")
    before = api_keys.authenticate(ports, created.secret).identity
    renamed = tenants.rename(ports, handle="acme", new="acme-2", user="root")
    assert (renamed.handle, renamed.tenant_id) == ("acme-2", made.tenant_id)
    assert [each.handle for each in directory.directory(ports)] == ["acme-2"]
    operator = onboarding.operator(ports, handle="acme")
    assert operator.identity == "system+operator@acme-2.svc"
    account = service_accounts.create(ports, operator, name="ci", description=None)
    assert account.email == "ci@acme-2.svc"
    assert api_keys.authenticate(ports, created.secret).identity == before == "admin@acme.svc"
    action, details = _actions(ports, made.tenant_id, clock)[1]
    assert (action, details) == (
        AuditAction.TENANT_RENAME,
        {"handle": {"old": "acme", "new": "acme-2"}, "operator": "root"},
    )
    with pytest.raises(Conflict):
        onboarding.create_tenant(ports, handle="acme")
    assert [each.problem for each in doctor.examine(ports)] == []


def test_a_handle_of_another_tenant_is_refused(ports: Ports) -> None:
    """F406b, TENANT-6: No tenant gets a handle that another one has or had."""
    onboarding.create_tenant(ports, handle="acme")
    onboarding.create_tenant(ports, handle="globex")
    tenants.rename(ports, handle="globex", new="initech")
    before = _items(ports)
    for taken in ("globex", "initech"):
        with pytest.raises(Conflict):
            tenants.rename(ports, handle="acme", new=taken)
    with pytest.raises(ValueError, match="lower-case"):
        tenants.rename(ports, handle="acme", new="Acme")
    assert tenants.rename(ports, handle="acme", new="acme").version == 1
    assert _items(ports) == before
    assert tenants.rename(ports, handle="initech", new="globex").handle == "globex"


def test_a_removal_waits_for_its_time(ports: Ports, clock: Clock) -> None:
    """F407a, TENANT-7: Nothing is removed unless it was asked for and the grace time has passed."""
    made, created = onboarding.create_tenant(ports, handle="acme")
    with pytest.raises(InvalidState, match="not scheduled for removal"):
        removal.remove(ports, handle="acme")
    for days in (0, 366):
        with pytest.raises(ValueError, match="1 to 365 days"):
            tenants.delete(ports, handle="acme", grace=timedelta(days=days))
    ending = tenants.delete(ports, handle="acme", grace=timedelta(days=2))
    assert ending.delete_after == clock() + timedelta(days=2)
    clock.advance(days=1, hours=23, minutes=59)
    with pytest.raises(InvalidState, match="before 2026-11-23T12:00:00Z"):
        removal.remove(ports, handle="acme")
    assert api_keys.authenticate(ports, created.secret).tenant_id == made.tenant_id
    assert tenants.cancel_delete(ports, handle="acme").delete_after is None
    clock.advance(days=2)
    with pytest.raises(InvalidState, match="not scheduled for removal"):
        removal.remove(ports, handle="acme")
    assert directory.settings(ports, made.tenant_id).handle == "acme"


def _without_secrets(lines: list[str], items: dict[Address, Item]) -> bool:
    """Whether none of the digests and seals in these items is in any of the lines."""
    names = ("digest", "sealed_seed", "sealed_secret", "former_secret")
    secrets = [item[name] for item in items.values() for name in names if item.get(name)]
    texts = [
        base64.b64encode(each).decode() if isinstance(each, bytes) else str(each)
        for each in secrets
    ]
    assert len(texts) > 5
    return not any(text in line for text in texts for line in lines)


@pytest.mark.slow
def test_nothing_of_a_removed_tenant_is_left(toured: tuple[Ports, Clock, Tenant]) -> None:
    """F407b, TENANT-7: An interrupted removal is completed; no trace is left, others are whole."""
    ports, clock, tenant = toured
    others = onboarding.create_tenant(ports, handle="globex")[0].tenant_id
    kept = {key: item for key, item in _items(ports).items() if others in str((key, item))}
    tenants.rename(ports, handle="acme", new="acme-2")
    tenants.delete(ports, handle="acme-2", grace=timedelta(days=1))
    clock.advance(days=1)
    lines = list(removal.export(ports, tenant.id))
    assert json.loads(lines[-1]) == {
        "lines": len(lines) - 1,
        "sha256": hashlib.sha256("".join(lines[:-1]).encode()).hexdigest(),
    }
    assert _without_secrets(lines, _items(ports))
    assert others not in "".join(lines)
    for number in range(3, 100, 12):
        try:
            removal.remove(broken_at(ports, number, Crash()), handle="acme-2")
        except Crash:
            assert tenant.admin.get("/v1/keys").status_code in (200, 401)
        else:
            break
    else:
        removal.remove(ports, handle="acme-2")
    assert tenant.id not in str(_items(ports))
    assert not any(
        tenant.id in name
        for folder in ("srl", "native", "status", "audit")
        for name in ports.blobs.names(folder)
    )
    assert {key: item for key, item in _items(ports).items() if others in str((key, item))} == kept
    assert [each.handle for each in directory.directory(ports)] == ["globex"]
    onboarding.create_tenant(ports, handle="acme")
    with pytest.raises(NotFound):
        removal.remove(ports, handle="acme-2")


def test_a_removal_that_began_is_final(
    ports: Ports, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F407c, TENANT-7: After the first step, API keys are refused, and only the removal goes on."""
    _, created = onboarding.create_tenant(ports, handle="acme")
    tenants.delete(ports, handle="acme", grace=timedelta(days=1))
    clock.advance(days=1)
    with monkeypatch.context() as patch:
        fail = raises(Unavailable("down"))
        patch.setattr(ports.blobs, "names", lambda _folder: fail())
        with pytest.raises(Unavailable):
            removal.remove(ports, handle="acme")
    with pytest.raises(InvalidApiKey):
        api_keys.authenticate(ports, created.secret)
    for refused in (tenants.cancel_delete, tenants.delete, onboarding.mint_admin_key):
        with pytest.raises(InvalidState, match="has begun; complete it"):
            refused(ports, handle="acme")
    assert removal.remove(ports, handle="acme") > 0
    assert [key for key in _items(ports) if key.pk != "deployment"] == []
