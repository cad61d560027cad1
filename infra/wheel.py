"""The only top-level package of the wheel, and its command (docs/adr/03).

In a wheel, `functions`, `infra` and `shared` are inside this package. They import each other by
these names, so importing this package adds its folder to the module search path.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120 (pathlib takes as long as Python)


def command_line() -> int:
    """Run `rescind`, and return its exit code."""
    from infra.cli.__main__ import main  # noqa: PLC0415

    return main()
