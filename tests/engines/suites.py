"""The suites that an engine is put to, each a pytest of its own, and what came of them."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from tests.engines.programs import Engine
from tests.kit.processes import ROOT, environment

CONTRACTS: Final = "contracts"
API: Final = "API"

_SECONDS: Final = 1200
# All passed, or some failed: in either case it ran to its end.
_RAN: Final = frozenset({0, 1})
# They look inside SQLite, or hold each debug line of an SDK to what we log.
_NOT_ELSEWHERE: Final = (
    "not no_seed_is_ever_shown_or_stored and not a_bug_tells_nobody_its_text"
    " and not a_revocation_is_a_few_statements and not a_revocation_takes_little_room"
)


@dataclass(frozen=True)
class Outcome:
    """How many tests passed, and which failed, by their short names; `fault` where none ran."""

    passed: int = 0
    failed: frozenset[str] = frozenset()
    fault: str = ""


def run(engine: Engine, suite: str, settings: dict[str, str], folder: Path) -> Outcome:
    """Run the suite on the engine that the settings lead to; `folder` gets what pytest says."""
    report = folder / f"{suite}.xml"
    command = [sys.executable, "-m", "pytest", "--numprocesses", "0", "-p", "no:cacheprovider"]
    command += [
        "--junitxml",
        str(report),
        "--basetemp",
        str(folder / suite),
        *chosen(engine, suite),
    ]
    try:
        with (folder / f"{suite}.log").open("wb") as log:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment(settings | {"RESCIND_TEST_API_ON": engine.on}),
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return Outcome(fault=f"no end after {_SECONDS} s")
    if done.returncode not in _RAN:
        return Outcome(fault=f"pytest ended with {done.returncode}")
    return read(report)


def chosen(engine: Engine, suite: str) -> Sequence[str]:
    """Which tests the suite has for this engine, as pytest's arguments."""
    if suite == CONTRACTS:
        return ["tests/contracts", "-k", engine.adapters]
    files = [f"tests/{name}" for name in engine.files]
    here = [] if engine.on == "sqlite-memory" else ["-k", _NOT_ELSEWHERE]
    return ["tests/engines/test_chosen.py", *files, "-m", "not slow", *here]


def read(report: Path) -> Outcome:
    """What pytest's XML says."""
    passed, failed = 0, set()
    for case in ET.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed.add(case.attrib["name"].partition("[")[0])
        elif "skipped" not in kinds:
            passed += 1
    return Outcome(passed, frozenset(failed))
