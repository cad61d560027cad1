"""Read files and standard input as UTF-8, with or without a byte order mark."""

import csv
import json
import re
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, Final, cast

from infra.cli.errors import UsageError

_LINE_MAX: Final = 100_000
# The cells of a line (RFC 4180): each is fully quoted, or contains no quotation mark.
_CELL: Final = r'(?:"(?:[^"]|"")*+"|[^",]*+)'
_ROW: Final = re.compile(f"{_CELL}(?:,{_CELL})*+")


def read_bytes(path: Path | str) -> bytes:
    """Return the content of a file. `-` is standard input. Raises `UsageError`."""
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}.") from None


def read_document(path: Path | str) -> bytes:
    """Return the content of a file, without a byte order mark. Raises `UsageError`."""
    return read_bytes(path).removeprefix(BOM_UTF8)


def read_text(path: Path | str) -> str:
    """Return the text of a file, without a byte order mark. Raises `UsageError`."""
    try:
        return read_document(path).decode()
    except UnicodeDecodeError:
        raise UsageError(f"cannot read {path}: it is not UTF-8.") from None


def read_json(path: Path | str) -> Any:
    """Return the JSON value in a file. Raises `UsageError`."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from None


def read_secret() -> str:
    """Return the first line of standard input, without surrounding white space."""
    return sys.stdin.buffer.readline().decode("utf-8-sig", "replace").strip()


def by_name(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return values by name. Raises `UsageError` if a name is given twice."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise UsageError(f"{name} was given twice; write it once.")
        values[name] = value
    return values


def read_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each row of a CSV file. A blank row has no cells.

    A row is always one line, because an unclosed quotation mark would swallow the rows below it.
    Raises `UsageError` if a row is invalid or has another number of cells than the first row.
    """
    width = 0
    try:
        with _open_file(path) as file:
            for number, line in enumerate(iter(lambda: file.readline(_LINE_MAX), ""), 1):
                try:
                    cells = _cells(line)
                    width = width or len(cells)
                    if len(cells) not in (0, width):
                        raise ValueError(
                            f"the row has {len(cells)} cell(s), but the first row has {width}"
                        )
                except ValueError as error:
                    raise line_error(path, number, error) from None
                yield number, cells
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}.") from None


def line_error(path: Path, number: int, problem: object) -> UsageError:
    """Return the error about one line of a file."""
    return UsageError(f"{path}, line {number}: {problem}. Nothing was sent.")


def _open_file(path: Path) -> AbstractContextManager[IO[str]]:
    # Bytes that are not UTF-8 become surrogates, because the error must name their line.
    if str(path) != "-":
        return path.open(encoding="utf-8-sig", errors="surrogateescape")
    stdin = cast("TextIOWrapper", sys.stdin)
    stdin.reconfigure(encoding="utf-8-sig", errors="surrogateescape", newline=None)
    return nullcontext(stdin)


def _cells(line: str) -> list[str]:
    """Return the cells of a line, or no cells if all are blank. Raises `ValueError`."""
    text = line.removesuffix("\n")
    if len(text) == _LINE_MAX:
        raise ValueError(f"the line is longer than {_LINE_MAX - 1} characters")
    if "\0" in text or any("\ud800" <= each <= "\udfff" for each in text):
        raise ValueError("the line is not UTF-8; save the file as CSV UTF-8")
    if _ROW.fullmatch(text) is None:
        raise ValueError("a quotation mark does not enclose a whole cell of this line")
    cells = [each.strip() for each in next(csv.reader([text], strict=True), [])]
    return cells if any(cells) else []
