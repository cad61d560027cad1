"""A process that publishes the lists of a tenant, one after the other, until it is killed.

    python -m tests.infra.publisher HANDLE

It prints each version once it is published.
"""

import sys
import time
from pathlib import Path
from typing import Final

from shared import wiring
from shared.errors import Unavailable
from shared.operations.changes.srl import regenerate
from shared.operations.operator import onboarding
from shared.ports import Ports
from tests.infra.published import published_versions
from tests.kit.processes import Group

# The others are to have most of the machine.
_PAUSE_SECONDS: Final = 0.1


def main() -> None:
    """Publish without end."""
    ports = wiring.from_environment()
    while True:
        try:
            operator = onboarding.operator(ports, handle=sys.argv[1])
            print(regenerate(ports, operator).version, flush=True)
            time.sleep(_PAUSE_SECONDS)
        except Unavailable:
            continue


def publishing(folder: Path, handle: str, settings: dict[str, str]) -> Group:
    """The process, which is up at once; what it says is in `folder`."""
    command = [sys.executable, "-m", "tests.infra.publisher", handle]
    return Group(command, folder / "publisher.log", lambda: True, settings)


def check_published(publisher: Group, ports: Ports, tenant_id: str) -> None:
    """Every version that it has ever told of is there, and none was told twice."""
    reported = [int(line) for line in publisher.output.read_text().splitlines()]
    assert reported, "it has published nothing"
    assert reported == sorted(set(reported))
    assert set(reported) <= set(published_versions(ports, tenant_id))


if __name__ == "__main__":
    main()
