"""The client in Go: it passes the conformance suite, and decides as documented."""

import re
import subprocess
from pathlib import Path

import pytest

from shared import __version__
from shared.authorizer.saved_state import FileStateStore, SavedState
from tests.authorizer.feeds import NOW, TENANT
from tests.authorizer.roots import first, pinned
from tests.authorizer.service import KEY, PIN, Service, serving
from tests.clients import left_out
from tests.conformance import runner
from tests.conformance.vectors import vectors
from tests.kit import go
from tests.kit.processes import ROOT, environment

pytestmark = [pytest.mark.slow, go.needs_go]

_CASES = vectors()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return go.built(tmp_path_factory.mktemp("go"))


def _following(url: str, folder: Path) -> dict[str, str]:
    """Return the environment of a client with its saved state in a folder."""
    given = {"URL": url, "API_KEY": KEY, "TENANT": TENANT, "TRUST_PIN": PIN}
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
        settings = _following(service.url, tmp_path)
        for verdict in ("clear", "revoked"):
            ran = subprocess.run(
                [tmp_path / "gate"], env=environment(settings), capture_output=True, check=True
            )
            assert ran.stdout.decode() == f"{verdict}\n"
            service.revoke("svc_wrt_laptop-17")


def test_it_refuses_the_saved_state_of_another_client(program: Path, tmp_path: Path) -> None:
    """F1002a: The client in Go refuses a saved state of the client in Python, and names it."""
    state = SavedState(pinned(held=first()), 1, b"c" * 32, NOW, 0.0)
    FileStateStore(tmp_path / "state").save(state)
    settings = _following("http://127.0.0.1:1", tmp_path)
    ran = subprocess.run(
        [program, "check", "svc_wrt_a"], env=environment(settings), capture_output=True, check=False
    )
    assert ran.returncode == 1
    assert b"was saved by the Python client: use a separate folder" in ran.stderr
