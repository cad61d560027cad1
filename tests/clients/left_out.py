"""The client in Go with each of its checks left out in turn: one program, which is told which."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.kit import go

_TABLE: Final = Path(__file__).with_name("left_out.txt")
_CHOICE: Final = """package rescind

import "os"

var left = os.Getenv("LEFT_OUT")

func leftOut[T any](name string, whole, instead T) T {
	if left == name {
		return instead
	}
	return whole
}
"""


class Check(NamedTuple):
    """A check: its place in a file, with `«…»` as its expression; and what stands there without."""

    file: str
    place: str
    instead: str

    @property
    def name(self) -> str:
        return f"{self.file} {self.place} {self.instead}"


def _read() -> Iterator[Check]:
    file = ""
    for line in _TABLE.read_text(encoding="utf-8").splitlines():
        if found := re.fullmatch("  (.*)  =>  (.*)", line):
            yield Check(file, found[1].replace("\\n", "\n").replace("\\t", "\t"), found[2])
        elif not line.startswith("#"):
            file = line.rstrip(":")


CHECKS: Final = [*_read()]


def planted(folder: Path) -> Path:
    """The program that leaves out the check of the name that its environment has as LEFT_OUT."""
    source = folder / "go"
    shutil.copytree(go.SOURCE, source)
    (source / "left_out.go").write_text(_CHOICE)
    for file, place in dict.fromkeys((each.file, each.place) for each in CHECKS):
        text = (source / file).read_text()
        before, expression, after = re.split("[«»]", place)
        assert text.count(before + expression + after) == 1, (file, place)
        chosen = expression
        for check in (each for each in CHECKS if (each.file, each.place) == (file, place)):
            chosen = f"leftOut(`{check.name}`, {chosen}, {check.instead})"
        (source / file).write_text(
            text.replace(before + expression + after, before + chosen + after)
        )
    return go.built(folder, source)
