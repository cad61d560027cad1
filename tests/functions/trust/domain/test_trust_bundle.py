"""The trust bundle: what is confirmed is true, also of writes that were seen in part."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from functions.trust import trust_bundle
from functions.trust import trust_bundle as operations
from functions.trust.trust_bundle import BundleVersion
from shared.model import revocations
from shared.model import signing_keys as key_model
from shared.model.callers import Caller
from shared.model.signing_keys import KeyStatus, SigningKey, SigningKeyType
from shared.operations.base import operation
from shared.operations.changes import key_revocation, list_signers, signing_keys
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.reads import reading
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.world.explore import Actor, Start, explore, in_memory, rest


@pytest.fixture
def ports(tmp_path: Path) -> Ports:
    return in_memory(tmp_path, Clock())


@dataclass
class Verifier:
    """A client of the bundle: the keys that it has, and the validator that they came with."""

    tenant: Tenant
    keys: dict[str, KeyStatus]
    signers: list[tuple[str, str]]
    held: list[BundleVersion]
    answers: int = 0

    @classmethod
    def of(cls, tenant: Tenant) -> "Verifier":
        return cls(tenant, {}, [], [])

    def poll(self, ports: Ports, *, now: datetime) -> None:
        revision = operations.revision(ports, self.tenant.operator)
        if any(each.confirms(revision.name, now=now) for each in self.held):
            return
        self.answers += 1
        page = operations.page(ports, self.tenant.operator, of=revision, before=None)
        self.keys = {each.key.id: each.status for each in page.entries}
        self.signers = [(each.id, each.status.value) for each in revision.srl_signers]
        self.held = [BundleVersion.next(revision.name, self.held, now=now)]

    def is_right(self, ports: Ports) -> bool:
        truth = Verifier.of(self.tenant)
        truth.poll(ports, now=ports.now())
        return (self.keys, self.signers) == (truth.keys, truth.signers)


def _create(ports: Ports, tenant: Tenant, parent: SigningKey | None = None) -> SigningKey:
    type_, above = (SigningKeyType.ISSUER, parent.id) if parent else (SigningKeyType.ROOT, None)
    return signing_keys.create(ports, tenant.operator, type_=type_, name="k", parent_id=above)


_CHANGES: dict[str, Callable[[Ports, Caller, str], object]] = {
    "create": lambda ports, caller, _: signing_keys.create(
        ports, caller, type_=SigningKeyType.ROOT, name="k"
    ),
    "suspend": lambda ports, caller, key_id: signing_keys.suspend(ports, caller, key_id=key_id),
    "rotate": lambda ports, caller, key_id: signing_keys.rotate(ports, caller, key_id=key_id),
    "revoke": lambda ports, caller, key_id: key_revocation.revoke(
        ports, caller, key_id=key_id, reason="stolen"
    ),
    "enable": lambda ports, caller, key_id: [
        signing_keys.suspend(ports, caller, key_id=key_id),
        signing_keys.enable(ports, caller, key_id=key_id),
    ],
    "pend": lambda ports, caller, _: list_signers.create(ports, caller),
    "succeed": lambda ports, caller, _: list_signers.rotate(ports, caller),
    "revoke signer": lambda ports, caller, _: list_signers.revoke(
        ports, caller, key_id=list_signers.page(ports, caller).entries[0].record.id
    ),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_each_change_has_another_revision(ports: Ports, tenant: Tenant, change: str) -> None:
    """F200a: Each change of a signing key or a list signer gives the trust bundle a new ETag."""
    key = _create(ports, tenant)
    _CHANGES["enable"](ports, tenant.operator, key.id)
    before = operations.revision(ports, tenant.operator).name
    _CHANGES[change](ports, tenant.operator, key.id)
    assert operations.revision(ports, tenant.operator).name != before


@pytest.mark.parametrize("change", ["suspend", "rotate", "revoke"])
def test_what_is_confirmed_is_true(
    tmp_path: Path, ports: Ports, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """F200b: A bundle that was read while a write was visible in part is not confirmed by 304."""
    pacing = operation.RetryPacing(limit=3600, sleep=lambda _seconds: rest())
    monkeypatch.setattr(operation, "PACING", pacing)
    tenant = Tenant.create(ports)
    key, start = _create(ports, tenant), ports.now()
    verifier = Verifier.of(tenant)

    def read(ports: Ports) -> None:
        verifier.poll(ports, now=start)

    def change_it(ports: Ports) -> None:
        _CHANGES[change](ports, tenant.operator, key.id)

    actors: dict[str, Actor] = {"reader": read, "writer": change_it}
    wrong = 0
    for run in explore(Start(ports), actors, torn=["writer"]):
        wrong += not verifier.is_right(ports)
        verifier.poll(ports, now=start + timedelta(minutes=7))
        assert verifier.is_right(ports), run
        verifier.held.clear()
    assert wrong


def test_a_settled_bundle_is_confirmed_for_an_hour(ports: Ports, tenant: Tenant) -> None:
    """TRUST-3: A bundle is confirmed from six minutes after a change, for an hour at most."""
    verifier, start = Verifier.of(tenant), ports.now()
    answers = []
    for minutes in range(0, 130, 3):
        verifier.poll(ports, now=start + timedelta(minutes=minutes))
        answers.append(verifier.answers)
    # At 0, 3 and 6 minutes, and each hour from then on.
    assert answers == [1, 2, *[3] * 20, *[4] * 20, 5, 5]


def test_a_forged_or_early_validator_confirms_nothing_new() -> None:
    """TRUST-3: A validator of another revision, or in another form, confirms nothing."""
    now = datetime.fromisoformat("2026-11-21T12:00:00Z")
    name = "0" * 64
    held = BundleVersion(name, 0, int(now.timestamp()))
    assert held.confirms(name, now=now)
    assert not held.confirms("1" * 64, now=now)
    assert BundleVersion.parse(held.etag) == held
    for text in ("*", held.etag[1:-1], f"W/{held.etag}", held.etag.replace("-", "+"), '"-1-1"'):
        assert BundleVersion.parse(text) is None
    assert not BundleVersion.next(name, [], now=now).confirms(name, now=now)


def test_a_marker_outweighs_a_record(ports: Ports, tenant: Tenant) -> None:
    """F201a: A key is revoked in the bundle if a check refuses its warrants, whatever it says."""
    key = _create(ports, tenant)
    tenant.rotate(ports, key)
    _CHANGES["revoke"](ports, tenant.operator, key.id)
    verifier = Verifier.of(tenant)
    verifier.poll(ports, now=ports.now())
    # Both the key and its superseded version, whose own record says that it is rotated.
    assert set(verifier.keys.values()) == {KeyStatus.REVOKED}
    stored = SigningKey.from_item(ports.store.get(key.address) or {})
    lost = replace(stored, status=KeyStatus.ACTIVE, revoked_at=None)
    ports.store.write(Put(key.address, lost.to_item(), Expect.PRESENT))
    verifier = Verifier.of(tenant)
    verifier.poll(ports, now=ports.now())
    assert set(verifier.keys.values()) == {KeyStatus.REVOKED}


def test_a_version_is_revoked_alone(ports: Ports, tenant: Tenant) -> None:
    """TRUST-1: Of a key with a revoked version, the other versions keep their states."""
    key = _create(ports, tenant)
    for _ in range(2):
        tenant.rotate(ports, key)
    oldest = tenant.versions(ports, key)[-1]
    _CHANGES["revoke"](ports, tenant.operator, oldest.id)
    revision = operations.revision(ports, tenant.operator)
    page = operations.page(ports, tenant.operator, of=revision, before=None)
    states = {each.key.key_version: each.status for each in page.entries}
    assert states == {1: KeyStatus.REVOKED, 2: KeyStatus.ROTATED, 3: KeyStatus.ACTIVE}


def test_a_poll_reads_little(ports: Ports, tenant: Tenant) -> None:
    """F202a: A poll of the bundle that ends in 304 reads three items and the list signers."""
    for _ in range(5):
        key = _create(ports, tenant)
        _CHANGES["revoke"](ports, tenant.operator, key.id)
    with reading(ports) as (watched, reads):
        operations.revision(watched, tenant.operator)
    assert (reads.trips, reads.items, reads.units) == (2, 4, 4)


def test_pages_have_each_key_once(
    ports: Ports, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F202b: A bundle is bounded by pages; together they have each key once, newest first."""
    monkeypatch.setattr(trust_bundle, "PAGE", 3)
    keys = [_create(ports, tenant).id for _ in range(7)]
    revision, read = operations.revision(ports, tenant.operator), partial(operations.page, ports)
    found: list[str] = []
    before: str | None = None
    for size in (3, 3, 1):
        page = read(tenant.operator, of=revision, before=before)
        assert len(page.entries) == size
        found += [each.key.id for each in page.entries]
        before = page.next_before
    assert before is None
    assert found == keys[::-1]


def test_a_version_without_a_key_is_left_out(ports: Ports, tenant: Tenant) -> None:
    """F201: the record that a repair made for a lost version has nothing to verify with."""
    key = _create(ports, tenant)
    ports.store.write(Put(key.address, replace(key, public_key="").to_item(), Expect.PRESENT))
    verifier = Verifier.of(tenant)
    verifier.poll(ports, now=ports.now())
    assert verifier.keys == {}
    assert ports.store.get(revocations.marker_count_address(tenant.id)) is None
    assert ports.store.get(key_model.counts_address(tenant.id))
