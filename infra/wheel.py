"""The one name that the wheel adds to an environment, and its commands (docs/adr/0045).

In a wheel, `functions`, `infra` and `shared` are inside this package. They import each other by
these names, so a process that imports this package looks for modules here first.
"""

import os
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def server() -> int:
    """Run `rescind-server`; the exit code."""
    return _run("infra.local_server")


def admin() -> int:
    """Run `rescind-admin`; the exit code."""
    return _run("infra.admin")


def verify() -> int:
    """Run `rescind-verify`; the exit code."""
    return _run("infra.verify_srl")


def _run(module: str) -> int:
    # Every file that these commands make is private, whatever the folder's mode.
    os.umask(0o077)
    code: int = import_module(module).main()
    return code
