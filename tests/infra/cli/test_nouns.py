"""`rescind api-keys`, `service-accounts`, `settings` and `authorizers`, against a server."""

import json
import re
from pathlib import Path

import httpx2
import pytest

from tests.infra.cli.conftest import Shell
from tests.kit.disks import full_disk
from tests.kit.processes import LocalServer
from tests.kit.waiting import soon


def test_a_secret_is_written_to_a_new_private_file(
    admin: Shell, service: LocalServer, tmp_path: Path
) -> None:
    """F418d: `api-keys create --secret-file` writes the secret to a new file of its owner."""
    file = tmp_path / "ci.key"
    create = ("api-keys", "create", "ci", "--scope", "revoker", "--secret-file", file)
    created = admin.json(*create)
    secret = file.read_text().strip()
    assert secret not in str(created)
    assert file.stat().st_mode & 0o777 == 0o600
    assert admin.run(*create).code == 2
    admin.monkeypatch.setenv("RESCIND_API_KEY", secret)
    assert admin.json("whoami")["api_key_id"] == created["id"]
    assert admin.run("settings", "set", "name=other").code == 1
    admin.monkeypatch.setenv("RESCIND_API_KEY", service.admin_key)
    new = tmp_path / "new.key"
    created = admin.json("api-keys", "rotate", created["id"], "--grace", "60", "--secret-file", new)
    assert created["predecessor_id"] != created["id"]
    admin.monkeypatch.setenv("RESCIND_API_KEY", new.read_text().strip())
    assert admin.json("whoami")["api_key_id"] == created["id"]
    admin.monkeypatch.setenv("RESCIND_API_KEY", service.admin_key)
    secret = new.read_text().strip()
    assert admin.run("api-keys", "revoke", created["id"]).code == 2
    assert admin.run("api-keys", "revoke", created["id"], "--yes").code == 0
    admin.monkeypatch.setenv("RESCIND_API_KEY", secret)
    refused = admin.run("whoami")
    assert (refused.code, secret in refused.err) == (1, False)
    assert "(invalid_api_key)" in refused.err


def test_no_secret_is_lost_with_its_file(
    admin: Shell, service: LocalServer, tmp_path: Path
) -> None:
    """F501a: If the file of a secret cannot be made, no secret is; if it is cut, it is printed."""
    created = admin.json("api-keys", "create", "lost", "--scope", "revoker")
    rotate = ("api-keys", "rotate", created["id"], "--grace", "0", "--secret-file")
    refused = admin.run(*rotate, tmp_path / "no folder/new.key")
    assert (refused.code, "No such file or directory" in refused.err) == (2, True)
    admin.monkeypatch.setenv("RESCIND_API_KEY", created["key"])
    assert admin.json("whoami")["api_key_id"] == created["id"]
    file = tmp_path / "new.key"
    admin.monkeypatch.setenv("RESCIND_API_KEY", service.admin_key)
    with full_disk():
        failed = admin.run(*rotate, file, "-o", "json")
    assert (failed.code, file.exists(), "cannot write" in failed.err) == (1, False, True)
    made = json.loads(failed.out)
    admin.monkeypatch.setenv("RESCIND_API_KEY", made["key"])
    assert admin.json("whoami")["api_key_id"] == made["id"]


def test_keys_are_listed_by_their_maker(admin: Shell) -> None:
    """APIKEY-12, F2300d: `api-keys list --created-by` lists what one maker made."""
    own = admin.json("whoami")["api_key_id"]
    made = admin.json("api-keys", "create", "ci", "--scope", "signer")["id"]
    listed = admin.json("api-keys", "list", "--created-by", own)["api_keys"]
    assert made in [each["id"] for each in listed]
    assert {each["created_by_id"] for each in listed} == {own}
    assert admin.json("api-keys", "list", "--created-by", made)["api_keys"] == []
    refused = admin.run("api-keys", "list", "--created-by", "ann@example.com")
    assert (refused.code, "svc_usr_" in refused.err) == (2, True)


def test_a_new_key_ends_with_the_key_that_creates_it(admin: Shell) -> None:
    """APIKEY-4, F2900a: Without `--expires-at`, a key ends no later than the calling key."""
    create = ("api-keys", "create", "ci", "--scope", "admin")
    first = admin.json(*create, "--expires-at", "1h")
    admin.monkeypatch.setenv("RESCIND_API_KEY", first["key"])
    assert admin.json(*create)["expires_at"] == first["expires_at"]
    assert admin.run(*create, "--expires-at", "2h").code == 1


