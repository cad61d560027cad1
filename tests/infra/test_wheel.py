"""The wheel, installed in an empty environment, away from the checkout."""

import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path
from typing import Final

import httpx2
import pytest

from shared import __version__
from tests.kit.processes import ROOT, environment, local_server

pytestmark = pytest.mark.slow

_UV: Final = [str(Path(sys.executable).with_name("uv")), "--quiet"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and what the wheel says that it needs, at locked versions."""
    folder = tmp_path_factory.mktemp("wheel")
    _run(*_UV, "build", "--wheel", "--out-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    _run(*_UV, "venv", "--python", sys.executable, str(folder / "venv"))
    locked = ["--constraint", str(ROOT / "infra" / "requirements.lock")]
    _run(*_UV, "pip", "install", "--python", str(folder / "venv"), *locked, str(wheel))
    return folder / "venv"


def test_one_name_is_installed(installed: Path) -> None:
    """F33l: The wheel installs no package but `rescind`, and its command."""
    (found,) = installed.glob("lib/*/site-packages/rescind-*.dist-info")
    files = Distribution.at(found).files or []
    assert {file.parts[0] for file in files} == {"rescind", found.name, ".."}
    scripts = {file.name for file in files if file.parts[0] == ".."}
    assert scripts == {"rescind"}
    ours = [file for file in files if file.parts[0] == "rescind"]
    others = {str(file) for file in ours if file.suffix not in {".py", ""}}
    static = ROOT / "functions" / "console" / "static"
    pages = {f"rescind/{path.relative_to(ROOT)}" for path in static.rglob("*.*")}
    assert others == pages | {"rescind/infra/openapi.md", "rescind/infra/openapi.toml"}


def test_the_installed_commands_work_without_the_checkout(installed: Path, tmp_path: Path) -> None:
    """F33m: The installed commands serve, administer and verify, without the checkout."""
    data = tmp_path / "data"
    bin_ = installed / "bin"
    server = [str(bin_ / "rescind"), "serve"]
    with local_server(data, workers=2, program=server, cwd=tmp_path) as service:
        key = {"Authorization": f"Bearer {service.admin_key}"}
        with httpx2.Client(base_url=f"{service.url}/v1/revocations/srl", headers=key) as client:
            (tmp_path / "srl.json").write_bytes(client.get("/signed").content)
            signer = client.get("/keys").json()["keys"][0]["public_key"]
        page = httpx2.get(service.url, headers={"Accept": "text/html"})
        assert (page.status_code, "<!doctype html>" in page.text) == (200, True)
        listed = _run(str(bin_ / "rescind"), "tenant", "list", "--data", str(data), cwd=tmp_path)
        assert listed.splitlines()[1].startswith("local ")
        # Another key is made only on demand, and the server says how.
        (data / "admin.key").unlink()
    with local_server(data, program=server, cwd=tmp_path) as service:
        assert f"run: rescind admin-key local --data {data}" in service.output.read_text()
    verify = (str(bin_ / "rescind"), "srl", "verify")
    verdict = _run(*verify, str(tmp_path / "srl.json"), "--key", signer, cwd=tmp_path)
    assert verdict.startswith("valid: version 1,")
    assert _run(str(bin_ / "rescind"), "--version", cwd=tmp_path) == f"rescind {__version__}\n"


def _run(*command: str, cwd: Path = ROOT) -> str:
    ran = subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
