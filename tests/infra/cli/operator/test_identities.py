"""`rescind identity-providers`, `people` and `sessions`; programs that sign in as documented."""

import json
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
import yaml

from shared.model import times
from shared.model.callers import Scope
from shared.operations.identities import identity_providers
from shared.operations.operator import onboarding
from shared.ports import Ports
from tests.infra import console
from tests.infra.cli.conftest import Shell
from tests.infra.commands import Ended
from tests.infra.folders import opened
from tests.kit.identities import JWKS, signed_in
from tests.kit.issuers import ISSUER, of_cloud
from tests.kit.listening import listening
from tests.kit.receivers import answer, plainly

PAGE: Final = "docs/api-keys.md"
ADD: Final = ("identity-providers", "add", "--data")
_YAML: Final = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Machine:
    """A data folder with the tenant `local`, whose administrator has a profile at its service."""

    shell: Shell
    data: Path
    ports: Ports
    url: str

    def add(self, *words: str, stdin: str = "") -> Ended:
        """Bind a provider whose keys nobody fetches."""
        keys = self.data / "jwks.json"
        if not keys.exists():
            keys.write_text(json.dumps(JWKS))
        return self.shell.run(*ADD, self.data, "--jwks", keys, *words, "-o", "json", stdin=stdin)


@pytest.fixture
def machine(shell: Shell, data: Path) -> Iterator[Machine]:
    key = shell.run("tenant", "create", "local", "--data", data).out
    with opened(data) as ports, listening(ports) as url:
        assert shell.run("login", "--url", url, stdin=key).code == 0
        yield Machine(shell, data, ports, url)


PEOPLE: Final = ("--issuer", ISSUER, "--client-id", "rescind", "--role-mapping", "groups=a:b:admin")


def test_an_operator_binds_a_provider(machine: Machine) -> None:
    """F1227a: `identity-providers add` binds a provider, and says which addresses to register.

    The client secret is read from standard input, and kept sealed.
    """
    ended = machine.add(*PEOPLE, "--name", "Acme", "--email-domain", "acme.com", stdin="s3cret\n")
    assert ended.code == 0, ended.err
    made = json.loads(ended.out)
    assert "s3cret" not in ended.out + ended.err
    assert made["has_client_secret"]
    shown = machine.shell.json("identity-providers", "show", made["id"])
    assert shown["role_mappings"] == [
        {"claims": {"groups": "a:b"}, "role": "admin", "service_account": None}
    ]
    assert (shown["name"], shown["email_domains"]) == ("Acme", ["acme.com"])
    # Keys in a file have no endpoints beside them.
    assert "no endpoint for browsers" in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--role-mapping", "groups:admin"), "must be CLAIM=VALUE:ROLE"),
        (("--role-mapping", "groups=security:Admin"), "must be 1 to 63 lower-case letters"),
        (("--role-mapping", "groups=security:root"), "each role must be one of"),
        (("--issuer", "http://sso.acme.com"), "must be an https address"),
        (("--email-domain", "ACME"), "must be a domain"),
        (("--jwks", "/dev/null"), "/dev/null"),
        (("--client-id", ""), "client_id: is required"),
        (("--token-reuse",), "allow_token_reuse: is only for `workload`"),
    ],
)
def test_a_provider_that_is_not_bound(
    shell: Shell, data: Path, words: tuple[str, ...], said: str
) -> None:
    """F1227b: Options that are malformed or do not fit each other bind nothing."""
    shell.run("tenant", "create", "local", "--data", data)
    pairs = zip(PEOPLE[::2], PEOPLE[1::2], strict=True)
    others = [pair for pair in pairs if pair[0] != words[0]]
    ended = shell.run(*ADD, data, *chain(*others), *words, columns=400)
    assert ended.code != 0
    assert said in " ".join(ended.err.split())
    with opened(data) as ports:
        caller = onboarding.operator(ports, handle="local")
        page = identity_providers.page(ports, caller, before=None, limit=1)
    assert page.total == 0


