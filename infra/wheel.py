"""The one name that the wheel adds to an environment, and its command (docs/adr/03).

In a wheel, `functions`, `infra` and `shared` are inside this package. They import each other by
these names, so a process that imports this package looks for modules here first.
"""

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def renamed() -> int:
    """Run as a script of an earlier release; the exit code."""
    code: int = import_module("infra.renamed").script()
    return code


def command_line() -> int:
    """Run `rescind`; the exit code."""
    code: int = import_module("infra.cli.__main__").main()
    return code
