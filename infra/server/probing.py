"""The first use of stores that are not on this machine, before a server starts on them."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from typing import Final

from shared import wiring
from shared.errors import InvalidSettings, RescindError
from shared.operations.operator import readiness, restored
from shared.ports import Ports

# More than the patience of all adapters together.
_SECONDS: Final = 60

_fork: Final = multiprocessing.get_context("fork")


def check() -> None:
    """Raise `InvalidSettings` unless the stores answer and no tenant needs a recovery first.

    They are asked by a child, with ports of its own: if this process used obstore, its later
    children could not, because its threads do not survive a fork.
    """
    said, saying = _fork.Pipe(duplex=False)
    process = _fork.Process(target=_ask, args=(saying,), name="probe")
    process.start()
    saying.close()
    try:
        problems: list[str] = said.recv() if said.poll(_SECONDS) else ["The stores do not answer."]
    finally:
        process.kill()
        process.join()
        said.close()
    if problems:
        raise InvalidSettings(*problems)


def _ask(saying: Connection) -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)
    with closing(wiring.assemble(wiring.settings(os.environ))) as ports:
        saying.send([*_faults(ports)] or [*_unrecovered(ports)])


def _faults(ports: Ports) -> Iterator[str]:
    for probe in readiness.read(ports):
        try:
            probe.run()
        except RescindError as error:
            why = error if isinstance(error, InvalidSettings) else error.__cause__ or error
            yield f"{probe.setting}: {os.environ[probe.setting]} cannot be used: {why}"


def _unrecovered(ports: Ports) -> Iterator[str]:
    if wiring.is_read_only():
        return
    try:
        restored.check_recovered(ports)
    except RescindError as error:
        yield str(error)
