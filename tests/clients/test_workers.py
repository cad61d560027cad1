"""The TypeScript client in workerd, the runtime of Cloudflare Workers."""

import json
import platform
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import pytest

from tests.authorizer.feeds import TENANT
from tests.authorizer.service import KEY, PIN, Response, Service, serving
from tests.kit import typescript
from tests.kit.processes import HOST, ROOT, environment
from tests.kit.waiting import soon

_PACKAGES: Final = ROOT / ".tools/workerd/node_modules/@cloudflare"
_MACHINE: Final = {"x86_64": "64", "aarch64": "arm64"}.get(platform.machine(), "")
_WORKERD: Final = _PACKAGES / f"workerd-linux-{_MACHINE}/bin/workerd"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not _WORKERD.exists(), reason="no workerd: `make .tools/workerd/.installed` installs it"
    ),
]

# The oldest has neither the option `cache` of fetch, nor promises that resolve across requests.
_DATES: Final = ("2024-09-01", "2026-01-01")

_CONFIGURATION: Final = """using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "worker", worker = (
      compatibilityDate = "{date}",
      modules = [{modules}],
      globalOutbound = "network",
    )),
    (name = "network", network = (allow = ["private"])),
  ],
  sockets = [(name = "http", http = (), service = "worker")],
);
"""

Ask = Callable[..., Any]


@contextmanager
def _worker(folder: Path, date: str, **options: Any) -> Iterator[Ask]:
    """A Worker: how to send it a request, and how long to wait for the response."""
    packages = typescript.installed() / "node_modules"
    sources = {"worker.mjs": (ROOT / "tests/clients/worker.mjs").read_text()}
    for path in (*packages.glob("@rescind/authorizer/dist/*.js"), *packages.glob("@noble/**/*.js")):
        sources[str(path.relative_to(packages))] = path.read_text()
    # A module is found by its name, from the folder of the module that imports it.
    main = "@rescind/authorizer/dist/index.js"
    sources["worker.mjs"] = sources["worker.mjs"].replace("@rescind/authorizer", main)
    modules = [_module(folder, name, text, "esModule") for name, text in sources.items()]
    for name, text in sources.items():
        if name.startswith("@noble/hashes/"):
            beside = f"@rescind/authorizer/dist/{name}"
            modules.append(_module(folder, beside, text, "esModule"))
    modules.append(_module(folder, "options.json", json.dumps(options), "json"))
    file = folder / "config.capnp"
    file.write_text(_CONFIGURATION.format(date=date, modules=",\n".join(modules)))
    with socket.create_server((HOST, 0)) as listening:
        number = listening.fileno()
        command = [str(_WORKERD), "serve", f"--socket-fd=http={number}", str(file)]
        process = subprocess.Popen(command, pass_fds=[number], env=environment())
        port = listening.getsockname()[1]

    def ask(path: str, seconds: float = 30) -> Any:
        connection = HTTPConnection(HOST, port, timeout=seconds)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    try:
        yield ask
    finally:
        process.kill()
        process.wait()


def _module(folder: Path, name: str, text: str, kind: str) -> str:
    file = folder / f"module-{name.replace('/', '-')}"
    file.write_text(text)
    return f'(name = "{name}", {kind} = embed "{file.name}")'


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(Service()) as made:
        made.revoke("svc_wrt_a")
        made.vouch()
        yield made


def _failed(events: list[dict[str, Any]]) -> dict[str, Any]:
    return next((each for each in events if each["type"] == "failed"), {})


@pytest.mark.parametrize("date", _DATES)
def test_a_worker_decides(service: Service, tmp_path: Path, date: str) -> None:
    """F1630a: The npm package starts and decides in workerd, with an old and a new date.

    It refuses what is revoked, becomes stale without the service, and recovers.
    """
    options = {"url": service.url, "apiKey": KEY, "tenant": TENANT, "trustPin": PIN}
    policy = {"maxStaleness": 2, "pollSeconds": 0.1}
    with _worker(tmp_path, date, **options, policy=policy, report=False) as ask:
        assert ask("/check?id=svc_wrt_b") == {"verdict": "stale", "events": []}
        assert ask("/poll?id=svc_wrt_b")["verdict"] == "clear"
        assert ask("/check?id=svc_wrt_b&id=svc_wrt_a")["verdict"] == "revoked"
        assert "a warrant identifier must be" in ask("/check?id=svc_wrt_b%0a")["error"]
        service.revoke("svc_wrt_b")
        soon(lambda: ask("/poll?id=svc_wrt_b")["verdict"] == "revoked")
        service.instead = lambda _path: Response(b"away\r\nFORGED", 503)
        failed: dict[str, Any] = {}
        while not failed:
            # Until the pause after the last exchange has passed, there is no event.
            failed = _failed(ask("/poll?id=svc_wrt_c")["events"])
        assert failed["message"] == "the service answered 503: away\\u000d\\u000aFORGED"
        soon(lambda: ask("/check?id=svc_wrt_c")["verdict"] == "stale")
        service.instead = lambda _path: None
        soon(lambda: ask("/poll?id=svc_wrt_c")["verdict"] == "clear")
        assert ask("/check?id=svc_wrt_a")["verdict"] == "revoked"


@pytest.mark.parametrize("date", _DATES)
def test_requests_of_a_worker_share_a_client(service: Service, tmp_path: Path, date: str) -> None:
    """F1630b: Requests to a Worker that poll at once share one exchange with the service."""
    options = {"url": service.url, "apiKey": KEY, "tenant": TENANT, "trustPin": PIN}
    with _worker(tmp_path, date, **options, report=False) as ask:
        with ThreadPoolExecutor(8) as pool:
            found = [*pool.map(ask, ["/poll?id=svc_wrt_b"] * 8)]
        assert [each["verdict"] for each in found] == ["clear"] * 8
        service.revoke("svc_wrt_b")
        soon(lambda: ask("/poll?id=svc_wrt_b")["verdict"] == "revoked")
