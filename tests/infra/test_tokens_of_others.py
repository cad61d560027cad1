"""Foreign libraries make tokens, and ask the service about them: all agree with it."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from functions.introspection.handler import PATH
from functions.status_lists import operations as status_lists
from shared.authorizer import AuthorizerClient, Verdict, token_id
from shared.model.identities.providers import ProviderUsage
from shared.operations.lists import in_force, publication
from tests.authorizer.clients import arguments
from tests.authorizer.service import Service, serving
from tests.infra import console
from tests.infra.terminal import Terminal
from tests.kit import identities, issuers
from tests.kit.api import Tenant, serve
from tests.kit.listening import listening
from tests.kit.peers import asked
from tests.kit.processes import ROOT, LocalServer, local_server
from tests.kit.waiting import soon
from tests.kit.worlds import Clock

pytestmark = pytest.mark.slow

_ISSUER: Final = "https://as.example"
_TOOL: Final = ROOT / ".tools" / "oauth"


def _oauth(command: str, request: dict[str, Any]) -> Any:
    """What `tests/tools/oauth.mjs` answers."""
    assert _TOOL.exists(), f"{_TOOL} is missing; `make test-slow` installs it"
    program = (ROOT / "tests/tools/oauth.mjs").read_text(encoding="utf-8")
    answered = subprocess.run(
        ["node", "--input-type=module", "--eval", program, command],
        input=json.dumps(request),
        cwd=_TOOL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answered.returncode == 0, answered.stderr
    return json.loads(answered.stdout)


@pytest.fixture
def clock() -> Clock:
    """The time of the libraries."""
    return Clock(datetime.now(UTC))


def test_clients_of_oauth_agree_on_each_token(tenant: Tenant) -> None:
    """F1396a: `oauth4webapi` and `authlib` read the answers about tokens that `jose` made.

    Tokens are good, revoked, expired, of somebody else, and broken; keys of three algorithms.
    """
    asking = {"issuer": _ISSUER, "audience": "accounts", "jtis": ["good", "revoked", "expired"]}
    made, foreign = _oauth("make", asking), _oauth("make", asking)
    values = {"issuer": _ISSUER, "client_id": "accounts", "role_mappings": ()}
    keys = {"keys": made["keys"]}
    usage = ProviderUsage.VERIFY_ONLY
    identities.bound(tenant.ports, tenant.operator, usage, jwks=keys, **values)
    for algorithm in ("ES256", "EdDSA", "RS256"):
        tenant.revoke(token_id("jwt", _ISSUER, f"{algorithm}-revoked"))
    tokens = [*made["tokens"], *foreign["tokens"][::3], made["tokens"][0][:-8], "broken"]
    with listening(tenant.ports) as url:
        request = {"url": f"{url}{PATH}", "secret": tenant.authorizer.secret, "tokens": tokens}
        found = _oauth("introspect", request)
        assert asked("tokens", "tokens_peer.py", request, "introspect") == found
        refused = {**request, "secret": "wrong"}
        assert asked("tokens", "tokens_peer.py", refused, "introspect")[0]["error"] == (
            "invalid_client"
        )
        assert {each["status"] for each in _oauth("introspect", refused)} == {401}
    good = [each["jti"] for each in found if each["active"]]
    assert good == ["ES256-good", "EdDSA-good", "RS256-good"]
    assert all(each == {"active": False} for each in found if not each["active"])


def test_tokens_of_libraries_are_revoked(tenant: Tenant) -> None:
    """F1396b: What `biscuit`, `@ipld/dag-ucan` and `cryptography` call a token can be revoked."""
    empty: dict[str, Any] = {"issuer": _ISSUER, "audience": "accounts", "jtis": []}
    ucan = {"kind": "ucan", "issuer": "", "value": _oauth("make", empty)["ucan"]}
    tokens = [*asked("tokens", "tokens_peer.py", {}, "make"), ucan]
    assert [each["kind"] for each in tokens] == ["biscuit", "x509", "ucan"]
    for token in tokens:
        body = {"token": token, "reason": "stolen"}
        warrant_id = tenant.admin.post("/v1/revocations", json=body).json()["warrant_id"]
        assert warrant_id == token_id(**token)
        query = {f"token_{name}": value for name, value in token.items()}
        found = tenant.authorizer.get("/v1/revocations/check", params=query).json()
        assert (found["warrant_id"], found["revoked"]) == (warrant_id, True)


_JWT: Final = {"alg": "ES256", "kid": "k1"}


def _jwt(jti: str) -> str:
    claims = {"iss": _ISSUER, "sub": "ann", "aud": "accounts", "jti": jti, "exp": time.time() + 600}
    return issuers.signed(_JWT, claims, issuers.key("ES256"))


@contextmanager
def _desk(folder: Path, **more: str) -> Iterator[tuple[LocalServer, Terminal]]:
    """A server, and a terminal of its administrator."""
    with local_server(folder / ".data") as server:
        settings = {
            "RESCIND_CONFIG_DIR": str(folder.with_name(f"{folder.name}-home")),
            "RESCIND_URL": server.url,
            "RESCIND_API_KEY": server.admin_key,
        }
        with Terminal(folder, settings | more) as terminal:
            terminal.type('export PATH="$PWD/.venv/bin:$PATH"')
            yield server, terminal


def test_the_page_on_tokens(tmp_path: Path) -> None:
    """F1396c: The commands of docs/tokens.md revoke JWTs and a Biscuit, and introspect a JWT."""
    of_jwt, of_subject, of_gateway, of_biscuit, *_ = console.blocks("docs/tokens.md")
    biscuit = asked("tokens", "tokens_peer.py", {}, "make")[0]
    (tmp_path / "stolen.jwt").write_text(_jwt("stolen-1"))
    keys = issuers.key_set(issuers.public(issuers.key("ES256"), kid="k1"))
    (tmp_path / "jwks.json").write_text(keys)
    with _desk(tmp_path, JWT=_jwt("good-2")) as (_, terminal):
        assert terminal.type(of_jwt).count("1 revoked") == 2
        assert "left the company" in terminal.type(of_subject).rpartition("VERDICT")[2]
        assert '{"active":true,"iss":"https://as.example"' in terminal.type(of_gateway)
        revoked = terminal.type(of_gateway.splitlines()[-1].replace("$JWT", _jwt("stolen-1")))
        assert revoked.endswith('{"active":false}')
        terminal.type(of_biscuit.replace("c8976509f2cc…", biscuit["value"]))
        named = token_id(**biscuit)
        assert "revoked" in terminal.type(f"rescind check {named} || test $? -eq 3")


def test_the_lines_about_biscuits() -> None:
    """F1396d: The lines of docs/tokens.md refuse a Biscuit of which any block is revoked."""
    page = (ROOT / "docs" / "tokens.md").read_text(encoding="utf-8")
    lines = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[-1]
    ids = [each["value"] for each in asked("tokens", "tokens_peer.py", {}, "make")[:1]]
    named = {"token_id": token_id, "Verdict": Verdict}
    biscuit = SimpleNamespace(revocation_ids=["00" * 64, *ids])
    with serving(Service()) as service:
        service.vouch()
        with AuthorizerClient(service.url, **arguments(report=False)) as client:
            exec(lines, {**named, "biscuit": biscuit, "client": client})
            service.revoke(token_id("biscuit", "", ids[0]))
            soon(lambda: client.check([token_id("biscuit", "", ids[0])]) is Verdict.REVOKED)
            with pytest.raises(PermissionError, match="revoked"):
                exec(lines, {**named, "biscuit": biscuit, "client": client})


def test_libraries_read_status_lists(tenant: Tenant) -> None:
    """F1465a: Foreign libraries read all 2^20 entries of a list, revoked or not, and an empty one.

    `jose` verifies it until its end and not after it; `@sd-jwt/jwt-status-list`,
    `@owf/token-status-list` and `token-status-list` read it.
    """
    with listening(tenant.ports) as url:
        body = {"name": "badges", "url": url}
        made = tenant.admin.post("/v1/status-lists", json=body).json()
        keys = f"{url}/v1/status-lists/jwks.json?list={made['id']}"
        request = {"uri": made["uri"], "keys": keys, "indexes": [0, 1, 7, 8, 4711, 2**20 - 1]}
        expected: list[int] = []
        (stored,) = status_lists.every(tenant.ports, tenant.operator)
        for revoked in ([], [0, 4711, 2**20 - 1], [1, 7, 8]):
            for index in revoked:
                tenant.revoke(f"{stored.warrant_prefix}{index}")
            publication.publish(tenant.ports, tenant.operator)
            expected = sorted({*expected, *revoked})
            bits = [int(each in expected) for each in request["indexes"]]
            found = _oauth("status", request)
            assert (found["sdjwt"], found["owf"]) == (bits, bits)
            read = {"list": found["list"], "indexes": request["indexes"]}
            assert asked("tokens", "tokens_peer.py", read, "status") == [2**20, bits]
        ends = in_force.read_srl_head(tenant.ports, tenant.id).expires_at.timestamp()
        assert "refused" not in _oauth("status", {**request, "now": ends - 1})
        assert _oauth("status", {**request, "now": ends})["refused"] == "ERR_JWT_EXPIRED"
        other = Tenant(tenant.ports, serve(tenant.ports), handle="other")
        theirs = other.admin.post("/v1/status-lists", json=body).json()
        keys = f"{url}/v1/status-lists/jwks.json?list={theirs['id']}"
        refused = _oauth("status", {**request, "keys": keys})["refused"]
        assert refused == "ERR_JWKS_NO_MATCHING_KEY"


def test_the_page_on_status_lists(tmp_path: Path) -> None:
    """F1466a: The commands of docs/tokens.md revoke a credential, and its verifier refuses it.

    The verifier, which is not ours, accepts the one beside it, and knows nothing if the service is
    down.
    """
    *_, of_list, of_revocation = console.blocks("docs/tokens.md")
    page = (ROOT / "docs" / "tokens.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```js\n(.*?)```", page, re.DOTALL)
    (shown,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    with _desk(tmp_path) as (server, terminal):
        one, other, _ = map(int, terminal.type(of_list).split())
        found = terminal.type('echo "$LIST"').strip()
        address = f"{server.url}/v1/status-lists"
        keys = f"{address}/jwks.json?list={found}"

        def holds(index: int) -> Any:
            claims = json.loads(shown)
            claims["status"]["status_list"] = {"uri": f"{address}/{found}", "idx": index}
            return _oauth("holds", {"lines": lines, "claims": claims, "keys": keys})

        assert json.loads(shown)["status"]["status_list"].keys() == {"uri", "idx"}
        assert holds(one) is holds(other) is True
        terminal.type(re.sub("tsl-.*-90412", f"tsl-{found[8:]}-{one}", of_revocation))
        terminal.type("rescind srl publish")
        assert (holds(one), holds(other)) == (False, True)
    assert "fetch failed" in holds(other)
