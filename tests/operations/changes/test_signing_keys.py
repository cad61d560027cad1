"""Signing keys in races: one winner a step, legal states only, revoked is final."""

from dataclasses import replace

import pytest

from shared.authorizer.formats.signing_keys import PublishedKeys, covering
from shared.errors import Conflict, InvalidState, RequestError
from shared.model import signing_keys as model
from shared.model.signing_keys import KeyFilters, KeyStatus, SigningKey, SigningKeyType
from shared.operations.changes import key_revocation, signing_keys
from shared.ports import Ports
from shared.ports.store import Expect, Increment, Put, VersionIs
from tests.kit.tenants import Tenant
from tests.operations.races import races

pytestmark = pytest.mark.usefixtures("at_once")

ACTIONS = ["rotate", "suspend", "enable", "revoke"]

# What an action makes of a state; one that is not here is refused. By hand (KEY-6).
NEXT = {
    ("active", "rotate"): "active",
    ("active", "suspend"): "suspended",
    ("active", "enable"): "active",
    ("active", "revoke"): "revoked",
    ("suspended", "suspend"): "suspended",
    ("suspended", "enable"): "active",
    ("suspended", "revoke"): "revoked",
    ("revoked", "revoke"): "revoked",
}

World = tuple[Tenant, SigningKey]


def act(ports: Ports, world: World, action: str) -> object:
    tenant, key = world
    if action == "revoke":
        return key_revocation.revoke(ports, tenant.operator, key_id=key.id, reason="lost")
    run = {
        "rotate": signing_keys.rotate,
        "suspend": signing_keys.suspend,
        "enable": signing_keys.enable,
    }[action]
    return run(ports, tenant.operator, key_id=key.id)


def sequentially(state: str, *actions: str) -> dict[str, object]:
    """What comes of actions one after the other: state, rotations, entries, who was refused."""
    rotations, entries, refused = 0, list[str](), set[str]()
    for action in actions:
        after = NEXT.get((state, action))
        if after is None:
            refused.add(action)
            continue
        rotations += action == "rotate"
        entries += [f"key.{action}"] if after != state or action == "rotate" else []
        state = after
    return {"state": state, "rotations": rotations, "entries": sorted(entries), "refused": refused}


def new_key(ports: Ports, state: str) -> World:
    tenant = Tenant.another(ports)
    key = tenant.key(ports)
    if state == "suspended":
        key = tenant.suspend(ports, key)
    return tenant, key


@pytest.mark.parametrize("state", ["active", "suspended"])
@pytest.mark.parametrize("second", ACTIONS)
@pytest.mark.parametrize("first", ACTIONS)
def test_two_actions_at_once(ports: Ports, state: str, first: str, second: str) -> None:
    """KEY-6, F28a: Of two simultaneous actions on a signing key, one follows the other."""
    serial = [sequentially(state, first, second), sequentially(state, second, first)]
    for race in races(
        ports,
        lambda p: new_key(p, state),
        lambda through, world: act(through, world, first),
        lambda through, world: act(through, world, second),
    ):
        tenant, key = race.world
        now = signing_keys.get(ports, tenant.operator, key_id=key.id)
        left = tenant.actions(ports)[3 if state == "suspended" else 2 :]
        outcomes = {first: race.first, second: race.second}
        refused = {name for name, said in outcomes.items() if isinstance(said, RequestError)}
        assert {
            "state": now.status,
            "rotations": now.key_version - 1,
            "entries": sorted(left),
            "refused": refused,
        } in serial
        tenant.check_totals(ports)


@pytest.mark.parametrize("action", ["suspend", "revoke", "rotate"])
@pytest.mark.parametrize("child_first", [True, False])
def test_a_child_while_its_parent_changes(ports: Ports, action: str, child_first: bool) -> None:
    """KEY-3, F29a: A key whose parent is suspended or revoked meanwhile cannot sign."""

    def create(through: Ports, world: World) -> object:
        return world[0].key(through, world[1])

    def change(through: Ports, world: World) -> object:
        return act(through, world, action)

    order = (create, change) if child_first else (change, create)
    for race in races(ports, lambda p: new_key(p, "active"), *order):
        tenant, parent = race.world
        child = race.first if child_first else race.second
        assert tenant.status(ports, parent) == NEXT["active", action]
        if action == "rotate":
            assert isinstance(child, SigningKey)
        elif child_first:
            # The parent changed before the child was there: too late for it.
            assert isinstance(child, InvalidState)
        if isinstance(child, SigningKey) and action != "rotate":
            assert tenant.status(ports, child) is KeyStatus.ACTIVE
            with pytest.raises(InvalidState):
                tenant.sign(ports, child)
        children = tenant.actions(ports).count("key.create") - 1
        assert children == isinstance(child, SigningKey)
        tenant.check_totals(ports)


