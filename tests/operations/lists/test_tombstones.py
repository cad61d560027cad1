"""Tombstones: after a restore, what was revoked, deleted or disabled since is so again."""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from shared.errors import DataCorrupt, InvalidApiKey, InvalidState, NotFound, RescindError
from shared.model import api_keys as api_key_model
from shared.model import seeds
from shared.model import service_accounts as account_model
from shared.model.api_keys import ApiKeyStatus
from shared.model.items import Table
from shared.model.lists.content import Payload
from shared.model.lists.head import head_address, states_folder
from shared.model.lists.signers import SrlSignerStatus
from shared.model.service_accounts import ServiceAccount
from shared.model.signing_keys import KeyStatus, SigningKey
from shared.operations.access import api_key_rotation, api_keys, service_accounts
from shared.operations.access.api_key_creation import CreatedKey
from shared.operations.changes import key_revocation, list_signers, revocations, signing_keys
from shared.operations.lists import in_force, publication, storage
from shared.operations.operator import doctor
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.tenants import Tenant, item_at, opens
from tests.kit.worlds import Clock
from tests.operations.restores import Deployment

pytestmark = pytest.mark.usefixtures("few_partitions")


@dataclass(frozen=True)
class Story:
    """A tenant in which everything ended that can end, after a copy of its records was made."""

    tenant: Tenant
    copy: Path
    published_list: Payload
    api_keys: dict[str, CreatedKey]
    accounts: dict[str, ServiceAccount]
    keys: dict[str, SigningKey]
    warrants: dict[str, str]
    public_keys: dict[int, str]


_ENDED = ["revoked", "rotated", "deleted", "disabled", "of an account that went"]


@pytest.fixture
def story(deployment: Deployment, clock: Clock) -> Story:
    ports = deployment.ports
    tenant = Tenant.create(ports)
    accounts = {name: tenant.account(ports, name) for name in ("robot", "gone", "sleeping")}
    service_accounts.disable(ports, tenant.operator, account_id=accounts["sleeping"].id)

    owners = {"disabled": accounts["robot"], "of an account that went": accounts["gone"]}
    created = {
        name: tenant.api_key(ports, name=name, account=owners.get(name))
        for name in ("kept", "in grace", *_ENDED)
    }
    names = ("stolen", "paused", "rotated", "rotated twice", "resumed", "untouched")
    keys = {name: tenant.key(ports) for name in names}
    warrants = {name: tenant.sign(ports, key) for name, key in keys.items()}
    tenant.suspend(ports, keys["resumed"])
    tenant.revoke(ports, "svc_wrt_taken-back")
    tenant.regenerate(ports)
    copy = deployment.copy()
    clock.advance(minutes=5)
    public_keys = {1: keys["rotated twice"].public_key}
    _end_everything(ports, tenant, created, accounts, keys, public_keys)
    clock.advance(minutes=5)
    published_list = tenant.regenerate(ports)
    return Story(tenant, copy, published_list, created, accounts, keys, warrants, public_keys)


def _end_everything(
    ports: Ports,
    tenant: Tenant,
    created: dict[str, CreatedKey],
    accounts: dict[str, ServiceAccount],
    keys: dict[str, SigningKey],
    public_keys: dict[int, str],
) -> None:
    operator = tenant.operator
    api_keys.revoke(ports, operator, key_id=created["revoked"].api_key.id)
    for name, seconds in (("rotated", 60), ("in grace", 3600)):
        key_id = created[name].api_key.id
        api_key_rotation.rotate(ports, operator, key_id=key_id, grace_seconds=seconds)
    for name in ("deleted", "of an account that went"):
        api_keys.delete(ports, operator, key_id=created[name].api_key.id)
    service_accounts.disable(ports, operator, account_id=accounts["robot"].id)
    service_accounts.enable(ports, operator, account_id=accounts["sleeping"].id)
    service_accounts.delete(ports, operator, account_id=accounts["gone"].id)
    tenant.revoke_key(ports, keys["stolen"])
    signing_keys.suspend(ports, operator, key_id=keys["paused"].id)
    signing_keys.enable(ports, operator, key_id=keys["resumed"].id)
    signing_keys.rotate(ports, operator, key_id=keys["rotated"].id)
    for version in (2, 3):
        rotated = signing_keys.rotate(ports, operator, key_id=keys["rotated twice"].id)
        public_keys[version] = rotated.public_key
    first = signing_keys.versions(ports, operator, key_id=keys["rotated twice"].id)[-1]
    key_revocation.revoke(ports, operator, key_id=first.id, reason="first version stolen")
    for each in revocations.page(ports, operator, before=None, limit=50).entries:
        revocations.delete(ports, operator, revocation_id=each.id)
    list_signers.rotate(ports, operator)


