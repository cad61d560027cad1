"""The wheel of the client, installed in an empty environment, away from the checkout."""

import json
import random
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from importlib.metadata import Distribution
from pathlib import Path
from typing import Final

import pytest

from tests.authorizer.feeds import TENANT
from tests.authorizer.service import KEY, PIN, Service, serving
from tests.infra.following import UV, Server, following, installed, soon
from tests.kit.processes import ROOT, environment

pytestmark = pytest.mark.slow

_PAGES: Final = ("docs/authorizers.md", "infra/clients/python/README.md")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel, and what the wheel says that it needs."""
    return installed(tmp_path_factory.mktemp("client"))


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(Service()) as service:
        service.vouch()
        yield service


def test_three_dependencies_are_installed(python: Path) -> None:
    """F186a: The wheel of the client installs one package, its types, and three dependencies."""
    found = json.loads(_run(*UV, "pip", "list", "--python", str(python), "--format", "json"))
    names = {each["name"] for each in found}
    # cffi and pycparser are what cryptography needs.
    assert names == {"rescind-authorizer", "cbor2", "cryptography", "h11", "cffi", "pycparser"}
    (place,) = python.parent.parent.glob("lib/*/site-packages/rescind_authorizer-*.dist-info")
    files = Distribution.at(place).files or []
    assert {file.parts[0] for file in files} == {"rescind_authorizer", place.name, ".."}
    assert {"py.typed", "LICENSE"} <= {file.name for file in files}


def test_ten_lines_refuse_a_warrant(python: Path, service: Service, tmp_path: Path) -> None:
    """F186b: The ten lines of the documentation refuse a revoked warrant, and no other."""
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in _PAGES]
    (lines,) = {re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0] for text in texts}
    settings = {
        "RESCIND_URL": service.url,
        "RESCIND_API_KEY": KEY,
        "RESCIND_TENANT": TENANT,
        "RESCIND_TRUST_PIN": PIN,
        "RESCIND_STATE_DIR": str(tmp_path / "state"),
    }
    assert _run(str(python), "-c", lines, cwd=tmp_path, settings=settings) == "allowed\n"
    service.revoke("svc_wrt_laptop-17")
    again = _run(str(python), "-c", lines, cwd=tmp_path, settings=settings)
    assert again == "refused: revoked\n"


@pytest.fixture
def settings(server: Server) -> dict[str, object]:
    return server.client_settings() | {"url": server.url}


@pytest.mark.parametrize("number", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_nothing_is_lost_while_both_are_killed(
    python: Path, server: Server, settings: dict[str, object], tmp_path: Path, number: int
) -> None:
    """F187a: Server and client are killed in turns; each acknowledged revocation is refused.

    What a client refused before, it refuses again after its restart, at once.
    """
    refused, sample = set[str](), random.Random(number)
    with server.revoking(number) as acknowledged:
        for turn in range(1, 7):
            with following(python, tmp_path / "state", **settings) as client:
                assert {client.check(each) for each in refused} <= {"revoked"}
                # The client is killed at the end of each turn, the server in the middle.
                soon(partial(_has, acknowledged, number * (2 * turn - 1) // 12), seconds=300)
                server.group.kill()
                server.group.start()
                soon(partial(_has, acknowledged, number * turn // 6), seconds=300)
                asked = sample.sample(acknowledged, min(200, len(acknowledged)))
                refused.update(each for each in asked if client.refuses(each))
    assert len(refused) > number // 10
    with following(python, tmp_path / "state", **settings) as client:
        for each in acknowledged:
            soon(partial(client.refuses, each))
        assert client.check("svc_wrt_never") == "clear"
        assert client.status["refusals"] == {}
    assert len(acknowledged) >= number


def _has(acknowledged: list[str], number: int) -> bool:
    return len(acknowledged) >= number


def _run(*command: str, cwd: Path = ROOT, settings: dict[str, str] | None = None) -> str:
    ran = subprocess.run(
        command, cwd=cwd, env=environment(settings), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
