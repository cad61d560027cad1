"""What the command line programs share."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from shared import __version__

T = TypeVar("T")

_SCRIPTS: Final = {
    "local_server": "rescind-server",
    "admin": "rescind-admin",
    "verify_srl": "rescind-verify",
}


def program(module: str) -> str:
    """Return the command of a module: its script if the wheel is installed, else `python -m`."""
    installed = "rescind" in sys.modules and module in _SCRIPTS
    return _SCRIPTS[module] if installed else f"python -m infra.{module}"


def parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser for this program, with `--version` and the description as it is."""
    made = argparse.ArgumentParser(
        prog=program(module),
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"rescind {__version__}")
    return made


def checked(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return `read` for the type of an argument: the text of its errors is what the user sees."""

    def checked_read(value: str) -> T:
        try:
            return read(value)
        except (TypeError, ValueError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked_read


def file_bytes(name: str) -> bytes:
    """Return the content of a file, or of standard input if its name is `-`. Raises OSError."""
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
