"""The functions as Lambda calls them: events in, answers out, on both sets of adapters."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from functions.api_keys import handler as api_keys
from functions.audit_log import handler as audit_log
from functions.revocations import handler as revocations
from functions.srl import handler as srl
from infra import data_folder
from shared.model.lists.verification import public_key_bytes, verify
from shared.operations.operator import onboarding
from shared.ports import Ports
from tests.infra.folders import chosen
from tests.kit.aws import aws
from tests.kit.lambda_events import (
    FORMATS,
    GROUPS,
    SOURCE_IP,
    Answer,
    Caller,
    Format,
    Pairs,
    Request,
    assert_error,
)

each_format = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.__name__)


@dataclass(frozen=True)
class World:
    """What the environment names, and an admin key of its one tenant."""

    ports: Ports
    tenant_id: str
    secret: str


@pytest.fixture(params=["embedded", "aws"])
def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """A tenant on each set of adapters, chosen as in production: by the environment."""
    with ExitStack() as stack:
        if request.param == "embedded":
            settings = _embedded(tmp_path)
        else:
            account = stack.enter_context(aws())
            settings = {
                "RESCIND_STORE": f"dynamodb:{account.table_prefix}",
                "RESCIND_BLOBS": f"s3:{account.bucket}",
                "RESCIND_KEY_WRAPPER": f"kms:{account.key_id}",
            }
        yield from _world(settings, monkeypatch)


@pytest.fixture
def embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    yield from _world(_embedded(tmp_path), monkeypatch)


def _embedded(folder: Path) -> dict[str, str]:
    data_folder.prepare(folder)
    return data_folder.environment(folder)


def _world(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with chosen(settings, monkeypatch) as ports:
        tenant, created = onboarding.create_tenant(ports, handle="acme")
        yield World(ports, tenant.tenant_id, created.secret)


@pytest.mark.slow_on("rest_api", "http_api_1_0")
@each_format
def test_a_session_over_the_functions(world: World, form: Format) -> None:
    """From a new key over a revocation to a verified list: the functions work as one service."""
    admin = Caller(form, world.secret)
    key = _create_key(admin, "authorizer")
    authorizer = Caller(form, key["key"])
    revocation = _revoke(admin, "svc_wrt_a")
    assert _is_revoked(authorizer, "svc_wrt_a")
    assert _publish(admin) == {"version": 2, "revocation_count": 1}
    assert _read_list(authorizer) == ["svc_wrt_a"]
    gone = admin.call(revocations.handler, "DELETE", f"/v1/revocations/{revocation['id']}")
    assert (gone.status, gone.body) == (204, b"")
    assert not _is_revoked(authorizer, "svc_wrt_a")
    revoked = admin.call(api_keys.handler, "POST", f"/v1/api-keys/{key['id']}/revoke")
    assert revoked.json()["status"] == "revoked"
    refused = authorizer.call(srl.handler, "GET", "/v1/revocations/srl/signed")
    assert_error(refused, 401, "invalid_api_key")


@pytest.mark.slow_on("rest_api", "http_api_1_0")
@each_format
@pytest.mark.parametrize("secret", ["", "key"])
def test_every_function_answers_these_methods(embedded: World, form: Format, secret: str) -> None:
    """API-2, F2220b: No function fails at HEAD, GET or OPTIONS; 405 names what the path allows."""
    caller = Caller(form, embedded.secret if secret else None)
    found = [(each.handler, path) for each in GROUPS for path in _paths(each.name)]
    for name, path in (
        ("introspection", "/v1/oauth/introspect"),
        *(("sign_in", each) for each in ("/v1/sign-in", "/v1/token")),
        *(("sign_in_code", each) for each in ("/v1/sign-in/code", "/v1/logout/svc_idp_0")),
        ("status_lists", "/v1/status-lists/jwks.json"),
    ):
        found.append((import_module(f"functions.{name}.handler").handler, path))
    for handler, path in found:
        for method in ("HEAD", "GET", "OPTIONS"):
            answer = caller.call(handler, method, path)
            assert answer.status < 500, (method, path)
            assert answer.status != 405 or answer.headers["allow"]


def _paths(name: str) -> set[str]:
    routes = import_module(f"functions.{name}.handler").routes.routes
    return {re.sub(r"[{][^}]*[}]", "svc_x_0", route.path) for route in routes}


@each_format
@pytest.mark.parametrize("path", ["/v1%2Fapi-keys", "/v1/api-keys%2fsvc_x_0"])
def test_an_encoded_slash_separates_nothing(embedded: World, form: Format, path: str) -> None:
    """F2222a, S8: An encoded slash in a path leads to 404, as on a server."""
    answer = Caller(form, embedded.secret).call(api_keys.handler, "GET", path)
    assert_error(answer, 404, "not_found")


@each_format
def test_a_body_in_base64_is_the_same_body(embedded: World, form: Format) -> None:
    """What API Gateway sends in base64 is read as the bytes that the caller sent."""
    admin = Caller(form, embedded.secret)
    body = json.dumps({"warrant_id": "svc_wrt_a", "reason": "gestohlen ✗ 🔑"}, ensure_ascii=False)
    created = admin.call(
        revocations.handler, "POST", "/v1/revocations", body=body.encode(), as_base64=True
    )
    assert (created.status, created.json()["reason"]) == (201, "gestohlen ✗ 🔑")
    broken = admin.call(
        revocations.handler, "POST", "/v1/revocations", body=b'{"reason":"\xff"}', as_base64=True
    )
    assert_error(broken, 400, "invalid_request")


@each_format
def test_parameters_arrive_as_they_were_sent(embedded: World, form: Format) -> None:
    """A cursor goes through API Gateway unharmed, and a page follows the other."""
    admin = Caller(form, embedded.secret)
    for name in "abc":
        _revoke(admin, f"svc_wrt_{name}")
    seen: list[str] = []
    query: Pairs = (("limit", "1"),)
    while True:
        page = admin.call(revocations.handler, "GET", "/v1/revocations", query=query).json()
        seen += [record["warrant_id"] for record in page["revocations"]]
        if page["cursor"] is None:
            break
        query = (("limit", "1"), ("cursor", page["cursor"]))
    assert seen == ["svc_wrt_c", "svc_wrt_b", "svc_wrt_a"]


@each_format
@pytest.mark.parametrize("value", ["svc_wrt_a%20", "svc_wrt_a&b", "svc_wrt_a+b", "", "svc_wrt_é"])
def test_a_parameter_is_decoded_once(embedded: World, form: Format, value: str) -> None:
    """F20: a parameter that is no warrant identifier is none after decoding, nor are two of it."""
    admin = Caller(form, embedded.secret)
    for query in ((("warrant_id", value),), (("warrant_id", "svc_wrt_a"),) * 2):
        checked = admin.call(revocations.handler, "GET", "/v1/revocations/check", query=query)
        assert_error(checked, 400, "invalid_request")


@each_format
def test_two_keys_are_none(embedded: World, form: Format) -> None:
    """F15: an Authorization header sent twice opens nothing, even with a right key in it."""
    admin = Caller(form, embedded.secret)
    twice = (("Authorization", f"Bearer {embedded.secret}"),)
    refused = admin.call(api_keys.handler, "GET", "/v1/api-keys", headers=twice)
    assert_error(refused, 401, "invalid_api_key")


@each_format
def test_the_source_address_is_the_gateways_word(embedded: World, form: Format) -> None:
    """F15: the audit log has the address that API Gateway saw, whatever X-Forwarded-For says."""
    forged = (("X-Forwarded-For", "192.0.2.1"), ("Forwarded", "for=192.0.2.1"))
    body = {"warrant_id": "svc_wrt_a", "reason": "stolen"}
    admin = Caller(form, embedded.secret)
    admin.call(revocations.handler, "POST", "/v1/revocations", json=body, headers=forged)
    query = (("action", "revocation.create"),)
    entries = admin.call(audit_log.handler, "GET", "/v1/audit-logs", query=query).json()
    assert [entry["source_ip"] for entry in entries["audit_logs"]] == [SOURCE_IP]


@each_format
def test_text_that_is_not_unicode_is_refused(form: Format) -> None:
    """F320a: An event with half of a surrogate pair is answered with 400 and changes nothing."""
    half = "\ud800"
    whole = form(Request("POST", "/v1/revocations", body=b"{}"))
    body = {"body": f'{{"reason":"{half}"}}'}
    query = {"rawQueryString": half, "queryStringParameters": {"a": half}}
    query["multiValueQueryStringParameters"] = {"a": [half]}
    for part in (body, query, {"headers": {"x": half}, "multiValueHeaders": {"x": [half]}}):
        answer = Answer.of(revocations.handler(whole | part, None))
        assert_error(answer, 400, "invalid_request")


def _create_key(admin: Caller, scope: str) -> dict[str, Any]:
    body = {"name": "authoriser", "scopes": [scope]}
    answer = admin.call(api_keys.handler, "POST", "/v1/api-keys", json=body)
    assert answer.status == 201, answer.body
    created: dict[str, Any] = answer.json()
    return created


def _revoke(admin: Caller, warrant_id: str) -> dict[str, Any]:
    body = {"warrant_id": warrant_id, "reason": "stolen"}
    answer = admin.call(revocations.handler, "POST", "/v1/revocations", json=body)
    assert answer.status == 201, answer.body
    record: dict[str, Any] = answer.json()
    return record


def _is_revoked(caller: Caller, warrant_id: str) -> bool:
    query = (("warrant_id", warrant_id),)
    one = caller.call(revocations.handler, "GET", "/v1/revocations/check", query=query)
    body = {"warrant_ids": [warrant_id]}
    many = caller.call(revocations.handler, "POST", "/v1/revocations/check-batch", json=body)
    revoked = bool(one.json()["revoked"])
    assert many.json()["results"][warrant_id]["revoked"] == revoked
    return revoked


def _publish(admin: Caller) -> dict[str, int]:
    published = admin.call(srl.handler, "POST", "/v1/revocations/srl/regenerate").json()
    return {name: published[name] for name in ("version", "revocation_count")}


def _read_list(caller: Caller) -> list[str]:
    keys = caller.call(srl.handler, "GET", "/v1/revocations/srl/keys").json()["keys"]
    answer = caller.call(srl.handler, "GET", "/v1/revocations/srl/signed")
    key = public_key_bytes(keys[0]["public_key"])
    return verify(answer.body, public_key=key, now=datetime.now(UTC)).revoked_ids
