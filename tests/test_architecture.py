"""docs/architecture.md names the rooms, the functions and the files as they are."""

import re
import tomllib
from typing import Any, Final

from tests.kit.processes import ROOT

_TEXT: Final = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def _exhaustive() -> dict[str, list[str]]:
    """The layers of each package in which the import contracts give every module a layer."""
    contracts: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))[
        "tool"
    ]["importlinter"]["contracts"]
    return {
        container: contract["layers"]
        for contract in contracts
        if contract["type"] == "layers" and contract.get("exhaustive")
        for container in contract["containers"]
        if container.startswith("shared")
    }


def test_the_order_of_rooms_and_wings_is_on_the_page() -> None:
    """The page has a line for each such package, with its layers from the top to the bottom."""
    said = dict(re.findall(r"^(shared[\w.]*): (.+)$", _TEXT, re.MULTILINE))
    assert said == {name: " / ".join(layers) for name, layers in _exhaustive().items()}


def test_each_room_and_wing_is_explained() -> None:
    """The tables have each room and wing once, from the top to the bottom."""
    rooms = [
        f"{package.replace('.', '/')}/{name}"
        for package, layers in _exhaustive().items()
        for layer in layers
        for name in layer.split(" | ")
    ]
    assert re.findall(r"^\| `(shared/[\w/]+?)(?:/|\.py)` \|", _TEXT, re.MULTILINE) == rooms


def test_each_function_is_drawn() -> None:
    """The drawing of AWS has the template's functions in double boxes, and those of all folders."""
    template = (ROOT / "template.yaml").read_text(encoding="utf-8")
    functions = re.findall(
        r"^  (\w+):\n    Type: AWS::Serverless::Function$", template, re.MULTILINE
    )
    boxes = " ".join(re.findall(r'\[\["(.+?)"\]\]', _TEXT)).replace("<br/>", "")
    assert sorted(re.findall(r"\w+", boxes)) == sorted(functions)
    folders = {each.parent.name.replace("_", "") for each in ROOT.glob("functions/*/handler.py")}
    assert folders <= {name.lower() for name in functions}


def test_each_file_on_the_page_is_there() -> None:
    """The page, with its drawings, names no file or folder that is gone."""
    named = re.findall(r"`([\w/.-]+(?:\.py|\.yaml|\.toml|/))`|\[\"(infra/[\w/]+\.py):", _TEXT)
    files = [quoted or drawn for quoted, drawn in named]
    assert len(files) > 40
    assert [name for name in files if not (ROOT / name).exists()] == []
