"""What was measured, as a table to read and as JSON."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from tests.bench.measure import Taken, compare

_TITLES = ("Figure", "Value", "CPU", "Against", "Ratio", "Lowest to highest", "Goal")

# The most characters of the reason why something was not measured.
_WHY_MAX = 200


class NotMeasured(Exception):
    """There is no figure, though there should be one; the message says why."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    `cpu` is the processor time, in the same unit, where `value` is a time and the work is one of
    processors; then the ratio is of that. `ratio` is to what `against` names, the median of the
    rounds; `spread` has their lowest and highest. Each is None where there is none.
    """

    name: str
    value: float | None
    unit: str
    against: str = ""
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    goal: str = ""
    cpu: float | None = None

    @classmethod
    def missing(cls, name: str, why: str) -> "Row":
        """The row of what was not measured here."""
        said = " ".join(why.replace("|", "/").split())
        return cls(name, None, "", against=f"not measured: {said[:_WHY_MAX]}")

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as it is shown."""
        value, cpu = self._figure(self.value), self._figure(self.cpu)
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        spread = "" if self.spread is None else " to ".join(f"{each:.2f}" for each in self.spread)
        return self.name, value, cpu, self.against, ratio, spread, self.goal

    def _figure(self, value: float | None) -> str:
        return "" if value is None else f"{_short(value)} {self.unit}"


def compared(
    name: str,
    ours: Sequence[float],
    against: str,
    theirs: Sequence[float],
    *,
    unit: tuple[str, float],
    goal: str = "",
) -> Row:
    """The row of two sides' figures; `unit` has its name, and how many of them are one figure."""
    said, scale = unit
    found = compare(ours, theirs)
    return Row(name, found.value * scale, said, against, found.ratio, found.spread, goal)


def took(
    name: str,
    ours: Sequence[Taken],
    *,
    unit: tuple[str, float],
    against: str = "",
    of: Sequence[Taken] | float | None = None,
    goal: str = "",
) -> Row:
    """The row of what work took; `of` is what the other side took, or the most CPU seconds."""
    said, scale = unit
    wall, cpu = (median(each) * scale for each in zip(*ours, strict=True))
    if of is None:
        return Row(name, wall, said, goal=goal, cpu=cpu)
    if isinstance(of, float):
        return Row(name, wall, said, against, cpu / scale / of, goal=goal, cpu=cpu)
    found = compare([each.cpu for each in ours], [each.cpu for each in of])
    return Row(name, wall, said, against, found.ratio, found.spread, goal, cpu)


def table(rows: Iterable[Row]) -> str:
    """The rows in Markdown."""
    return "\n".join([*_HEAD, *map(_line, rows)])


class Report:
    """Rows, each of which is printed, and is in the file of JSON, as soon as it is there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[Row] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        print(*_HEAD, sep="\n", flush=True)

    def add(self, row: Row) -> None:
        """Print a row, and write the file again with it."""
        self._rows.append(row)
        print(_line(row), flush=True)
        document = json.dumps([asdict(row) for row in self._rows], indent=2, ensure_ascii=False)
        self._path.write_text(document + "\n", encoding="utf-8")


def progress(text: str) -> None:
    """Say what is being done, apart from the table."""
    print(f"  {text}", file=sys.stderr, flush=True)


def _short(value: float) -> str:
    """Three digits, and no exponent."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f}"


def _line(row: Row) -> str:
    return _joined(row.cells)


def _joined(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


_HEAD = [_joined(_TITLES), _joined(["---", "---:", "---:", "---", "---:", "---:", "---"])]
