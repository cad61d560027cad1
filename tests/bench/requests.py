"""What a request costs in processor time, from API Gateway's event to the answer for it.

Ours is the whole path, without the time spent in the store: gate, rate limit, routes, operation,
log line. Beside it is a framework that does nothing but say hello.
"""

from collections.abc import Iterator

from tests.bench.measure import Side, alternate
from tests.bench.report import Row, compared, progress
from tests.bench.worker import Worker, worker
from tests.kit.processes import environment

_UNIT = ("ms CPU", 1e3)

# What is asked, under which name, what it should stay below, and how many at a time.
_REQUESTS = {
    "check": ("check", "≤ 3", 300),
    "srl_304": ("signed list, 304", "", 300),
    "srl_200": ("signed list of 1,000, 200", "", 200),
    "batch": ("check-batch of 1,000", "", 10),
    "page": ("page of 100 revocations", "", 50),
}


def run(*, share: float = 1.0, rounds: int = 25) -> Iterator[Row]:
    """Each request beside the hello; `share` of the usual number of requests are made."""
    on_lambda = environment({"AWS_LAMBDA_FUNCTION_NAME": "bench"})
    with (
        worker("tests.bench.service", on_lambda) as ours,
        worker("tests.bench.bare", on_lambda) as bare,
    ):
        hello = _side(bare, "hello", max(1, round(300 * share)))
        for name, (said, goal, times) in _REQUESTS.items():
            progress(said)
            side = _side(ours, name, max(1, round(times * share)))
            for each in (side, hello):
                each()  # the first requests make what is there for all others
            found, theirs = alternate(side, hello, rounds=rounds)
            against = "FastAPI + Mangum hello"
            yield compared(f"request: {said}", found, against, theirs, unit=_UNIT, goal=goal)


def _side(of: Worker, name: str, times: int) -> Side:
    return lambda: of.seconds(name, times)
