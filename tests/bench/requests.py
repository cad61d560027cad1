"""What a request costs in processor time, from API Gateway's event to the answer for it.

Ours is the whole path, without the time spent in the store: gate, rate limit, routes, operation,
log line. Beside it is a framework that does nothing but say hello.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.bench.measure import Side, alternate
from tests.bench.report import Row, compared, progress
from tests.bench.worker import ROOT, Worker, worker
from tests.processes import environment

_UNIT = ("ms CPU", 1e3)
_PYTHON = Path(sys.executable)
_BARE = "FastAPI + Mangum hello"
_POWERTOOLS = "Powertools hello"
_POWERTOOLS_PYTHON = ROOT / ".tools" / "bench" / "bin" / "python"

# What is asked, under which name, what it should stay below, and how many at a time.
_REQUESTS = {
    "check": ("check", "≤ 3", 300),
    "srl_304": ("signed list, 304", "", 300),
    "srl_200": ("signed list of 1,000, 200", "", 200),
    "batch": ("check-batch of 1,000", "", 10),
    "page": ("page of 100 revocations", "", 50),
}


def run(*, share: float = 1.0, rounds: int = 25) -> Iterator[Row]:
    """Each request beside the hellos; `share` of the usual number of requests are made."""
    on_lambda = environment({"AWS_LAMBDA_FUNCTION_NAME": "bench"})
    with ExitStack() as stack:

        def start(module: str, python: Path) -> Worker:
            return stack.enter_context(worker(python, f"tests.bench.{module}", on_lambda))

        hello_times = max(1, round(300 * share))
        ours, bare = start("service", _PYTHON), start("bare", _PYTHON)
        others = {_BARE: _side(bare, "hello", hello_times)}
        if _POWERTOOLS_PYTHON.exists():
            powertools = start("powertools", _POWERTOOLS_PYTHON)
            others[_POWERTOOLS] = _side(powertools, "hello", hello_times)
        for name, (said, goal, times) in _REQUESTS.items():
            progress(said)
            side = _side(ours, name, max(1, round(times * share)))
            for each in (side, *others.values()):
                each()  # the first requests make what is there for all others
            figures = alternate(side, *others.values(), rounds=rounds)
            for against, theirs in zip(others, figures[1:], strict=True):
                held = goal if against == _BARE else ""
                yield compared(
                    f"request: {said}", figures[0], against, theirs, unit=_UNIT, goal=held
                )
    if _POWERTOOLS not in others:
        yield Row.missing("request: check", "no Powertools in .tools/bench")


def _side(of: Worker, name: str, times: int) -> Side:
    return lambda: of.seconds(name, times)
