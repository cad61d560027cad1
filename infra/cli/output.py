"""Output of commands: results on standard output, everything else on standard error.

Results are tables for people, or machine-readable: the JSON of the API, YAML, CSV, or names only.
Control characters in text from the service are not printed.
"""

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from infra.cli.columns import Column
from shared.authorizer.http1 import printable
from shared.model.identifiers import API_KEY

# Rich and YAML load slowly, and JSON output needs neither.
if TYPE_CHECKING:
    from infra.cli.tables import Bar, Screen

# Spreadsheets treat a cell with this prefix as a formula.
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")


class OutputFormat(StrEnum):
    """The format of results."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"


class Output:
    """Prints to standard output and standard error."""

    def __init__(self, format_: OutputFormat = OutputFormat.TABLE) -> None:
        self.format = format_

    @cached_property
    def _screen(self) -> "Screen":
        from infra.cli.tables import Screen  # noqa: PLC0415 (see above)

        return Screen(is_wide=self.format is OutputFormat.WIDE)

    @property
    def is_document(self) -> bool:
        """Whether results are printed as JSON or YAML documents."""
        return self.format in (OutputFormat.JSON, OutputFormat.YAML)

    @property
    def is_for_people(self) -> bool:
        """Whether results are printed as tables."""
        return self.format in (OutputFormat.TABLE, OutputFormat.WIDE)

    def show(self, document: object, text: str) -> None:
        """Print a result: the document if the format is JSON or YAML, otherwise the text."""
        if self.is_document:
            self.print_document(document)
        else:
            print(printable(text, most=None, breaks=True))

    def print_document(self, document: object) -> None:
        """Print a document as YAML if that is the format, otherwise as JSON."""
        text = json.dumps(document, indent=2)
        if self.format is OutputFormat.YAML:
            import yaml  # noqa: PLC0415 (see above)

            print(yaml.safe_dump(json.loads(text), allow_unicode=True, sort_keys=False), end="")
        else:
            print(text)

    def print_table(
        self, document: object, rows: Iterable[Mapping[str, Any]], columns: Sequence[Column]
    ) -> None:
        """Print a result as a table of its `rows`.

        A table that is too wide shortens identifiers. If that is not enough, each row becomes a
        block. The format `wide` does neither.
        """
        records = list(rows)
        if self.is_document:
            self.print_document(document)
        elif self.is_for_people:
            self._screen.print_table(records, columns)
        else:
            self._print_cells(records, columns)
        if not records:
            self.print_message("No results.")

    def print_tree(
        self,
        title: str,
        document: object,
        rows: Sequence[Mapping[str, Any]],
        columns: Sequence[Column],
    ) -> None:
        """Print a result as a tree of `rows`, linked by `parent_id`. Programs get a table.

        A row without its parent in `rows` is at the top level.
        """
        if self.is_for_people:
            self._screen.print_tree(title, rows, columns)
        else:
            self.print_table(document, rows, columns)

    def print_page(
        self,
        page: Mapping[str, Any],
        name: str,
        columns: Sequence[Column],
        rows: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Print the records of `ApiClient.list_records` as a table, and whether there are more.

        `rows` replace the records if given.
        """
        self.print_table(page, page[name] if rows is None else rows, columns)
        if page["cursor"] is not None:
            total = f" of {page['total']}" if page.get("total") is not None else ""
            self.print_message(
                f"Showing the first {len(page[name])}{total}. Use --limit 0 to show all."
            )

    def record(self, document: Mapping[str, Any], fields: Sequence[str] = ()) -> None:
        """Print one record, one field per line. For people, only `fields` if given."""
        if self.is_document:
            self.print_document(document)
            return
        shown = {name: document.get(name) for name in fields or document}
        if self.is_for_people:
            self._screen.record(shown)
        else:
            self._print_cells([shown], [Column(name, name) for name in shown])

    def print_message(self, text: str) -> None:
        """Print a message on standard error."""
        if self.is_for_people:
            self._screen.print_message(printable(text, most=None, breaks=True))
        else:
            print(printable(text, most=None, breaks=True), file=sys.stderr)

    def print_error(self, text: str, document: object) -> None:
        """Print the reason for a failure on standard error."""
        if self.is_document:
            print(json.dumps({"error": document}), file=sys.stderr)
        elif self.is_for_people:
            self._screen.print_error(printable(text, most=None, breaks=True))
        else:
            print(f"error: {printable(text, most=None, breaks=True)}", file=sys.stderr)

    @contextmanager
    def progress(self, doing: str, total: int | None) -> Iterator["Bar"]:
        """Show a progress bar on standard error if it is a terminal."""
        with self._screen.progress(doing, total) as advance:
            yield advance

    def _print_cells(self, records: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
        """Print rows as CSV, or the first cell of each row."""
        if self.format is OutputFormat.NAME:
            for each in records:
                print(printable(plain(each.get(columns[0].key)), most=None))
            return
        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerow([each.key for each in columns])
        for each in records:
            cells = [printable(plain(each.get(column.key)), most=None) for column in columns]
            lines.writerow([f"'{cell}" if cell.startswith(_FORMULAS) else cell for cell in cells])


def label_actor(actor: str, name: str | None) -> str:
    """Return the name of an API key or person, with the account or e-mail if there is one."""
    if name is None:
        return actor
    return name if actor.startswith(f"svc_{API_KEY}_") else f"{name} ({actor})"


def plain(value: object) -> str:
    """Return a value as the text of a CSV cell. Values other than text become JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
