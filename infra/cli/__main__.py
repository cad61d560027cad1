"""Entry point of `rescind`, and in a checkout of `python -m infra.cli`."""

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
# A shell reports this code for a program that SIGPIPE ended.
_READER_GONE = 128 + signal.SIGPIPE


def main() -> int:
    """Run one command. Exits with a code of `errors.ExitCode`."""
    # Files that commands create must be private, regardless of the mode of their folder.
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

    if arguments[:1] == ["help"]:
        words = [*arguments[1:], "--help"]
    else:
        # `--watch` may have no value, which Typer does not accept.
        pairs = zip_longest(arguments, arguments[1:], fillvalue="")
        words = [
            f"{each}={_WATCH_SECONDS}" if each == "--watch" and not after.isdecimal() else each
            for each, after in pairs
        ]
    app(words, prog_name=NAME)


if __name__ == "__main__":
    sys.exit(main())
