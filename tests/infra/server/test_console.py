"""The console on one machine: its files, and the session that a one-time code opens."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from functions.console.files import SECURITY, Files
from infra import data_folder
from infra.server import app
from infra.server import server as local_server
from infra.server.addresses import ip
from infra.server.console import CODES_VARIABLE, SESSION, Console, ConsoleMode
from infra.server.places import Folder
from shared.errors import Unavailable
from shared.model import times
from shared.operations.operator import console_codes, onboarding
from shared.ports import Ports
from tests.infra.folders import chosen
from tests.kit.asgi import EVERY_RESPONSE, Answer, send
from tests.kit.faults import broken_at

_BROWSER = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
_ADDRESS: Final = "http://127.0.0.1:8080"

# Names and origins of pages that are not this server's.
_FOREIGN: Final = [
    ("rebound.example:8080", "http://rebound.example:8080"),
    ("rebound.example:8080", _ADDRESS),
    ("127.0.0.1:8080", "http://evil.example"),
    ("127.0.0.1:8080", "null"),
    ("127.0.0.1:8080", ""),
    ("127.0.0.1:8080", "https://127.0.0.1:8080"),
    ("127.0.0.1:8080", "http://localhost:8080"),
    ("127.0.0.1:9090", "http://127.0.0.1:9090"),
    ("127.0.0.1", "http://127.0.0.1"),
    ("127.0.0.1.evil.example:8080", "http://127.0.0.1.evil.example:8080"),
    ("127.0.0.2:8080", "http://127.0.0.2:8080"),
    ("0.0.0.0:8080", "http://0.0.0.0:8080"),
    ("127.0.0.1:8080@evil.example", "http://127.0.0.1:8080@evil.example"),
]

# Bodies that are not the JSON of a code; % stands for the right one.
_MALFORMED: Final[list[tuple[dict[str, Any], int]]] = [
    ({"data": '{"code":"%"}', "headers": {"Content-Type": "text/plain"}}, 415),
    ({"data": "code=%", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}, 415),
    ({}, 415),
    ({"json": {}}, 400),
    ({"json": {"code": 1}}, 400),
    ({"json": {"code": "%", "more": 1}}, 400),
    ({"json": ["%"]}, 400),
    ({"json": {"code": "%", "more": "x" * 1024}}, 413),
]


@pytest.fixture
def ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ports]:
    """Those of the application in this process, on the data folder `tmp_path`."""
    data_folder.prepare(tmp_path)
    app._ports.cache_clear()
    with chosen(data_folder.environment(tmp_path), monkeypatch) as ports:
        yield ports
    app._ports.cache_clear()


@pytest.fixture
def client(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """A page of the server at `_ADDRESS`, which takes codes for the tenant `local`."""
    monkeypatch.setenv(CODES_VARIABLE, "on")
    onboarding.create_tenant(ports, handle="local")
    console_codes.announce(ports, _ADDRESS)
    return TestClient(app.app, base_url=_ADDRESS, headers={"Origin": _ADDRESS})


def _get(target: str, *headers: tuple[str, str], method: str = "GET") -> Answer:
    return send(app.app, method, target, headers=headers)


def _varying(answer: Answer) -> dict[str, str]:
    return {name: answer.headers[name] for name in EVERY_RESPONSE}


def _code(ports: Ports) -> str:
    address, _, code = console_codes.link(ports, "local").partition("/#code=")
    assert address == _ADDRESS
    return code


def test_the_page_and_its_files_are_served_to_anybody() -> None:
    """F447c: On one machine the files need no key; each takes a token of the source address."""
    files = Files()
    for path in files.paths:
        expected = files.answer("GET", path, {})
        lowered = {name.lower(): value for name, value in expected.headers.items()}
        for _ in range(20):
            answer = _get(path, _BROWSER)
            assert (answer.status_code, answer.content) == (200, expected.body)
            assert answer.headers == lowered | _varying(answer)
        head = _get(path, _BROWSER, method="HEAD")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers == lowered | _varying(head)
    tag = _get("/", _BROWSER).headers["etag"]
    tags = ("If-None-Match", '"other"'), ("If-None-Match", tag)
    assert _get("/", _BROWSER, *tags).status_code == 304


@pytest.mark.usefixtures("ports")
def test_the_api_is_as_it_was() -> None:
    """F449c: A request for anything else than the console is answered by the API."""
    for method, target, *headers in (
        ("GET", "/"),
        ("GET", "/", ("Accept", "application/json")),
        ("POST", "/", _BROWSER),
        ("GET", "/console", _BROWSER),
        ("GET", "/consoles/", _BROWSER),
        ("GET", "/v1/keys", _BROWSER),
    ):
        answer = _get(target, *headers, method=method)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")


@pytest.mark.usefixtures("ports")
def test_the_console_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """F449d: Without the console, its paths are answered as any unknown path."""
    monkeypatch.setattr(app._console, "_choice", ConsoleMode.OFF)
    for target in ("/", f"/console/{Files().version}/console.css", SESSION):
        assert _get(target, _BROWSER).status_code == 401


# --- the session ---


def test_a_code_opens_one_session(client: TestClient, ports: Ports) -> None:
    """F450a: A one-time code is exchanged once for an admin key that ends after twelve hours."""
    code = _code(ports)
    before = times.whole(ports.now())
    opened = client.post(SESSION, json={"code": code})
    assert opened.status_code == 201, opened.text
    assert set(opened.json()) == {"key", "expires_at"}
    expected = dict(SECURITY) | {"Cache-Control": "no-store", "Content-Type": "application/json"}
    assert {name: opened.headers.get(name) for name in expected} == expected
    key = {"Authorization": f"Bearer {opened.json()['key']}"}
    caller = client.get("/v1/whoami", headers=key).json()
    assert caller["scopes"] == ["admin"]
    assert caller["api_key_name"] == f"console, {before:%Y-%m-%d}"
    assert caller["expires_at"] == opened.json()["expires_at"]
    end = times.parse(caller["expires_at"])
    assert timedelta(0) <= end - before - timedelta(hours=12) < timedelta(minutes=1)
    query = {"action": "api_key.create"}
    (entry,) = client.get("/v1/audit-logs", headers=key, params=query).json()["audit_logs"]
    assert entry["details"]["name"] == caller["api_key_name"]
    assert (entry["resource_id"], entry["details"]["scopes"]) == (caller["api_key_id"], ["admin"])

    again = client.post(SESSION, json={"code": code})
    assert (again.status_code, again.json()["error"]["code"]) == (401, "unauthorized")
    assert client.get("/v1/api-keys", headers=key).json()["total"] == 2


def test_the_key_of_the_console_is_never_the_last(client: TestClient, ports: Ports) -> None:
    """F452a: The key of a console session does not let the tenant's last admin key go."""
    secret = client.post(SESSION, json={"code": _code(ports)}).json()["key"]
    key = {"Authorization": f"Bearer {secret}"}
    own = client.get("/v1/whoami", headers=key).json()["api_key_id"]
    listed = client.get("/v1/api-keys", headers=key).json()["api_keys"]
    (first,) = [each["id"] for each in listed if each["id"] != own]
    for refused in (
        client.post(f"/v1/api-keys/{first}/revoke", headers=key),
        client.delete(f"/v1/api-keys/{first}", headers=key),
    ):
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
    # At the end of the session it goes itself.
    assert client.post(f"/v1/api-keys/{own}/revoke", headers=key).status_code == 200
    assert client.get("/v1/whoami", headers=key).status_code == 401


