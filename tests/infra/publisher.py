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
from tests.kit.waiting import soon

# The others are to have most of the machine.
_PAUSE_SECONDS: Final = 0.1
# Before each version; lines without it are of the log.
_PUBLISHED: Final = "published "


def main() -> None:
    """Publish without end."""
    while True:
        try:
            # The store may be down when it starts, too.
            ports = wiring.from_environment()
            operator = onboarding.operator(ports, handle=sys.argv[1])
            print(f"{_PUBLISHED}{regenerate(ports, operator).version}", flush=True)
            time.sleep(_PAUSE_SECONDS)
        except Unavailable:
            continue


def publishing(folder: Path, handle: str, settings: dict[str, str]) -> Group:
    """The process, which is up at once; what it says is in `folder`."""
    command = [sys.executable, "-m", "tests.infra.publisher", handle]
    return Group(command, folder / "publisher.log", lambda: True, settings)


def end(publisher: Group) -> None:
    """Kill it, once it has published at least once."""
    soon(lambda: _reported(publisher))
    publisher.kill()


def _reported(publisher: Group) -> list[int]:
    lines = publisher.output.read_text().splitlines()
    return [int(each.removeprefix(_PUBLISHED)) for each in lines if each.startswith(_PUBLISHED)]


def check_published(publisher: Group, ports: Ports, tenant_id: str) -> None:
    """Every version that it has ever told of is there, and none was told twice."""
    reported = _reported(publisher)
    assert reported == sorted(set(reported))
    assert set(reported) <= set(published_versions(ports, tenant_id))


if __name__ == "__main__":
    main()
