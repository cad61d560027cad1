"""The benchmarks measure what they say, and say it in one shape. No test here is about time."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

import pytest

from infra.cli.operator import failover
from shared.operations.lists import in_force
from tests.bench import cold_start, deny, postgresql, publication, report, requests
from tests.bench.__main__ import BENCHES
from tests.bench.__main__ import main as run_all
from tests.bench.measure import Comparison, Taken, alternate, compare, processor_seconds, timed
from tests.bench.publication import Size
from tests.bench.report import Row
from tests.bench.revoked import revoke, tenant, warrant_ids
from tests.kit import processes
from tests.kit.processes import ROOT

PAGE = ROOT / "docs" / "performance.md"
_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="read from Linux's /proc")


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ([1.0, 10.0, 3.0], [1.0, 10.0, 2.0], Comparison(3.0, 1.0, (1.0, 1.5))),
        ([3.0, 1.0, 8.0], [2.0, 2.0, 2.0], Comparison(3.0, 1.5, (0.5, 4.0))),
    ],
)
def test_a_ratio_is_of_the_same_round(
    ours: list[float], theirs: list[float], found: Comparison
) -> None:
    """The ratio is the median of the rounds' ratios; a round without one side is an error."""
    assert compare(ours, theirs) == found
    with pytest.raises(ValueError, match="shorter"):
        compare(ours, theirs[1:])


@pytest.mark.slow
def test_the_sides_take_turns_to_begin() -> None:
    """Each side is timed for one call, and neither always begins."""
    turn = count()
    assert alternate(lambda: next(turn), lambda: next(turn), rounds=3) == [[0, 3, 4], [1, 2, 5]]
    calls, ticks = [], iter([Taken(10.0, 1.0), Taken(12.5, 1.5)])
    assert timed(lambda: calls.append(1), now=lambda: next(ticks))() == Taken(2.5, 0.5)
    assert calls == [1]


def test_the_table_is_markdown() -> None:
    """A row shows value, ratio and spread; what is not there is left empty."""
    rows = [
        report.compared("a", [0.25, 0.5, 0.5], "b", [1, 1, 1], unit=("ms", 1000), goal="≤ 1"),
        Row("c", 12.34, "items"),
        Row.missing("d", "no wrk\non | PATH"),
    ]
    assert report.table(rows).splitlines()[2:] == [
        "| a | 500 ms |  | b | 0.50 | 0.25 to 0.50 | ≤ 1 |",
        "| c | 12.3 items |  |  |  |  |  |",
        "| d |  |  | not measured: no wrk on / PATH |  |  |  |",
    ]


def test_the_ratio_of_work_is_of_processor_time() -> None:
    """What the machine did beside changes the value, and not the ratio, of what computes."""
    ours, theirs = [Taken(9.0, 2.0), Taken(3.0, 3.0)], [Taken(1.0, 1.0), Taken(1.0, 1.0)]
    both = report.took("a", ours, against="b", of=theirs, unit=("s", 1.0))
    assert both.cells == ("a", "6.00 s", "2.50 s", "b", "2.50", "2.00 to 3.00", "")
    limited = report.took("c", ours, against="4 s", of=4.0, unit=("ms", 1e3), goal="≤ 1")
    assert limited.cells == ("c", "6,000 ms", "2,500 ms", "4 s", "0.62", "", "≤ 1")
    alone = report.took("d", ours[:1], unit=("s", 1.0))
    assert alone.cells == ("d", "9.00 s", "2.00 s", "", "", "", "")


@pytest.mark.slow
def test_the_processes_that_were_waited_for_count() -> None:
    """Processor time has that of children, so that a side may be a program."""
    program = "import time\nwhile time.process_time() < 0.1: pass"
    assert timed(lambda: processes.run("-c", program))().cpu >= 0.1


