"""Live through worlds: `python -m tests.world [--seed N] [--seeds M] [--seconds S]`.

Of a world in which a guarantee breaks, it prints the story of what the failure needs. Then it says
how often each fault came, and how many failures needed it.
"""

import argparse
import re
import sys
import textwrap
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


def report(seed: int, life: Life, error: Exception | None) -> str:
    """The story of a world until something broke."""
    lines = [*life.world.story, f"{error}", f"again by: python -m tests.world --seed {seed}"]
    return "\n".join(lines)


def table(worlds: int, tally: Counter[str], found: Counter[str]) -> str:
    """How often each fault came, and how many failures needed it; then what else happened."""
    rows = [f"{'fault':20} {'times':>7} {'a world':>8} {'found':>6}"] + [
        f"{kind:20} {tally[kind]:7} {tally[kind] / worlds:8.2f} {found[kind]:6}"
        for kind in sorted(FAULTS, key=lambda kind: (-tally[kind], kind))
    ]
    others = [f"{number} {kind}" for kind, number in tally.most_common() if kind not in FAULTS]
    return "\n".join([*rows, "", *textwrap.wrap(", ".join(others), 100)])


def main() -> int:
    """Return 1 if something broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.world")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.0)
    asked = parser.parse_args()
    tally, found, broken, steps = Counter[str](), Counter[str](), 0, 0
    began, seed = time.process_time(), asked.seed
    while seed < asked.seed + asked.seeds or time.process_time() < began + asked.seconds:
        life, error = lived(seed)
        tally.update(life.world.tally)
        steps += life.world.steps
        if error is not None:
            kept, order = minimize(seed)
            found.update({each.kind for each in kept})
            broken += 1
            print(report(seed, *lived(seed, kept, order)), end="\n\n")
        elif asked.seeds == 1 and not asked.seconds:
            print("\n".join(life.world.story))
        seed += 1
    spent, worlds = time.process_time() - began, seed - asked.seed
    print(table(worlds, tally, found))
    print(f"{worlds} worlds, {broken} broken; {steps / spent:.0f} steps a second of processor")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
