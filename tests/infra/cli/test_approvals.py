"""`rescind approvals`, and the commands that ask for an approval and use one."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from shared.operations.base import tenants
from shared.ports.store import Put, VersionIs
from tests.infra.cli.conftest import COMMANDS, Shell
from tests.infra.commands import Ended
from tests.infra.folders import opened
from tests.kit.api import Client, Tenant, serve
from tests.kit.endpoints import audit_entries
from tests.kit.listening import listening
from tests.kit.offices import ACTS, Office
from tests.kit.processes import ROOT


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


def test_many_are_unrevoked_by_one_approval(desk: Desk) -> None:
    """APPROVAL-2, F1290a, F2504a: One approval of `unrevoke` covers one manifest, in its parts."""
    office = desk.office
    office.protects(unrevoke_threshold=2)
    words = ("unrevoke", *office.revoked(3), "--reason", "mistake")
    refused = desk.run(office.alice, *words).err
    assert "approval_required" in refused
    assert "--request-approval WHY" in refused
    with desk.monkeypatch.context() as patch:
        patch.setattr("infra.cli.revoking.MEMBERS_MAX", 2)
        ended = desk.run(office.alice, *words, "--request-approval", "why")
        assert "at most 2 revocations" in ended.err
        assert len(desk.run(office.alice, *words, "--dry-run", "-o", "name").out.split()) == 3
    desk.monkeypatch.setattr("shared.model.unrevoke_manifests.PART_SIZE", 2)
    ended = desk.run(office.alice, *words, "--request-approval", "Über 9000", "-o", "json")
    assert "Stopped" not in ended.err
    approval = json.loads(ended.out)["approval_id"]
    found = office.seen(approval)
    assert (found["count"], found["reason"]) == (3, "Über 9000")
    listed = desk.run(office.bob, "approvals", "list", "--status", "pending").out
    assert approval in listed
    assert desk.run(office.alice, "approvals", "approve", approval).code == 1
    assert desk.run(office.bob, "approvals", "approve", approval).code == 0
    use = ("unrevoke", "--reason", "r", "--manifest", found["subject"], "--approval", approval)
    assert desk.run(office.alice, *use, *words[1:2]).code == 2
    ended = desk.run(office.alice, *use)
    assert (ended.code, office.seen(approval)["remaining"]) == (0, 0), ended.err
    assert f"3 unrevoked. Manifest {found['subject']}" in ended.err
    assert "3 unrevoked" in desk.run(office.alice, *use).err


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


def test_a_span_is_counted_once(desk: Desk) -> None:
    """APPROVAL-2, F2700a: With an approval, a key ends when the approval says.

    A span counts from now, so the command that uses the approval would ask for a later end.
    """
    office = desk.office
    office.protects("admin_keys.create")
    words = ("api-keys", "create", "k", "--scope", "admin")
    for asked, used in (((), ("--expires-at", "80d")), (("--expires-at", "30d"), ())):
        approval = desk.asked(office.alice, *words, *asked)
        assert desk.run(office.bob, "approvals", "approve", approval).code == 0
        end = office.seen(approval)["details"]["changes"]["expires_at"]["new"]
        ended = desk.run(office.alice, *words, *used, "--approval", approval)
        assert (ended.code, end in ended.out) == (0, True), ended.err
    other = desk.asked(office.alice, "roles", "put", "laptops", "--scope", "revoker")
    refused = desk.run(office.alice, *words, "--approval", other)
    assert (refused.code, "(approval_required)" in refused.err) == (1, True)


def test_an_admin_key_is_rotated_with_an_approval(desk: Desk) -> None:
    """APPROVAL-1, F2700b: `api-keys rotate` asks for an approval, which has all of the new key."""
    office = desk.office
    body = {"name": "k", "scopes": ["admin"], "networks": ["192.0.2.0/24"]}
    made = office.tenant.admin.post("/v1/api-keys", json=body).json()
    office.protects("admin_keys.create")
    words = ("api-keys", "rotate", made["id"], "--grace", "0")
    assert "--request-approval WHY" in desk.run(office.alice, *words).err
    approval = desk.asked(office.alice, *words, "--expires-at", "30d")
    changes = office.seen(approval)["details"]["changes"]
    assert changes["networks"]["new"] == ["192.0.2.0/24"]
    assert desk.run(office.bob, "approvals", "approve", approval).code == 0
    ended = desk.run(office.alice, *words, "--expires-at", "31d", "--approval", approval)
    assert (ended.code, changes["expires_at"]["new"] in ended.out) == (0, True), ended.err


# The commands that make each effect of APPROVAL-1. `api` makes any request, for what has none.
_COMMANDS: Final = {
    "changes.list_signers.activate": ("srl", "signers", "activate"),
    "changes.list_signers.revoke": ("srl", "signers", "revoke"),
    "changes.list_signers.rotate": ("srl", "signers", "rotate"),
    "access.api_key_rotation.rotate": ("api-keys", "rotate"),
    "access.api_keys.create": ("api-keys", "create"),
    "access.service_accounts.enable": ("service-accounts", "enable"),
    "identities.identity_providers.create": ("api",),
    "identities.identity_providers.delete": ("identity-providers", "delete"),
    "identities.identity_providers.update": ("api",),
    "identities.people.enable": ("people", "enable"),
    "identities.protected_acts.update": ("approvals", "protect"),
    "identities.roles.delete": ("roles", "delete"),
    "identities.roles.put_role": ("roles", "put"),
    "batches.apply": ("unrevoke",),
    "changes.revocations.delete": ("unrevoke",),
    "batches.manifests.apply": ("unrevoke",),
    "access.tenant_settings.update": ("settings", "set"),
    "changes.key_revocation.revoke": ("signing-keys", "revoke"),
    "status_lists.rotate": ("status-lists", "rotate-key"),
}


def test_each_protected_effect_can_be_asked_for() -> None:
    """APPROVAL-2, F2700d: The command of each protected effect asks for approvals and uses them."""
    effects = (ROOT / "docs/spec/access.md").read_text().partition("| Effect | Actions |")[2]
    rows = effects.partition("\n\n")[0].splitlines()[2:]
    operations = {each for row in rows for each in re.findall("`([^`]+)`", row.split("|")[3])}
    assert operations == _COMMANDS.keys()
    found = {path[1:]: {each.name for each in command.params} for path, command in COMMANDS}
    asking = {path for path, names in found.items() if {"request_approval", "approval"} <= names}
    assert {*_COMMANDS.values()} <= asking


def test_any_request_is_made_with_an_approval(desk: Desk) -> None:
    """APPROVAL-2, F2700c: `api` asks for an approval, and uses one, for any request."""
    office = desk.office
    office.protects("admin_keys.create")
    words = ("api", "PUT", ACTS, "-f", "actions:=[]", "-f", "unrevoke_threshold:=null")
    assert "--request-approval WHY" in desk.run(office.alice, *words).err
    approval = desk.asked(office.alice, *words)
    assert desk.run(office.bob, "approvals", "approve", approval).code == 0
    ended = desk.run(office.alice, *words, "--approval", approval)
    assert (ended.code, '"actions": []' in ended.out) == (0, True), ended.err


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
    office.protects(unrevoke_threshold=0)
    words = ("unrevoke", *office.revoked(1), "--reason", "mistake")
    approval = desk.asked(office.alice, *words)
    assert desk.override(approval, "--reason", "Bob is ill").code == 0
    manifest = office.seen(approval)["subject"]
    use = ("unrevoke", "--reason", "r", "--manifest", manifest, "--approval", approval)
    ended = desk.run(office.alice, *use)
    assert ended.code == 0, ended.err
    assert desk.override("--clear", "--reason", "nobody can sign in").code == 0
    assert desk.override("--reason", "neither").code == 2
    assert desk.override(approval, "--clear", "--reason", "both").code == 2
    entries = audit_entries(office.tenant)
    found = [each for each in entries if each["action"] == "approval.override"]
    assert [each["resource_id"] for each in found] == [approval, office.tenant.id]
    assert {each["actor"] for each in found} == {"system+operator@acme.svc"}
    assert desk.run(office.alice, "unrevoke", *office.revoked(1), "--reason", "r").code == 0


def test_a_tenant_is_removed_with_an_approval(desk: Desk) -> None:
    """APPROVAL-1, F1290d: `tenant purge` asks the people of the tenant, and needs an approval."""
    desk.office.protects("tenant.remove")
    words = ("tenant", "purge", "acme", "--no-export", "--yes", "--data", desk.data)
    early = desk.shell.run(*words, "--request-approval", "The contract has ended")
    assert (early.code, "not scheduled for removal" in early.err) == (1, True)
    ports, tenant_id = desk.office.tenant.ports, desk.office.tenant.id
    settings = tenants.settings(ports, tenant_id)
    due = replace(settings, delete_after=ports.now(), version=settings.version + 1)
    ports.store.write(Put(due.address, due.to_item(), VersionIs(settings.version)))
    assert "requires an approval" in desk.shell.run(*words).err
    asked = desk.shell.run(*words, "--request-approval", "The contract has ended")
    approval = asked.err.partition("--approval ")[2].split()[0]
    assert "pending" in desk.shell.run(*words, "--approval", approval).err
    assert desk.run(desk.office.bob, "approvals", "approve", approval).code == 0
    done = desk.shell.run(*words, "--approval", approval)
    assert (done.code, "Deleted the tenant acme" in done.err) == (0, True), done.err
