"""The one name that the wheel adds to an environment, and its commands (docs/adr/0042).

In a wheel, `functions`, `infra` and `shared` are inside this package. They import each other by
these names, so a process that imports this package looks for modules here first.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def server() -> int:
    """Run `rescind-server`; the exit code."""
    from infra import local_server

    os.umask(0o077)
    return local_server.main()


def admin() -> int:
    """Run `rescind-admin`; the exit code."""
    from infra import admin

    os.umask(0o077)
    return admin.main()


def verify() -> int:
    """Run `rescind-verify`; the exit code."""
    from infra import verify_srl

    return verify_srl.main()
