"""The client in Go: it passes the conformance suite, and follows a service as the others do."""

import re
import subprocess
from functools import partial
from pathlib import Path

import pytest

from shared import __version__
from shared.authorizer.saved_state import FileStateStore, SavedState
from tests.authorizer.feeds import NOW, TENANT
from tests.authorizer.roots import first, pinned
from tests.authorizer.service import KEY, PIN, Service, serving
from tests.clients import left_out
from tests.clients.sidecars import sidecar
from tests.conformance import runner
from tests.conformance.vectors import vectors
from tests.infra.following import Server, soon
from tests.kit import go
from tests.kit.processes import ROOT, environment

pytestmark = [pytest.mark.slow, go.needs_go]

_CASES = vectors()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return go.built(tmp_path_factory.mktemp("go"))


def _following(url: str, key: str, tenant: str, root: str, folder: Path) -> dict[str, str]:
    """The environment of a client with its saved state in a folder."""
    given = {"URL": url, "API_KEY": key, "TENANT": tenant, "TRUST_PIN": root}
    given["STATE_DIR"] = str(folder / "state")
    return {f"RESCIND_{name}": value for name, value in given.items()}


def test_it_passes_all_cases(program: Path) -> None:
    """F1000a: The client in Go passes every case of the conformance suite."""
    with runner.started([str(program), "conformance"]) as ask:
        assert [outcome for outcome in runner.run(ask, _CASES) if outcome.fault] == []


@pytest.fixture(scope="module")
def lacking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A client that leaves out the check that its environment names."""
    return left_out.planted(tmp_path_factory.mktemp("lacking"))


@pytest.mark.parametrize("check", left_out.CHECKS, ids=lambda check: check.name.replace("\n", " "))
def test_a_client_that_leaves_a_check_out_fails(
    lacking: Path, check: left_out.Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1000b: For each check, a client in Go that lacks it fails a case of the suite."""
    monkeypatch.setenv("LEFT_OUT", check.name)
    with runner.started([str(lacking), "conformance"]) as ask:
        assert any(outcome.fault for outcome in runner.run(ask, _CASES))


def test_its_sources_are_in_order() -> None:
    """The sources of Go have the format of `gofmt`, pass `go vet`, and need no other module."""
    assert go.ran("gofmt", "-l", ".") == ""
    go.ran("go", "vet", "./...")
    assert go.ran("go", "run", "./cmd/rescind-authorizer", "version") == f"{__version__}\n"
    modules = go.ran("go", "list", "-m", "all").split()
    assert len(modules) == 1
    assert "\ngo 1.19\n" in (go.SOURCE / "go.mod").read_text()


def test_its_own_tests_pass() -> None:
    """F1003a: In Go, a bad answer changes nothing, state survives, and checks allocate nothing.

    A million revoked warrants take at most 40 MB.
    """
    go.ran("go", "test", "./...")


def test_ten_lines(tmp_path: Path) -> None:
    """F1004a: The lines of Go in docs/authorizers.md decide as they say."""
    page = (ROOT / "docs" / "authorizers.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"^```go\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "main.go").write_text(lines)
    module = "github.com/rescind/rescind/infra/clients/go"
    (tmp_path / "go.mod").write_text(
        f"module gate\ngo 1.19\nrequire {module} v0.0.0\nreplace {module} => {go.SOURCE}\n"
    )
    assert go.ran("gofmt", "-l", ".", folder=tmp_path) == ""
    go.ran("go", "build", "-o", "gate", ".", folder=tmp_path)
    with serving(Service()) as service:
        service.vouch()
        settings = _following(service.url, KEY, TENANT, PIN, tmp_path)
        for verdict in ("clear", "revoked"):
            ran = subprocess.run(
                [tmp_path / "gate"], env=environment(settings), capture_output=True, check=True
            )
            assert ran.stdout.decode() == f"{verdict}\n"
            service.revoke("svc_wrt_laptop-17")


def test_it_refuses_the_saved_state_of_another_client(program: Path, tmp_path: Path) -> None:
    """F1002a: The client in Go refuses a saved state of the client in Python, and names it."""
    FileStateStore(tmp_path).save(SavedState(pinned(held=first()), 1, b"c" * 32, NOW, 0.0))
    settings = {"RESCIND_URL": "http://127.0.0.1:1", "RESCIND_API_KEY": "key"}
    settings |= {
        "RESCIND_TENANT": TENANT,
        "RESCIND_TRUST_PIN": PIN,
        "RESCIND_STATE_DIR": str(tmp_path),
    }
    ran = subprocess.run(
        [program, "check", "svc_wrt_a"], env=environment(settings), capture_output=True, check=False
    )
    assert ran.returncode == 1
    assert b"was saved by the Python client: use a separate folder" in ran.stderr


def test_it_follows_a_service(program: Path, server: Server, tmp_path: Path) -> None:
    """F1001a: The sidecar refuses what a service revokes, through a rotation, a theft and restarts.

    It refuses no answer meanwhile, and reports what it holds. After a restore it goes on.
    """
    given = server.client_settings()
    settings = _following(
        server.url, given["api_key"], given["tenant"], given["trust_pin"], tmp_path
    )
    with sidecar(program, settings) as client:
        soon(partial(client.clears, "svc_wrt_0"))
        server.revoke("svc_wrt_0")
        soon(partial(client.refuses, "svc_wrt_0"))
        signers = {client.status["signer"]}
        for number, how in enumerate(({}, {"compromised": True}), 1):
            server.call("POST", "/revocations/srl/keys/rotate", **how)
            server.revoke(f"svc_wrt_{number}")
            soon(partial(client.refuses, f"svc_wrt_{number}"))
            soon(partial(client.clears, "svc_wrt_other"))
            signers.add(client.status["signer"])
        assert len(signers) == 3
        server.group.kill()
        server.group.start()
        server.revoke("svc_wrt_3")
        soon(partial(client.refuses, "svc_wrt_3"))
        soon(partial(client.clears, "svc_wrt_other"))
        assert client.status["refusals"] == {}
        soon(lambda: server.call("GET", "/authorizers")["authorizers"][0]["trust_version"] > 2)
        assert server.call("GET", "/authorizers")["authorizers"][0]["key_verified"]
        server.group.kill()
    # Without the service it decides at once, until that is too long ago.
    with sidecar(program, settings) as client:
        assert client.refuses("svc_wrt_3")
        soon(lambda: client.check("svc_wrt_other") == "stale")
        assert [client.check(f"svc_wrt_{number}") for number in range(4)] == ["revoked"] * 4
        server.group.start()
        soon(partial(client.clears, "svc_wrt_other"))
        assert client.status["refusals"] == {}
        server.admin("backup", str(tmp_path / "backup"))
        server.revoke("svc_wrt_4")
        server.publish()
        soon(partial(client.refuses, "svc_wrt_4"))
        server.group.kill()
        server.restore(tmp_path / "backup")
        server.admin("recover", "local")
        server.group.start()
        server.revoke("svc_wrt_5")
        soon(partial(client.refuses, "svc_wrt_5"))
        soon(partial(client.clears, "svc_wrt_other"))
        assert client.refuses("svc_wrt_4")
