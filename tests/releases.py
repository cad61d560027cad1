"""Releases before this one: the source of each from the history, and the data that each left.

`tests/golden/releases` names the commit of each release, because tags may not be here.
`tests/golden/<release>.tar.xz` has what the release itself wrote, and is never made again:

- `data`: a data folder after the release's own tour of its API, which stores an item of each kind;
- `backup`: a backup of that folder, with the master key;
- `facts.json`: what was true of it.

`python -m tests.releases 0.4.0` makes it from the history, when a release is added.
"""

import io
import json
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

from tests.kit.processes import ROOT, environment

_GOLDEN: Final = ROOT / "tests/golden"
COMMITS: Final = dict(
    line.split() for line in (_GOLDEN / "releases").read_text(encoding="ascii").splitlines()
)

# It runs in the source of a release, and uses what the tests of that release have.
_MAKE: Final = """
import json, sys
from pathlib import Path
from infra import backup
from shared.model.items import Table
from shared.operations.lists import in_force, publication
from tests.kit import tour
from tests.operations.followers import Follower
from tests.kit.worlds import Clock, close, embedded

folder = Path(sys.argv[1])
data, clock = folder / "data", Clock()
data.mkdir(mode=0o700)
ports = embedded(data, clock, store=str(data / "svc.db"))
tenant = tour.take(ports, clock)
tenant.admin.post("/v1/revocations", json={"warrant_id": "svc_wrt_unlisted", "reason": "lost"})
publication.publish_feed(ports, tenant.id)
client = Follower(tenant).poll(ports)
facts = {
    "tenant_id": tenant.id,
    "handle": tenant.handle,
    "admin_key": tenant.admin.secret,
    "now": clock().isoformat(),
    "list": in_force.head(ports, tenant.id).version,
    "sequence": client.state.sequence,
    "chain": client.state.head.chain.hex(),
    "refuses": sorted(client.refuses),
    "items": sum(sum(1 for _ in ports.store.everything(table)) for table in Table),
}
close(ports)
backup.back_up(data, data / "master.key", folder / "backup", with_key=True)
(folder / "facts.json").write_text(json.dumps(facts, indent=1))
"""


@dataclass(frozen=True)
class Golden:
    """What a release left, unpacked."""

    folder: Path
    facts: dict[str, Any]

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.folder / "data"

    @property
    def now(self) -> datetime:
        """The time at which the release stopped."""
        return datetime.fromisoformat(self.facts["now"])


def golden(release: str, folder: Path) -> Golden:
    """Unpack what a release left into a new folder."""
    with tarfile.open(_GOLDEN / f"{release}.tar.xz") as packed:
        _unpack(packed, folder)
    # Git keeps no modes.
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return Golden(folder, json.loads((folder / "facts.json").read_text()))


def source(release: str, folder: Path) -> Path:
    """Put the source of a release into a new folder; skip the test if the history is not here."""
    packed = subprocess.run(
        ["git", "archive", COMMITS[release]], cwd=ROOT, capture_output=True, check=False
    )
    if packed.returncode:
        pytest.skip(f"the history has no release {release}: the clone is shallow, or no clone")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tree:
        _unpack(tree, folder)
    return folder


def _unpack(archive: tarfile.TarFile, folder: Path) -> None:
    # Python before 3.11.4 has no filters, and knows no argument for one.
    archive.extraction_filter = getattr(tarfile, "data_filter", None)
    archive.extractall(folder)


def _make(release: str) -> None:
    with TemporaryDirectory() as scratch:
        tree, made = source(release, Path(scratch, "source")), Path(scratch, "made")
        made.mkdir()
        program = [sys.executable, "-c", _MAKE, str(made)]
        subprocess.run(program, cwd=tree, env=environment(), check=True)
        with tarfile.open(_GOLDEN / f"{release}.tar.xz", "w:xz", preset=9) as packed:
            for each in ("data", "backup", "facts.json"):
                packed.add(made / each, each)


if __name__ == "__main__":
    _make(sys.argv[1])
