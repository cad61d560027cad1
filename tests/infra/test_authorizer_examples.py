"""The examples of docs/authorizers.md and docs/tokens.md, with a real service and a real Envoy."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
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
        "RESCIND_TRUST_PIN": server.pin,
        "RESCIND_STATE_DIR": str(tmp_path / "state"),
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
    # The warrant with another last byte.
    altered = f"{leaf[:-4]}{'A' if leaf[-4] != 'A' else 'B'}{leaf[-3:]}"
    assert "signature" in ask({"X-Warrants": f"{root},{altered}"})[1]
    assert "malformed" in ask({"X-Warrants": "AAAA"})[1]
    assert "missing" in ask({})[1]
    server.revoke("svc_wrt_root")
    soon(lambda: "revoked" in ask({"X-Warrants": chain})[1])
    status, body = ask({"X-Warrants": leaf})
    assert (status, "svc_wrt_leaf" in body) == (200, True)


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


@contextmanager
def _files(folder: Path) -> Iterator[str]:
    """Serve the files of a folder, and return the address."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_fastapi_with_jwts(
    python: Path, server: Server, settings: dict[str, str], tmp_path: Path
) -> None:
    """F1390e: The FastAPI example of docs/tokens.md allows a JWT until its `jti` is revoked."""
    page = (ROOT / "docs" / "tokens.md").read_text(encoding="utf-8")
    example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    keys = {"keys": [public(key("ES256"), kid="a")]}
    (tmp_path / "keys").write_text(json.dumps(keys))
    claims = {"iss": "https://as.example", "aud": "accounts", "sub": "ann", "jti": "bad-1"}
    expiring = {**claims, "exp": int(time.time()) + 600}
    token = signed({"alg": "ES256", "kid": "a"}, expiring, key("ES256"))
    port = free_port()
    serve = ["-m", "uvicorn", "--app-dir", str(tmp_path), "--port", str(port), "example:app"]
    with ExitStack() as stack:
        issuer = stack.enter_context(_files(tmp_path))
        example = example.replace("https://as.example/keys", f"{issuer}/keys")
        (tmp_path / "example.py").write_text(example)
        stack.enter_context(running(str(python), *serve, settings=settings, folder=tmp_path))
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


@contextmanager
def envoy(folder: Path) -> Iterator[tuple[Callable[..., tuple[int, str]], int]]:
    """Envoy with the documented configuration: how to ask it, and the port of what decides."""
    ports = {name: free_port() for name in ("10000", "9191", "8000")}
    text = (ROOT / "docs" / "envoy.yaml").read_text(encoding="utf-8")
    text = re.sub(r"\b(10000|9191|8000)\b", lambda found: str(ports[found[0]]), text)
    (folder / "envoy.yaml").write_text(text)
    command = [str(_ENVOY), "--config-path", str(folder / "envoy.yaml"), "--concurrency", "1"]
    options = ["--use-dynamic-base-id", "--log-level", "error"]

    def ask(headers: dict[str, str], method: str = "GET") -> tuple[int, str]:
        return asked(ports["10000"], headers, method)

    with ThreadingHTTPServer((HOST, ports["8000"]), _Application) as application:
        Thread(target=application.serve_forever, args=(0.05,), daemon=True).start()
        try:
            with running(*command, *options, settings={}):
                soon(lambda: ask({})[0] != 0)
                yield ask, ports["9191"]
        finally:
            application.shutdown()


def test_envoy(
    python: Path, server: Server, settings: dict[str, str], chain: str, tmp_path: Path
) -> None:
    """F188e: Envoy with the documented configuration passes on only what the client allows."""
    with envoy(tmp_path) as (ask, port):
        leaf = {"X-Warrants": chain.split(",")[1]}
        assert ask({"X-Warrants": chain}) == (503, "")
        with running(*_guarding(python, settings, port), settings=settings):
            _decides(ask, server, chain)
            forged = {**leaf, "X-Warrant-Id": "svc_wrt_forged"}
            assert ask(forged) == (200, "['svc_wrt_leaf']")
            assert ask({}, "POST")[0] == 401
        assert ask(leaf) == (503, "")
        # A client that reaches no service is stale.
        away = {**settings, "RESCIND_URL": f"http://{HOST}:{free_port()}"}
        with running(*_guarding(python, away, port), settings=away):
            soon(lambda: ask({})[0] == 401)
            assert ask(leaf)[0] == 503


_OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(None, id="none"),
        pytest.param(b"", id="closed"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", id="garbage"),
        pytest.param(_OK, id="half a header"),
        pytest.param(_OK + b"Content-Length: x\r\n\r\n", id="a bad length"),
        pytest.param(_OK + b"Content-Length: 5\r\n\r\nab", id="half a body"),
        *(
            pytest.param(b"HTTP/1.1 %d x\r\nContent-Length: 0\r\n\r\n" % status, id=str(status))
            for status in (500, 502, 503, 504)
        ),
    ],
)
def test_envoy_refuses_if_there_is_no_decision(tmp_path: Path, answer: bytes | None) -> None:
    """F1747a: Envoy answers 503 if the program that decides hangs, breaks off or fails."""
    with envoy(tmp_path) as (ask, port), deciding(port, answer):
        assert ask({"X-Warrants": "AAAA"}) == (503, "")


@pytest.mark.parametrize("status", [100, 204, 302, 404, 418])
def test_envoy_passes_on_after_200_alone(tmp_path: Path, status: int) -> None:
    """F1747b: Envoy passes a request on after no status but 200."""
    answer = b"HTTP/1.1 %d x\r\nContent-Length: 0\r\n\r\n" % status
    with envoy(tmp_path) as (ask, port), deciding(port, answer):
        assert ask({"X-Warrants": "AAAA"})[1] == ""


@contextmanager
def deciding(port: int, answer: bytes | None) -> Iterator[None]:
    """A server that answers each request with these bytes and closes; without any, it hangs."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            if answer is None:
                self.rfile.read()
            else:
                self.wfile.write(answer)

    class Deciding(ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

    with Deciding((HOST, port), Handler) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


def _guarding(python: Path, settings: dict[str, str], port: int) -> list[str]:
    return [
        *(str(python), "-m", "rescind_authorizer", "ext-authz", settings["RESCIND_URL"]),
        *("--tenant", settings["RESCIND_TENANT"], "--trust-pin", settings["RESCIND_TRUST_PIN"]),
        *("--state-dir", settings["RESCIND_STATE_DIR"], "--listen", f"{HOST}:{port}"),
    ]
