"""How fast the service is, each figure beside something to compare it with (docs/performance.md).

    python -m tests.bench

`BENCH_ONLY` names some of the benchmarks, with commas between; `BENCH_OUT` the JSON file. Each row
is printed and written when it is measured. What this machine cannot run is said in the table. If a
benchmark fails, the others run. Exit codes: 0 done, 1 a benchmark failed.
"""

import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.bench import cold_start, deny, postgresql, publication, report, requests
from tests.bench.report import Report, Row
from tests.kit.processes import ROOT

BENCHES: Final[dict[str, Callable[[], Iterator[Row]]]] = {
    "publication": publication.run,
    "deny": deny.run,
    "requests": requests.run,
    "cold_start": cold_start.run,
    "postgresql": postgresql.run,
}


def main() -> int:
    """Run the benchmarks and return the exit code."""
    chosen = os.environ.get("BENCH_ONLY", ",".join(BENCHES)).split(",")
    if unknown := set(chosen).difference(BENCHES):
        print(f"BENCH_ONLY names {unknown}; there are {', '.join(BENCHES)}", file=sys.stderr)
        return 1
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.machine()}\n")
    out = Path(os.environ.get("BENCH_OUT", ROOT / ".bench" / "results.json"))
    to = Report(out)
    failed = [name for name in chosen if not _run(name, to)]
    print(f"\nWritten to {out}")
    if failed:
        print(f"Failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _run(name: str, to: Report) -> bool:
    started = time.perf_counter()
    report.progress(f"{name} …")
    try:
        for row in BENCHES[name]():
            to.add(row)
    # Whatever it is: the rows of the others are worth minutes.
    except Exception as why:  # noqa: BLE001
        traceback.print_exc()
        to.add(Row.missing(name, str(why) or type(why).__name__))
        return False
    report.progress(f"{name} took {time.perf_counter() - started:.0f} s")
    return True


if __name__ == "__main__":
    sys.exit(main())
