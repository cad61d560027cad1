"""What every response carries, in which order requests are refused, and what failures tell."""

import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from shared.errors import InvalidSettings, RequestError, Unavailable
from shared.model import api_keys as model
from shared.ports import Ports
from shared.web.errors import STATUS
from shared.web.gate import ApiMiddleware
from tests.kit.api import Client, Tenant, serve
from tests.kit.asgi import Answer, bearer, exchange, request_scope, run, send
from tests.kit.endpoints import shape
from tests.kit.log_lines import lines, metrics
from tests.web.outages import Fails, behind_the_gate, breaking, on_authentication

KEYS = "/v1/api-keys"
REVOCATIONS = "/v1/revocations"
SRL = "/v1/revocations/srl"
JSON = ("Content-Type", "application/json")
SECRET = "svc_" + "s3cret" * 7


def ask(
    tenant: Tenant, method: str, path: str, *headers: tuple[str, str], body: bytes = b""
) -> Any:
    return send(
        tenant.admin.http.app,
        method,
        path,
        headers=bearer(tenant.admin.secret, *headers),
        chunks=[body],
    )


def broken(tenant: Tenant, error: BaseException, fails: Fails = behind_the_gate) -> Client:
    """The admin at an instance on a store that raises `error` where `fails` says so."""
    store = breaking(tenant.ports.store, error, fails)
    return Client(serve(replace(tenant.ports, store=store)), tenant.admin.secret)


def drained(tenant: Tenant) -> Answer:
    """The answer to one request more than an anonymous caller may send at once."""

    async def burst() -> Answer:
        for _ in range(2000):
            await exchange(tenant.admin.http.app, "GET", KEYS)
        return await exchange(tenant.admin.http.app, "GET", KEYS)

    return run(burst())


def not_modified(tenant: Tenant) -> Any:
    return ask(tenant, "GET", SRL, ("If-None-Match", "*"))


BODY = b'{"warrant_id": "svc_wrt_a", "reason": "stolen"}'
BIG = b" " * (256 * 1024 + 1)

# Named by the status that each one leads to.
SITUATIONS: dict[int, Callable[[Tenant], Any]] = {
    200: lambda tenant: ask(tenant, "GET", KEYS),
    201: lambda tenant: ask(tenant, "POST", REVOCATIONS, JSON, body=BODY),
    204: lambda tenant: ask(tenant, "DELETE", f"{KEYS}/{tenant.read_only.key_id}"),
    304: not_modified,
    400: lambda tenant: ask(tenant, "GET", f"{KEYS}?limit=0"),
    401: lambda tenant: send(tenant.admin.http.app, "GET", KEYS),
    403: lambda tenant: tenant.authorizer.get(KEYS),
    404: lambda tenant: ask(tenant, "GET", "/nowhere"),
    405: lambda tenant: ask(tenant, "PUT", KEYS),
    409: lambda tenant: ask(tenant, "DELETE", f"{KEYS}/{tenant.admin.key_id}"),
    413: lambda tenant: ask(tenant, "POST", REVOCATIONS, JSON, body=BIG),
    415: lambda tenant: ask(tenant, "POST", REVOCATIONS, body=BODY),
    429: drained,
    500: lambda tenant: broken(tenant, RuntimeError(SECRET)).get(KEYS),
    503: lambda tenant: broken(tenant, Unavailable("throttled")).get(KEYS),
}
# The fields of every line, and of a line about a request.
COMMON = ("time", "level", "logger", "message")
REQUEST = (
    *("request_id", "gateway_request_id", "tenant_id", "key_id", "source_ip", "operation"),
    *("status", "outcome", "duration_ms"),
)
REFUSED = {401: "Rejected401", 403: "Rejected403", 429: "Rejected429"}

# Beside those of every response.
ONLY_ON = {
    "www-authenticate": {401, 403},
    "retry-after": {429, 503},
    "allow": {405},
    "etag": {304},
    "location": set[int](),
    "set-cookie": set[int](),
    "server": set[int](),
}


