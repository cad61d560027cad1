"""`python -m tests.conformance -- COMMAND…` puts a client of the feed through all cases.

Without a command, it prints the cases as JSON.
"""

import argparse
import json
import sys

from tests.conformance import runner
from tests.conformance.vectors import vectors


def main(arguments: list[str]) -> int:
    """Print the result of each case; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--case", default="", help="run only the cases with this text in the name")
    parser.add_argument("command", nargs="*", help="starts the client, which reads lines of JSON")
    options = parser.parse_args(arguments)
    chosen = [each for each in vectors() if options.case in each["name"]]
    if not options.command:
        print(json.dumps(chosen, indent=1))
        return 0
    failed = 0
    with runner.started(options.command) as ask:
        for number, (name, fault) in enumerate(runner.run(ask, chosen), 1):
            failed += bool(fault)
            result = f"FAILED: {fault}" if fault else "ok"
            print(f"{number}/{len(chosen)} {name}: {result}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} cases passed")
    return int(failed > 0 or not chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
