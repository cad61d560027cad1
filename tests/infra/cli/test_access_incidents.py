"""What people type after an incident of access: `rescind` processes against a server on SQLite."""

import json
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Final

import httpx2
import pytest

from tests.infra import console
from tests.kit import issuers, processes
from tests.kit.issuers import ISSUER
from tests.kit.processes import HOST, LocalServer, free_port, local_server
from tests.kit.waiting import soon

_ADD: Final = (
    *("identity-providers", "add", "--tenant", "local", "--issuer", ISSUER),
    *("--client-id", "rescind", "--exchange"),
    *("--role-mapping", "groups=admin:admin", "--role-mapping", "groups=revoker:revoker"),
)
_SERIAL: Final = re.compile(r"^rescind_(\w+)_total (\d+)", re.MULTILINE)


@dataclass
class Town:
    """A server, and people with profiles, who sign in with tokens of their provider."""

    server: LocalServer
    ops: str
    home: Path
    provider: str = ""
    tokens: int = 0

    def run(self, *words: str | Path, key: str = "", stdin: str = "") -> CompletedProcess[str]:
        """Type `rescind`, with a profile that the words name, or with an API key."""
        settings = {"RESCIND_CONFIG_DIR": str(self.home), "COLUMNS": "400"}
        if key:
            settings |= {"RESCIND_URL": self.server.url, "RESCIND_API_KEY": key}
        return processes.run("-m", "infra.cli", *map(str, words), settings=settings, stdin=stdin)

    def done(self, who: str, *words: str | Path) -> Any:
        """What somebody's command prints as JSON."""
        ended = self.run(*words, "--profile", who, "-o", "json")
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def refused(self, who: str, *words: str) -> str:
        """Why somebody's command fails."""
        ended = self.run(*words, "--profile", who)
        assert ended.returncode != 0, ended.stdout
        return ended.stderr

    def operate(self, *words: str | Path, stdin: str = "") -> str:
        """What a command of the operator prints."""
        ended = self.run(*words, "--data", self.server.data, stdin=stdin)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def sign_in(self, name: str, role: str = "admin", profile: str = "") -> str:
        """Sign in as a person, whose identifier this is."""
        self.tokens, now = self.tokens + 1, int(time.time())
        said = {
            "iss": ISSUER,
            "aud": "rescind",
            "sub": name,
            "groups": [role],
            "email": f"{name}@example.com",
            "email_verified": True,
            "name": name.title(),
            "jti": str(self.tokens),
            "iat": now,
            "auth_time": now,
            "exp": now + 300,
        }
        header = {"alg": "ES256", "kid": "k1", "typ": "JWT"}
        token = issuers.signed(header, said, issuers.key("ES256"))
        words = ("login", "--url", self.server.url, "--audience", self.provider)
        profile = profile or name
        ended = self.run(*words, "--token-file", "-", "--profile", profile, stdin=token)
        assert ended.returncode == 0, ended.stderr
        return str(self.done(profile, "whoami")["person_id"])

    def make_key(self, who: str, name: str, scope: str) -> str:
        """The secret of a key that somebody makes."""
        made = self.done(who, "api-keys", "create", name, "--scope", scope, "--expires-at", "30d")
        return str(made["key"])

    def is_refused(self, key: str) -> bool:
        ended = self.run("whoami", key=key)
        return ended.returncode == 1 and "(invalid_api_key)" in ended.stderr

    def entries(self, who: str, *words: str) -> list[dict[str, Any]]:
        return list(self.done(who, "audit-log", "list", *words)["audit_logs"])

    def metric(self, name: str) -> int:
        """A counter of the server, on which an alarm is."""
        found = dict(_SERIAL.findall(httpx2.get(f"http://{self.ops}/metrics").text))
        return int(found[name])


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    ops = f"{HOST}:{free_port()}"
    with local_server(tmp_path / "data", "--ops-address", ops) as server:
        made = Town(server, ops, tmp_path / "home")
        keys = tmp_path / "jwks.json"
        keys.write_text(issuers.key_set(issuers.public(issuers.key("ES256"), kid="k1")))
        made.provider = json.loads(made.operate(*_ADD, "--jwks", keys, "-o", "json"))["id"]
        made.sign_in("alice")
        yield made


@pytest.mark.slow
def test_a_person_leaves(town: Town) -> None:
    """IDENTITY-9, F2701a: Commands show what a person leaves, and end all of it at once."""
    carol = town.sign_in("carol")
    own = town.make_key("carol", "carols", "admin")
    made = town.run(
        *("api-keys", "create", "grandchild", "--scope", "revoker"),
        *("--expires-at", "20d", "-o", "json"),
        key=own,
    )
    later = json.loads(made.stdout)["key"]
    other = town.make_key("alice", "alices", "revoker")
    listed = town.done("alice", "api-keys", "list", "--created-by", carol)["api_keys"]
    assert {each["name"] for each in listed} == {"carols", "grandchild"}
    words = ("people", "disable", carol)
    said = town.refused("alice", *words)
    assert ("carols" in said, "grandchild" in said, "--made-keys" in said) == (True, True, True)
    assert not town.is_refused(own)
    ended = town.done("alice", *words, "--made-keys", "end", "--yes")
    assert (ended["status"], ended["keys_ended"], ended["keys_left"]) == ("disabled", 2, 0)
    assert [town.is_refused(each) for each in (own, later, other)] == [True, True, False]
    assert "The session has ended" in town.refused("carol", "whoami")
    sessions = town.done("alice", "sessions", "list")["sessions"]
    assert [each["identity"] for each in sessions] == ["alice@example.com"]
    entries = town.entries("alice", "--action", "api_key.revoke")
    assert [each["details"]["person_id"] for each in entries] == [carol, carol]


