"""Half a transaction, as a backup of DynamoDB may hold it: found, and repaired to the safe side."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from shared.model import api_keys as api_key_model
from shared.model import revocations as revocation_model
from shared.model import signing_keys as key_model
from shared.model import srl_schedule, warrants
from shared.model.callers import Scope
from shared.model.signing_keys import RevokedSigners, SigningKey, Status
from shared.operations import (
    api_keys,
    consistency,
    key_revocation,
    publication,
    service_accounts,
    srl,
)
from shared.operations.operation import settle
from shared.ports import Ports
from shared.ports.store import Change, Check, Delete, Key, Put, Table
from tests.operations.tenants import Tenant
from tests.operations.test_faults import CASES, Case


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch, at_once: None) -> None:
    monkeypatch.setattr(consistency, "_PAUSE_SECONDS", 0)


class Torn:
    """A store of which every write loses one of its changes; `missing` says which, from 0."""

    def __init__(self, ports: Ports, missing: int | None) -> None:
        self._store = ports.store
        self._missing = missing
        self.lost: list[Change] = []
        self.written: Sequence[Change] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, *changes: Change) -> None:
        effective = [each for each in changes if not isinstance(each, Check)]
        self.written = effective
        lost = [] if self._missing is None else effective[self._missing : self._missing + 1]
        self.lost += lost
        self._store.write(*(each for each in changes if each not in lost))


def torn(ports: Ports, missing: int | None) -> tuple[Ports, Torn]:
    store = Torn(ports, missing)
    return replace(ports, store=store), store


def _owned_key(ports: Ports, tenant: Tenant) -> str:
    account = service_accounts.create(ports, tenant.operator, name="ci")
    created = api_keys.create(
        ports,
        tenant.operator,
        name="k",
        scopes=(Scope.READ_ONLY,),
        service_account_id=account.id,
    )
    return created.api_key.id


def _family(ports: Ports, tenant: Tenant) -> str:
    """A key that signed, with a child that signed."""
    root = tenant.key(ports)
    for key in (root, tenant.key(ports, root)):
        tenant.sign(ports, key)
    return root.id


def _revoke_family(ports: Ports, tenant: Tenant, key_id: str) -> object:
    return key_revocation.revoke(ports, tenant.operator, key_id=key_id, reason="lost", cascade=True)


MORE = [
    Case("api_key.delete", _owned_key, lambda p, t, i: api_keys.delete(p, t.operator, key_id=i)),
    Case("key.revoke", _family, _revoke_family),
    Case("srl.regenerate", _family, lambda p, t, _: srl.regenerate(p, t.operator)),
]
ALL = [*CASES, *MORE]
_EACH = pytest.mark.parametrize(
    "case", ALL, ids=[f"{case.action}-{case.prepare.__name__}" for case in ALL]
)


def _harmless(tenant: Tenant, change: Change) -> bool:
    """What need not be found: it only informs, or the next run makes it good."""
    pk = change.key.pk
    return (
        change.key.table is Table.AUDIT
        or change.key == api_key_model.admins_key(tenant.id)
        # Every key but one that was deleted tells its digest itself.
        or pk == api_key_model.digests(tenant.id).pk
        # A mark on the tenant besides that on the warrant, for a publication that comes anyway.
        or (pk.startswith("srl-marks#") and isinstance(change, Put))
        # The turn of a list that is no longer in force, at which the schedule finds nothing due.
        or (pk in {"srl-turns", "srl-issues"} and isinstance(change, Delete))
        # A setting that stays as it was.
        or change.key == Key(Table.KEYS, tenant.id, "settings")
    )


def said_to_be_revoked(ports: Ports, tenant: Tenant) -> set[str]:
    """The warrants that a record, a shard, a standing or a revoked key's list tells of."""
    store, said = ports.store, set[str]()
    for shard in revocation_model.shards(tenant.id):
        said |= {e.sk for e in store.query(shard, after="svc_wrt_")}
    records = store.query(revocation_model.records(tenant.id))
    said |= {str(e.item["warrant_id"]) for e in records}
    signers = RevokedSigners.of(store.get(key_model.revoked_signers_key(tenant.id)))
    keys = [SigningKey.from_item(e.item) for e in store.query(key_model.keys(tenant.id))]
    for key in keys:
        if str(key.signer) in signers.signers or key.status is Status.REVOKED:
            for entry in store.query(warrants.signed_by(tenant.id, key.signer.key_id)):
                if key.signer.key_version in (None, entry.item["key_version"]):
                    said.add(str(entry.item["warrant_id"]))
    known = [e.sk for e in store.query(srl_schedule.changed(tenant.id))]
    for warrant_id in known:
        item = store.get(warrants.warrant_key(tenant.id, warrant_id)) or {}
        said |= {warrant_id} if item.get("revocation_id") else set()
    return said


def problems(ports: Ports, tenant: Tenant) -> list[str]:
    return [each.problem for each in consistency.examine(ports, tenant.id)]


def half_done(ports: Ports, case: Case) -> Iterator[tuple[Tenant, list[Change]]]:
    """Tenants of which each lacks another change of the mutation, and what that was."""
    rehearsal = Tenant.create(ports, "rehearsal")
    through, store = torn(ports, None)
    case.run(through, rehearsal, case.prepare(ports, rehearsal))
    for missing in range(len(store.written)):
        tenant = Tenant.create(ports, f"t{missing}")
        prepared = case.prepare(ports, tenant)
        # A list follows from the one before, so it makes a difference what that one has.
        tenant.regenerate(ports)
        through, store = torn(ports, missing)
        case.run(through, tenant, prepared)
        yield tenant, store.lost


@_EACH
def test_each_item_of_each_mutation_may_be_missing(ports: Ports, case: Case) -> None:
    """F58: what lacks an item is named and repaired; what any item calls revoked is revoked."""
    for tenant, lost in half_done(ports, case):
        said = said_to_be_revoked(ports, tenant)
        found = problems(ports, tenant)
        assert found or all(_harmless(tenant, each) for each in lost), lost
        repaired = consistency.repair(ports, tenant.operator)
        assert set(repaired) >= set(found), lost
        assert_whole(ports, tenant, said)


def assert_whole(ports: Ports, tenant: Tenant, said: set[str]) -> None:
    """All agrees, what was said to be revoked is so for check and list, and work goes on."""
    assert all(tenant.is_revoked(ports, each) for each in said)
    settle(lambda: publication.publish(ports, tenant.operator))
    assert set(tenant.published(ports).revoked_ids) >= said
    assert problems(ports, tenant) == []
    assert consistency.repair(ports, tenant.operator) == []
    tenant.check_totals(ports)
    for warrant_id in said:
        tenant.revoke(ports, warrant_id)
    tenant.revoke(ports, "svc_wrt_after")
    tenant.check_totals(ports)
