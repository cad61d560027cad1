"""Live through worlds: `python -m tests.world [--seed N] [--seeds M] [--seconds S] [--minimize]`.

It prints the story of a world in which a guarantee breaks, and otherwise how often each thing
happened. `--minimize` leaves out what the failure does not need.
"""

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import product
from typing import Final

from tests.world.people import FAULTS
from tests.world.run import Happening, Life, plan

# How many schedules of fewer happenings are tried.
_ORDERS: Final = 6


def lived(
    seed: int, happenings: Collection[Happening] | None = None, order: int = 0
) -> tuple[Life, Exception | None]:
    """A life, and what broke in it; `order` is another schedule of the same happenings."""
    life = Life(seed, plan(seed) if happenings is None else happenings, order)
    try:
        life.live()
    except Exception as error:  # noqa: BLE001 (whatever it is, it is what is looked for)
        return life, error
    return life, None


def minimize(seed: int, of: Sequence[Happening] = ()) -> tuple[list[Happening], int]:
    """What has to happen `of` a plan, and in which order, so that the same breaks.

    Nothing of it can be left out.
    """
    kept, order = [*of] or plan(seed), 0
    looked_for, size = _kind(lived(seed, kept)[1]), len(kept)
    while size:
        parts = [kept[:start] + kept[start + size :] for start in range(0, len(kept), size)]
        tries = product(parts, range(_ORDERS))
        found = next((it for it in tries if _kind(lived(seed, *it)[1]) == looked_for), None)
        if found is None:
            size //= 2
        else:
            kept, order = found
            size = min(size, len(kept))
    return kept, order


def _kind(error: Exception | None) -> str:
    """What broke, without names and numbers of this time."""
    return re.sub(r"\S*[0-9]\S*", "", str(error))


def report(seed: int, life: Life, error: Exception) -> str:
    """The story of a world until something broke."""
    lines = [*life.world.story, f"{error}", f"again by: python -m tests.world --seed {seed}"]
    return "\n".join(lines)


def main() -> int:
    """Return 1 if something broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.world")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--minimize", action="store_true")
    asked = parser.parse_args()
    tally, steps, faults = Counter[str](), 0, 0
    began, seed = time.process_time(), asked.seed
    while seed < asked.seed + asked.seeds or time.process_time() < began + asked.seconds:
        life, error = lived(seed, *minimize(seed)) if asked.minimize else lived(seed)
        if error is not None:
            print(report(seed, life, error))
            return 1
        tally.update(life.world.tally)
        steps, seed = steps + life.world.steps, seed + 1
        faults += sum(each.kind in FAULTS for each in life.happenings)
        if asked.seeds == 1 and not asked.seconds:
            print("\n".join(life.world.story))
    for kind, number in tally.most_common():
        print(f"{number:8} {kind}")
    spent = time.process_time() - began
    worlds = seed - asked.seed
    print(f"{worlds} worlds, {faults / worlds:.1f} faults each, {steps} steps")
    print(f"{steps / spent:.0f} steps a second of processor")
    return 0


if __name__ == "__main__":
    sys.exit(main())
