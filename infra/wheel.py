"""The one name that the wheel adds to an environment, and its command (docs/adr/03).

In a wheel, `functions`, `infra` and `shared` are inside this package. They import each other by
these names, so a process that imports this package looks for modules here first.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120 (pathlib takes as long as Python)


def command_line() -> int:
    """Run `rescind`; the exit code."""
    from infra.cli.__main__ import main  # noqa: PLC0415

    return main()