def why_not(ports: Ports, created: CreatedKey) -> str:
    with pytest.raises(InvalidApiKey) as refused:
        api_keys.authenticate(ports, created.secret)
    return str(refused.value)


def signs(ports: Ports, tenant: Tenant, key: SigningKey) -> bool:
    try:
        tenant.sign(ports, key)
    except InvalidState:
        return False
    return True


def recovered(ports: Ports, story: Story) -> tuple[recovery.RecoveryResult, list[str]]:
    lines: list[str] = []
    return recovery.recover(ports, story.tenant.operator, report=lines.append), lines


# Each table is of the copy or of now; none of the copy is no restore.
_MIXED = [
    tuple(table for table, is_old in zip(Table, old, strict=True) if is_old)
    for old in product((False, True), repeat=3)
    if any(old)
]
_MANY = pytest.mark.slow_on(*(" and ".join(each) for each in _MIXED if len(each) > 1))
_EACH_MIX = pytest.mark.parametrize("tables", _MIXED, ids=" and ".join)


@pytest.mark.slow_on(
    "keys and revocations",
    "keys and audit",
    "revocations and audit",
    "audit",
    "keys and revocations and audit",
)
@_EACH_MIX
def test_no_credential_that_ended_opens(
    deployment: Deployment, ports: Ports, story: Story, clock: Clock, tables: tuple[Table, ...]
) -> None:
    """F50a, F378a: After a restore of any tables, no API key or account that had ended works again.

    A key that was rotated and has a time of grace left ends when it does.
    """
    deployment.restore(story.copy, *tables)
    recovered(ports, story)
    assert {name: opens(ports, each) for name, each in story.api_keys.items()} == {
        "kept": True,
        "in grace": True,
        **dict.fromkeys(_ENDED, False),
    }
    assert why_not(ports, story.api_keys["revoked"]) == "The API key was revoked."
    assert why_not(ports, story.api_keys["deleted"]) == str(InvalidApiKey())
    operator = story.tenant.operator
    revoked, _ = api_keys.get(ports, operator, key_id=story.api_keys["revoked"].api_key.id)
    assert revoked.status is ApiKeyStatus.REVOKED
    for name in ("deleted", "of an account that went"):
        with pytest.raises(NotFound):
            api_keys.get(ports, operator, key_id=story.api_keys[name].api_key.id)
    with pytest.raises(NotFound):
        service_accounts.get(ports, operator, account_id=story.accounts["gone"].id)
    robot = service_accounts.get(ports, operator, account_id=story.accounts["robot"].id)
    assert robot.status is account_model.AccountStatus.DISABLED
    clock.advance(hours=1)
    assert not opens(ports, story.api_keys["in grace"])


