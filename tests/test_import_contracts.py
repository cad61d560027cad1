"""The import contracts of pyproject.toml: each refuses an import that is planted against it."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent

# For each contract: a module, and an import that it must not have.
_PLANTED = {
    "Imports point one way": ("shared/web/gate.py", "import functions.srl.handler"),
    "Each room of shared has a layer": ("shared/attic.py", "ATTIC = True"),
    "Each wing of the operations has a layer": (
        "shared/operations/base/expiry.py",
        "import shared.operations.changes.warrants",
    ),
    "A function imports another only as listed here": (
        "functions/changes/routes.py",
        "import functions.authorizers.schemas",
    ),
    "No circles": ("shared/model/times.py", "import shared.model.tenants"),
    "The domain of a capability imports neither HTTP, nor AWS, nor SQL": (
        "functions/webhooks/operations.py",
        "import starlette.requests",
    ),
    "Only the package functions installs capabilities": (
        "infra/server/timer.py",
        "import functions.webhooks.capability",
    ),
    "The core knows neither HTTP, nor AWS, nor SQL": ("shared/ports/outside.py", "import botocore"),
    "What decides about a list reads and writes nothing": (
        "shared/operations/lists/decisions.py",
        "import shared.ports.store",
    ),
    "Only wiring chooses adapters": (
        "infra/server/timer.py",
        "import shared.adapters.local.sqlite",
    ),
    "Wiring loads the folders of adapters by name": (
        "shared/adapters/fenced.py",
        "import shared.adapters.local.files",
    ),
    "The service imports nothing of the client but its formats and its HTTP": (
        "shared/model/times.py",
        "import shared.authorizer.client",
    ),
    "The formats import nothing of the client": (
        "shared/authorizer/formats/wire.py",
        "import shared.authorizer.status",
    ),
    "The kit of the tests imports no room of theirs": (
        "tests/kit/waiting.py",
        "import tests.operations.races",
    ),
    "Only the commands of operators open the data": (
        "infra/cli/webhooks.py",
        "import shared.wiring",
    ),
    "Only the functions of other people's tokens load the library of tokens": (
        "shared/web/gate.py",
        "import joserfc.jws",
    ),
    "What serves no endpoint of the API loads no web framework": (
        "functions/srl_schedule/handler.py",
        "import shared.web.app",
    ),
}


def _lint(folder: Path) -> "subprocess.CompletedProcess[str]":
    program = Path(sys.executable).parent / "lint-imports"
    command: list[str | Path] = [program, "--no-cache", "--config", folder / "pyproject.toml"]
    return subprocess.run(
        command, check=False, cwd=folder, capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the contracts look at."""
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("functions", "shared", "infra", "tests"):
        shutil.copytree(_ROOT / name, folder / name, ignore=ignored)
    shutil.copy(_ROOT / "pyproject.toml", folder)
    return folder


@pytest.mark.slow
def test_every_contract_refuses_what_is_planted_against_it(checkout: Path) -> None:
    """All contracts are kept; with the imports planted, each of them is broken, by its own."""
    settings = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = [each["name"] for each in settings["tool"]["importlinter"]["contracts"]]
    assert sorted(contracts) == sorted(_PLANTED)
    assert _lint(checkout).returncode == 0
    for path, line in _PLANTED.values():
        with (checkout / path).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    outcome = _lint(checkout)
    assert outcome.returncode == 1
    kept, broken = outcome.stdout.split("Broken contracts", 1)
    assert [name for name in contracts if f"{name} BROKEN" not in kept] == []
    for name, (path, _) in _PLANTED.items():
        # Its section ends at the next name with a line below it.
        section = re.split(r"\n.+\n-+\n", broken.split(f"\n{name}\n", 1)[1], maxsplit=1)[0]
        module = path.removesuffix(".py").replace("/", ".")
        # Of several circles not all are printed.
        assert ("made acyclic" if "circles" in name else module) in section, (name, section)
