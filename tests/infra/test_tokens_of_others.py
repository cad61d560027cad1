"""Foreign libraries make tokens, and ask the service about them: all agree with it."""

import json
import subprocess
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from functions.introspection.handler import PATH
from shared.authorizer import token_id
from shared.model.identities.providers import ProviderKind
from tests.kit import identities
from tests.kit.api import Tenant
from tests.kit.listening import listening
from tests.kit.peers import asked
from tests.kit.processes import ROOT
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
    values = {"issuer": _ISSUER, "client_id": "accounts", "grants": ()}
    keys = {"keys": made["keys"]}
    kind = ProviderKind.TOKENS
    identities.bound(tenant.ports, tenant.operator, kind, jwks=keys, **values)
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
