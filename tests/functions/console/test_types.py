"""The types of the console's scripts, by the comments in them and by the API document."""

import json
import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from functions.console.files import STATIC
from infra import openapi
from tests.infra.generators import run
from tests.kit.processes import ROOT

pytestmark = pytest.mark.slow

_MODULES: Final = ROOT / ".tools/openapi/node_modules"
_TOOLS: Final = _MODULES / ".bin"
_LIT: Final = _MODULES / "lit-html"
_OPTIONS: Final = {
    "strict": True,
    "noEmit": True,
    "allowJs": True,
    "checkJs": True,
    "noImplicitReturns": True,
    "noUnusedLocals": True,
    "noUnusedParameters": True,
    "target": "es2024",
    "module": "esnext",
    "moduleResolution": "bundler",
    "lib": ["es2024", "dom", "dom.iterable", "dom.asynciterable"],
    "skipLibCheck": True,
    "types": [],
}
_VENDOR: Final = "vendor/lit-html"
_is_code: Final = shutil.ignore_patterns("node", "development", "*.js", "*.map")


def test_the_console_is_formatted() -> None:
    """F1428f: Prettier would change nothing (`make format`), and no line is too long for it."""
    run(_TOOLS / "prettier", "--check", STATIC)
    width = json.loads((ROOT / ".prettierrc").read_text())["printWidth"]
    ours = [each for each in STATIC.rglob("*.*") if _VENDOR not in each.as_posix()]
    lines = [
        line
        for each in ours
        if each.suffix in {".js", ".css"}
        for line in each.read_text().splitlines()
    ]
    assert [line for line in lines if len(line) > width] == []


def test_the_scripts_use_the_api_as_it_is_described(tmp_path: Path) -> None:
    """F461a: `tsc` finds no error in the console, whose types are made from the API document."""
    types = tmp_path / "openapi.d.ts"
    run(_TOOLS / "openapi-typescript", openapi.PATH, "--output", types)
    _write_globals(tmp_path)
    console = tmp_path / "console"
    shutil.copytree(STATIC, console)
    # The types of the library stand beside it.
    shutil.copytree(_LIT, console / _VENDOR, ignore=_is_code, dirs_exist_ok=True)
    scripts = sorted(console.rglob("*.js"))
    files = [str(each) for each in scripts if not each.is_relative_to(console / _VENDOR)]
    options = {"compilerOptions": _OPTIONS, "files": [*files, str(tmp_path / "globals.d.ts")]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(options))
    assert "error" not in run(_TOOLS / "tsc", "--project", tmp_path)


def _write_globals(folder: Path) -> None:
    """Let a comment name each schema of the API document as in `Api.SigningKey`."""
    names = json.loads(openapi.PATH.read_text())["components"]["schemas"]
    lines = [
        f'type {each} = import("./openapi").components["schemas"]["{each}"];' for each in names
    ]
    text = "\n".join(["declare namespace Api {", *lines, "}"])
    (folder / "globals.d.ts").write_text(text)


def test_the_vendored_files_are_those_of_the_package() -> None:
    """F1425a: The library of the console is the package that is pinned by hash, unchanged."""
    version = json.loads((_LIT / "package.json").read_text())["version"]
    assert (STATIC / _VENDOR / "VERSION").read_text() == f"lit-html {version}\n"
    for file in (STATIC / _VENDOR).rglob("*.*"):
        published = (_LIT / file.relative_to(STATIC / _VENDOR)).read_text()
        assert file.read_text() == re.sub(r"//# sourceMappingURL=.*\n", "", published), file.name
    assert (STATIC / _VENDOR / "LICENSE").read_text() == (_LIT / "LICENSE").read_text()
