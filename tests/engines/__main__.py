"""Every suite on every engine that is to be had here, and a table of what came of it.

    python -m tests.engines [NAME…]

With names, on these engines alone.
Ends with 1 where an engine failed a test that it is not known to fail, or passed one that it is.
"""

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.engines import suites
from tests.engines.programs import ENGINES, Engine
from tests.engines.suites import Outcome

_COLUMNS = "{:<18}{:<11}{:>7}{:>8}{:>8}  {}"


def main() -> int:
    """Run, and print a row as soon as it is known."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started is stopped
    engines, sound = _wanted(sys.argv[1:]), True
    folder = Path(tempfile.mkdtemp(prefix="rescind-engines-"))
    print(_COLUMNS.format("engine", "suite", "passed", "failed", "known", ""), flush=True)
    for engine in engines:
        if engine.missing:
            print(f"{engine.name:<18}could not get: it is not in .tools", flush=True)
            continue
        place = folder / engine.name.replace(" ", "-")
        place.mkdir()
        for suite, outcome in _outcomes(engine, place):
            remark = _remark(engine, suite, outcome)
            sound = sound and not remark
            print(_row(engine, suite, outcome, remark), flush=True)
    if sound:
        shutil.rmtree(folder)
    else:
        print(f"What pytest and the engines said is in {folder}")
    return 0 if sound else 1


def _wanted(names: list[str]) -> list[Engine]:
    by_name = {engine.name: engine for engine in ENGINES}
    if unknown := [name for name in names if name not in by_name]:
        raise SystemExit(f"no such engine: {', '.join(unknown)}; there are: {', '.join(by_name)}")
    return [by_name[name] for name in names or by_name]


def _outcomes(engine: Engine, folder: Path) -> Iterator[tuple[str, Outcome]]:
    with engine.start(folder) as settings:
        for suite in (suites.CONTRACTS, suites.API):
            yield suite, suites.run(engine, suite, settings, folder)


def _remark(engine: Engine, suite: str, outcome: Outcome) -> str:
    """What is news about it; nothing where all is as it is known to be."""
    if outcome.fault:
        return outcome.fault
    known = engine.wrong if suite == suites.CONTRACTS else frozenset()
    return ", ".join(
        [f"fails {name}" for name in sorted(outcome.failed - known)]
        + [f"no longer fails {name}" for name in sorted(known - outcome.failed)]
    )


def _row(engine: Engine, suite: str, outcome: Outcome, remark: str) -> str:
    known = len(outcome.failed & engine.wrong) if suite == suites.CONTRACTS else 0
    failed = len(outcome.failed) - known
    return _COLUMNS.format(engine.name, suite, outcome.passed, failed, known, remark).rstrip()


if __name__ == "__main__":
    sys.exit(main())
