"""The user of the machine, for the audit log: the operator's commands have no API key."""

import os
import pwd
from collections.abc import Mapping


def name(environment: Mapping[str, str] = os.environ) -> str:
    """The name of the user who runs this process, or the user's number if it has no name.

    If `sudo` started the process, also the user who called it, as sudo says in `environment`:
    `root (sudo by alice)`.
    """
    number = os.getuid()
    try:
        user = pwd.getpwuid(number).pw_name
    except KeyError:
        user = str(number)
    caller = environment.get("SUDO_USER", "")
    return f"{user} (sudo by {caller})" if caller and number == 0 else user
