"""Standard streams that a caller may have closed, and whose reader or disk may fail."""

import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Any


class ReaderGone(OSError):
    """Standard output is a pipe without a reader.

    It is no `BrokenPipeError`, for which Rich and Typer end a command themselves.
    """


class _Results(FileIO):
    """Standard output."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            kind = ReaderGone if isinstance(error, BrokenPipeError) else OSError
            raise kind(f"standard output cannot be written: {error.strerror}") from None


class _Messages(FileIO):
    """Standard error. A message that cannot be written is lost, and the command continues."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def prepare() -> bool:
    """Prepare the standard streams; return false, with an error, if there is no output.

    Characters that the encoding of an output lacks are printed as escapes.
    """
    has_output = sys.stdout is not None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # Closed by the caller.
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 (as long as it runs)
    sys.stdout, sys.stderr = _wrapped(sys.stdout, _Results), _wrapped(sys.stderr, _Messages)
    if not has_output:
        print("error: standard output is closed; redirect it to /dev/null.", file=sys.stderr)
    return has_output


def _wrapped(stream: Any, kind: type[FileIO]) -> Any:
    """Return a stream of the process through a file of this kind."""
    if stream not in (sys.__stdout__, sys.__stderr__):
        return stream
    file = kind(stream.fileno(), "w", closefd=False)
    # `PYTHONUNBUFFERED` has set `write_through`.
    is_direct: bool = stream.write_through
    return TextIOWrapper(
        file if is_direct else BufferedWriter(file),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=is_direct,
    )


def discard_output() -> None:
    """Discard what cannot be written to standard output."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