@pytest.mark.parametrize("status", SITUATIONS)
def test_each_response_and_its_line(
    tenant: Tenant, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """API-8, API-9, OPS-6, F72a, S7: Each response has the headers and the shape of its status.

    Its request leaves one log line: who, what, when, where, outcome.
    """
    caplog.set_level(logging.INFO, logger="shared.web.gate")
    answer = SITUATIONS[status](tenant)
    assert answer.status_code == status
    has_headers(answer, tenant)
    if status >= 400:
        assert answer.headers["content-type"] == "application/json"
        body = answer.json()
        assert shape(body) == {"error": {"code": ..., "message": ...}}
        assert all(isinstance(text, str) and text for text in body["error"].values())
    is_told(answer, tenant, lines(caplog, "request")[-1])


def has_headers(answer: Any, tenant: Tenant) -> None:
    status = answer.status_code
    assert answer.headers["x-ratelimit-limit"] == "1000"
    assert 0 <= int(answer.headers["x-ratelimit-remaining"]) <= 1000
    assert int(answer.headers["x-ratelimit-reset"]) >= tenant.ports.now().timestamp()
    assert re.fullmatch("[0-9a-f]{16}", answer.headers["x-request-id"])
    cache = "private, no-cache" if status == 304 else "no-store"
    assert answer.headers["cache-control"] == cache
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert int(answer.headers.get("retry-after", "1")) >= 1
    for name, statuses in ONLY_ON.items():
        assert (name in answer.headers) == (status in statuses), name


def test_request_ids_differ(tenant: Tenant) -> None:
    """No two requests share a request id, and a caller cannot choose one."""
    answers = [ask(tenant, "GET", KEYS, ("X-Request-Id", "mine")) for _ in range(20)]
    ids = {answer.headers["x-request-id"] for answer in answers}
    assert len(ids) == 20
    assert "mine" not in ids


def test_every_refusal_has_a_status() -> None:
    """Each error that a request can meet is in the table of statuses, with a code of its own."""
    kinds = RequestError.__subclasses__()
    kinds += [each for kind in kinds for each in kind.__subclasses__()]
    assert set(STATUS) == set(kinds)
    assert len({kind.code for kind in kinds}) == len(kinds)


# --- the order of checks ---

BROKEN = {"headers": {"Content-Type": "application/json"}, "content": b"{"}


def test_who_calls_comes_first(tenant: Tenant) -> None:
    """S1: A caller without a valid key learns nothing of routes, methods or bodies."""
    for method, path in (("POST", KEYS), ("GET", "/nowhere"), ("PUT", KEYS), ("POST", "/v1")):
        answer = tenant.anonymous.request(method, path, **BROKEN)
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "unauthorized"


@pytest.mark.parametrize("body", [b"{", b"\xff", BIG, b"[]"])
def test_the_scope_comes_before_the_body(tenant: Tenant, body: bytes) -> None:
    """API-6: The service checks the scopes of a key before the body of a request."""
    answer = tenant.read_only.post(KEYS, content=body)
    assert answer.status_code == 403
    assert tenant.read_only.get(f"{REVOCATIONS}?limit=0").status_code == 403
    assert tenant.read_only.delete(f"{KEYS}/nothing").status_code == 403


def test_the_body_comes_before_the_resource(tenant: Tenant) -> None:
    """API-6: The service checks the body of a request before it looks for the resource."""
    path = f"{KEYS}/{tenant.ports.new_id('ak')}/revoke"
    assert tenant.admin.post(path, **BROKEN).status_code == 400
    assert tenant.admin.post(f"{path}?x=1").status_code == 400
    assert tenant.admin.post(path).status_code == 404


def test_parameters_come_before_the_state(tenant: Tenant) -> None:
    """API-6: The service checks the parameters of a request before the state of the resource."""
    path = f"{KEYS}/{tenant.admin.key_id}"
    assert tenant.admin.delete(f"{path}?x=1").status_code == 400
    assert tenant.admin.delete(path).status_code == 409


# --- failures ---


def secretive() -> RuntimeError:
    error = RuntimeError(SECRET)
    error.__cause__ = KeyError(SECRET)
    error.add_note(SECRET)
    return error


@pytest.mark.parametrize("fails", [on_authentication, behind_the_gate])
@pytest.mark.parametrize("path", [KEYS, f"{REVOCATIONS}/check?warrant_id=svc_wrt_a", SRL])
def test_a_bug_does_not_reveal_its_text(
    tenant: Tenant, caplog: pytest.LogCaptureFixture, path: str, fails: Fails
) -> None:
    """OPS-5, F17a, S7: A crash is answered with 500; its text is in no answer and no log."""
    caplog.set_level(logging.DEBUG)
    answer = broken(tenant, secretive(), fails).get(path)
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert SECRET not in answer.text
    assert SECRET not in caplog.text
    assert str(tenant.admin.secret) not in caplog.text
    assert model.digest(str(tenant.admin.secret)) not in caplog.text


def test_a_bug_is_logged_with_its_request(tenant: Tenant, caplog: pytest.LogCaptureFixture) -> None:
    """The log has the request id that the caller got, the kind of the error and where it was."""
    answer = broken(tenant, secretive()).get(KEYS)
    (record,) = [record for record in caplog.records if record.name == "shared.web.gate"]
    assert record.levelno == logging.CRITICAL
    message = record.getMessage()
    assert answer.headers["x-request-id"] in message
    assert "RuntimeError" in message
    assert "in around" in message


def test_an_outage_is_logged_with_its_request(
    tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the request that met an outage, and the kind of its cause, but not its text."""
    error = Unavailable("the store did not answer")
    error.__cause__ = KeyError(SECRET)
    answer = broken(tenant, error).get(KEYS)
    (record,) = [record for record in caplog.records if record.name == "shared.web.gate"]
    assert record.levelno == logging.ERROR
    assert answer.headers["x-request-id"] in record.getMessage()
    assert "KeyError" in record.getMessage()
    assert SECRET not in caplog.text


def test_a_caller_who_leaves_is_no_crash(tenant: Tenant, caplog: pytest.LogCaptureFixture) -> None:
    """F78a: A caller that leaves during its body is logged as a request and not as a crash."""
    caplog.set_level(logging.INFO, logger="shared.web.gate")
    messages: list[Message] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop(0)

    async def keep(message: Message) -> None:
        sent.append(message)

    async def leave() -> None:
        scope = request_scope("POST", REVOCATIONS, bearer(tenant.admin.secret, JSON))
        await tenant.admin.http.app(scope, receive, keep)

    run(leave())
    assert (messages, sent) == ([], [])
    (line,) = lines(caplog)
    assert (line["outcome"], line["status"]) == ("client_disconnected", None)
    assert set(metrics(line)) == {"RequestSeconds"}


# An endpoint that was reached is named by its function; an anonymous call reaches none.
OPERATIONS = {
    200: "list_api_keys",
    201: "create_revocation",
    204: "delete_api_key",
    304: "get_srl",
    400: "list_api_keys",
    401: None,
    404: None,
    429: None,
    500: "list_api_keys",
    503: "list_api_keys",
}


def is_told(answer: Any, tenant: Tenant, line: dict[str, Any]) -> None:
    status = answer.status_code
    assert line["operation"] == OPERATIONS.get(status, line["operation"])
    assert line["request_id"] == answer.headers["x-request-id"]
    assert line["status"] == status
    error = status >= 400
    assert line["outcome"] == (answer.json()["error"]["code"] if error else "ok")
    assert line["duration_ms"] >= 0
    assert line["source_ip"] == "203.0.113.1"
    assert line["gateway_request_id"] is None
    anonymous = status in {401, 429}
    assert line["tenant_id"] == (None if anonymous else tenant.id)
    client = tenant.authorizer if status == 403 else tenant.admin
    assert line["key_id"] == (None if anonymous else client.key_id)
    counted = metrics(line)
    seconds, unit = counted.pop("RequestSeconds")
    assert (round(seconds * 1000, 3), unit) == (line["duration_ms"], "Seconds")
    assert counted == ({REFUSED[status]: (1, "Count")} if status in REFUSED else {})
    split = {"Operation": line["operation"] or "none", "Outcome": line["outcome"]}
    assert split.items() <= line.items()
    known = {"_aws", "Stage", "RequestSeconds", *split, *counted}
    assert set(line) - known == {*COMMON, *REQUEST}


def test_a_line_is_found_by_the_gateways_request_id(
    tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    """F72b, S7: The log line of a request contains the request identifier of the gateway."""
    caplog.set_level(logging.INFO, logger="shared.web.gate")

    async def behind_gateway(scope: Scope, receive: Receive, send: Send) -> None:
        event = {"requestContext": {"requestId": "Lz1kQ="}}
        await tenant.admin.http.app(dict(scope) | {"aws.event": event}, receive, send)

    send(behind_gateway, "GET", KEYS)
    assert lines(caplog, "request")[-1]["gateway_request_id"] == "Lz1kQ="


def test_a_line_repeats_nothing_of_the_request(
    tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    """OPS-6, F17, S7: The request log repeats no input of a caller."""
    caplog.set_level(logging.INFO)
    warrant = {"warrant_id": "svc_wrt_peculiar", "reason": "peculiar"}
    for caller in (tenant.admin, tenant.anonymous, tenant.holding("svc_peculiar")):
        caller.post(REVOCATIONS, json=warrant, headers={"User-Agent": "peculiar"})
        caller.get("/v1/peculiar?peculiar=peculiar")
        caller.get(f"{REVOCATIONS}/check?warrant_id=svc_wrt_peculiar")
    broken(tenant, RuntimeError("peculiar")).get(f"{KEYS}/svc_ak_peculiar")
    logged = lines(caplog)
    assert len([line for line in logged if line["message"] == "request"]) == 10
    text = json.dumps(logged)
    assert "peculiar" not in text
    assert str(tenant.admin.secret) not in text


@pytest.mark.parametrize(
    ("error", "name"),
    [(Unavailable("down"), "RequestsUnavailable"), (RuntimeError(SECRET), "RequestsFailed")],
)
def test_failures_are_counted(
    tenant: Tenant, caplog: pytest.LogCaptureFixture, error: Exception, name: str
) -> None:
    """What alarms watch: one count for each request that met an outage, or a bug."""
    caplog.set_level(logging.INFO, logger="shared.web.gate")
    broken(tenant, error).get(KEYS)
    failed, request = lines(caplog)
    assert metrics(failed) == {name: (1, "Count")}
    assert set(metrics(request)) == {"RequestSeconds"}


def test_bad_settings_are_an_error_like_any_other(caplog: pytest.LogCaptureFixture) -> None:
    """An instance that cannot be wired answers 500 in our shape, and tells its operator why."""

    def unset() -> Ports:
        raise InvalidSettings("RESCIND_STORE is not set")

    async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError

    answer = send(ApiMiddleware(nothing, unset), "GET", KEYS, headers=bearer(SECRET))
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert "RESCIND_STORE" not in answer.text
    assert "RESCIND_STORE is not set" in caplog.text
    assert answer.headers["cache-control"] == "no-store"
    assert "x-request-id" in answer.headers
    # Every response (API-8).
    assert answer.headers["x-ratelimit-limit"] == "1000"
    assert {"x-ratelimit-remaining", "x-ratelimit-reset"} <= set(answer.headers)


def test_an_answer_that_broke_off_is_not_begun_again(tenant: Tenant) -> None:
    """A failure after the status was sent is raised on, so that the server ends the connection."""
    sent: list[Message] = []

    async def half(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("broke off")

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def collect(message: Message) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {tenant.admin.secret}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": headers, "query_string": b""}
    with pytest.raises(RuntimeError, match="broke off"):
        run(ApiMiddleware(half, lambda: tenant.ports)(scope, receive, collect))
    assert [message["type"] for message in sent] == ["http.response.start"]


def test_what_is_not_http_passes_the_gate(ports: Ports) -> None:
    """The server's own messages, such as those of its start, go on to the application."""
    seen: list[str] = []

    async def record(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def receive() -> Message:
        raise AssertionError

    async def ignore(message: Message) -> None:
        raise AssertionError

    run(ApiMiddleware(record, lambda: ports)({"type": "lifespan"}, receive, ignore))
    assert seen == ["lifespan"]
