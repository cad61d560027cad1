"""Where `rescind` begins; in a checkout also as `python -m infra.cli`."""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from itertools import zip_longest
from pathlib import Path

from shared import __version__

_VERSION = (["--version"], ["version"])
_WATCH_SECONDS = 2
_NO_OUTPUT = 2


def main() -> int:
    """Run one command. It ends the process with an exit code of `errors.Exit`."""
    # Every file that a command makes is private, whatever the folder's mode.
    os.umask(0o077)
    if not _has_streams():
        return _NO_OUTPUT
    if sys.argv[1:2] in _VERSION:
        print(f"rescind {__version__}")
        return 0
    from infra.cli.app import NAME, app  # noqa: PLC0415 (Typer takes a while to load)

    app(_words(sys.argv[1:]), prog_name=NAME)
    return 0


def _has_streams() -> bool:
    """Prepare the standard streams; return false, with an error, if there is no output.

    Characters that the encoding of an output lacks are printed as escapes.
    """
    has_output = sys.stdout is not None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # Closed by the caller.
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 (as long as it runs)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if not has_output:
        print("error: standard output is closed; redirect it to /dev/null.", file=sys.stderr)
    return has_output


def _words(arguments: Sequence[str]) -> list[str]:
    """Return the arguments as Typer reads them.

    `help keys list` is another way to ask for `keys list --help`; `--watch` may stand alone.
    """
    if arguments[:1] == ["help"]:
        return [*arguments[1:], "--help"]
    return [
        f"{each}={_WATCH_SECONDS}" if each == "--watch" and not after.isdecimal() else each
        for each, after in zip_longest(arguments, arguments[1:], fillvalue="")
    ]


if __name__ == "__main__":
    sys.exit(main())
