"""Names of earlier releases. For one release each says which command it is now.

A program, command or option that is renamed or removed gets a row here in the same change.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_USAGE: Final = 2
# Of releases before 0.3.0: scripts, and modules for `python -m`.
_PROGRAMS: Final = {
    "rescind-server": "rescind serve",
    "rescind-admin": "rescind, with options after the command: rescind doctor --data .data",
    "rescind-verify": "rescind list verify",
    "infra.admin": "rescind, with options after the command: rescind doctor --data .data",
    "infra.local_server": "rescind serve",
    "infra.verify_srl": "rescind list verify, with -o json in place of --json",
    "infra.verify_warrant": "rescind warrants verify",
}
# Of `rescind`: a command, the option without which its old meaning is meant, and what it is now.
_COMMANDS: Final = {
    "migrate": ("--from", "rescind upgrade (migrate --from … --to … moves data to another store)"),
}


def script() -> int:
    """Run as a script of an earlier release: say the new name. Returns the exit code."""
    return program(Path(sys.argv[0]).stem)


def program(name: str) -> int:
    """Say the new name of a program. Returns the exit code."""
    print(f"error: {name} is gone. Run: {_PROGRAMS[name]}", file=sys.stderr)
    return _USAGE


def command(arguments: Sequence[str]) -> int | None:
    """Say the new name if these arguments of `rescind` have an old one.

    Returns the exit code, or None if they have none.
    """
    name = arguments[0] if arguments else ""
    option, now = _COMMANDS.get(name, ("", ""))
    if not now or any(each.startswith((option, "--help")) for each in arguments):
        return None
    print(f"error: rescind {name} has another name now. Run: {now}", file=sys.stderr)
    return _USAGE
