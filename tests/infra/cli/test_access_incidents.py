"""What people type after an incident of access: `rescind` processes against a server on SQLite."""

import json
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
    *("--role-mapping", "groups=admin:admin"),
)


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

    def operate(self, *words: str | Path) -> str:
        """What a command of the operator prints."""
        ended = self.run(*words, "--data", self.server.data)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def sign_in(self, name: str) -> str:
        """Sign in as a person; return the person's identifier."""
        self.tokens, now = self.tokens + 1, int(time.time())
        said = {
            "iss": ISSUER,
            "aud": "rescind",
            "sub": name,
            "groups": ["admin"],
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
        ended = self.run(*words, "--token-file", "-", "--profile", name, stdin=token)
        assert ended.returncode == 0, ended.stderr
        return str(self.done(name, "whoami")["person_id"])


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
    counted = "\nrescind_approvals_overridden_total 1"
    soon(lambda: counted in httpx2.get(f"http://{town.ops}/metrics").text)
    assert "approved" in {
        each["status"] for each in town.done("bob", "approvals", "list")["approvals"]
    }
    made = town.done("alice", *words, "--approval", asked)["key"]
    assert town.run("whoami", key=made).returncode == 0

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
    query = ("audit-log", "list", "--action", "approval.override")
    (entry,) = town.done("alice", *query)["audit_logs"]
    assert entry["details"]["reason"] == "Bob is lost"
