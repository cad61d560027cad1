"""Tables, records, messages and progress bars, rendered by Rich."""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Final

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from infra.cli.columns import Column
from shared.authorizer.http1 import printable

# A pipe has no width, so its lines are not wrapped or cut.
_ENDLESS: Final = 100_000
# Text that wraps in fewer columns is hard to read.
_WRAPPED_MIN: Final = 24
_STYLES: Final = {
    "active": "green",
    "revoked": "red",
    "not revoked": "green",
    "suspended": "yellow",
    "disabled": "yellow",
    "pending": "cyan",
    "rotated": "dim",
    "retired": "dim",
}
# A service identifier: a kind and a ULID. ULIDs differ mainly at the end.
_IDENTIFIER: Final = re.compile(r"(svc_[a-z]+_)([0-9a-z]{26})")
_END_MIN: Final = 6


class Screen:
    """Standard output and standard error, as terminals or as files.

    With `is_wide`, tables are not shortened, and the terminal may wrap lines.
    """

    def __init__(self, *, is_wide: bool) -> None:
        self._out = _console(sys.stdout, is_wide=is_wide)
        self._err = _console(sys.stderr)

    def print_table(self, records: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
        """Print a table. Shorten it, or print blocks, if it does not fit the terminal."""
        table = _table(records, columns)
        if not self._fits(table):
            table = _table(_shorten_ids(records, columns), columns)
        if self._fits(table):
            self._out.print(table)
            return
        # One block per record does not cut text.
        blocks: list[RenderableType] = []
        for number, record in enumerate(records):
            blocks += [Text("")] if number else []
            blocks.append(_record({column.title: record.get(column.key) for column in columns}))
        self._out.print(Group(*blocks))

    def print_tree(
        self, title: str, records: Sequence[Mapping[str, Any]], columns: Sequence[Column]
    ) -> None:
        """Print records below their parents, and records without a parent below the title."""
        top = Tree(title if records else "No results.", guide_style="dim")
        known = {each["id"] for each in records}
        children: dict[str | None, list[Mapping[str, Any]]] = {}
        for each in records:
            parent = each["parent_id"] if each["parent_id"] in known else None
            children.setdefault(parent, []).append(each)
        waiting: list[tuple[Tree, str | None]] = [(top, None)]
        while waiting:
            branch, parent = waiting.pop()
            for each in sorted(children.get(parent, []), key=lambda key: str(key["id"])):
                label = Text("  ").join(cell(each[column.key]) for column in columns)
                waiting.append((branch.add(label), each["id"]))
        self._out.print(top)

    def record(self, fields: Mapping[str, object]) -> None:
        """Print one record, one field per line."""
        self._out.print(_record(fields))

    def print_message(self, text: str) -> None:
        """Print a message."""
        self._err.print(Text(text), soft_wrap=True)

    def print_error(self, text: str) -> None:
        """Print the reason for a failure."""
        self._err.print(Text.assemble(("error: ", "bold red"), text), soft_wrap=True)

    @contextmanager
    def progress(self, doing: str, total: int | None) -> Iterator["Bar"]:
        """Show a progress bar while the block runs, if standard error is a terminal."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        with Progress(*columns, console=self._err, disable=not self._err.is_terminal) as bar:
            task = bar.add_task(doing, total=total)
            yield Bar(bar, task)

    def _fits(self, table: Table) -> bool:
        # With the real width, Rich would report that every table fits.
        endless = self._out.options.update_width(_ENDLESS)
        return Measurement.get(self._out, endless, table).minimum <= self._out.width


@dataclass(frozen=True)
class Bar:
    """A visible progress bar."""

    _bar: Progress
    _task: Any

    def advance(self, steps: int = 1) -> None:
        """Advance the bar by a number of steps."""
        self._bar.advance(self._task, steps)


def cell(value: object) -> Text:
    """Return the text of a value for people."""
    match value:
        case None | "" | []:
            return Text("-", style="dim")
        case bool():
            return Text("yes" if value else "no")
        case list():
            return Text(", ".join(cell(each).plain for each in value))
        case dict():
            return Text(printable(json.dumps(value, ensure_ascii=False), most=None))
        case _:
            text = printable(str(value), most=None)
            return Text(text, style=_STYLES.get(text, ""))


def _shorten_ids(
    records: Sequence[Mapping[str, Any]], columns: Sequence[Column]
) -> list[dict[str, Any]]:
    """Return the records with identifiers shortened to suffixes that stay unique."""
    rows = [dict(each) for each in records]
    for column in columns:
        values = {str(each.get(column.key)) for each in records}
        identifiers = [each for each in values if _IDENTIFIER.fullmatch(each)]
        for length in range(_END_MIN, 26):
            short = {each: f"{each[:8]}…{each[-length:]}" for each in identifiers}
            if len(set(short.values())) == len(identifiers):
                for each in rows:
                    each[column.key] = short.get(str(each.get(column.key)), each.get(column.key))
                break
    return rows


def _table(records: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for column in columns:
        longest = max((len(cell(each.get(column.key)).plain) for each in records), default=0)
        table.add_column(
            column.title.upper(),
            no_wrap=not column.wraps,
            overflow="fold",
            min_width=min(longest, _WRAPPED_MIN) if column.wraps else None,
        )
    for record in records:
        table.add_row(*(cell(record.get(column.key)) for column in columns))
    return table


def _record(fields: Mapping[str, object]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(Text(name), cell(value))
    return table


def _console(stream: IO[str], *, is_wide: bool = False) -> Console:
    is_wide = is_wide or (not stream.isatty() and "COLUMNS" not in os.environ)
    return Console(
        file=stream, width=_ENDLESS if is_wide else None, highlight=False, emoji=False, markup=False
    )