def test_a_session_makes_keys_that_outlive_it(client: TestClient, ports: Ports) -> None:
    """APIKEY-4, F594c: The key of a session makes keys of any end, which are bound by theirs."""
    opened = client.post(SESSION, json={"code": _code(ports)}).json()
    session = {"Authorization": f"Bearer {opened['key']}"}
    assert client.get("/v1/whoami", headers=session).json()["creates_until"] is None
    end = "2099-01-01T00:00:00Z"
    body = {"name": "gate", "scopes": ["admin"], "expires_at": end}
    made = client.post("/v1/api-keys", json=body, headers=session)
    assert made.status_code == 201, made.text
    lasting = {"Authorization": f"Bearer {made.json()['key']}"}
    assert client.get("/v1/whoami", headers=lasting).json()["creates_until"] == end
    later = client.post("/v1/api-keys", json=body | {"expires_at": None}, headers=lasting)
    assert later.status_code == 400
    # Only the operator makes such a key.
    more = client.post("/v1/api-keys", json=body | {"is_session": True}, headers=session)
    assert more.status_code == 400


def test_a_page_of_another_site_opens_no_session(client: TestClient, ports: Ports) -> None:
    """F451a: Only a page of this server, under a name of this machine, can use a code."""
    code = _code(ports)
    for host, origin in _FOREIGN:
        headers = {"Host": host, "Origin": origin}
        answer = client.post(SESSION, json={"code": code}, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
        assert "access-control-allow-origin" not in answer.headers
    # None of them was a try: the code can still be used.
    assert client.post(SESSION, json={"code": code}).status_code == 201


def test_a_malformed_request_opens_no_session(client: TestClient, ports: Ports) -> None:
    """F451b: A body that is not the JSON of a code is refused, and is no try."""
    code = _code(ports)
    for sent, status in _MALFORMED:
        filled = json.loads(json.dumps(sent).replace("%", code))
        answer = client.post(SESSION, content=filled.pop("data", None), **filled)
        assert answer.status_code == status, answer.text
    assert client.post(SESSION, json={"code": code}).status_code == 201


def test_a_server_that_takes_no_codes_has_no_sessions(
    client: TestClient, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F453a: A server that is read-only, or not of this machine alone, exchanges no code."""
    code = _code(ports)
    monkeypatch.delenv(CODES_VARIABLE)
    assert client.post(SESSION, json={"code": code}).status_code == 404


@pytest.mark.usefixtures("client")
def test_a_store_that_fails_is_said_to_be_unavailable(ports: Ports) -> None:
    """F451c: If the store cannot be used, the answer is 503, and no key is created."""
    broken = Console(lambda: broken_at(ports, 1, Unavailable("broken")), app._work)
    page = TestClient(broken, base_url=_ADDRESS, headers={"Origin": _ADDRESS})
    answer = page.post(SESSION, json={"code": _code(ports)})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")


# --- what is printed ---


def _options(folder: Path, host: str, choice: ConsoleMode = ConsoleMode.ON) -> local_server.Options:
    return local_server.Options(ip(host), 8080, Folder(folder), 1, None, "info", choice)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://127.0.0.1:8080"),
        ("::1", "http://[::1]:8080"),
        ("::", "http://[::1]:8080"),
        ("127.0.0.2", None),
        ("192.0.2.7", None),
    ],
)
def test_a_link_is_printed_for_this_machine(
    ports: Ports,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    host: str,
    address: str | None,
) -> None:
    """F453b: A terminal gets a link with a code, a log none; other machines sign in by key."""
    monkeypatch.setenv(CODES_VARIABLE, "")
    options = _options(tmp_path, host)
    assert local_server._take_codes(options, ports) == address
    local_server._print_console(options, address)
    assert "code=" not in capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    local_server._print_console(options, local_server._take_codes(options, ports))
    printed, _, rest = capsys.readouterr().out.partition("/#code=")
    assert printed == (f"Console: {address}" if address else printed)
    code = rest.partition("\n")[0]
    assert console_codes.spend(ports, code) == ("local" if address else None)
    assert ("API key" in printed) is (address is None)
