"""Where `rescind` begins; in a checkout also as `python -m infra.cli`."""

import os
import sys
from collections.abc import Sequence

from shared import __version__

_VERSION = (["--version"], ["version"])


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
    """Return the arguments; `help keys list` is another way to ask for `keys list --help`."""
    if arguments[:1] == ["help"]:
        return [*arguments[1:], "--help"]
    return [*arguments]


if __name__ == "__main__":
    sys.exit(main())
