"""Standard streams that a caller may have closed, and whose reader or disk may fail."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Any


class ReaderGone(OSError):
    """Standard output is a pipe without a reader.

    It is no `BrokenPipeError`, for which Rich and Typer end a command themselves.
    """


class _Results(BufferedWriter):
    """Standard output.

    Errors are translated here and not in the file: if Ctrl+C came after the bytes were written and
    before the buffer knew it, they would be written once more.
    """

    def write(self, data: Any, /) -> int:
        with _translate_errors():
            return super().write(data)

    def flush(self) -> None:
        with _translate_errors():
            super().flush()


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = ReaderGone if isinstance(error, BrokenPipeError) else OSError
        raise kind(f"standard output cannot be written: {error.strerror}") from None


class _Messages(BufferedWriter):
    """Standard error. A message that cannot be written is lost, and the command continues."""

    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            super().write(data)
        return len(data)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def prepare() -> bool:
    """Prepare the standard streams; return false, with an error, if there is no output.

    Characters that the encoding of an output lacks are printed as escapes.
    """
    has_output = sys.stdout is not None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # Closed by the caller.
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 (as long as it runs)
    sys.stdout, sys.stderr = _wrap(sys.stdout, _Results), _wrap(sys.stderr, _Messages)
    if not has_output:
        print("error: standard output is closed; redirect it to /dev/null.", file=sys.stderr)
    return has_output


def _wrap(stream: Any, kind: type[BufferedWriter]) -> Any:
    """Return a stream of the process through a buffer of this kind."""
    if stream not in (sys.__stdout__, sys.__stderr__):
        return stream
    # `PYTHONUNBUFFERED` sets `write_through`. What commands print are lines.
    return TextIOWrapper(
        kind(FileIO(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering or stream.write_through,
    )


def discard_output() -> None:
    """Discard what cannot be written to standard output."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
