"""Programs that make clients from the API document, and check them."""

import subprocess
from pathlib import Path
from typing import Final

from tests.kit.processes import environment

# Neither tells its makers of this run, nor asks them for a newer version.
_SILENT: Final = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}


def run(*command: str | Path, stdin: str = "", settings: dict[str, str] | None = None) -> str:
    """All that a command prints, once it has ended well."""
    assert Path(command[0]).exists(), f"{command[0]} is missing; `make test-slow` installs it"
    ran = subprocess.run(
        command,
        input=stdin,
        env=environment(_SILENT | (settings or {})),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout
