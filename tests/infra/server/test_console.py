"""The console on one machine: its files, and the link that signs in."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from functions.console.files import Files
from infra import data_folder
from infra.server import app
from infra.server import server as local_server
from infra.server.addresses import ip
from infra.server.documents import ConsoleMode
from infra.server.places import FolderSource
from shared.operations.operator import onboarding
from shared.ports import Ports
from tests.infra.folders import chosen
from tests.kit.asgi import EVERY_RESPONSE, Answer, send

_BROWSER = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")


@pytest.fixture
def ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ports]:
    """Those of the application in this process, on the data folder `tmp_path`."""
    data_folder.prepare(tmp_path)
    app._ports.cache_clear()
    with chosen(data_folder.environment(tmp_path), monkeypatch) as ports:
        yield ports
    app._ports.cache_clear()


def _get(target: str, *headers: tuple[str, str], method: str = "GET") -> Answer:
    return send(app.app, method, target, headers=headers)


def _varying(answer: Answer) -> dict[str, str]:
    return {name: answer.headers[name] for name in EVERY_RESPONSE}


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
    for target in ("/", f"/console/{Files().version}/console.css"):
        assert _get(target, _BROWSER).status_code == 401


# --- what is printed ---


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080/"),
        ("0.0.0.0", "http://127.0.0.1:8080/"),
        ("::1", "http://[::1]:8080/"),
        ("::", "http://[::1]:8080/"),
        ("192.0.2.7", "http://192.0.2.7:8080/"),
    ],
)
def test_a_link_is_printed(
    ports: Ports,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    host: str,
    address: str,
) -> None:
    """F453a: A terminal gets a link with a ticket that signs in, a log none."""
    onboarding.create_tenant(ports, handle="local")
    options = local_server.Options(ip(host), 8080, FolderSource(tmp_path), 1, None, "info")
    local_server._print_console(options, local_server._console(options, ports))
    command = f"rescind console local --data {tmp_path}"
    url = "" if "127" in address else f" --url {address}"
    assert capsys.readouterr().out == f"Console: {address} (to sign in, run: {command}{url})\n"
    local_server._print_console(options, None)
    assert capsys.readouterr().out == f"Console: {address} (sign in with an API key)\n"

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    local_server._print_console(options, local_server._console(options, ports))
    first, second = capsys.readouterr().out.splitlines()
    assert second.endswith(f"then run: {command}{url}")
    printed, _, ticket = first.partition("#ticket=")
    assert printed == f"Console: {address}"
    client = TestClient(app.app, base_url=address)
    form = {"grant_type": "urn:rescind:grant-type:ticket", "ticket": ticket}
    secret = client.post("/v1/token", data=form).json()["access_token"]
    who = client.get("/v1/whoami", headers={"Authorization": f"Bearer {secret}"}).json()
    assert who["identity"] == "system+operator@local.svc"
