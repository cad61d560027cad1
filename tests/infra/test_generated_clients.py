"""Tools of others read docs/openapi.json: a linter, two generators, a client that one made."""

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from infra import openapi
from tests.infra.generators import run
from tests.kit import gates, issuers
from tests.kit.processes import ROOT, LocalServer, local_server

pytestmark = pytest.mark.slow

_PYTHON: Final = ROOT / ".tools/client/bin"
_JWKS: Final = issuers.key_set(issuers.public(issuers.key("ES256"), kid="k1"))
_NODE: Final = ROOT / ".tools/openapi/node_modules/.bin"


def test_a_linter_finds_nothing() -> None:
    """F145a: Redocly finds no error and no warning in the API document."""
    said = run(
        _NODE / "redocly",
        "lint",
        openapi.PATH,
        "--extends",
        "recommended",
        "--max-problems",
        "1000",
        # The paths of tiles are those of C2SP; `tile` is no identifier of an entry.
        "--skip-rule",
        "no-ambiguous-paths",
    )
    assert "Your API description is valid" in said
    assert "You have" not in said


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a Python client that was generated without a warning."""
    folder = tmp_path_factory.mktemp("client")
    # No formatting afterwards: nobody reads it.
    # It knows no CBOR, which is bytes like any other.
    overrides = "content_type_overrides: {application/cbor: application/octet-stream}"
    (folder / "settings.yaml").write_text(f"post_hooks: []\n{overrides}\n")
    said = run(
        *(_PYTHON / "openapi-python-client", "generate", "--fail-on-warning"),
        *("--path", openapi.PATH, "--config", folder / "settings.yaml"),
        *("--meta", "none", "--output-path", folder / "rescind_client"),
    )
    assert "arning" not in said
    return folder


def test_a_generated_client_has_a_type_for_every_answer(client: Path, tmp_path: Path) -> None:
    """F145b: A generated Python client has a type for every answer of a real server."""
    with local_server(tmp_path / "data") as server:
        said = run(
            *(_PYTHON / "python", ROOT / "tests/tools/client_session.py", server.url),
            stdin=server.admin_key,
            settings={
                "PYTHONPATH": str(client),
                "JWKS": _JWKS,
                "TOKENS": json.dumps({each: _token(each) for each in ("alice", "bob", "carol")}),
                "GATEWAY": _gateway(server),
            },
        )
    seen = json.loads(said)
    documented = {
        re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name): kind
        for name, kind in _documented().items()
    }
    # The path of a tile has slashes, which such clients escape.
    assert documented.pop("get_audit_tile") == "File"
    assert seen == documented


def _gateway(server: LocalServer) -> str:
    """The proof and a report of an authorizer, which this registers: the client signs nothing."""

    def call(method: str, path: str, body: Any = None) -> Any:
        key = {"Authorization": f"Bearer {server.admin_key}"}
        answer = httpx2.request(method, f"{server.url}/v1/{path}", headers=key, json=body)
        return answer.raise_for_status().json()

    tenant_id = call("GET", "whoami")["tenant_id"]
    body = gates.registration(tenant_id, "gateway", datetime.now(UTC))
    made = call("POST", "authorizers/register", body)["id"]
    return json.dumps(body | {"report": gates.report(None, tenant_id, made)})


def _token(name: str) -> str:
    now = int(time.time())
    email = f"{name}@example.com"
    who = {"iss": issuers.ISSUER, "aud": "rescind", "sub": name, "email": email}
    who["email_verified"] = "true"
    said = {**who, "groups": "security", "iat": now, "auth_time": now, "exp": now + 300}
    return issuers.signed({"alg": "ES256", "kid": "k1"}, said, issuers.key("ES256"))


# What the generated client makes of answers that are not JSON.
_KINDS: Final = {
    "application/cbor": "File",
    "application/octet-stream": "File",
    "application/x-ndjson": "str",
    "text/plain": "str",
}


def _documented() -> dict[str, str]:
    """What each operation answers, by the document; a deletion answers nothing."""
    answers = {}
    for methods in openapi.document()["paths"].values():
        for described in methods.values():
            success = next(
                each for each in ("200", "201", "204", "202") if each in described["responses"]
            )
            body = described["responses"][success].get("content", {})
            kind = next((_KINDS[each] for each in body if each in _KINDS), "NoneType")
            reference = body.get("application/json", {"schema": {"$ref": kind}})
            answers[described["operationId"]] = reference["schema"]["$ref"].split("/")[-1]
    return answers


def test_types_for_typescript_compile(tmp_path: Path) -> None:
    """F145c: The types that are generated for TypeScript compile without a warning."""
    types = tmp_path / "rescind.ts"
    said = run(_NODE / "openapi-typescript", openapi.PATH, "--output", types)
    assert "arn" not in said
    (tmp_path / "uses.ts").write_text(_USES)
    run(_NODE / "tsc", "--strict", "--noEmit", "--target", "es2022", types, tmp_path / "uses.ts")


# An unused `@ts-expect-error` is an error.
_USES: Final = """\
import type { components, operations } from "./rescind";

type Answer<Name extends keyof operations, Status extends keyof operations[Name]["responses"]> =
  operations[Name]["responses"][Status] extends { content: { "application/json": infer Body } }
    ? Body : never;

const record: Answer<"createRevocation", 201> = {
  id: "svc_rev_01kbm4xt3rfz8c5w7y2q9n6d1e", warrant_id: "svc_wrt_a", reason: "stolen",
  created_at: "2026-11-21T12:00:00Z", created_by: "admin@acme.svc",
  created_by_name: "gateway",
};
const check: Answer<"checkRevocation", 200> = { warrant_id: "svc_wrt_a", revoked: false };
const status: components["schemas"]["SigningKeyStatus"] = "rotated";
// @ts-expect-error: what is left out is never null
const wrong: Answer<"checkRevocation", 200> = { ...check, revoked_at: null };
console.log(record, status, wrong);
"""