@pytest.mark.slow
def test_a_session_is_stolen(town: Town) -> None:
    """IDENTITY-5, F2702a: A person ends one session, and sees what each of them has done."""
    dave = town.sign_in("dave", "revoker")
    town.sign_in("dave", "revoker", profile="thief")
    stolen = town.done("thief", "whoami")["session_id"]
    town.done("thief", "revoke", "svc_wrt_laptop-1", "--reason", "theft")
    town.done("dave", "revoke", "svc_wrt_laptop-2", "--reason", "lost")
    own = town.done("dave", "sessions", "list")["sessions"]
    assert [each["owner"] for each in own] == [dave, dave]
    assert town.run("sessions", "delete", stolen, "--yes", "--profile", "dave").returncode == 0
    assert "(invalid_api_key)" in town.refused("thief", "whoami")
    assert town.done("dave", "whoami")["person_id"] == dave
    found = town.entries("alice", "--person", dave, "--action", "revocation.create_batch")
    did = {
        each["details"]["revocations"][0]["warrant_id"]: each["details"]["session_id"] == stolen
        for each in found
    }
    assert did == {"svc_wrt_laptop-1": True, "svc_wrt_laptop-2": False}
    # An administrator ends all sessions of a person, and the person may come back.
    town.done("alice", "people", "sign-out", dave)
    assert "The session has ended" in town.refused("dave", "whoami")
    assert town.sign_in("dave", "revoker") == dave


@pytest.mark.slow
def test_a_key_leaks(town: Town) -> None:
    """APIKEY-14, F2703a: Whoever posts a key ends it, the last admin key too; `admin-key` helps."""
    leaky = town.make_key("alice", "leaky", "authorizer")
    last = town.server.admin_key
    url = f"{town.server.url}/v1/leaked-keys"
    for number, secret in enumerate((leaky, last), start=1):
        told = {"secret": secret, "url": f"https://example.com/{number}"}
        assert httpx2.post(url, json=told).json() == []
        assert town.is_refused(secret)
        assert town.metric("keys_leaked") == number
    found = town.entries("alice", "--action", "api_key.leaked")
    assert [each["details"]["url"][-1] for each in found] == ["2", "1"]
    assert {each["actor"] for each in found} == {"system+leaks@local.svc"}
    # As docs/runbook.md says.
    key = town.operate("admin-key", "local", "--expires-in", "1d").strip()
    assert town.run("login", "--url", town.server.url, stdin=key).returncode == 0
    assert town.done("default", "whoami")["scopes"] == ["admin"]


def test_what_the_page_on_signing_in_protects(town: Town) -> None:
    """APPROVAL-1, F2704c: The documented commands protect actions, once two people can approve."""
    (block,) = (each for each in console.blocks("docs/sign-in.md") if "approvals protect" in each)
    protect, policy = (shlex.split(each)[1:] for each in block.splitlines())
    assert "(too_few_approvers)" in town.refused("alice", *protect)
    town.sign_in("bob")
    made = {"actions": ["admin_keys.create"], "unrevoke_threshold": 10}
    assert [town.done("alice", *each) for each in (protect, policy)] == [made, made]


@pytest.mark.slow
def test_an_approver_is_lost(town: Town) -> None:
    """APPROVAL-4, APPROVAL-5, F2704a: Another approver takes the place of a lost one.

    Until then the person stays, and the operator approves.
    """
    bob = town.sign_in("bob")
    protect = ("approvals", "protect", "--action", "admin_keys.create")
    assert town.done("alice", *protect)["actions"] == ["admin_keys.create"]
    assert "(too_few_approvers)" in town.refused("alice", "people", "disable", bob)
    assert town.done("bob", "whoami")["person_id"] == bob

    words = ("api-keys", "create", "pipeline", "--scope", "admin")
    assert "--request-approval WHY" in town.refused("alice", *words)
    asked = town.done("alice", *words, "--request-approval", "rollout")["approval_id"]
    assert "another person must decide" in town.refused("alice", "approvals", "approve", asked)
    town.operate("approvals", "override", "local", asked, "--reason", "Bob is lost")
    # The server finds what another process did when it seals the log.
    soon(lambda: town.metric("approvals_overridden") == 1)
    assert "approved" in {
        each["status"] for each in town.done("bob", "approvals", "list")["approvals"]
    }
    made = town.done("alice", *words, "--approval", asked)["key"]
    assert not town.is_refused(made)

    carol = town.sign_in("carol")
    town.done("alice", "people", "disable", bob)
    assert "The session has ended" in town.refused("bob", "whoami")
    assert "(too_few_approvers)" in town.refused("alice", "people", "disable", carol)
    # The policy is protected, too, and the new approver counts.
    clear = ("approvals", "protect")
    asked = town.done("alice", *clear, "--request-approval", "the end")["approval_id"]
    town.done("carol", "approvals", "approve", asked)
    assert town.done("alice", *clear, "--approval", asked)["actions"] == []
    assert town.done("alice", "approvals", "policy")["unrevoke_threshold"] is None
    (entry,) = town.entries("alice", "--action", "approval.override")
    assert entry["details"]["reason"] == "Bob is lost"
