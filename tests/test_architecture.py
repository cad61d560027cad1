"""docs/architecture.md names the rooms as they are."""

import re
import tomllib
from typing import Any, Final

from tests.processes import ROOT

_TEXT: Final = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_each_room_and_wing_is_on_the_page() -> None:
    """The tables have each room and wing of the import contracts, from the top to the bottom."""
    contracts: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))[
        "tool"
    ]["importlinter"]["contracts"]
    layers = [each for each in contracts if each["type"] == "layers" and each.get("exhaustive")]
    rooms = [
        f"{container.replace('.', '/')}/{name}"
        for contract in layers
        for container in contract["containers"]
        for layer in contract["layers"]
        for name in layer.split(" | ")
    ]
    said = re.findall(r"^\| `(shared/[\w/]+?)(?:/|\.py)` \|", _TEXT, re.MULTILINE)
    assert said == rooms


def test_each_file_on_the_page_is_there() -> None:
    """The page names no file or folder that is gone."""
    named = re.findall(r"`([\w/.-]+(?:\.py|\.yaml|\.toml|/))`", _TEXT)
    places = (ROOT, ROOT / "shared" / "operations" / "srl")
    assert len(named) > 40
    assert [name for name in named if not any((each / name).exists() for each in places)] == []
