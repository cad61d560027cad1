"""SAM, from an environment of its own, in a folder."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.kit.processes import ROOT, environment

_TOOLS: Final = ROOT / ".tools" / "sam" / "bin"
_READING: Final = ROOT / "tests" / "sam" / "reading.py"
_SAM: Final = {"SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": "eu-west-1"}


def reading(folder: Path, *arguments: str) -> Any:
    """What `reading.py` says in a folder."""
    return json.loads(run(folder, "python", _READING, *arguments))


def run(folder: Path, program: str, *arguments: object, **settings: str) -> str:
    """What a program of SAM's environment prints in a folder."""
    assert _TOOLS.exists(), f"{_TOOLS} is missing; `make test-slow` installs it"
    done = subprocess.run(
        [_TOOLS / program, *map(str, arguments)],
        cwd=folder,
        env=environment(_SAM | settings | {"PATH": os.defpath}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