def test_a_file_that_cannot_be_written_is_an_error(admin: Shell, tmp_path: Path) -> None:
    """F502a: If the system refuses a file, a command says so in a line, and its exit code is 1."""
    ended = admin.run("audit-log", "export", "--file", tmp_path / "no folder/a", "-o", "json")
    assert ended.code == 1
    assert json.loads(ended.err)["error"]["code"] == "os_error"


def test_accounts_settings_and_their_entries(admin: Shell) -> None:
    """F425b: Accounts and settings are changed, and the audit log has the entries."""
    account = admin.json("service-accounts", "create", "builds", "--description", "of the web")[
        "id"
    ]
    for action, status in (("disable", "disabled"), ("enable", "active")):
        assert admin.run("service-accounts", action, account).code == 0
        assert admin.json("service-accounts", "show", account)["status"] == status
    assert admin.json("service-accounts", "api-keys", account)["api_keys"] == []
    entries = admin.json("audit-log", "list", "--resource", account)["audit_logs"]
    actions = [each["action"] for each in entries]
    assert actions == [f"service_account.{each}" for each in ("enable", "disable", "create")]
    assert admin.run("service-accounts", "delete", account, "--yes").code == 0
    assert account not in admin.run("service-accounts", "list").out
    changed = admin.json("settings", "set", "feed_window_ms=250", "srl_publication=scheduled")
    assert changed["feed_window_ms"] == 250
    assert admin.json("settings", "show") == changed
    assert admin.run("settings", "set", "feed_window_ms").code == 2


def test_status_lists_and_their_entries(admin: Shell, service: LocalServer) -> None:
    """TOKEN-6, F1460a: A status list has the address of the profile, and gives out entries."""
    made = admin.json("status-lists", "create", "badges")
    assert made["uri"] == f"{service.url}/v1/status-lists/{made['id']}"
    given = admin.run("status-lists", "allocate", made["id"], "3").out.split()
    assert len({*given, *admin.json("status-lists", "allocate", made["id"], "2")["indexes"]}) == 5
    assert admin.json("status-lists", "list")["status_lists"][0]["allocated"] == 5
    assert admin.run("status-lists", "rotate-key").code == 2
    signed = httpx2.get(made["uri"]).headers["etag"]
    assert admin.json("status-lists", "rotate-key", "--yes")["key_id"]
    assert httpx2.get(made["uri"]).headers["etag"] != signed


@pytest.mark.slow
def test_authorizers_are_listed_and_removed(admin: Shell, service: LocalServer) -> None:
    """F425c: Authorizers are listed with what they hold, and removed; `--wait` waits for them."""
    key = {"Authorization": f"Bearer {service.admin_key}"}
    url = f"{service.url}/compat/tenuo/v1/authorizers"
    made = httpx2.post(f"{url}/register", headers=key, json={"name": "cli-gate"})
    authorizer = made.json()["id"]
    assert "cli-gate" in admin.run("authorizers", "list", columns=200).out
    assert admin.json("authorizers", "summary")["total"] == 1
    revoked = admin.run("revoke", "svc_wrt_wait-1", "--reason", "x", "--wait", "--timeout", "1")
    assert revoked.code == 1
    assert "cli-gate (unknown)" in revoked.out
    change, *_ = admin.json("changes", "list")["changes"]
    assert change["reason"] == "x"
    soon(lambda: admin.json("changes", "show", change["id"])["feed"])
    whole = admin.json("changes", "show", change["id"])
    assert whole["lagging_authorizers"][0]["name"] == "cli-gate"
    shown = admin.run("changes", "show", change["id"], columns=80).out
    assert max(map(len, shown.splitlines())) <= 80
    # All that the console's page of it shows, and not as JSON.
    for told in (
        *(f"{change['id']} (batch)", change["recorded_at"], "warrants"),
        *("1 total, 0 enforced, 0 fail closed, 1 unknown", "not yet", "cli-gate", "never reported"),
    ):
        assert told in shown
    assert "{" not in shown
    report = {"srl_version": whole["feed"]["sequence"] + 1}
    beat = httpx2.post(f"{url}/{authorizer}/heartbeat", headers=key, json=report)
    assert beat.status_code == 200
    shown = admin.run("changes", "show", change["id"], columns=80).out
    assert re.search(r"complete +since 20", shown)
    assert re.search(r"time to deny +half \d+ s, 90 % \d+ s, 99 % \d+ s, all \d+ s", shown)
    assert re.search(r"in the feed +entry \d+, .*, after \d+ s", shown)
    assert admin.json("authorizers", "show", authorizer)["name"] == "cli-gate"
    assert admin.run("authorizers", "remove", authorizer, "--yes").code == 0
    gone = admin.run("revoke", "svc_wrt_wait-2", "--reason", "x", "--wait", "--timeout", "9")
    assert gone.code == 1
    assert "No authorizer is registered" in gone.err
    again = httpx2.post(made.request.url, headers=key, json={"name": "cli-gate"}).json()["id"]
    owner = admin.json("authorizers", "show", again)["api_key_id"]
    for wrong in ([], [again, "--owner", owner]):
        assert admin.run("authorizers", "remove", *wrong, "--yes").code == 2
    assert admin.run("authorizers", "remove", "--owner", owner, "--yes").code == 0
    assert admin.json("authorizers", "list")["authorizers"] == []


