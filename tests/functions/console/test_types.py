"""The types of the console's scripts, by the comments in them and by the API document."""

import json
from pathlib import Path
from typing import Final

import pytest

from functions.console.files import STATIC
from infra import openapi
from tests.infra.generators import run
from tests.kit.processes import ROOT

pytestmark = pytest.mark.slow

_TOOLS: Final = ROOT / ".tools/openapi/node_modules/.bin"
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
    "types": [],
}
# What browsers have and TypeScript does not know yet.
_BROWSERS: Final = """
declare var trustedTypes: undefined | {
  createPolicy(name: string, rules: Record<string, (text: string) => string>): {
    createHTML(text: string): object; createScriptURL(text: string): object;
  };
};
"""


def test_the_scripts_use_the_api_as_it_is_described(tmp_path: Path) -> None:
    """F461a: `tsc` finds no error in the console, whose types are made from the API document."""
    types = tmp_path / "openapi.d.ts"
    run(_TOOLS / "openapi-typescript", openapi.PATH, "--output", types)
    _write_globals(tmp_path)
    files = sorted(map(str, STATIC.rglob("*.js")))
    options = {"compilerOptions": _OPTIONS, "files": [*files, str(tmp_path / "globals.d.ts")]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(options))
    assert "error" not in run(_TOOLS / "tsc", "--project", tmp_path)


def _write_globals(folder: Path) -> None:
    """Let a comment name each schema of the API document as in `Api.SigningKey`."""
    names = json.loads(openapi.PATH.read_text())["components"]["schemas"]
    lines = [
        f'type {each} = import("./openapi").components["schemas"]["{each}"];' for each in names
    ]
    text = "\n".join(["declare namespace Api {", *lines, "}", _BROWSERS])
    (folder / "globals.d.ts").write_text(text)
