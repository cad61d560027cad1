"""The clients in Go and TypeScript, each with a million revoked warrants, beside that in Python."""

import hashlib
import re
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Final

from shared.authorizer import AuthorizerClient
from shared.authorizer.floor import MemoryFloor
from shared.authorizer.formats.ids import CompactIds, RevokedIds
from shared.authorizer.view import View
from tests.bench.measure import timed
from tests.bench.report import NotMeasured, Row, compared, progress
from tests.bench.revoked import warrant_ids
from tests.bench.scratch import scratch
from tests.kit import go, typescript
from tests.kit.processes import HOST

_MILLION: Final = 1_000_000
_ASKED: Final = 100_000
_MB_MAX: Final = 40.0
_MICROSECONDS_MAX: Final = 0.2
_PROGRAM: Final = Path(__file__).with_name("check.mjs")
_BENCHMARKS: Final = {"One": "check of 1, CLEAR", "Revoked": "check of 1, REVOKED"}


def run(count: int = _MILLION, rounds: int = 5) -> Iterator[Row]:
    """Go, whose benchmark is always of a million, and TypeScript."""
    if not go.is_there():
        yield Row.missing("client in Go", "no Go in .tools")
    else:
        yield from _in_go(rounds)
    progress(f"the client in TypeScript, {count:,}")
    with scratch() as folder:
        yield from _in_typescript(folder, count, rounds)


def _in_go(rounds: int) -> Iterator[Row]:
    progress("the client in Go")
    said = go.ran(
        *("go", "test", "-v", "-run", "Million", "-bench", "CheckOne|CheckRevoked"),
        *("-count", str(rounds), "."),
    )
    name = "client in Go, 1,000,000 revoked"
    memory = median(map(float, re.findall(r"([\d.]+) MB for a million", said)))
    yield Row(f"{name}, memory", memory, "MB", f"{_MB_MAX:.0f} MB", memory / _MB_MAX, goal="≤ 1")
    for benchmark, what in _BENCHMARKS.items():
        line = rf"^BenchmarkCheck{benchmark}\S*\s.*?([\d.]+) processor-ns/op.*?(\d+) allocs/op$"
        found = re.findall(line, said, re.MULTILINE)
        if {allocations for _, allocations in found} != {"0"}:
            raise NotMeasured(f"a check allocates, or was not measured: {said}")
        taken = median(float(each) / 1000 for each, _ in found)
        against = f"{_MICROSECONDS_MAX} µs"
        ratio = taken / _MICROSECONDS_MAX
        yield Row(f"{name}, {what}", taken, "µs CPU", against, ratio, goal="≤ 1")


def _in_typescript(folder: Path, count: int, rounds: int) -> Iterator[Row]:
    ids, others = [*islice(warrant_ids(), count)], [*islice(warrant_ids("x"), _ASKED)]
    revoked = sorted(ids)[:_ASKED]
    python = _client(ids)
    figures: list[list[float]] = []
    for _ in range(rounds):
        theirs = [_nanoseconds(python, each) for each in (others, revoked)]
        figures.append([*_asked(folder, ids, others, revoked), *theirs])
    memory, clear, refused, *beside = zip(*figures, strict=True)
    name = f"client in TypeScript, {count:,} revoked"
    yield Row(f"{name}, memory", median(memory) / 1e6, "MB")
    for what, ours, other in zip(_BENCHMARKS.values(), (clear, refused), beside, strict=True):
        said = f"{name}, {what}"
        unit = ("µs CPU", 1e-3)
        yield compared(said, ours, "client in Python", other, unit=unit, goal="≤ 1")


def _client(ids: Sequence[str]) -> AuthorizerClient:
    made = AuthorizerClient(
        f"http://{HOST}",
        api_key="bench",
        tenant="svc_tnt_bench",
        trust_root=hashlib.sha256().hexdigest(),
        floor=MemoryFloor(),
        report=False,
    )
    far = float("inf")
    held = RevokedIds(CompactIds.of([ids]))
    made._follower.view = View(revoked=held, end=far, wall_end=far, is_trusted=True)
    return made


def _nanoseconds(client: AuthorizerClient, ids: Sequence[str]) -> float:
    chains = [[each.encode().decode()] for each in ids]
    return timed(partial(_each, client, chains))().cpu * 1e9 / len(ids)


def _each(client: AuthorizerClient, chains: Sequence[list[str]]) -> None:
    for chain in chains:
        client.check(chain)


def _asked(folder: Path, *texts: Sequence[str]) -> tuple[float, ...]:
    files = [folder / str(number) for number in range(len(texts))]
    for file, each in zip(files, texts, strict=True):
        file.write_text("".join(f"{text}\n" for text in each))
    package = typescript.installed() / "node_modules/@rescind/authorizer"
    command = [typescript.node(), "--expose-gc", str(_PROGRAM), str(package), *map(str, files)]
    return (*map(float, subprocess.check_output(command, text=True).split()),)
