"""Data folders, looked into past the server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra import data_folder
from shared import wiring
from shared.ports import Ports
from tests.worlds import close


@contextmanager
def opened(data: Path) -> Iterator[Ports]:
    """The ports on a data folder."""
    ports = wiring.build(wiring.settings(data_folder.environment(data)))
    try:
        yield ports
    finally:
        close(ports)
