"""How long a command of `rescind` takes to begin, in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Final

from tests.bench.measure import alternate, timed
from tests.bench.report import Row, progress, took
from tests.kit.processes import HOST, ROOT, environment

_MS: Final = ("ms", 1e3)
_PROGRAM: Final = "from infra.cli.__main__ import main; raise SystemExit(main())"


def run(*, rounds: int = 15) -> Iterator[Row]:
    """The version beside Python alone, and a command beside the library that reads it.

    Nobody answers the command: it ends when it has sent nothing.
    """
    progress("commands")
    sides = [
        timed(partial(_run, program, words))
        for program, *words in (
            (_PROGRAM, "--version"),
            ("pass",),
            (_PROGRAM, "keys", "list", "-o", "json"),
            ("import typer",),
        )
    ]
    for side in sides:
        side()  # the files are in memory from here on
    version, python, listed, typer = alternate(*sides, rounds=rounds)
    yield took("rescind --version", version, against="Python", of=python, unit=_MS, goal="≤ 1.5")
    name = "rescind keys list -o json"
    yield took(name, listed, against="Python with Typer", of=typer, unit=_MS, goal="≤ 3")


def _run(program: str, words: list[str]) -> None:
    settings = environment({"RESCIND_URL": f"http://{HOST}:1", "RESCIND_API_KEY": "svc_sk_bench"})
    subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=ROOT,
        env=settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
