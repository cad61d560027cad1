"""The operating system's user, for audit entries of commands, which have no API key."""

import os
import pwd
from collections.abc import Mapping


def name(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the user who runs this process, or the number if there is no name.

    If `sudo` started the process, the result also has the user who called it, from `environment`:
    `root (sudo by alice)`.
    """
    number = os.getuid()
    try:
        user = pwd.getpwuid(number).pw_name
    except KeyError:
        user = str(number)
    caller = environment.get("SUDO_USER", "")
    return f"{user} (sudo by {caller})" if caller and number == 0 else user