def test_versions_while_the_key_is_rotated(ports: Ports) -> None:
    """Whenever a rotation comes, each version is listed once, and one of them is current."""
    for race in races(
        ports,
        lambda p: new_key(p, "active"),
        lambda through, world: world[0].versions(through, world[1]),
        lambda through, world: act(through, world, "rotate"),
    ):
        assert isinstance(race.first, list)
        numbers = [each.key_version for each in race.first]
        assert numbers == list(range(len(numbers), 0, -1))
        assert [each.status for each in race.first].count(KeyStatus.ACTIVE) == 1
        assert len({each.public_key for each in race.first}) == len(numbers)


def test_the_quota_counts_living_keys(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    """KEY-12, F47c: A tenant may have 5000 signing keys that are active or suspended."""
    monkeypatch.setattr(model, "KEYS_MAX", 3)
    tenant, key = new_key(ports, "active")
    for _ in range(4):
        act(ports, (tenant, key), "rotate")
    others = [tenant.key(ports), tenant.key(ports)]
    act(ports, (tenant, key), "suspend")
    with pytest.raises(Conflict, match="at most 3 active or suspended keys"):
        tenant.key(ports)
    act(ports, (tenant, key), "enable")
    act(ports, (tenant, key), "rotate")
    tenant.revoke_key(ports, others[0])
    tenant.key(ports)
    with pytest.raises(Conflict, match="at most 3 active or suspended keys"):
        tenant.key(ports)
    tenant.check_totals(ports)


def test_thousands_of_dead_keys_block_nothing(ports: Ports) -> None:
    """F126f: A tenant with thousands of revoked and superseded keys can make and revoke more."""
    tenant, key = new_key(ports, "active")
    dead = (KeyStatus.REVOKED, KeyStatus.ROTATED)
    amounts = {model.count_name(SigningKeyType.ROOT, status): 5000 for status in dead}
    ports.store.write(Increment(model.counts_address(tenant.id), amounts, Expect.PRESENT))
    made = tenant.key(ports)
    for each in (key, made):
        assert tenant.rotate(ports, each).key_version == 2
        tenant.revoke_key(ports, each)
    living = {model.count_name(SigningKeyType.ROOT, KeyStatus.ACTIVE): model.KEYS_MAX}
    ports.store.write(Increment(model.counts_address(tenant.id), living, Expect.PRESENT))
    with pytest.raises(Conflict):
        tenant.key(ports)


def test_each_key_is_certified_by_one_that_was_there(ports: Ports) -> None:
    """TRUST-15, F861a: A key has a certificate by its parent, a later version by the one before.

    So a client that knows the root believes each of them, and the root's first version needs none.
    """
    tenant = Tenant.another(ports)
    root = tenant.key(ports)
    known = covering([root.as_published])
    issuer = tenant.key(ports, tenant.rotate(ports, root))
    tenant.key(ports, issuer)
    tenant.suspend(ports, root)
    tenant.rotate(ports, issuer)
    tenant.rotate(ports, issuer)
    page = signing_keys.page(ports, tenant.operator, before=None, limit=100, filters=KeyFilters())
    published = sorted(each.key.as_published for each in page.entries)
    assert [each.version for each in published if each.key_id == issuer.id] == [1, 2, 3]
    assert [each.name for each in published if each.certificate is None] == [f"{root.id}#1"]
    PublishedKeys(tenant.id, tuple(published)).check(known)


def test_a_version_is_certified_only_by_a_seed_that_is_there(ports: Ports) -> None:
    """TRUST-15, F861b: A key whose seed was lost is rotated without a certificate.

    The next document covers the new version.
    """
    tenant = Tenant.another(ports)
    key = tenant.key(ports, tenant.key(ports))
    lost = replace(key, sealed_seed=None, version=key.version + 1)
    ports.store.write(Put(key.address, lost.to_item(), VersionIs(key.version)))
    rotated = tenant.rotate(ports, key)
    assert (rotated.key_version, rotated.certificate, rotated.certified_by) == (2, None, None)
