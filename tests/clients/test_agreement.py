"""All three clients follow one service through what may happen to it, and say the same of it."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from shared.authorizer import AuthorizerClient, FileStateStore, PollPolicy
from tests.conformance import runner
from tests.infra.following import Server
from tests.kit import go, typescript
from tests.kit.processes import HOST, ROOT, environment
from tests.kit.waiting import soon

pytestmark = [pytest.mark.slow, go.needs_go]

_STALENESS: Final = 5
Check = Callable[[str], str]


def test_all_clients_agree(server: Server, tmp_path: Path) -> None:
    """F1001a, F1045a, F1318a: Clients in Python, Go and TypeScript follow one service and agree.

    The service rotates its signer, replaces a stolen one, restarts and is restored. The clients
    restart, and their disk is full: a state that they cannot save counts for none of them. Their
    signed reports prove that they refuse a warrant.
    """
    program = go.built(tmp_path)
    given = server.client_settings()
    with _small_disk(tmp_path) as disk:
        with _clients(server.url, given, program, disk) as checks:
            _agree(server, checks, "svc_wrt_0")
        with _clients(server.url, given, program, disk) as checks:
            agree = partial(_agree, server, checks)
            agree("svc_wrt_1")
            for number, how in enumerate(({}, {"compromised": True}), 2):
                server.call("POST", "/revocations/srl/keys/rotate", **how)
                agree(f"svc_wrt_{number}")
            server.group.kill()
            soon(lambda: _all(checks, "svc_wrt_other", "stale"))
            assert _all(checks, "svc_wrt_1", "revoked")
            server.group.start()
            _prove(server, agree("svc_wrt_4"))
            server.admin("backup", str(tmp_path / "backup"))
            agree("svc_wrt_5")
            server.publish()
            server.group.kill()
            server.restore(tmp_path / "backup")
            server.admin("recover", "local")
            server.group.start()
            agree("svc_wrt_6")
            assert _all(checks, "svc_wrt_5", "revoked")
            filled = _fill(disk)
            server.revoke("svc_wrt_7")
            soon(lambda: _all(checks, "svc_wrt_7", "stale"))
            filled.unlink()
            agree("svc_wrt_8")
            assert _all(checks, "svc_wrt_7", "revoked")


def _prove(server: Server, revocation_id: str) -> None:
    """Wait until signed reports of the three clients, without refusals, prove a revocation."""
    path = f"/revocations/{revocation_id}/propagation?wait=25"
    proof = soon(lambda: (found := server.call("GET", path))["is_complete"] and found)
    assert (proof["is_verified"], proof["authorizers"]["total"]) == (True, 3)
    reported = server.call("GET", "/authorizers")["authorizers"]
    assert [(each["key_verified"], each["refused"]) for each in reported] == [(True, {})] * 3
    assert all(each["trust_version"] > 2 for each in reported)


def _agree(server: Server, checks: dict[str, Check], warrant_id: str) -> str:
    """Revoke a warrant; return the revocation once all clients refuse it and no other warrant."""
    revocation_id = server.revoke(warrant_id)
    soon(lambda: _all(checks, warrant_id, "revoked"))
    soon(lambda: _all(checks, "svc_wrt_other", "clear"))
    return revocation_id


def _all(checks: dict[str, Check], warrant_id: str, verdict: str) -> bool:
    return {name: check(warrant_id) for name, check in checks.items()} == dict.fromkeys(
        checks, verdict
    )


@contextmanager
def _clients(
    url: str, given: dict[str, Any], program: Path, folder: Path
) -> Iterator[dict[str, Check]]:
    """Start a client of each kind, with its saved state in the folder; yield their checks."""
    with ExitStack() as ended:
        python = AuthorizerClient(
            url,
            **given,
            name="python",
            state=FileStateStore(folder / "python"),
            policy=PollPolicy(max_staleness=_STALENESS, poll_seconds=0.1),
        )
        ended.enter_context(python)
        settings = {"URL": url, "STATE_DIR": str(folder / "go")}
        settings |= {name.upper(): value for name, value in given.items()}
        named = {f"RESCIND_{name}": value for name, value in settings.items()}
        beside = ended.enter_context(_sidecar(program, named))
        ask = ended.enter_context(_typescript(url, given, folder / "typescript"))
        yield {
            "Python": lambda warrant: str(python.check([warrant])),
            "Go": beside,
            "TypeScript": lambda warrant: str(ask({"check": [warrant]})),
        }


@contextmanager
def _sidecar(program: Path, settings: dict[str, str]) -> Iterator[Check]:
    """Start the sidecar in Go, which is killed at the end."""
    command = [str(program), "serve", "--listen", f"{HOST}:0"]
    command += ["--max-staleness", f"{_STALENESS}s", "--name", "go"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment(settings)
    ) as process:
        try:
            assert process.stdout
            port = process.stdout.readline().rpartition(":")[2].strip()
            url = f"http://{HOST}:{port}/v1/revocations/check"
            with httpx2.Client(verify=False, trust_env=False) as http:
                yield lambda warrant_id: _verdict(http.get(url, params={"warrant_id": warrant_id}))
        finally:
            process.kill()


def _verdict(answer: httpx2.Response) -> str:
    """Return the verdict of the sidecar in the words of a client."""
    body = answer.json()
    if answer.status_code == 503:
        return str(body["error"]["code"])
    assert answer.status_code == 200, body
    return "revoked" if body["revoked"] else "clear"


@contextmanager
def _typescript(url: str, given: dict[str, Any], folder: Path) -> Iterator[runner.Ask]:
    program = typescript.installed() / "driven.mjs"
    shutil.copy(ROOT / "tests/clients/driven.mjs", program)
    options = {"url": url, "apiKey": given["api_key"], "tenant": given["tenant"]}
    options |= {"trustPin": given["trust_pin"], "folder": str(folder), "name": "gate"}
    policy = {"policy": {"pollSeconds": 0.1, "maxStaleness": _STALENESS}}
    with runner.started([typescript.node(), str(program), json.dumps(options | policy)]) as ask:
        ask({"run": {}})
        yield ask
        ask({"close": {}})


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    """A disk of a megabyte, which root can mount."""
    place = folder / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _fill(disk: Path) -> Path:
    """Fill a disk; return the file that does."""
    file = disk / "full"
    with suppress(OSError), file.open("wb", buffering=0) as full:
        while full.write(b"\0" * 512):
            pass
    assert shutil.disk_usage(disk).free == 0
    return file
