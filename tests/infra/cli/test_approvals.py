"""`rescind approvals`, and the commands that ask for an approval and use one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from shared.operations.base import tenants
from shared.ports.store import At, Put
from tests.infra.cli.conftest import Shell
from tests.infra.commands import Ended
from tests.infra.folders import opened
from tests.kit.api import Client, Tenant, serve
from tests.kit.endpoints import audit_entries
from tests.kit.listening import listening
from tests.kit.offices import Office


@dataclass
class Desk:
    """An office whose people use the command line, and the data folder of its service."""

    office: Office
    shell: Shell
    data: Path
    monkeypatch: pytest.MonkeyPatch

    def run(self, who: Client, *words: str) -> Ended:
        assert who.secret is not None
        self.monkeypatch.setenv("RESCIND_API_KEY", who.secret)
        return self.shell.run(*words)

    def asked(self, who: Client, *words: str) -> str:
        """The approval that a command asks for."""
        ended = self.run(who, *words, "--request-approval", "Über 9000")
        assert ended.code == 0, ended.err
        assert "--approval svc_apr_" in ended.err
        return ended.err.partition("--approval ")[2].split()[0]

    def override(self, *words: str) -> Ended:
        return self.shell.run("approvals", "override", "acme", *words, "--data", self.data)


@pytest.fixture
def desk(shell: Shell, data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    shell.run("tenant", "create", "other", "--data", data)
    with opened(data) as ports, listening(ports) as url:
        monkeypatch.setenv("RESCIND_URL", url)
        yield Desk(Office(Tenant(ports, serve(ports), handle="acme")), shell, data, monkeypatch)


def test_many_are_taken_back_by_one_approval(desk: Desk) -> None:
    """APPROVAL-2, F1290a: One approval of `unrevoke` covers one call, and no longer list."""
    office = desk.office
    office.protects(restore_above=2)
    words = ("unrevoke", *office.revoked(3), "--reason", "mistake")
    refused = desk.run(office.alice, *words).err
    assert "approval_required" in refused
    assert "--request-approval WHY" in refused
    with desk.monkeypatch.context() as patch:
        patch.setattr("infra.cli.revoking._MOST", 2)
        ended = desk.run(office.alice, *words, "--request-approval", "why")
        assert "at most 2 revocations" in ended.err
    approval = desk.asked(office.alice, *words)
    found = office.seen(approval)
    assert (found["count"], found["reason"]) == (3, "Über 9000")
    listed = desk.run(office.bob, "approvals", "list", "--status", "pending").out
    assert approval in listed
    assert desk.run(office.alice, "approvals", "approve", approval).code == 1
    assert desk.run(office.bob, "approvals", "approve", approval).code == 0
    ended = desk.run(office.alice, *words, "--approval", approval, "--batch", found["subject"])
    assert (ended.code, office.seen(approval)["remaining"]) == (0, 0), ended.err


def test_what_is_rejected_is_not_done(desk: Desk) -> None:
    """APPROVAL-3, F1290b: `approvals reject` ends what `api-keys create` asked for."""
    office = desk.office
    office.protects("admin_keys.create")
    words = ("api-keys", "create", "k", "--scope", "admin", "--expires-at", "10m")
    approval = desk.asked(office.alice, *words)
    shown = desk.run(office.bob, "approvals", "show", approval)
    assert "admin_keys.create" in shown.out
    assert desk.run(office.bob, "approvals", "reject", approval).code == 0
    ended = desk.run(office.alice, *words, "--approval", approval)
    assert (ended.code, "rejected" in ended.err) == (1, True)
    both = desk.run(office.alice, *words, "--approval", approval, "--request-approval", "x")
    assert both.code == 2


def test_a_role_is_changed_with_an_approval(desk: Desk) -> None:
    """F1357a: `roles` puts, shows, lists and deletes one; a change waits if that is protected."""
    office = desk.office
    words = ("roles", "put", "laptops", "--scope", "revoker", "--warrant-prefix", "svc_wrt_lap-")
    assert desk.run(office.alice, *words).code == 0
    shown = desk.run(office.alice, "roles", "show", "laptops", "-o", "yaml").out
    assert "warrant_prefixes:\n- svc_wrt_lap-\n" in shown
    assert desk.run(office.alice, *words[:3], "--scope", "none").code == 2
    assert desk.run(office.alice, *words, "--warrant-prefix", "x").code == 1
    office.protects("admin_keys.create")
    delete = ("roles", "delete", "laptops", "--yes")
    assert "--request-approval WHY" in desk.run(office.alice, *delete).err
    approval = desk.asked(office.alice, *delete)
    assert desk.run(office.bob, "approvals", "approve", approval).code == 0
    assert desk.run(office.alice, *delete, "--approval", approval).code == 0
    left = desk.run(office.alice, "roles", "list", "-o", "name")
    assert left.code == 0
    assert "admin" in left.out.split()
    assert "laptops" not in left.out.split()


def test_the_operator_breaks_the_glass(desk: Desk) -> None:
    """APPROVAL-4, F1290c: `approvals override` approves, or ends all protection, and is audited."""
    office = desk.office
    office.protects(restore_above=0)
    words = ("unrevoke", *office.revoked(1), "--reason", "mistake")
    approval = desk.asked(office.alice, *words)
    assert desk.override(approval, "--reason", "Bob is ill").code == 0
    batch = office.seen(approval)["subject"]
    ended = desk.run(office.alice, *words, "--approval", approval, "--batch", batch)
    assert ended.code == 0, ended.err
    assert desk.override("--clear", "--reason", "nobody can sign in").code == 0
    assert desk.override("--reason", "neither").code == 2
    entries = audit_entries(office.tenant)
    found = [each for each in entries if each["action"] == "approval.override"]
    assert [each["resource_id"] for each in found] == [approval, office.tenant.id]
    assert {each["actor"] for each in found} == {"system+operator@acme.svc"}
    assert desk.run(office.alice, "unrevoke", *office.revoked(1), "--reason", "r").code == 0


def test_a_tenant_is_removed_with_an_approval(desk: Desk) -> None:
    """APPROVAL-1, F1290d: `tenant remove` asks the people of the tenant, and needs an approval."""
    desk.office.protects("tenant.remove")
    words = ("tenant", "remove", "acme", "--no-export", "--yes", "--data", desk.data)
    early = desk.shell.run(*words, "--request-approval", "The contract has ended")
    assert (early.code, "not to be removed" in early.err) == (1, True)
    ports, tenant_id = desk.office.tenant.ports, desk.office.tenant.id
    settings = tenants.settings(ports, tenant_id)
    due = replace(settings, removal_at=ports.now(), version=settings.version + 1)
    ports.store.write(Put(due.address, due.to_item(), At(settings.version)))
    assert "needs an approval" in desk.shell.run(*words).err
    asked = desk.shell.run(*words, "--request-approval", "The contract has ended")
    approval = asked.err.partition("--approval ")[2].split()[0]
    assert "pending" in desk.shell.run(*words, "--approval", approval).err
    assert desk.run(desk.office.bob, "approvals", "approve", approval).code == 0
    done = desk.shell.run(*words, "--approval", approval)
    assert (done.code, "Removed the tenant acme" in done.err) == (0, True), done.err
