"""`python -m tests.hostile NAME=COMMAND…` runs clients through all cases.

A command starts a subject, which answers lines of JSON: `connect` and `verdicts`, as
docs/spec/feed.md describes them. The exit code is 1 if a subject fails a case.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from tests.hostile.cases import Case, load_cases
from tests.hostile.subject import Result, run

# So many cases run at once. A case mostly waits.
_AT_ONCE = 32


def run_all(command: str, cases: Iterable[Case], at_once: int = _AT_ONCE) -> Iterator[Result]:
    """Run one subject through the cases, the longest first. Yield results in that order."""
    longest_first = sorted(cases, key=lambda case: -case.seconds)
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(lambda case: run(case, command), longest_first)


def main(arguments: list[str]) -> int:
    """Print the result of each case."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--case", default="", metavar="TEXT", help="only cases with this name")
    parser.add_argument("--at-once", type=int, default=_AT_ONCE, metavar="NUMBER")
    parser.add_argument("subjects", nargs="+", metavar="NAME=COMMAND")
    options = parser.parse_args(arguments)
    chosen = [each for each in load_cases() if options.case in each.name]
    failed = 0
    for subject in options.subjects:
        name, _, command = subject.partition("=")
        for result in run_all(command, chosen, options.at_once):
            failed += bool(result.problems)
            print(f"{name:<10} {result}", flush=True)
    total = len(chosen) * len(options.subjects)
    print(f"{total - failed} of {total} passed")
    return int(failed > 0 or not chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
