"""Keys and their accounts in races: none is let in that ended, and no tenant is locked out."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from shared.errors import Conflict, InvalidRequest, InvalidState, RequestError
from shared.model.callers import Scope
from shared.model.service_accounts import API_KEYS_MAX, AccountStatus, ServiceAccount
from shared.operations.access import api_key_rotation, api_keys, service_accounts
from shared.operations.access.api_key_creation import CreatedKey
from shared.operations.access.api_key_rotation import RotatedKey
from shared.ports import Ports
from tests.kit.tenants import Tenant, opens
from tests.operations.races import races

pytestmark = pytest.mark.usefixtures("at_once")


@dataclass(frozen=True)
class Staff:
    """A tenant with an account and a key of it; the tenant's own admin is another account."""

    tenant: Tenant
    account: ServiceAccount
    key: CreatedKey

    @classmethod
    def make(cls, ports: Ports, scope: Scope = Scope.READ_ONLY) -> "Staff":
        tenant = Tenant.another(ports)
        account = tenant.account(ports, "ci")
        return cls(tenant, account, tenant.api_key(ports, scope, account=account))

    def hire(self, ports: Ports) -> CreatedKey:
        return self.tenant.api_key(ports, Scope.READ_ONLY, account=self.account)

    def rotate(self, ports: Ports, *, grace: int = 60) -> RotatedKey:
        key_id = self.key.api_key.id
        operator = self.tenant.operator
        return api_key_rotation.rotate(ports, operator, key_id=key_id, grace_seconds=grace)

    def switch(self, ports: Ports, action: str) -> ServiceAccount:
        run = {"disable": service_accounts.disable, "enable": service_accounts.enable}[action]
        return run(ports, self.tenant.operator, account_id=self.account.id)

    def delete(self, ports: Ports) -> None:
        service_accounts.delete(ports, self.tenant.operator, account_id=self.account.id)

    def revoke(self, ports: Ports) -> object:
        return api_keys.revoke(ports, self.tenant.operator, key_id=self.key.api_key.id)

    def dismiss(self, ports: Ports) -> None:
        api_keys.delete(ports, self.tenant.operator, key_id=self.key.api_key.id)

    def admins(self, ports: Ports) -> list[str]:
        """The admin keys that are let in."""
        page = api_keys.page(ports, self.tenant.operator, before=None, limit=100)
        live = [key for key, _ in page.entries if key.is_live_admin(ports.now())]
        accounts = service_accounts.page(ports, self.tenant.operator, before=None, limit=100)
        active = {each.id for each in accounts.entries if each.status is AccountStatus.ACTIVE}
        return [key.id for key in live if key.service_account_id in active]

    def first_account(self, ports: Ports) -> ServiceAccount:
        accounts = service_accounts.page(ports, self.tenant.operator, before=None, limit=100)
        return accounts.entries[-1]


def _hire(ports: Ports, staff: Staff) -> object:
    return staff.hire(ports)


def _rotate(ports: Ports, staff: Staff) -> object:
    return staff.rotate(ports)


# How an account can lose its key.
LOSSES: dict[str, Callable[[Ports, Staff], object]] = {
    "revoke": lambda ports, staff: staff.revoke(ports),
    "dismiss": lambda ports, staff: staff.dismiss(ports),
}


def test_a_full_account_is_switched_in_one_write(ports: Ports) -> None:
    """As many keys as an account may have are stopped together, and restored together."""
    staff = Staff.make(ports)
    keys = [staff.key]
    while len(keys) < API_KEYS_MAX:
        keys.append(staff.hire(ports))
    staff.switch(ports, "disable")
    assert not any(opens(ports, each) for each in keys[::7])
    staff.switch(ports, "enable")
    assert all(opens(ports, each) for each in keys[::7])
    staff.tenant.check_totals(ports)


