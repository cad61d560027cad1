"""Stores as releases left them, from 1.0 on.

`tests/golden/<release>.tar.xz` has the data folder of one machine after the tour of the API, and
`facts.json`: what was true of it. `python -m tests.golden_stores` makes the archive of the present
release when it is published. An archive is never made again.
"""

import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import shared
from shared.model.items import Table
from shared.operations.lists import publication
from shared.operations.operator import doctor, onboarding
from shared.ports import Ports
from tests.kit import tenants, tour
from tests.kit.processes import ROOT
from tests.kit.worlds import Clock, close, embedded
from tests.operations.followers import Follower

FOLDER: Final = ROOT / "tests/golden"
_DATA, _FACTS = "data", "facts.json"


@dataclass(frozen=True)
class Golden:
    """A store that a release left, unpacked in `folder`."""

    folder: Path
    facts: dict[str, Any]

    @contextmanager
    def opened(self) -> Iterator[tuple[Ports, tenants.Tenant, Clock]]:
        """Open the store with this release, at the time at which it was left."""
        clock = Clock(datetime.fromisoformat(self.facts["now"]))
        with _opened(self.folder / _DATA, clock) as ports:
            operator = onboarding.operator(ports, handle="acme")
            yield ports, tenants.Tenant(operator.tenant_id, operator), clock


def find_true(ports: Ports, tenant: tenants.Tenant, clock: Clock) -> dict[str, Any]:
    """Return the facts of a store that has not changed since its last publication."""
    client = Follower(tenant).poll(ports)
    assert client.state is not None
    return {
        "tenant_id": tenant.id,
        "now": clock().isoformat(),
        "items": sum(1 for table in Table for _ in ports.store.everything(table)),
        "list": tenant.published(ports).version,
        "sequence": client.state.sequence,
        "refused": sorted(client.refuses),
        "problems": [each.problem for each in doctor.examine(ports)],
    }


def make(archive: Path) -> None:
    """Make the archive of the present release."""
    with TemporaryDirectory() as scratch, tarfile.open(archive, "x:xz") as packed:
        data, clock = Path(scratch, _DATA), Clock()
        data.mkdir(mode=0o700)
        with _opened(data, clock) as ports:
            toured = tour.take(ports, clock)
            tenant = tenants.Tenant(toured.id, toured.operator)
            tenant.revoke(ports, "svc_wrt_unlisted")
            publication.publish_feed(ports, tenant.id)
            facts = find_true(ports, tenant, clock)
        Path(scratch, _FACTS).write_text(json.dumps(facts, indent=1), encoding="utf-8")
        for name in (_DATA, _FACTS):
            packed.add(Path(scratch, name), name)


def unpack(archive: Path, folder: Path) -> Golden:
    """Unpack an archive into a folder."""
    with tarfile.open(archive) as packed:
        # Python before 3.11.4 has no filters, and knows no argument for one.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return Golden(folder, json.loads((folder / _FACTS).read_text(encoding="utf-8")))


@contextmanager
def _opened(data: Path, clock: Clock) -> Iterator[Ports]:
    ports = embedded(data, clock, store=str(data / "svc.db"))
    try:
        yield ports
    finally:
        close(ports)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    make(FOLDER / f"{shared.__version__}.tar.xz")