@pytest.mark.slow_on(
    "keys and revocations",
    "keys and audit",
    "revocations and audit",
    "audit",
    "keys and revocations and audit",
)
@_EACH_MIX
def test_no_key_that_ended_signs(
    deployment: Deployment, story: Story, tables: tuple[Table, ...]
) -> None:
    """F51a: After a restore of any tables, no signing key that had ended signs again."""
    ports, tenant = deployment.ports, story.tenant
    deployment.restore(story.copy, *tables)
    recovered(ports, story)
    assert tenant.status(ports, story.keys["stolen"]) is KeyStatus.REVOKED
    assert not signs(ports, tenant, story.keys["stolen"])
    assert not signs(ports, tenant, story.keys["paused"])
    assert signs(ports, tenant, story.keys["untouched"])
    for name in ("rotated", "rotated twice"):
        key = signing_keys.get(ports, tenant.operator, key_id=story.keys[name].id)
        assert key.public_key != story.keys[name].public_key
        assert signs(ports, tenant, story.keys[name])
    assert tenant.is_revoked(ports, story.warrants["stolen"])
    assert tenant.is_revoked(ports, story.warrants["rotated twice"])
    assert not tenant.is_revoked(ports, story.warrants["rotated"])


@pytest.mark.slow_on(
    "keys",
    "revocations",
    "keys and audit",
    "revocations and audit",
    "audit",
    "keys and revocations and audit",
)
@_EACH_MIX
def test_the_list_lacks_nothing_and_its_old_signer_is_not_used(
    deployment: Deployment, story: Story, tables: tuple[Table, ...]
) -> None:
    """F51b: After a restore, the next list is complete and is not signed by a replaced signer.

    The records are whole as if all was done by hand, and a second recovery finds nothing (F50)
    and appends only the entry of its list.
    """
    ports, tenant = deployment.ports, story.tenant
    old = in_force.read_signers(ports, tenant.id)[0]
    deployment.restore(story.copy, *tables)
    result, _ = recovered(ports, story)
    assert result.head.version == story.published_list.version + 1
    assert result.head.key_id != old.id
    assert set(tenant.published(ports).revoked_ids) >= set(story.published_list.revoked_ids)
    signers = {each.id: each.status for each in in_force.read_signers(ports, tenant.id)}
    assert signers[old.id] is SrlSignerStatus.RETIRED
    assert list(signers.values()).count(SrlSignerStatus.ACTIVE) == 1
    assert list(doctor.examine(ports)) == []
    assert publication.publish_due(ports) == publication.PublicationRun()
    tenant.check_totals(ports)
    result, lines = recovered(ports, story)
    appended = ["Appended to the transparency log: 1 audit entry"]
    assert (lines, bool(result.unknown)) == (appended, False)


def test_lost_versions_keep_their_public_keys(
    deployment: Deployment, ports: Ports, story: Story
) -> None:
    """F51: warrants of versions between the copy and now can still be verified."""
    deployment.restore(story.copy)
    recovered(ports, story)
    key_id = story.keys["rotated twice"].id
    versions = signing_keys.versions(ports, story.tenant.operator, key_id=key_id)
    assert [each.key_version for each in versions] == [4, 3, 2, 1]
    assert {each.key_version: each.public_key for each in versions[1:]} == story.public_keys
    assert [each.status for each in versions] == ["active", "rotated", "rotated", "revoked"]
    assert versions[-1].revoked_reason == "first version stolen"
    assert versions[0].public_key not in story.public_keys.values()


def test_it_says_what_it_did_and_what_it_cannot_know(deployment: Deployment, story: Story) -> None:
    """OPS-10, F52a: `recover` reports what it did again and what it cannot know."""
    deployment.restore(story.copy)
    result, lines = recovered(deployment.ports, story)
    reported = "\n".join(lines)
    for name in ("deleted", "of an account that went"):
        assert f'Deleted again: API key {story.api_keys[name].api_key.id} "{name}"' in reported
    assert f"Revoked again: API key {story.api_keys['revoked'].api_key.id}" in reported
    assert f"Retired again: API key {story.api_keys['in grace'].api_key.id}" in reported
    assert f"Disabled again: service account {story.accounts['robot'].id}" in reported
    assert f"Deleted again: service account {story.accounts['gone'].id}" in reported
    assert f"Revoked again: signing key {story.keys['stolen'].id}" in reported
    assert f"Suspended again: signing key {story.keys['paused'].id}" in reported
    assert f"Rotated again: signing key {story.keys['rotated'].id}" in reported
    assert "New SRL signer: " in reported
    assert f"older than SRL version {story.published_list.version}, issued" in reported
    assert result.unknown
    review = "\n".join(result.unknown.review)
    assert f"active API key {story.api_keys['kept'].api_key.id}" in review
    assert "last used never" in review
    assert f"active signing key {story.keys['untouched'].id}" in review
    assert "last signed 2026-11-21T12:00:00Z" in review
    assert story.api_keys["revoked"].api_key.id not in review
    assert f"suspended signing key {story.keys['resumed'].id}" in review
    assert f"disabled service account {story.accounts['sleeping'].id}" in review
    assert "revoked warrant svc_wrt_taken-back" in review


