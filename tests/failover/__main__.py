"""The failover drill: the primary of a cluster is killed while six callers revoke.

    python -m tests.failover [ROUNDS]

Two replicas serve from PostgreSQL with a synchronous standby, under Patroni and etcd of Debian,
which root gets installed. In each round the primary and its Patroni are killed with -9, and started
again once the other one is the primary. Ends with 1 if anything acknowledged is lost, denied by a
check or missing in the feed or in the list, if an answer is an error, or if the doctor finds
anything.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from shared.authorizer import AuthorizerClient
from tests.failover import cluster
from tests.failover.cluster import TTL_SECONDS, Cluster
from tests.infra.replicas import LONG, Replicas, Revokers, check_whole, knows_all, replicas
from tests.kit.processes import run
from tests.kit.waiting import soon

_WRITERS: Final = 6
_SPARE_SECONDS: Final = 10


def main() -> int:
    """Drill, and print what came of it."""
    if cluster.missing():
        cluster.install()
    if lacking := cluster.missing():
        print(f"skipped: not installed here: {lacking}")
        return 0
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    with _world() as (nodes, found):
        revokers = Revokers([each.url for each in found.servers], found.key)
        with found.client(found.servers[-1].url) as client:
            with revokers.working(_WRITERS):
                for _ in range(rounds):
                    _fail_over(nodes, revokers)
            return _report(found, revokers, client)


@contextmanager
def _world() -> Iterator[tuple[Cluster, Replicas]]:
    with (
        tempfile.TemporaryDirectory(prefix="rescind-replicas-") as folder,
        cluster.cluster() as nodes,
        replicas(Path(folder), nodes.url) as found,
    ):
        yield nodes, found


def _fail_over(nodes: Cluster, revokers: Revokers) -> None:
    """Kill the primary under load, and start it again as the standby of the other."""
    revokers.go_on(200)
    primary, killed_at = nodes.settle(), time.monotonic()
    primary.kill()
    nodes.primary(but=primary)
    promoted = time.monotonic() - killed_at
    revokers.go_on(100)
    print(f"{primary.name} was killed; the other is the primary {promoted:.1f} s later", flush=True)
    primary.group.start()
    nodes.settle()
    revokers.go_on(100)


def _report(found: Replicas, revokers: Revokers, client: AuthorizerClient) -> int:
    """Print the figures; return 1 if anything is wrong."""
    lost = {name for each in found.servers for name in revokers.lost(each)}
    gap = revokers.longest_gap()
    rows: dict[str, object] = {
        "acknowledged": len(revokers.acknowledged),
        "lost": len(lost),
        "stale reads": f"{len(revokers.stale)} in {revokers.checked} checks",
        "refused with 503": len(revokers.refused),
        "without an answer": len(revokers.unknown),
        "other answers": len(revokers.failed),
        "seconds without writes": f"{gap:.1f} (of {TTL_SECONDS + _SPARE_SECONDS})",
    }
    for name, value in rows.items():
        print(f"{name:24}{value}", flush=True)
    try:
        soon(partial(knows_all, client, revokers), seconds=LONG)
        check_whole(found, revokers)
    except AssertionError as error:
        print(f"wrong: {error}", *sorted(lost)[:20], *revokers.failed[:20], sep="\n")
        return 1
    print("The client of the feed, the list and all servers agree; the feed has one chain.")
    # The standby is synchronous; the doctor cannot know that (docs/restore.md).
    run("-m", "infra.cli", "mark-restored", "--no-data-loss", settings=found.settings)
    doctor = run("-m", "infra.cli", "doctor", settings=found.settings)
    print(doctor.stderr.strip())
    return doctor.returncode


if __name__ == "__main__":
    sys.exit(main())