def test_providers_people_and_sessions_are_ended(machine: Machine) -> None:
    """F1228a, F2702a: Providers, people and sessions are listed and ended by commands, at once."""
    shell = machine.shell
    provider_id = json.loads(machine.add(*PEOPLE).out)["id"]
    caller = onboarding.operator(machine.ports, handle="local")
    provider = identity_providers.get(machine.ports, caller, provider_id=provider_id)
    said: dict[str, Any] = {"members": {"groups": "a:b", "email_verified": True}}
    first, second, third = (
        signed_in(machine.ports, provider, Scope.ADMIN, **said) for _ in range(3)
    )
    assert shell.json("identity-providers", "check", provider_id)["is_stored"]
    assert "alice@example.com" in shell.run("people", "list").out
    person = first.session.owner
    assert shell.json("people", "show", person)["status"] == "active"
    assert first.session.id in shell.run("sessions", "list", "-o", "name").out.split()
    assert shell.run("sessions", "delete", first.session.id).code == 2
    assert shell.run("sessions", "delete", first.session.id, "--yes").code == 0
    listed = shell.run("sessions", "list", "-o", "name").out.split()
    assert sorted(listed) == sorted([second.session.id, third.session.id])
    assert shell.run("people", "sign-out", person).code == 0
    assert shell.run("sessions", "list", "-o", "name").out == ""
    for action, status in (("disable", "disabled"), ("enable", "active")):
        assert shell.json("people", action, person)["status"] == status
    assert shell.run("identity-providers", "delete", provider_id, "--yes").code == 0
    assert shell.json("identity-providers", "list")["identity_providers"] == []


@pytest.mark.slow
def test_the_keys_of_a_person_are_listed_and_ended(machine: Machine) -> None:
    """IDENTITY-9, F2301g, F2701a: `people disable` lists a person's keys, and demands a choice.

    The audit log has the session in which the person made each of them.
    """
    shell = machine.shell
    provider_id = json.loads(machine.add(*PEOPLE).out)["id"]
    caller = onboarding.operator(machine.ports, handle="local")
    provider = identity_providers.get(machine.ports, caller, provider_id=provider_id)
    said: dict[str, Any] = {"members": {"groups": "a:b", "email_verified": True}}
    begun = signed_in(machine.ports, provider, Scope.ADMIN, **said)
    person = begun.session.owner
    end = times.format_utc(machine.ports.now() + timedelta(days=2))
    body = {"name": "her laptop", "scopes": ["signer"], "expires_at": end}
    bearer = {"Authorization": f"Bearer {begun.secret}"}
    url = f"{machine.url}/v1/api-keys"
    *_, made = [httpx2.post(url, json=body, headers=bearer) for _ in range(51)]
    assert made.status_code == 201
    words = ("people", "disable", person)
    untold = shell.run(*words)
    assert (untold.code, untold.err.count("her laptop")) == (2, 51)
    assert shell.json("people", "show", person)["status"] == "active"
    assert shell.json(*words, "--made-keys", "keep")["keys_left"] == 51
    assert shell.run(*words, "--made-keys", "end").code == 2
    ended = shell.json(*words, "--made-keys", "end", "--yes")
    assert (ended["keys_ended"], ended["keys_left"]) == (51, 0)
    bearer = {"Authorization": f"Bearer {made.json()['key']}"}
    assert httpx2.get(f"{machine.url}/v1/whoami", headers=bearer).status_code == 401
    assert shell.json(*words)["keys_left"] == 0
    query = ("audit-log", "list", "--person", person, "--action", "api_key.create", "-n", "1")
    (entry,) = shell.json(*query)["audit_logs"]
    assert entry["details"]["session_id"] == begun.session.id


def _documented(machine: Machine, issuer: str) -> list[str]:
    """The words of the documented command that binds this issuer, without its data folder."""
    (block,) = (each for each in console.blocks(PAGE) if "accounts create" in each)
    typed = [shlex.split(each) for each in block.replace("\\\n", " ").splitlines()]
    (found,) = (each for each in typed if issuer in each)
    assert found[1:3] == ["identity-providers", "add"]
    at = found.index("--data")
    del found[at : at + 2]
    return [each.replace(".data", str(machine.data)) for each in found[3:]]


