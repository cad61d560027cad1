"""Tools that share no code with this project, each in an environment of its own: our peers."""

import json
import subprocess
from collections.abc import Iterable
from typing import Any

from tests.kit.processes import ROOT


def asked(tool: str, program: str, request: Any, *arguments: str) -> Any:
    """What a program of `tests/tools/` answers, with the packages of the tool, to a request."""
    python = ROOT / ".tools" / tool / "bin/python"
    assert python.exists(), f"{python} is missing; `make test-slow` installs it"
    answered = subprocess.run(
        [python, ROOT / "tests/tools" / program, *arguments],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answered.returncode == 0, answered.stderr
    return json.loads(answered.stdout)


def is_of_type(cddl: str, items: Iterable[tuple[str, bytes]]) -> list[bool]:
    """Whether a checker of CDDL finds each item, bytes of CBOR, to be of the type of its name."""
    request = {"cddl": cddl, "items": [(name, data.hex()) for name, data in items]}
    return [bool(each) for each in asked("cddl", "cddl_peer.py", request)]
