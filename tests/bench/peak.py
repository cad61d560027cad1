"""Publish once from all records, and print the most memory that took, in MiB.

python -m tests.bench.peak <data folder>
"""

import sys
from pathlib import Path

# Installs the capabilities, which name documents in the feed.
import functions as functions
from shared.operations.operator import onboarding
from tests.bench.publication import from_all_records
from tests.bench.revoked import HANDLE
from tests.infra.folders import opened


def main() -> None:
    """Publish and print."""
    with opened(Path(sys.argv[1])) as ports:
        from_all_records(ports, onboarding.operator(ports, handle=HANDLE))
    print(_peak() / 1024)


def _peak() -> int:
    # Not getrusage: on Linux its peak begins with that of the process which started this one.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise RuntimeError("this system does not tell")


if __name__ == "__main__":
    main()