def _bind(machine: Machine, issuer: str, keys: str) -> str:
    """The provider that the documented command binds, with keys from a file in place of a fetch."""
    (machine.data / "jwks.json").write_text(keys)
    ended = machine.add(*_documented(machine, issuer))
    assert ended.code == 0, ended.err
    provider = json.loads(ended.out)["id"]
    assert f"audience {provider}" in ended.err
    return str(provider)


def _run(machine: Machine, lines: list[str], provider: str, **places: str) -> None:
    """Type documented lines, with the provider, the address and other places of this test."""
    for line in lines:
        typed = re.sub("svc_idp_[0-9a-z]{26}", provider, line)
        typed = typed.replace("https://rescind.example.com", machine.url)
        for shown, here in places.items():
            typed = typed.replace(shown, here)
        ended = machine.shell.run(*shlex.split(typed)[1:])
        assert ended.code == 0, ended.err
    assert machine.shell.json("whoami")["identity"] == "deploy@local.svc"
    assert machine.shell.run("signing-keys", "list").code == 1


def test_a_job_of_github_actions(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """F1226a: The documented job of GitHub Actions signs in with the job's token, and revokes.

    The token is got from GitHub, for the provider alone.
    """
    assert machine.shell.run("service-accounts", "create", "deploy").code == 0
    job, _ = map(yaml.safe_load, _YAML.findall(console.text(PAGE)))
    assert job["permissions"] == {"id-token": "write"}
    now = int(time.time())
    made = of_cloud("GitHub Actions", "", now)
    provider = _bind(machine, made.issuer, made.keys)
    value = of_cloud("GitHub Actions", provider, now).token
    with plainly(answer(200, json.dumps({"value": value}).encode())) as github:
        begin = f"http://127.0.0.1:{github.port}/token?api-version=2.0"
        monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_URL", begin)
        monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "of-the-job")
        _run(machine, [each["run"] for each in job["steps"]], provider)
    (asked,) = github.requests
    assert asked.headers["authorization"] == "bearer of-the-job"
    query = parse_qs(urlsplit(asked.line.split()[1]).query)
    assert query == {"api-version": ["2.0"], "audience": [provider]}


def test_a_pod_of_kubernetes(machine: Machine, tmp_path: Path) -> None:
    """F1226b: The documented pod signs in with the token in its file, as often as it starts."""
    assert machine.shell.run("service-accounts", "create", "deploy").code == 0
    _, pod = (yaml.safe_load(each) for each in _YAML.findall(console.text(PAGE)))
    (container,), (volume,) = pod["spec"]["containers"], pod["spec"]["volumes"]
    (mount,), (source,) = container["volumeMounts"], volume["projected"]["sources"]
    projected = source["serviceAccountToken"]
    script = container["args"][0]
    assert mount["name"] == volume["name"]
    path = f"{mount['mountPath']}/{projected['path']}"
    assert f"--token-file {path}" in script
    assert f"--audience {projected['audience']}" in script
    issuer = "https://kubernetes.default.svc.cluster.local"
    now = int(time.time())
    made = of_cloud("Kubernetes", "", now)
    provider = _bind(machine, issuer, made.keys)
    file = tmp_path / "token"
    file.write_text(of_cloud("Kubernetes", provider, now, iss=issuer).token)
    for _ in range(2):
        _run(machine, script.splitlines(), provider, **{path: str(file)})


def test_a_token_that_is_not_there(machine: Machine) -> None:
    """F1226c: Without a token, or with one for elsewhere, the error says what is missing."""
    login = ("login", "--url", machine.url, "--profile", "job", "--audience", "svc_idp_x")
    ended = machine.shell.run(*login)
    assert (ended.code, "id-token: write" in ended.err) == (2, True)
    ended = machine.shell.run(*login, "--token-file", "-")
    assert (ended.code, "contains no token" in ended.err) == (2, True)
    ended = machine.shell.run(*login, "--token-file", "-", stdin="a.b.c")
    assert (ended.code, "(invalid_target)" in ended.err) == (1, True)
    assert not (machine.shell.home / "job").exists()
