"""Standard streams that may be closed, broken or on a full disk."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Any


class ReaderGone(OSError):
    """Standard output is a pipe without a reader.

    This is not a `BrokenPipeError`, because Rich and Typer handle that by ending the command.
    """


class _Results(BufferedWriter):
    """Standard output.

    Errors are translated here and not in the file object. Otherwise, a Ctrl+C between the write and
    the update of the buffer would cause the same bytes to be written twice.
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
        raise kind(f"cannot write to standard output: {error.strerror}") from None


class _Messages(BufferedWriter):
    """Standard error. Messages that cannot be written are dropped, and the command continues."""

    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            super().write(data)
        return len(data)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def prepare() -> bool:
    """Prepare the standard streams. Returns false and prints an error if there is no output.

    Characters that an output's encoding lacks are printed as escapes.
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
    """Wrap a process stream in a buffer of this kind."""
    if stream not in (sys.__stdout__, sys.__stderr__):
        return stream
    # `PYTHONUNBUFFERED` sets `write_through`. Line buffering suffices, because commands print
    # lines.
    return TextIOWrapper(
        kind(FileIO(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering or stream.write_through,
    )


def discard_output() -> None:
    """Discard output that cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