def test_a_client_without_a_registration_is_named(admin: Shell, service: LocalServer) -> None:
    """F1748g: `--wait` counts the registered authorizers, and names clients that are not."""
    key = {"Authorization": f"Bearer {service.admin_key}"}
    url = f"{service.url}/compat/tenuo/v1/authorizers"
    most = admin.json("settings", "show")["max_authorizers"]
    assert admin.run("settings", "set", "max_authorizers=1").code == 0
    made = httpx2.post(f"{url}/register", headers=key, json={"name": "cli-a"}).json()["id"]
    refused = httpx2.post(f"{url}/register", headers=key, json={"name": "cli-b"})
    assert refused.status_code == 429
    admin.run("revoke", "svc_wrt_wait-3", "--reason", "x")
    record = admin.json("revocations", "list")["revocations"][0]["id"]
    waiting = ("revocations", "propagation", record, "--wait", "--timeout")
    named = "cli-b of "
    assert named in admin.run(*waiting, "1").err
    sequence = admin.json("authorizers", "summary")["sequence"]
    assert httpx2.post(
        f"{url}/{made}/heartbeat", headers=key, json={"srl_version": sequence + 1}
    ).is_success
    done = admin.run(*waiting, "9")
    assert done.code == 0
    assert "The one registered authorizer refuses the warrant(s)." in done.err
    assert named in done.err
    assert "(authorizer_limit, at 20" in done.err
    for command in (("authorizers", "summary"), ("changes", "show", record)):
        assert named in admin.run(*command, columns=200).out
    assert admin.run("authorizers", "remove", made, "--yes").code == 0
    assert admin.run("settings", "set", f"max_authorizers={most}").code == 0


def test_webhooks_are_tested_and_replayed(admin: Shell, tmp_path: Path) -> None:
    """F399a: A webhook is created, tested, replayed and removed by commands; its secret is kept."""
    file = tmp_path / "hook.secret"
    # The name does not resolve, so nothing leaves this machine.
    url = "https://hooks.invalid/a"
    made = admin.json("webhooks", "create", url, "--event", "key.revoke", "--secret-file", file)
    secret = file.read_text().strip()
    assert secret.startswith("whsec_")
    assert secret not in str(made)
    webhook = made["id"]
    rotated = admin.json("webhooks", "rotate-secret", webhook, "--grace", "0")
    assert rotated["secret"] != secret
    assert admin.json("webhooks", "update", webhook, "--event", "*")["events"] == ["*"]
    assert admin.json("webhooks", "test", webhook)["status"] == "enabled"
    assert admin.json("webhooks", "replay", webhook, "--from-index", "0")["next_index"] == 0
    for action, status in (("disable", "disabled"), ("enable", "enabled")):
        assert admin.json("webhooks", action, webhook)["status"] == status
    assert "deliveries" in admin.json("webhooks", "deliveries", webhook)
    assert admin.json("webhooks", "show", webhook)["url"] == url
    assert webhook in admin.run("webhooks", "list", "-o", "name").out
    assert admin.run("webhooks", "delete", webhook, "--yes").code == 0
    assert webhook not in admin.run("webhooks", "list", "-o", "name").out
