"""The artefact and the runtime's client beside it, as Lambda has them: built once a session.

    @pytest.fixture(scope="session")
    def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
        return built(tmp_path_factory)

They are for this machine's architecture, and for Lambda's Python where the machine has it.
"""

import fcntl
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from infra.build import Target, build, find_python, install
from tests.kit.processes import ROOT
from tests.kit.surroundings import with_proxies

LAMBDA: Final = Target()

_MACHINES: Final = {"aarch64": "arm64"}
_RUNTIME_LOCK: Final = ROOT / "tests" / "tools" / "awslambdaric.lock"


@dataclass(frozen=True)
class Artefact:
    """An artefact (`/var/task`), the runtime's client (`/var/runtime`), and the Python to both."""

    task: Path
    runtime: Path
    interpreter: str
    target: Target


def built(factory: pytest.TempPathFactory) -> Artefact:
    """The artefact for this machine."""
    python, interpreter = _python()
    target = Target(_MACHINES.get(platform.machine(), platform.machine()), python)
    folder = _built(factory, target)
    return Artefact(folder / "task", folder / "runtime", interpreter, target)


def built_for_lambda(factory: pytest.TempPathFactory) -> Path:
    """The artefact that is deployed, which this machine need not be able to run."""
    return _built(factory, LAMBDA) / "task"


def _python() -> tuple[str, str]:
    found = find_python(LAMBDA.python)
    if found:
        return LAMBDA.python, found
    return f"{sys.version_info.major}.{sys.version_info.minor}", sys.executable


def _built(factory: pytest.TempPathFactory, target: Target) -> Path:
    """The folder of a target; whichever process of pytest-xdist comes first builds it."""
    base = factory.getbasetemp()
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = session / f"artefact-{target.architecture}-{target.python}"
    with _alone(folder.with_suffix(".lock")):
        if not (folder / "complete").exists():
            with with_proxies():
                build(folder / "task", target)
                install(_RUNTIME_LOCK, folder / "runtime", target)
            (folder / "complete").touch()
    return folder


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
