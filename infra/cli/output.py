"""The output of commands: results on standard output, everything else on standard error.

Results are tables for people, or the JSON of the API with `-o json`. Text of the service is shown
without the control characters that it may have.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Any, Final

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

# A pipe has no width: nothing is wrapped or cut there.
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


class OutputFormat(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True)
class Column:
    """A column: its title, the field of a record that it shows, and whether its text may wrap."""

    title: str
    key: str
    wraps: bool = False


class Output:
    """The terminal, or whatever standard output and standard error are."""

    def __init__(self, format_: OutputFormat = OutputFormat.TABLE) -> None:
        self.format = format_
        self._out = _console(sys.stdout)
        self._err = _console(sys.stderr)

    @property
    def is_json(self) -> bool:
        """Whether results are printed as JSON."""
        return self.format is OutputFormat.JSON

    def show(self, document: object, view: RenderableType) -> None:
        """Print a result: the document as JSON, or the view for people."""
        if self.is_json:
            print(json.dumps(document, indent=2))
        else:
            shown = Text(printable(view, breaks=True)) if isinstance(view, str) else view
            self._out.print(shown, soft_wrap=isinstance(view, str))

    def table(
        self, document: object, rows: Iterable[Mapping[str, Any]], columns: Sequence[Column]
    ) -> None:
        """Print a result as a table of its `rows`; as a block for each row, if that is too wide."""
        records = list(rows)
        wide = _table(records, columns)
        # Within the real width, Rich would say that everything fits.
        endless = self._out.options.update_width(_ENDLESS)
        least = Measurement.get(self._out, endless, wide).minimum
        fits = least <= self._out.width
        self.show(document, wide if fits else _blocks(records, columns))
        if not records:
            self.say("There are none.")

    def page(
        self,
        page: Mapping[str, Any],
        name: str,
        columns: Sequence[Column],
        rows: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Print the records of `Api.listed` as a table; say if there are more.

        The table has `rows` instead of the records if they are given.
        """
        self.table(page, page[name] if rows is None else rows, columns)
        if page["cursor"] is not None:
            total = f" of {page['total']}" if page.get("total") is not None else ""
            self.say(f"The first {len(page[name])}{total}; --limit 0 shows all.")

    def record(self, document: Mapping[str, Any], fields: Sequence[str] = ()) -> None:
        """Print one record: all its fields, or only some for people, one in each line."""
        self.show(document, _record({name: document.get(name) for name in fields or document}))

    def say(self, text: str) -> None:
        """Print a message on standard error."""
        self._err.print(Text(printable(text, breaks=True)), soft_wrap=True)

    def error(self, text: str, document: object) -> None:
        """Print why the command fails, on standard error."""
        if self.is_json:
            print(json.dumps({"error": document}), file=sys.stderr)
        else:
            message = Text.assemble(("error: ", "bold red"), printable(text, breaks=True))
            self._err.print(message, soft_wrap=True)

    @contextmanager
    def progress(self, doing: str, total: int | None) -> Iterator["Advance"]:
        """Show a bar on standard error while the block runs, if that is a terminal."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        with Progress(*columns, console=self._err, disable=not self._err.is_terminal) as bar:
            task = bar.add_task(doing, total=total)
            yield Advance(bar, task)


@dataclass(frozen=True)
class Advance:
    """A progress bar that is shown."""

    _bar: Progress
    _task: Any

    def by(self, steps: int = 1) -> None:
        """Say that so many steps more are done."""
        self._bar.advance(self._task, steps)


def cell(value: object) -> Text:
    """Return a value of a record as it is shown to people."""
    match value:
        case None | "" | []:
            return Text("-", style="dim")
        case bool():
            return Text("yes" if value else "no")
        case list():
            return Text(", ".join(cell(each).plain for each in value))
        case dict():
            return Text(printable(json.dumps(value, ensure_ascii=False)))
        case _:
            text = printable(str(value))
            return Text(text, style=_STYLES.get(text, ""))


def printable(text: str, *, breaks: bool = False) -> str:
    """Return the text with escapes for characters that could move a cursor or hide text.

    With `breaks`, line feeds stay.
    """
    kept = "\n" if breaks else ""
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode()
        for each in text
    )


def _table(records: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> Table:
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for column in columns:
        longest = max((len(cell(each.get(column.key)).plain) for each in records), default=0)
        made.add_column(
            column.title.upper(),
            no_wrap=not column.wraps,
            overflow="fold",
            min_width=min(longest, _WRAPPED_MIN) if column.wraps else None,
        )
    for record in records:
        made.add_row(*(cell(record.get(column.key)) for column in columns))
    return made


def _blocks(records: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> RenderableType:
    """Return a table that is too wide as one block for each record, so that nothing is cut."""
    shown: list[RenderableType] = []
    for number, record in enumerate(records):
        shown += [Text("")] if number else []
        shown.append(_record({column.title: record.get(column.key) for column in columns}))
    return Group(*shown)


def _record(fields: Mapping[str, object]) -> Table:
    made = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    made.add_column(no_wrap=True, style="bold")
    made.add_column(overflow="fold")
    for name, value in fields.items():
        made.add_row(Text(name), cell(value))
    return made


def _console(stream: IO[str]) -> Console:
    is_wide = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(
        file=stream, width=_ENDLESS if is_wide else None, highlight=False, emoji=False, markup=False
    )
