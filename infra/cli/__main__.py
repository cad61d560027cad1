"""Where `rescind` begins; in a checkout also as `python -m infra.cli`."""

import os
import signal
import sys
from collections.abc import Sequence
from itertools import zip_longest

from infra.cli import streams
from shared import __version__

_VERSION = (["--version"], ["version"])
_WATCH_SECONDS = 2
_NO_OUTPUT = 2
_FAILED = 1
# As a shell reports a program that this signal ended.
_READER_GONE = 128 + signal.SIGPIPE


def main() -> int:
    """Run one command. It ends the process with an exit code of `errors.ExitCode`."""
    # Every file that a command makes is private, whatever the folder's mode.
    os.umask(0o077)
    if not streams.prepare():
        return _NO_OUTPUT
    code = _FAILED
    try:
        try:
            _run(sys.argv[1:])
        finally:
            sys.stdout.flush()
    except streams.ReaderGone:
        code = _READER_GONE
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
    else:
        return 0
    streams.discard_output()
    return code


def _run(arguments: Sequence[str]) -> None:
    if [*arguments[:1]] in _VERSION:
        print(f"rescind {__version__}")
        return
    from infra.cli.app import NAME, app  # noqa: PLC0415 (Typer takes a while to load)

    app(_words(arguments), prog_name=NAME)


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
