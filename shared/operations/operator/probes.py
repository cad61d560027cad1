"""Probes that test whether the store, the blobs and the key service answer."""

from collections.abc import Callable
from typing import NamedTuple

from shared.model import seeds
from shared.model.items import Address, Table
from shared.model.seeds import Purpose
from shared.ports import Ports


class Probe(NamedTuple):
    """A call that raises `Unavailable` if the port that `setting` names does not answer.

    `verb` says what cannot be done with it then.
    """

    setting: str
    run: Callable[[], object]
    verb: str = "used"


def read(ports: Ports) -> tuple[Probe, ...]:
    """Return the probe of each port. It writes nothing and reads a few items at most."""
    return (
        Probe("SVC_STORE", lambda: ports.store.get_many(Address(each, "none") for each in Table)),
        Probe("SVC_BLOBS", lambda: ports.blobs.get("srl/none")),
        Probe("SVC_KEYS", lambda: _seal_and_open(ports)),
    )


def _seal_and_open(ports: Ports) -> None:
    context = seeds.seal_context("doctor", "doctor", purpose=Purpose.SRL)
    ports.sealer.unseal(ports.sealer.seal(b"doctor", context=context), context=context)