def test_what_was_enabled_since_the_list_stays_enabled(
    deployment: Deployment, story: Story
) -> None:
    """F52b: `recover` does not disable what was enabled since the last list."""
    ports, operator = deployment.ports, story.tenant.operator
    signing_keys.enable(ports, operator, key_id=story.keys["paused"].id)
    service_accounts.enable(ports, operator, account_id=story.accounts["robot"].id)
    assert list(doctor.examine(ports)) == []
    recovered(ports, story)
    assert signs(ports, story.tenant, story.keys["paused"])
    assert opens(ports, story.api_keys["disabled"])


def test_a_second_restore_of_a_later_copy(
    deployment: Deployment, ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """F50c: The end of a key is remembered through a restore to a time before its creation."""
    before = deployment.copy()
    key = tenant.key(ports)
    leaked = tenant.api_key(ports)
    account = tenant.account(ports)
    replaced = tenant.api_key(ports)
    after = deployment.copy()
    rotated_id = replaced.api_key.id
    api_key_rotation.rotate(ports, tenant.operator, key_id=rotated_id, grace_seconds=1)
    api_keys.revoke(ports, tenant.operator, key_id=leaked.api_key.id)
    service_accounts.disable(ports, tenant.operator, account_id=account.id)
    tenant.rotate(ports, key)
    tenant.regenerate(ports)
    for copy in (before, after):
        deployment.restore(copy)
        recovery.recover(ports, tenant.operator)
    assert not opens(ports, leaked)
    clock.advance(seconds=1)
    assert not opens(ports, replaced)
    again = service_accounts.get(ports, tenant.operator, account_id=account.id)
    assert again.status is account_model.AccountStatus.DISABLED
    assert signing_keys.get(ports, tenant.operator, key_id=key.id).public_key != key.public_key


@pytest.mark.parametrize("tables", [(), (Table.KEYS,)], ids=["all", "keys alone"])
def test_a_key_that_was_made_and_ended_since(
    deployment: Deployment, ports: Ports, tenant: Tenant, tables: tuple[Table, ...]
) -> None:
    """F51: of a key that the copy does not have, warrants stay revoked and versions known."""
    copy = deployment.copy()
    stolen, rotated = tenant.key(ports), tenant.key(ports)
    warrant_id = tenant.sign(ports, stolen)
    tenant.revoke_key(ports, stolen)
    tenant.rotate(ports, rotated)
    tenant.regenerate(ports)
    deployment.restore(copy, *tables)
    recovery.recover(ports, tenant.operator)
    assert tenant.is_revoked(ports, warrant_id)
    assert tenant.status(ports, stolen) is KeyStatus.REVOKED
    assert tenant.status(ports, rotated) is KeyStatus.SUSPENDED
    versions = tenant.versions(ports, rotated)
    assert versions[-1].public_key == rotated.public_key
    signing_keys.enable(ports, tenant.operator, key_id=rotated.id)
    with pytest.raises(RescindError):  # its seed is lost
        tenant.sign(ports, rotated)
    tenant.rotate(ports, rotated)
    assert signs(ports, tenant, rotated)


def test_the_doctor_names_what_a_restore_brought_back(
    deployment: Deployment, ports: Ports, story: Story
) -> None:
    """F52c: The doctor names everything that had ended and that a restore has brought back."""
    assert list(doctor.examine(ports)) == []
    deployment.restore(story.copy, Table.KEYS)
    reported = "\n".join(each.problem for each in doctor.examine(ports))
    assert "its table of keys is older than its newest SRL" in reported
    for name in ("revoked", "deleted", "of an account that went"):
        assert f"the API key {story.api_keys[name].api_key.id} was" in reported
    for name in ("robot", "gone"):
        assert f"the service account {story.accounts[name].id} was" in reported
    for name in ("stolen", "paused", "rotated", "rotated twice"):
        assert f"the signing key {story.keys[name].id} was" in reported
    assert "the SRL signer " in reported
    for name in ("resumed", "untouched"):
        assert story.keys[name].id not in reported
    recovered(ports, story)
    assert list(doctor.examine(ports)) == []


def _newest_state(deployment: Deployment, tenant: Tenant) -> Path:
    head = in_force.read_srl_head(deployment.ports, tenant.id)
    assert head.state is not None
    return deployment.folder / "blobs" / head.state


def _altered(path: Path, _other: bytes) -> bytes:
    data = path.read_bytes()
    return data[:-1] + bytes([data[-1] ^ 1])


def _foreign(path: Path, _other: bytes) -> bytes:
    """All that the state says, signed by whoever can write to the bucket."""
    signed = path.read_bytes()[64:]
    return base64.b64decode(seeds.sign(signed, seed=b"\x01" * 32)) + signed


def _older(path: Path, _other: bytes) -> bytes:
    return min(path.parent.iterdir()).read_bytes()


def _another_tenants(_path: Path, other: bytes) -> bytes:
    return other


@pytest.mark.parametrize("spoilt", [_altered, _foreign, _older, _another_tenants])
def test_a_planted_state_is_not_believed(
    deployment: Deployment, ports: Ports, spoilt: Callable[[Path, bytes], bytes]
) -> None:
    """OPS-9, F49d: A restore skips and reports a planted state and uses the one before it."""
    tenant, other = Tenant.create(ports), Tenant.create(ports, "globex")
    early, late = (tenant.api_key(ports, name=name) for name in ("early", "late"))
    copy = deployment.copy()
    for created in (early, late):
        api_keys.revoke(ports, tenant.operator, key_id=created.api_key.id)
        tenant.regenerate(ports)
    for _ in range(2):
        other.regenerate(ports)
    path = _newest_state(deployment, tenant)
    data = spoilt(path, _newest_state(deployment, other).read_bytes())
    path.unlink()
    name = f"{path.name.partition('-')[0]}-{hashlib.sha256(data).hexdigest()}.cbor"
    path.with_name(name).write_bytes(data)
    deployment.restore(copy)
    result = recovery.recover(ports, tenant.operator)
    assert not opens(ports, early)
    assert opens(ports, late)
    reasons = "\n".join(result.unknown.reasons)
    assert f"Not trusted and ignored: srl/{tenant.id}/states/{name}" in reasons
    assert "version 3 has no trusted state" in reasons
    assert any(late.api_key.id in line for line in result.unknown.review)


def test_a_restore_when_no_list_has_a_signed_state(
    deployment: Deployment, ports: Ports, tenant: Tenant
) -> None:
    """F53a: If no list has a signed state, `recover` says that nothing is known of keys."""
    leaked = tenant.api_key(ports)
    copy = deployment.copy()
    api_keys.revoke(ports, tenant.operator, key_id=leaked.api_key.id)
    tenant.regenerate(ports)
    _make_old(deployment, tenant)
    deployment.restore(copy)
    result = recovery.recover(ports, tenant.operator)
    assert "version 2 has no trusted state" in "\n".join(result.unknown.reasons)
    assert any(leaked.api_key.id in line for line in result.unknown.review)


def _make_old(deployment: Deployment, tenant: Tenant) -> None:
    """Let the list in force have a state that nobody signed."""
    ports = deployment.ports
    head = in_force.read_srl_head(ports, tenant.id)
    for path in _newest_state(deployment, tenant).parent.iterdir():
        path.unlink()
    old = storage.store_blob(ports, states_folder(tenant.id), head.version, b'{"signers":[]}')
    item = {**head.to_item(), "state": old}
    ports.store.write(Put(head_address(tenant.id), item, Expect.PRESENT))


def test_a_signer_that_followed_a_stolen_one(
    deployment: Deployment, ports: Ports, tenant: Tenant
) -> None:
    """F51c: After a restore, a list signer that was revoked as stolen does not sign again."""
    stolen = in_force.read_active_signer(ports, tenant.id)
    leaked = tenant.api_key(ports)
    copy = deployment.copy()
    api_keys.revoke(ports, tenant.operator, key_id=leaked.api_key.id)
    list_signers.revoke(ports, tenant.operator, key_id=stolen.id)
    successor = in_force.read_active_signer(ports, tenant.id)
    deployment.restore(copy)
    with pytest.raises(DataCorrupt, match="--signer PUBLIC_KEY"):
        recovery.recover(ports, tenant.operator)
    assert opens(ports, leaked)
    recovery.recover(ports, tenant.operator, trusted_keys=[successor.public_bytes])
    assert not opens(ports, leaked)
    signers = {each.id: each for each in in_force.read_signers(ports, tenant.id)}
    assert signers[stolen.id].status is SrlSignerStatus.REVOKED
    assert signers[successor.id].status is SrlSignerStatus.RETIRED
    current = in_force.read_active_signer(ports, tenant.id)
    assert current.id not in (stolen.id, successor.id)
    assert current.statement is None
    assert in_force.read_srl_head(ports, tenant.id).key_id == current.id


def test_a_pending_signer_that_was_activated_since(
    deployment: Deployment, ports: Ports, tenant: Tenant
) -> None:
    """F51: its seed is in the copy, so it signs on, and no other signer is needed."""
    pending = list_signers.create(ports, tenant.operator).record
    copy = deployment.copy()
    list_signers.activate(ports, tenant.operator, key_id=pending.id, force=True)
    deployment.restore(copy)
    recovery.recover(ports, tenant.operator)
    assert in_force.read_srl_head(ports, tenant.id).key_id == pending.id
    assert len(in_force.read_signers(ports, tenant.id)) == 2


def test_a_credential_without_its_record(
    deployment: Deployment, ports: Ports, tenant: Tenant
) -> None:
    """F50b: A credential that a restore brings back without its record admits nobody."""
    leaked = tenant.api_key(ports)
    credential = item_at(ports, api_key_model.credential_address(leaked.api_key.digest))
    api_keys.delete(ports, tenant.operator, key_id=leaked.api_key.id)
    tenant.regenerate(ports)
    address = api_key_model.credential_address(leaked.api_key.digest)
    ports.store.write(Put(address, credential, Expect.ABSENT))
    assert opens(ports, leaked)
    recovery.recover(ports, tenant.operator)
    assert not opens(ports, leaked)


def test_the_second_look_finds_what_was_not_visible(
    ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """F922a, OPS-8: The state has what ended, although its counter was visible before it."""
    key = tenant.key(ports)
    rotated = signing_keys.rotate(ports, tenant.operator, key_id=key.id)
    ports.store.write(Put(key.address, key.to_item(), Expect.ANYTHING))
    publication.publish_due(ports)
    ports.store.write(Put(key.address, rotated.to_item(), Expect.ANYTHING))
    for _ in range(2):
        clock.advance(minutes=7)
        publication.publish_due(ports)
    state = in_force.read_srl_state(ports, *in_force.read_head_and_signer(ports, tenant.id))
    assert (key.id, 2) in {(each.id, each.key_version) for each in state.tombstones.keys}
