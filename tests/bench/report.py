"""What was measured, as a table to read and as JSON."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench.measure import compare

_TITLES = ("Figure", "Value", "Against", "Ratio", "Lowest to highest", "Goal")


class NotMeasured(Exception):
    """There is no figure, though there should be one; the message says why."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    `ratio` is to what `against` names, the median of the rounds; `spread` has their lowest and
    highest. All three are None where there is nothing to compare with.
    """

    name: str
    value: float | None
    unit: str
    against: str = ""
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    goal: str = ""

    @classmethod
    def missing(cls, name: str, why: str) -> "Row":
        """The row of what was not measured here."""
        return cls(name, None, "", against=f"not measured: {why}")

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as it is shown."""
        value = "" if self.value is None else f"{_short(self.value)} {self.unit}"
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        spread = "" if self.spread is None else " to ".join(f"{each:.2f}" for each in self.spread)
        return self.name, value, self.against, ratio, spread, self.goal


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


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown."""
    lines = [_TITLES, ("---", "---:", "---", "---:", "---:", "---"), *(row.cells for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def write(rows: Sequence[Row], path: Path) -> None:
    """Put the rows in a JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False)
    path.write_text(document + "\n", encoding="utf-8")


def progress(text: str) -> None:
    """Say what is being done, apart from what is printed in the end."""
    print(f"  {text}", file=sys.stderr, flush=True)


def _short(value: float) -> str:
    """Three digits, and no exponent."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f}"
