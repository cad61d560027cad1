"""Probes that test whether the store, the blobs and the key service answer."""

from collections.abc import Callable

from shared.model import seeds
from shared.model.items import Address, Table
from shared.model.seeds import Purpose
from shared.ports import Ports


def read(ports: Ports) -> tuple[tuple[str, Callable[[], object]], ...]:
    """Return the probe of each port, with the setting that names it.

    A probe raises `Unavailable` if the port does not answer. It writes nothing and reads a few
    items at most.
    """
    return (
        ("SVC_STORE", lambda: ports.store.get_many(Address(table, "none") for table in Table)),
        ("SVC_BLOBS", lambda: ports.blobs.get("srl/none")),
        ("SVC_KEYS", lambda: _seal_and_open(ports)),
    )


def _seal_and_open(ports: Ports) -> None:
    context = seeds.seal_context("doctor", "doctor", purpose=Purpose.SRL)
    ports.sealer.unseal(ports.sealer.seal(b"doctor", context=context), context=context)
