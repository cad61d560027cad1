"""The OpenAPI document says what really happens (and a fuzzer looks for where it does not)."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra import openapi
from shared import errors
from shared.authorizer.formats import warrants
from shared.model import text
from shared.model.callers import Scope
from shared.model.lists import verification as srl_verification
from shared.model.lists.signers import SuccessionStatement
from tests.kit.endpoints import ENDPOINTS, shape

DOCUMENT: Final = openapi.document()
OPERATIONS: Final = {
    (method.upper(), path): described
    for path, methods in DOCUMENT["paths"].items()
    for method, described in methods.items()
}


def _texts(value: Any, name: str = "") -> Iterator[str]:
    """All texts for readers in a part of the document."""
    if isinstance(value, dict):
        for each, member in value.items():
            yield from _texts(member, each)
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member)
    elif name in {"description", "summary"}:
        yield value


def _resolved(value: Any) -> Any:
    """What a reference refers to, or the value itself."""
    while "$ref" in value:
        found = DOCUMENT
        for step in value["$ref"].split("/")[1:]:
            found = found[step]
        value = found
    return value


def _json(response: Any) -> Any:
    """What a response says of its JSON body; nothing of an empty one."""
    return _resolved(response).get("content", {}).get("application/json", {})


def test_the_kept_document_is_current() -> None:
    """What is in docs/ is what the code says; `make written` writes it anew."""
    assert openapi.PATH.read_text(encoding="utf-8") == openapi.text(), "run `make written`"


def test_texts_are_the_same_on_every_python() -> None:
    """F33d: The OpenAPI document has the same texts on every version of Python."""
    for words in _texts(DOCUMENT["paths"]):
        lines = words.splitlines()
        assert lines == [line.strip() for line in lines]


# --- names ---


def test_operations_keep_their_names() -> None:
    """F142a: The operation names that clients are generated with never change."""
    names = {key: described["operationId"] for key, described in OPERATIONS.items()}
    assert names == {key: endpoint.name for key, endpoint in ENDPOINTS.items()}
    assert all(re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", name) for name in names.values())


def test_schemas_have_names_of_their_own() -> None:
    """F142b: Every schema of the API document has a readable name of its own."""
    for name in DOCUMENT["components"]["schemas"]:
        assert re.fullmatch(r"([A-Z][a-z]+)+", name), name
        assert name not in {"Action", "Format", "Sign", "Status", "Type"}


# --- texts ---


def test_texts_are_for_users() -> None:
    """F142c: The texts of the API document name no module, exception or unpublished document."""
    names = "|".join(re.findall(r"\b[A-Z][a-z]+[A-Z]\w+\b", " ".join(vars(errors))))
    internal = re.compile(rf"Raises|service\.md|decisions|docs/|shared[._]|functions[._]|{names}")
    assert internal.search("Raises `NotFound`.")
    for words in _texts({name: DOCUMENT[name] for name in ("info", "tags", "paths", "components")}):
        assert not internal.search(words), words


def test_everything_is_described() -> None:
    """F143a: The API document describes every operation, parameter, schema and field."""
    schemas = DOCUMENT["components"]["schemas"]
    for described in OPERATIONS.values():
        assert described["summary"][0].isupper()
        assert not described["summary"].endswith(".")
        for parameter in described.get("parameters", []):
            assert parameter["description"].endswith(".")
    for name, schema in schemas.items():
        assert schema["description"], name
        for field, member in schema.get("properties", {}).items():
            of_kind = schemas.get(member.get("$ref", "").split("/")[-1], {})
            what = member.get("description") or of_kind.get("description")
            assert what, f"{name}.{field}"
            assert what.endswith("."), f"{name}.{field}"


NEVER_NULL = {
    "RevocationCheck": {"revoked_at", "reason"},
    "RevocationStatus": {"revoked_at"},
    "SigningKey": {"rotated_at", "version", "successor_id"},
    "ListedSigningKey": {"warrant_count"},
    "SignedWarrant": {"warrant", "signature"},
    "RevokedSigningKey": {"descendants", "keys", "warrants"},
}


@pytest.mark.parametrize("name", NEVER_NULL)
def test_what_is_left_out_is_never_null(name: str) -> None:
    """F143b: A member that may be absent is never described as null."""
    schema = DOCUMENT["components"]["schemas"][name]
    for field in NEVER_NULL[name]:
        assert field not in schema["required"]
        assert not {"anyOf", "default"} & set(schema["properties"][field])


@given(st.text(max_size=40) | st.sampled_from(["\x1c a\x85", "\n\n a b \t", "a\tb", "a\x00"]))
@pytest.mark.parametrize(("schema", "rule"), [("name", text.name), ("reason", text.reason)])
def test_the_pattern_of_texts_refuses_none_that_is_accepted(
    schema: str, rule: Callable[[str], str], value: str
) -> None:
    """F143c: The pattern of texts in the API document accepts what the service accepts."""
    body = "CreateApiKey" if schema == "name" else "CreateRevocation"
    described = DOCUMENT["components"]["schemas"][body]["properties"][schema]
    try:
        rule(value)
    except ValueError:
        return
    assert jsonschema_rs.is_valid({"pattern": described["pattern"]}, value)


# --- operations ---


def test_every_operation_is_complete() -> None:
    """Scopes, the headers of every response, an error body and examples for every error."""
    headers = {"X-Request-Id", "X-RateLimit-Limit", "X-RateLimit-Reset"}
    for key in OPERATIONS:
        described, endpoint = OPERATIONS[key], ENDPOINTS[key]
        scopes = [scope for each in described["security"] for scope in each["apiKey"]]
        assert scopes == list(endpoint.scopes), key
        assert described["tags"][0] in {tag["name"] for tag in DOCUMENT["tags"]}, key
        assert {"400", "401", "413", "415", "429", "500", "503"} <= set(described["responses"]), key
        assert ("403" in described["responses"]) == (len(scopes) < len(Scope)), key
        for status, response in described["responses"].items():
            found = _resolved(response)
            assert set(found["headers"]) >= headers, key
            assert ("Retry-After" in found["headers"]) == (status in {"429", "503"}), key
            assert status < "400" or found["content"]["application/json"]["examples"], key


# --- examples ---


def _examples() -> Iterator[tuple[str, Any, Any]]:
    """Each example with its schema: of schemas, of their fields, of errors, of headers."""
    components = DOCUMENT["components"]
    for name, schema in components["schemas"].items():
        for value in schema.get("examples", []):
            yield name, schema, value
        for field, member in schema.get("properties", {}).items():
            for value in member.get("examples", []):
                yield f"{name}.{field}", member, value
    for name, header in components["headers"].items():
        yield name, header["schema"], header["example"]
    responses = [*components["responses"].items()]
    responses += [
        (described["operationId"], response)
        for described in OPERATIONS.values()
        for response in described["responses"].values()
    ]
    for name, response in responses:
        for code, value in _json(response).get("examples", {}).items():
            yield f"{name} {code}", _json(response)["schema"], value["value"]


def test_an_example_fits_its_schema() -> None:
    """F144a: Every example of the API document matches its schema."""
    names, schemas, values = map(list, zip(*_examples(), strict=True))
    assert len(names) > 400
    # All in one schema, as it takes a while to read the components.
    whole = {"prefixItems": schemas, "components": DOCUMENT["components"]}
    checked = jsonschema_rs.validator_for(whole, validate_formats=True)
    assert [names[int(each.instance_path[0])] for each in checked.iter_errors(values)] == []


def test_the_example_of_an_answer_has_the_members_of_the_answer() -> None:
    """F144b: Every example of an answer has exactly the members of the answer."""
    for key in OPERATIONS:
        body = _json(OPERATIONS[key]["responses"][str(ENDPOINTS[key].status)])
        if ENDPOINTS[key].fields is None:
            assert not body, key
            continue
        (example,) = _resolved(body["schema"])["examples"]
        assert shape(example) == _filled(ENDPOINTS[key].fields, example), key


def _filled(fields: Any, example: Any) -> Any:
    """The contract's members; those of an object that a caller made up are the example's."""
    if isinstance(fields, dict) and isinstance(example, dict):
        if set(fields) <= {"svc_wrt_a"}:
            return shape(example)
        return {name: _filled(fields[name], example.get(name)) for name in fields}
    if isinstance(fields, list) and isinstance(example, list):
        return [_filled(fields[0], example[0])] if fields else shape(example)
    return shape(example) if fields is ... else fields


def test_the_example_of_a_list_verifies() -> None:
    """F144c: The signed list, statement and warrant in the examples verify."""
    schemas = DOCUMENT["components"]["schemas"]
    (listed,), (signer,) = (
        schemas[name]["examples"] for name in ("SignedRevocationList", "SrlKey")
    )
    key = base64.b64decode(signer["public_key"])
    now = datetime(2026, 11, 21, 12, 1, tzinfo=UTC)
    body = json.dumps(listed).encode()
    payload = srl_verification.verify(body, public_key=key, now=now)
    assert payload.revoked_ids == listed["payload"]["RevokedIDs"]
    assert SuccessionStatement.parse(signer["statement"]).public_key == key
    (signed,) = schemas["SignedWarrant"]["examples"]
    (tenant,) = schemas["TenantSettings"]["examples"]
    claims = warrants.verify(
        base64.b64decode(signed["warrant"]),
        tenant_id=tenant["tenant_id"],
        public_keys=[base64.b64decode(signed["public_key"])],
        now=now,
    )
    assert claims.warrant_id == signed["warrant_id"]
