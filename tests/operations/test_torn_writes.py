"""Writes whose items become visible one by one: what operations make of a part of one.

Lists and checks are in `test_interleavings.py`.
"""

from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from functions.batches import operations as revocation_batches
from functions.transparency_log import operations as sealed_log
from functions.transparency_log import sealing
from shared.errors import Conflict, InvalidState, NotFound
from shared.model import api_keys as model
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Scope
from shared.model.idempotency import IdempotencyKey
from shared.model.identifiers import BATCH
from shared.model.revocation_batches import BatchAction, BatchRequest
from shared.model.revocations import Revocation
from shared.model.service_accounts import AccountStatus
from shared.model.signing_keys import KeyStatus, SigningKey
from shared.operations.access import api_key_creation, api_key_rotation, api_keys, service_accounts
from shared.operations.audit import revocation_counts
from shared.operations.base import audit, operation
from shared.operations.base.idempotency import IdempotentOperation
from shared.operations.changes import revocations
from shared.ports import Ports
from tests.kit.tenants import Tenant, item_at
from tests.kit.worlds import Clock
from tests.world.explore import Actor, Start, explore, in_memory, rest

_WARRANT = {"warrant_id": "svc_wrt_a", "reason": "stolen"}

pytestmark = pytest.mark.usefixtures("few_partitions")


@pytest.fixture
def ports(tmp_path: Path) -> Ports:
    return in_memory(tmp_path, Clock())


