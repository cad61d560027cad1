"""`rescind` with a clock that is behind: `python -m tests.kit.past SECONDS serve …`.

All that the service stores is older by these seconds, as data is on the day of a restore.
"""

import sys
from datetime import UTC, datetime, timedelta

from infra.cli.__main__ import main
from shared import wiring


def begin(seconds: float) -> None:
    """Set the clock of the service back, here and in all processes that are forked from here."""
    behind = timedelta(seconds=seconds)
    wiring.now = lambda: datetime.now(UTC) - behind


def program(ago: timedelta) -> tuple[str, ...]:
    """Return the words that start a server, for `local_server`."""
    return sys.executable, "-m", "tests.kit.past", str(ago.total_seconds()), "serve"


if __name__ == "__main__":
    begin(float(sys.argv.pop(1)))
    sys.exit(main())
