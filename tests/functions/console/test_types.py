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
from tests.kit import typescript
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
_TRUST: Final = "vendor/rescind-trust.js"
_is_code: Final = shutil.ignore_patterns("node", "development", "*.js", "*.map")


def test_the_console_is_formatted() -> None:
    """F1428f: Prettier would change nothing (`make format`), and no line is too long for it."""
    run(_TOOLS / "prettier", "--check", STATIC)
    width = json.loads((ROOT / ".prettierrc").read_text())["printWidth"]
    ours = [each for each in STATIC.rglob("*.*") if "vendor" not in _parts(each, STATIC)]
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
    # tsc reads the types of a vendored module in a file with the same name.
    shutil.copytree(_LIT, console / _VENDOR, ignore=_is_code, dirs_exist_ok=True)
    client = typescript.installed() / "node_modules/@rescind/authorizer/dist"
    (console / _TRUST).with_suffix(".d.ts").write_text(f'export * from "{client}/console.js"')
    scripts = sorted(console.rglob("*.js"))
    files = [str(each) for each in scripts if "vendor" not in _parts(each, console)]
    options = {"compilerOptions": _OPTIONS, "files": [*files, str(tmp_path / "globals.d.ts")]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(options))
    assert "error" not in run(_TOOLS / "tsc", "--project", tmp_path)


def _parts(file: Path, folder: Path) -> tuple[str, ...]:
    return file.relative_to(folder).parts


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


def test_the_trust_module_is_that_of_the_typescript_client(tmp_path: Path) -> None:
    """F2830a: The console's trust module equals a new bundle of the TypeScript client's source."""
    make = shutil.which("make") or pytest.skip("no make")
    run(make, "--silent", "--directory", ROOT, "vendor", f"VENDOR={tmp_path}")
    for name in (Path(_TRUST).name, "noble-hashes.LICENSE"):
        made, served = ((folder / name).read_bytes() for folder in (tmp_path, STATIC / "vendor"))
        assert made == served, f"{name} is not of this source: run make vendor"
