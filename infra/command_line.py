"""What the command line programs share."""

import argparse
import sys
from typing import Final

from shared import __version__

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
