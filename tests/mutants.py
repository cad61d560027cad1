r"""The mutants' book: faults that must not pass the tests of their rule.

Each line of `tests/mutants.txt` is `path | old | new | tests`: in the file, `old` stands exactly
once; with `new` in its place, one of the tests fails. In both, `\n` is a line break. The tests are
files, or tests of a file that takes long. The slow ones run if the others let the mutant live. A
line that begins with `#` names the rule.

`python -m tests.mutants [words of a line] [--part 1/10]` tries them in a copy of the tree: first
the tests have to pass without the mutant. It prints each mutant, and fails if one lives.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.kit.processes import ROOT

BOOK: Final = ROOT / "tests" / "mutants.txt"
PARTS: Final = 10

# A mutant may wait for ever. Its tests take seconds.
_SECONDS: Final = 240
# Of pytest: tests failed, or a module of tests could not be loaded.
_KILLED: Final = (1, 2)
# Of pytest: there are no tests of these marks.
_NONE: Final = 5
_FAST: Final = "not slow and not long"
_SLOW: Final = "slow and not long"


@dataclass(frozen=True)
class Mutant:
    """A fault in a file, and the tests of which one has to fail."""

    path: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.path}: {self.old!r} -> {self.new!r}"

    def faults(self, root: Path = ROOT) -> list[str]:
        """Return what is wrong with the line in the book."""
        file = root / self.path
        if not file.is_file():
            return [f"{self.path} is missing"]
        text = file.read_text(encoding="utf-8")
        found = text.count(self.old)
        faults = [] if found == 1 else [f"{self}: found {found} times"]
        if self.old == self.new:
            faults.append(f"{self}: changes nothing")
        tests = (test.partition("::") for test in self.tests)
        return faults + [
            f"{self}: {name} has no {test}"
            for name, _, test in tests
            if not (root / name).is_file() or f"def {test}" not in (root / name).read_text("utf-8")
        ]

    @contextmanager
    def planted(self, root: Path) -> Iterator[None]:
        """Plant it in a copy of the tree."""
        file = root / self.path
        text = file.read_text(encoding="utf-8")
        changed = text.replace(self.old, self.new)
        compile(changed, self.path, "exec")
        file.write_text(changed, encoding="utf-8")
        yield
        file.write_text(text, encoding="utf-8")


def read(book: Path = BOOK) -> list[Mutant]:
    """Return the mutants of a book."""
    lines = book.read_text(encoding="utf-8").splitlines()
    return [_mutant(line) for line in lines if line and not line.startswith("#")]


def _mutant(line: str) -> Mutant:
    path, old, new, tests = (part.strip() for part in line.split(" | "))
    return Mutant(path, _broken(old), _broken(new), tuple(tests.split()))


def _broken(text: str) -> str:
    return text.replace("\\n", "\n")


def part(mutants: Sequence[Mutant], number: int, parts: int = PARTS) -> list[Mutant]:
    """Return every tenth mutant, from this one on; the first has the number 1."""
    return list(mutants[number - 1 :: parts])


def living(mutants: Iterable[Mutant], root: Path = ROOT) -> Iterator[str]:
    """Try the mutants; yield each that lives, or cannot be tried, with the reason."""
    with TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as folder:
        copy = Path(folder) / "tree"
        hidden = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "dist")
        shutil.copytree(root, copy, ignore=hidden)
        for tests, those in groupby(sorted(mutants, key=_tests), key=_tests):
            yield from _living(list(those), tests, copy)


def _tests(mutant: Mutant) -> tuple[str, ...]:
    return mutant.tests


def _living(mutants: Sequence[Mutant], tests: Sequence[str], copy: Path) -> Iterator[str]:
    if faults := [fault for each in mutants for fault in each.faults(copy)]:
        yield from faults
        return
    alive, said = list(mutants), ""
    for marks in (_FAST, _SLOW):
        # The tests of a rule that take long are asked only about a mutant that the others let live.
        begun = time.monotonic()
        status, said = _run(tests, copy, marks) if alive else (_NONE, said)
        # A mutant that waits for ever dies long after the tests would have ended.
        patience = min(_SECONDS, 30 + 5 * (time.monotonic() - begun))
        if status not in (0, _NONE):
            yield f"{' '.join(tests)}: fails without a mutant\n{said}"
            return
        if status == 0:
            alive = [each for each in alive if not _dies(each, tests, copy, marks, patience)]
    for each in alive:
        yield f"{each}: lives ({' '.join(tests)})\n{said}"


def _dies(mutant: Mutant, tests: Sequence[str], copy: Path, marks: str, patience: float) -> bool:
    with mutant.planted(copy):
        status, _ = _run(tests, copy, marks, patience)
    print(f"{'died' if status in _KILLED else 'LIVES'}  {mutant} ({marks})", flush=True)
    return status in _KILLED


def _run(
    tests: Sequence[str], copy: Path, marks: str, patience: float = _SECONDS
) -> tuple[int, str]:
    """Run the tests of these marks until one fails; return the status and the end of the output."""
    # A compiled module could be older than the mutant and pass for it.
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONPYCACHEPREFIX": f"{copy}-compiled"}
    # Otherwise, each run would compile all libraries.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    options = ["-q", "-x", "-p", "no:cacheprovider", f"--basetemp={copy}-kept"]
    options += ["-p", "no:schemathesis", "-m", marks]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    try:
        ran = subprocess.run(
            command,
            cwd=copy,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=patience,
        )
    except subprocess.TimeoutExpired:
        return 1, "waits for ever"
    return ran.returncode, ran.stdout[-1500:]


def main(*arguments: str) -> int:
    """Try the mutants that the arguments choose; return 1 if one lives."""
    chosen, words = read(), list(arguments)
    if "--part" in words:
        at = words.index("--part")
        number, _, parts = words[at + 1].partition("/")
        chosen, words = part(chosen, int(number), int(parts or PARTS)), words[:at] + words[at + 2 :]
    chosen = [each for each in chosen if all(word in f"{each} {each.tests}" for word in words)]
    found = list(living(chosen))
    print("\n".join([*found, f"{len(chosen)} tried, {len(found)} found"]))
    return 1 if found or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
