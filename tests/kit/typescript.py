"""The TypeScript client as its users have it: built, packed, and installed from the file."""

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.kit.processes import ROOT, environment

SOURCE: Final = ROOT / "infra/clients/typescript"
_TOOLS: Final = ROOT / ".tools/typescript/node_modules"
# No registry is asked: nothing listens there.
_OFFLINE: Final = ("--offline", "--registry", "http://127.0.0.1:9", "--ignore-scripts")
_NODE: Final = shutil.which("node")


def command() -> list[str]:
    """What starts the installed client for the conformance suite."""
    return [node(), str(installed() / "node_modules/.bin/rescind-authorizer"), "conformance"]


def node() -> str:
    """The path of Node. The test is skipped if Node or npm is missing."""
    if not _NODE or not shutil.which("npm"):
        pytest.skip("no Node with npm")
    assert _TOOLS.exists(), f"{_TOOLS} is missing; `make test-slow` installs it"
    return _NODE


@cache
def installed() -> Path:
    """A folder in which the packed client is installed, with what it depends on."""
    node()
    folder = Path(tempfile.mkdtemp(prefix="rescind-typescript-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _ran(ROOT, "make", "--silent", "typescript", f"DIST={folder}", f"STAGE={folder / 'source'}")
    _ran(folder, "npm", "pack", *_OFFLINE, _TOOLS / "@noble/hashes")
    (folder / "package.json").write_text('{"private": true}')
    _ran(folder, "npm", "install", "--no-audit", "--no-fund", *_OFFLINE, *folder.glob("*.tgz"))
    return folder


def compiled(source: str, folder: Path) -> Path:
    """A program in TypeScript, compiled strictly in a folder from which it finds the client."""
    modules = installed() / "node_modules"
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "node_modules").symlink_to(modules)
    (folder / "program.ts").write_text(source)
    options = ["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node"]
    options += ["--typeRoots", str(_TOOLS / "@types"), "program.ts"]
    _ran(folder, node(), _TOOLS / "typescript/bin/tsc", *options)
    return folder / "program.js"


def _ran(folder: Path, *arguments: str | Path) -> None:
    done = subprocess.run(
        arguments, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
