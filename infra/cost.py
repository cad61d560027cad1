"""What a million requests cost on AWS: the calls of each endpoint, counted, times prices.

    python -m infra.cost --read-unit 0.15 --kms 3.5

The counts are in `cost.csv` beside this file; `tests/infra/test_cost.py` counts them anew. Prices
are dollars a million; those here are list prices of one region on one day: give your own.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

_COUNTS: Final = Path(__file__).with_name("cost.csv")


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars a million; `compute` is a million invocations of a function, 30 ms at 512 MB."""

    read_unit: float = 0.125
    write_unit: float = 0.625
    kms: float = 3.0
    s3_get: float = 0.4
    s3_put: float = 5.0
    gateway: float = 1.0
    invocation: float = 0.2
    compute: float = 0.2


@dataclass(frozen=True, slots=True)
class Counted:
    """What one call of an endpoint, or one run, takes; `trips` are those that wait for another."""

    what: str
    trips: int
    read_units: int
    write_units: int
    kms: int
    s3_gets: int
    s3_puts: int

    def dollars(self, prices: Prices) -> float:
        """What a million of them cost."""
        return (
            self.read_units * prices.read_unit
            + self.write_units * prices.write_unit
            + self.kms * prices.kms
            + self.s3_gets * prices.s3_get
            + self.s3_puts * prices.s3_put
            + prices.gateway
            + prices.invocation
            + prices.compute
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table at the prices given."""
    parser = argparse.ArgumentParser(prog="python -m infra.cost", description=__doc__)
    for price in fields(Prices):
        option = f"--{price.name.replace('_', '-')}"
        parser.add_argument(option, type=float, default=price.default, metavar="DOLLARS")
    print(table(Prices(**vars(parser.parse_args(arguments)))))
    return 0


def counted() -> list[Counted]:
    """The counts, as the tests found them."""
    with _COUNTS.open(newline="") as file:
        rows = csv.reader(file)
        next(rows)
        return [Counted(what, *map(int, figures)) for what, *figures in rows]


def table(prices: Prices) -> str:
    """Counts and costs as a table in Markdown."""
    head = ("Call", "Trips", "Read units", "Write units", "KMS", "S3 GET", "S3 PUT", "$ a million")
    lines = [_line(*head), _line("---", *["---:"] * (len(head) - 1))]
    for each in counted():
        figures = (each.trips, each.read_units, each.write_units)
        others = (each.kms, each.s3_gets, each.s3_puts)
        lines.append(_line(f"`{each.what}`", *figures, *others, f"{each.dollars(prices):.2f}"))
    return "\n".join(lines)


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.exit(main())
