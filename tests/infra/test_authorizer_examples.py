"""The examples of docs/authorizers.md and docs/tokens.md, with a real service and a real Envoy."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

from tests.infra.following import Server, installed, soon
from tests.kit.issuers import key, public, signed
from tests.kit.processes import HOST, ROOT, environment, free_port

pytestmark = pytest.mark.slow

_ENVOY: Final = ROOT / ".tools" / "envoy" / "bin" / "envoy"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel, FastAPI, joserfc and uvicorn."""
    return installed(tmp_path_factory.mktemp("examples"), "fastapi", "joserfc", "uvicorn")


@pytest.fixture
def settings(server: Server, tmp_path: Path) -> dict[str, str]:
    """The settings of an authorizer, as the examples read them."""
    gateway = server.call("POST", "/api-keys", name="gateway", scopes=["authorizer"])
    return {
        "RESCIND_URL": server.url,
        "RESCIND_API_KEY": gateway["key"],
        "RESCIND_TENANT": server.call("GET", "/tenant/settings")["tenant_id"],
        "RESCIND_TRUST_ROOT": server.pin,
        "RESCIND_FLOOR": str(tmp_path / "floor"),
    }


@pytest.fixture
def chain(server: Server) -> str:
    """Two warrants of the service, as a header."""
    key = server.call("POST", "/keys", type="root", name="root")["id"]
    signed = [
        server.call("POST", f"/keys/{key}/sign", payload="cGF5", warrant_id=f"svc_wrt_{name}")
        for name in ("root", "leaf")
    ]
    return ",".join(each["warrant"] for each in signed)


def asked(port: int, headers: dict[str, str], method: str = "GET") -> tuple[int, str]:
    """Status and body of a request."""
    connection = HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request(method, "/accounts/17", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


@contextmanager
def running(*command: str, settings: dict[str, str], folder: Path | None = None) -> Iterator[None]:
    """A process that is killed at the end."""
    with subprocess.Popen(command, env=environment(settings), cwd=folder) as process:
        try:
            yield
        finally:
            process.kill()


def _decides(ask: Callable[[dict[str, str]], tuple[int, str]], server: Server, chain: str) -> None:
    """What both examples must do."""
    soon(lambda: ask({"X-Warrants": chain})[0] == 200)
    root, leaf = chain.split(",")
    assert ask({"X-Warrants": root})[0] == 200
    assert "signature" in ask({"X-Warrants": f"{root},{_altered(leaf)}"})[1]
    assert "malformed" in ask({"X-Warrants": "AAAA"})[1]
    assert "missing" in ask({})[1]
    server.revoke("svc_wrt_root")
    soon(lambda: "revoked" in ask({"X-Warrants": chain})[1])
    status, body = ask({"X-Warrants": leaf})
    assert (status, "svc_wrt_leaf" in body) == (200, True)


def _altered(warrant: str) -> str:
    """The warrant with another last byte."""
    group = warrant[-4:]
    return warrant[:-4] + ("A" if group[0] != "A" else "B") + group[1:]


def test_fastapi(
    python: Path, server: Server, settings: dict[str, str], chain: str, tmp_path: Path
) -> None:
    """F188d: The FastAPI example allows genuine warrants until one of them is revoked."""
    page = (ROOT / "docs" / "authorizers.md").read_text(encoding="utf-8")
    (example,) = (
        each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "FastAPI" in each
    )
    (tmp_path / "example.py").write_text(example)
    port = free_port()
    serve = ["-m", "uvicorn", "--app-dir", str(tmp_path), "--port", str(port), "example:app"]
    with running(str(python), *serve, settings=settings):
        _decides(partial(asked, port), server, chain)


def test_fastapi_with_jwts(
    python: Path, server: Server, settings: dict[str, str], tmp_path: Path
) -> None:
    """F1390e: The FastAPI example of docs/tokens.md allows a JWT until its `jti` is revoked."""
    page = (ROOT / "docs" / "tokens.md").read_text(encoding="utf-8")
    example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    (tmp_path / "example.py").write_text(example)
    keys = {"keys": [public(key("ES256"), kid="a")]}
    (tmp_path / "jwks.json").write_text(json.dumps(keys))
    claims = {"iss": "https://as.example", "aud": "accounts", "sub": "ann", "jti": "bad-1"}
    expiring = {**claims, "exp": int(time.time()) + 600}
    token = signed({"alg": "ES256", "kid": "a"}, expiring, key("ES256"))
    port = free_port()
    serve = ["-m", "uvicorn", "--app-dir", str(tmp_path), "--port", str(port), "example:app"]
    with running(str(python), *serve, settings=settings, folder=tmp_path):
        soon(lambda: asked(port, {"Authorization": f"Bearer {token}"})[0] == 200)
        assert asked(port, {"Authorization": f"Bearer {token[:-4]}AAAA"})[0] == 401
        named = {"kind": "jwt", "issuer": claims["iss"], "value": claims["jti"]}
        server.call("POST", "/revocations", token=named, reason="stolen")
        soon(lambda: "revoked" in asked(port, {"Authorization": f"Bearer {token}"})[1])


class _Application(BaseHTTPRequestHandler):
    """Says which warrant a request came with."""

    def do_GET(self) -> None:
        body = str(self.headers.get_all("X-Warrant-Id")).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_envoy(
    python: Path, server: Server, settings: dict[str, str], chain: str, tmp_path: Path
) -> None:
    """F188e: Envoy with the documented configuration passes on only what the client allows."""
    ports = {name: free_port() for name in ("10000", "9191", "8000")}
    text = (ROOT / "docs" / "envoy.yaml").read_text(encoding="utf-8")
    text = re.sub(r"\b(10000|9191|8000)\b", lambda found: str(ports[found[0]]), text)
    (tmp_path / "envoy.yaml").write_text(text)
    ask = partial(asked, ports["10000"])
    envoy = [str(_ENVOY), "--config-path", str(tmp_path / "envoy.yaml"), "--concurrency", "1"]
    options = ["--use-dynamic-base-id", "--log-level", "error"]
    with ExitStack() as stack:
        application = stack.enter_context(ThreadingHTTPServer((HOST, ports["8000"]), _Application))
        Thread(target=application.serve_forever, args=(0.05,), daemon=True).start()
        stack.callback(application.shutdown)
        stack.enter_context(running(*envoy, *options, settings={}))
        # Nobody answers Envoy yet.
        soon(lambda: ask({"X-Warrants": chain})[0] in {403, 503})
        guarding = stack.enter_context(ExitStack())
        guarding.enter_context(running(*_guarding(python, settings, ports), settings=settings))
        _decides(ask, server, chain)
        leaf = chain.split(",")[1]
        forged = {"X-Warrants": leaf, "X-Warrant-Id": "svc_wrt_forged"}
        assert ask(forged) == (200, "['svc_wrt_leaf']")
        assert ask({}, "POST")[0] == 401
        guarding.close()
        assert ask({"X-Warrants": leaf})[0] in {403, 503}


def _guarding(python: Path, settings: dict[str, str], ports: dict[str, int]) -> list[str]:
    return [
        *(str(python), "-m", "rescind_authorizer", "ext-authz", settings["RESCIND_URL"]),
        *("--tenant", settings["RESCIND_TENANT"], "--root", settings["RESCIND_TRUST_ROOT"]),
        *("--floor", settings["RESCIND_FLOOR"], "--listen", f"{HOST}:{ports['9191']}"),
    ]