@pytest.mark.parametrize("action", ["disable", "enable"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_key_that_goes_while_its_account_is_switched(
    ports: Ports, action: str, loss: str
) -> None:
    """F28: a key that was revoked or deleted meanwhile does not come back."""

    def make(ports: Ports) -> Staff:
        staff = Staff.make(ports)
        if action == "enable":
            staff.switch(ports, "disable")
        return staff

    def switch(through: Ports, staff: Staff) -> object:
        return staff.switch(through, action)

    for order in ((switch, LOSSES[loss]), (LOSSES[loss], switch)):
        for race in races(ports, make, *order):
            assert not isinstance(race.first, RequestError)
            assert not isinstance(race.second, RequestError)
            assert not opens(ports, race.world.key)
            race.world.tenant.check_totals(ports)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_last_two_admins_go_in_different_ways(ports: Ports, loss: str) -> None:
    """F28: one account is disabled while the other's key is revoked or deleted: one is refused."""

    def disable_first(through: Ports, staff: Staff) -> object:
        account = staff.first_account(through)
        return service_accounts.disable(through, staff.tenant.operator, account_id=account.id)

    for order in ((disable_first, LOSSES[loss]), (LOSSES[loss], disable_first)):
        for race in races(ports, lambda p: Staff.make(p, Scope.ADMIN), *order):
            assert isinstance(race.first, Conflict)
            assert len(race.world.admins(ports)) == 1
            race.world.tenant.check_totals(ports)


def test_a_key_while_its_account_is_deleted(ports: Ports) -> None:
    """F30: either the account goes and the key is refused, or the key is there and it stays."""

    def make(ports: Ports) -> Staff:
        staff = Staff.make(ports)
        staff.dismiss(ports)
        return staff

    for race in races(ports, make, _hire, lambda p, staff: staff.delete(p)):
        assert isinstance(race.first, InvalidRequest)
        race.world.tenant.check_totals(ports)
    for race in races(ports, make, lambda p, staff: staff.delete(p), _hire):
        assert isinstance(race.first, Conflict)
        assert isinstance(race.second, CreatedKey)
        race.world.tenant.check_totals(ports)


def test_the_last_place_of_an_account(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    """F31: two keys at once never make more than an account may have."""
    monkeypatch.setattr("shared.model.service_accounts.API_KEYS_MAX", 2)

    for race in races(ports, Staff.make, _hire, _hire):
        assert isinstance(race.first, Conflict)
        assert isinstance(race.second, CreatedKey)
        race.world.tenant.check_totals(ports)


ENDS = {**LOSSES, "disable": lambda ports, staff: staff.switch(ports, "disable")}


@pytest.mark.parametrize("grace", [0, 60])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
def test_what_ends_a_key_ends_it_during_a_rotation_too(
    ports: Ports, end: str, grace: int, is_first: bool
) -> None:
    """F377e: No secret outlives a revocation, deletion or disabling that meets a rotation."""

    def rotate(through: Ports, staff: Staff) -> object:
        return staff.rotate(through, grace=grace)

    order = (ENDS[end], rotate) if is_first else (rotate, ENDS[end])
    for race in races(ports, Staff.make, *order):
        staff, rotated = race.world, race.second if is_first else race.first
        assert not opens(ports, staff.key)
        if isinstance(rotated, RotatedKey):
            # A disabled account also stops the secret that the rotation made.
            assert opens(ports, rotated.created) == (end != "disable")
            if end != "dismiss":
                operator, key_id = staff.tenant.operator, staff.key.api_key.id
                ended, _ = api_keys.get(ports, operator, key_id=key_id)
                assert ended.successor_id == rotated.created.api_key.id
        staff.tenant.check_totals(ports)


def test_a_key_has_one_successor(ports: Ports) -> None:
    """F377f: Of two rotations of a key at the same time, one is refused."""
    for race in races(ports, Staff.make, _rotate, _rotate):
        (refused,) = (
            each for each in (race.first, race.second) if not isinstance(each, RotatedKey)
        )
        assert isinstance(refused, InvalidState)
        race.world.tenant.check_totals(ports)
