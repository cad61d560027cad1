"""Where `rescind` begins; in a checkout also as `python -m infra.cli`."""

import os
import sys
from collections.abc import Sequence
from itertools import zip_longest

from shared import __version__

_VERSION = (["--version"], ["version"])
_WATCH_SECONDS = 2


def main() -> int:
    """Run one command. It ends the process with an exit code of `errors.Exit`."""
    # Every file that a command makes is private, whatever the folder's mode.
    os.umask(0o077)
    if sys.argv[1:2] in _VERSION:
        print(f"rescind {__version__}")
        return 0
    from infra import renamed  # noqa: PLC0415 (the version is told without it)

    if (code := renamed.command(sys.argv[1:])) is not None:
        return code
    from infra.cli.app import NAME, app  # noqa: PLC0415 (Typer takes a while to load)

    app(_words(sys.argv[1:]), prog_name=NAME)
    return 0


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