@pytest.fixture(autouse=True)
def _pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who lost a race, or found records that disagree, tries again when nothing is in flight."""
    pacing = operation.RetryPacing(limit=3600, sleep=lambda _seconds: rest())
    monkeypatch.setattr(operation, "PACING", pacing)


def _admins(ports: Ports, tenant: Tenant) -> list[model.ApiKey]:
    page = api_keys.page(ports, tenant.operator, before=None, limit=100)
    return [key for key, _ in page.entries if key.is_live_admin(ports.now())]


def _losing(tenant: Tenant, key_id: str, how: str, ports: Ports) -> object:
    loss = api_keys.delete if how == "delete" else api_keys.revoke
    try:
        return loss(ports, tenant.operator, key_id=key_id)
    except Conflict:
        return "kept"


@pytest.mark.parametrize("ways", [("revoke", "revoke"), ("delete", "revoke"), ("delete", "delete")])
def test_the_last_admin_key_stays(
    tmp_path: Path, ports: Ports, tenant: Tenant, ways: tuple[str, str]
) -> None:
    """F40a, F91a, S1: Of two losses of the last admin keys, each seen in part, one is refused."""
    tenant.api_key(ports, name="second")
    keys = _admins(ports, tenant)
    assert len(keys) == 2
    actors: dict[str, Actor] = {
        f"{way} {number}": partial(_losing, tenant, key.id, way)
        for number, (key, way) in enumerate(zip(keys, ways, strict=True))
    }
    runs = 0
    for run in explore(Start(ports), actors, torn=actors):
        runs += 1
        assert list(run.outcomes.values()).count("kept") == 1, run
        assert len(_admins(ports, tenant)) == 1, run
    print(f"{ways}: {runs} schedules")


@pytest.mark.parametrize("switched", [AccountStatus.DISABLED, AccountStatus.ACTIVE])
@pytest.mark.parametrize("makes", ["create", "rotate"])
def test_a_switched_account_has_no_other_key(
    tmp_path: Path, ports: Ports, tenant: Tenant, makes: str, switched: AccountStatus
) -> None:
    """ACCOUNT-4, F488a: A disabled account has no key that opens, though one was made meanwhile.

    Whether it is disabled or enabled then, a key that is being rotated keeps the end of its grace.
    """
    account = tenant.account(ports)

    def create(ports: Ports) -> api_key_creation.CreatedKey:
        return tenant.api_key(ports, Scope.SIGNER, account=account)

    key = create(ports).api_key

    def make(ports: Ports) -> object:
        try:
            if makes == "create":
                return create(ports)
            return api_key_rotation.rotate(ports, tenant.operator, key_id=key.id, grace_seconds=60)
        except InvalidState:
            return "disabled"

    def switch(ports: Ports) -> object:
        service_accounts.disable(ports, tenant.operator, account_id=account.id)
        if switched is AccountStatus.ACTIVE:
            service_accounts.enable(ports, tenant.operator, account_id=account.id)
        return None

    actors: dict[str, Actor] = {"make": make, "switch": switch}
    for run in explore(Start(ports), actors, torn=actors):
        tenant.check_totals(ports)
        for each, _ in api_keys.page(ports, tenant.operator, before=None, limit=100).entries:
            if each.service_account_id == account.id:
                item = item_at(ports, model.credential_address(each.digest))
                credential = model.Credential.from_item(item)
                assert credential.disabled == (switched is AccountStatus.DISABLED), run
                assert credential.expires_at == each.expires_at, run


def test_a_cascade_reaches_a_child_that_is_being_created(
    tmp_path: Path, ports: Ports, tenant: Tenant
) -> None:
    """KEY-10, F489a: A key that is created below a key during its cascade is refused or revoked."""
    root = tenant.key(ports)

    def create(ports: Ports) -> SigningKey | None:
        try:
            return tenant.key(ports, root)
        except InvalidState:
            return None

    def revoke(ports: Ports) -> None:
        tenant.revoke_key(ports, root, cascade=True)

    actors: dict[str, Actor] = {"create": create, "revoke": revoke}
    for run in explore(Start(ports), actors, torn=actors):
        child = run.outcomes["create"]
        if isinstance(child, SigningKey):
            assert tenant.status(ports, child) is KeyStatus.REVOKED, run
        tenant.check_totals(ports)


def test_a_revocation_is_made_once(tmp_path: Path, ports: Ports, tenant: Tenant) -> None:
    """F30b, F40: Of two that revoke one warrant at once, both get the same record."""
    made: list[tuple[Revocation, bool]] = []

    def revoke(ports: Ports) -> None:
        made.append(
            revocations.create(ports, tenant.operator, warrant_id="svc_wrt_a", reason="stolen")
        )

    actors: dict[str, Actor] = {"first": revoke, "second": revoke}
    for run in explore(Start(ports), actors, torn=actors):
        (first, first_is_new), (second, second_is_new) = made
        assert first == second, run
        assert first_is_new != second_is_new, run
        assert tenant.actions(ports).count("revocation.create") == 1
        tenant.check_totals(ports)
        made.clear()


def test_a_revocation_is_unrevoked_once(tmp_path: Path, ports: Ports, tenant: Tenant) -> None:
    """F30c: Of two simultaneous deletions of a revocation, one finds nothing."""
    revocation_id = tenant.revoke(ports, "svc_wrt_a")

    def unrevoke(ports: Ports) -> bool:
        with suppress(NotFound):
            tenant.unrevoke(ports, revocation_id)
            return True
        return False

    actors: dict[str, Actor] = {"first": unrevoke, "second": unrevoke}
    for run in explore(Start(ports), actors, torn=actors):
        assert sorted(map(bool, run.outcomes.values())) == [False, True], run
        assert tenant.actions(ports).count("revocation.delete") == 1
        tenant.check_totals(ports)


@pytest.mark.parametrize(
    ("create", "name"),
    [(service_accounts.create, {"name": "robot"}), (revocations.create, _WARRANT)],
    ids=["account", "revocation"],
)
def test_a_repetition_gets_the_same_response(
    tmp_path: Path,
    ports: Ports,
    tenant: Tenant,
    create: IdempotentOperation[..., object],
    name: dict[str, str],
) -> None:
    """API-32, F486a: A repetition that sees its first request in part gets the same response."""
    request = IdempotencyKey.of(tenant.operator, method="POST", path="/v1/x", key="k", body=b"{}")

    def ask(ports: Ports) -> object:
        return create.run_once(ports, tenant.operator, request, **name).result

    actors: dict[str, Actor] = {"first": ask, "second": ask}
    for run in explore(Start(ports), actors, torn=actors):
        first, second = run.outcomes.values()
        assert first == second, run
        tenant.check_totals(ports)


def test_a_repeated_unrevoke_sees_the_first_one_in_part(
    tmp_path: Path, ports: Ports, tenant: Tenant
) -> None:
    """REVOKE-22, F483c: A call that sees itself in part still reports what was taken back."""
    tenant.revoke(ports, "svc_wrt_a")
    batch = BatchRequest(BatchAction.UNREVOKE, ("svc_wrt_a",), "r", id=ports.new_id(BATCH))

    def unrevoke(ports: Ports) -> str:
        (result,) = revocation_batches.apply(ports, tenant.operator, batch=batch).results
        return result.outcome

    actors: dict[str, Actor] = {"first": unrevoke, "second": unrevoke}
    for run in explore(Start(ports), actors, torn=actors):
        assert set(run.outcomes.values()) == {"unrevoked"}, run
        tenant.check_totals(ports)


def _entered(tenant: Tenant, ports: Ports) -> None:
    action = AuditAction.REVOCATION_CREATE
    entry = audit.entry(ports, tenant.operator, action, "svc_rev_a", warrant_id="svc_wrt_a")
    ports.store.write(entry)


@pytest.mark.slow
def test_what_is_counted_in_part_is_counted_once(
    tmp_path: Path, ports: Ports, tenant: Tenant
) -> None:
    """F441c: A pass that sees the pass before it in part counts each revocation once."""
    _entered(tenant, ports)
    sealing.extend(ports, tenant.id)
    _entered(tenant, ports)

    def enter_and_seal(ports: Ports) -> None:
        _entered(tenant, ports)
        sealing.extend(ports, tenant.id)

    def seal(ports: Ports) -> None:
        sealing.extend(ports, tenant.id)

    runs = 0
    today = ports.now().date()
    for run in explore(Start(ports), {"a": seal, "b": enter_and_seal}, torn=["a"]):
        runs += 1
        (day,) = revocation_counts.counts(ports, tenant.operator, start=today, end=today).spans
        assert (day.created, day.deleted) == (3, 0), run
    print(f"{runs} schedules")


def test_a_pass_that_sees_a_rotation_in_part_makes_no_signer(
    tmp_path: Path, ports: Ports, tenant: Tenant
) -> None:
    """LOG-9, F487a: Each audit signer but the first is one that an entry names."""
    sealing.extend(ports, tenant.id)
    _entered(tenant, ports)

    def rotate(ports: Ports) -> None:
        sealed_log.rotate(ports, tenant.operator)

    def seal(ports: Ports) -> None:
        sealing.extend(ports, tenant.id)

    actors: dict[str, Actor] = {"rotate": rotate, "seal": seal}
    for run in explore(Start(ports), actors, torn=actors):
        assert len(sealed_log.keys(ports, tenant.operator).signers) == 2, run


def test_of_two_rotations_one_signer_stays(tmp_path: Path, ports: Ports, tenant: Tenant) -> None:
    """LOG-9, F487b: Of two rotations at once, one replaces the signer that the other one made."""
    sealing.extend(ports, tenant.id)

    def rotate(ports: Ports) -> None:
        sealed_log.rotate(ports, tenant.operator)

    actors: dict[str, Actor] = {"first": rotate, "second": rotate}
    for run in explore(Start(ports), actors, torn=actors):
        found = sealed_log.keys(ports, tenant.operator).signers
        # Identifiers of one millisecond have no order.
        assert sorted(each.retired_at is None for each in found) == [False, False, True], run
