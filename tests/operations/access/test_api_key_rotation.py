"""A rotation of an API key, and what may happen to the key at the same time."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from shared.errors import InvalidApiKey, InvalidState
from shared.model.callers import Scope
from shared.operations.access import api_key_rotation, api_keys, service_accounts
from shared.operations.access.api_key_creation import Created
from shared.operations.access.api_key_rotation import Rotated
from shared.ports import Ports
from tests.kit.tenants import Tenant
from tests.operations.races import races

pytestmark = pytest.mark.usefixtures("few_partitions")


@dataclass(frozen=True)
class World:
    """A tenant, and a key that a service account owns."""

    tenant: Tenant
    key: Created

    @classmethod
    def make(cls, ports: Ports, names: list[str]) -> "World":
        names.append(f"t{len(names)}")
        tenant = Tenant.create(ports, names[-1])
        account = tenant.account(ports)
        return cls(tenant, _key(ports, tenant, account.id))


def _key(ports: Ports, tenant: Tenant, account_id: str) -> Created:
    return api_keys.create(
        ports, tenant.operator, name="k", scopes=(Scope.SIGNER,), service_account_id=account_id
    )


def _rotate(ports: Ports, world: World, *, grace: int = 60) -> Rotated:
    return api_key_rotation.rotate(
        ports, world.tenant.operator, key_id=world.key.api_key.id, grace_seconds=grace
    )


def _revoke(ports: Ports, world: World) -> object:
    return api_keys.revoke(ports, world.tenant.operator, key_id=world.key.api_key.id)


def _delete(ports: Ports, world: World) -> object:
    return api_keys.delete(ports, world.tenant.operator, key_id=world.key.api_key.id)


def _disable(ports: Ports, world: World) -> object:
    account_id = str(world.key.api_key.service_account_id)
    return service_accounts.disable(ports, world.tenant.operator, account_id=account_id)


def opens(ports: Ports, secret: str) -> bool:
    try:
        api_keys.authenticate(ports, secret)
    except InvalidApiKey:
        return False
    return True


@pytest.mark.parametrize("grace", [0, 60])
@pytest.mark.parametrize("end", [_revoke, _delete, _disable])
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
def test_what_ends_a_key_ends_it_during_a_rotation_too(
    ports: Ports, end: Callable[[Ports, World], object], grace: int, is_first: bool
) -> None:
    """F377e: No secret outlives a revocation, deletion or disabling that meets a rotation."""
    make, rotate = partial(World.make, ports, []), partial(_rotate, grace=grace)
    for race in races(ports, make, *((end, rotate) if is_first else (rotate, end))):
        rotated = race.second if is_first else race.first
        assert not opens(ports, race.world.key.secret)
        if isinstance(rotated, Rotated):
            assert opens(ports, rotated.created.secret) == (end is not _disable)
            if end is not _delete:
                operator, key_id = race.world.tenant.operator, race.world.key.api_key.id
                ended, _ = api_keys.get(ports, operator, key_id=key_id)
                assert ended.successor_id == rotated.created.api_key.id
        race.world.tenant.check_totals(ports)


def test_a_key_has_one_successor(ports: Ports) -> None:
    """F377f: Of two rotations of a key at the same time, one is refused."""
    for race in races(ports, partial(World.make, ports, []), _rotate, _rotate):
        (refused,) = (each for each in (race.first, race.second) if not isinstance(each, Rotated))
        assert isinstance(refused, InvalidState)
        race.world.tenant.check_totals(ports)
