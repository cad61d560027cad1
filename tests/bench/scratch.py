"""Where the benchmarks keep what they make: on the disk of the project, not in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kit.processes import ROOT


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone at the end."""
    place = ROOT / ".bench"
    place.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=place) as folder:
        yield Path(folder)