@pytest.mark.slow
@_LINUX
def test_the_processes_of_a_server_count() -> None:
    """The processor time of a process has that of its children, also of those that have ended."""
    ended = "import time\nwhile time.process_time() < 0.3: pass"
    runs = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    program = f"""import subprocess, sys
subprocess.run([sys.executable, "-c", {ended!r}])
subprocess.run([sys.executable, "-c", {runs!r}])"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert processor_seconds(process.pid) >= 0.6
        process.communicate(b"\n")


def test_a_failed_benchmark_is_said_and_the_rest_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F588a: A benchmark that fails costs the exit code, and no row of its own or of another.

    Each row is in the table and in the file before the next is measured.
    """
    out = tmp_path / "results.json"

    def fails() -> Iterator[Row]:
        yield Row("first", 1.0, "s")
        assert [row["name"] for row in json.loads(out.read_text())] == ["first"]
        assert "| first | 1.00 s |" in capsys.readouterr().out
        raise TimeoutExpired("tests.bench.peak", 30)

    monkeypatch.setitem(BENCHES, "deny", fails)
    monkeypatch.setitem(BENCHES, "requests", lambda: iter([Row("a", 1.0, "s", "b", 2.0, (1, 3))]))
    monkeypatch.setenv("BENCH_ONLY", "deny,requests")
    monkeypatch.setenv("BENCH_OUT", str(out))
    assert run_all() == 1
    rows = json.loads(out.read_text())
    assert [row["name"] for row in rows] == ["first", "deny", "a"]
    assert rows[1]["against"].startswith("not measured: Command 'tests.bench.peak' timed out")
    assert (rows[2]["ratio"], rows[2]["spread"]) == (2.0, [1, 3])
    said = capsys.readouterr()
    assert "| a | 1.00 s |  | b | 2.00 | 1.00 to 3.00 |  |" in said.out
    assert said.err.endswith("Failed: deny\n")


def test_an_unknown_benchmark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt name measures nothing, rather than something else."""
    monkeypatch.setenv("BENCH_ONLY", "publications")
    assert run_all() == 1


def test_the_warrants_of_a_benchmark_are_revoked(tmp_path: Path) -> None:
    """What is put into the store at once is published like what callers revoked."""
    with tenant(tmp_path, revoked=40) as filled:
        revoke(filled.ports, filled.operator, warrant_ids("n"), 2)
        publication.from_all_records(filled.ports, filled.operator)
        head = in_force.read_srl_head(filled.ports, filled.operator.tenant_id)
        assert (head.count, head.changes) == (42, 42)


_SIZE = Size(300, 1, openssl=False, goals=("", ""))


# Benchmarks in a small world, how many rows they have, and what is sure of their values: so the
# items that are read are as many as the changes demand, whatever the list has.
_BENCHES: dict[str, Any] = {
    "publication": (
        lambda: publication.run([_SIZE], changes=20),
        6,
        lambda values: 20 <= values[3] < 100,
    ),
    "deny": (lambda: deny.run(300, revocations=3), 7, lambda values: min(values) > 0),
    "requests": (lambda: requests.run(share=0.01, rounds=1), 10, lambda values: min(values) > 0),
    "postgresql": pytest.param(
        lambda: postgresql.run(share=0.02, rounds=1),
        12,
        # An idle leader may take nothing in so short a time.
        lambda values: min([*values[:5], *values[6:]]) > 0,
        marks=_LINUX,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("run", "number", "is_right"), _BENCHES.values(), ids=_BENCHES)
def test_each_figure_is_measured_and_documented(
    run: Callable[[], Iterator[Row]], number: int, is_right: Callable[[list[float]], bool]
) -> None:
    """Every row has a value, and a row of docs/performance.md but for the numbers in its name."""
    rows = list(run())
    documented = set(map(_form, re.findall(r"^\| (.+?) \|", PAGE.read_text(), re.MULTILINE)))
    assert [row.name for row in rows if _form(row.name) not in documented] == []
    assert len({row.name for row in rows}) == number
    values = [row.value for row in rows if row.value is not None]
    assert len(values) == len(rows)
    assert is_right(values), values


def _form(name: str) -> str:
    return re.sub(r"\b\d[\d,]*", "#", name)


@pytest.mark.slow
def test_cold_starts_are_measured() -> None:
    """Every function gives its first answer from the artefact, beside both floors."""
    rows = [row for row in cold_start.run(rounds=1) if row.value is not None]
    functions = [name.replace("-", "_") for name in failover.function_names("")]
    assert sorted(row.name.split()[-1] for row in rows) == sorted([*functions, "console"] * 2)


def test_the_goals_are_documented() -> None:
    """docs/performance.md has a place for the table, and a section for each benchmark."""
    text = PAGE.read_text()
    assert text.index("<!-- results -->") < text.index("<!-- end of results -->")
    assert not [name for name in BENCHES if f"`{name}`" not in text]
