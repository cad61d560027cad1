"""What to ask of each place that holds data, to see that it answers."""

from collections.abc import Callable

from shared.model import seeds
from shared.model.items import Address, Table
from shared.model.seeds import Purpose
from shared.ports import Ports


def read(ports: Ports) -> tuple[tuple[str, Callable[[], object]], ...]:
    """By the setting that names it, a call that raises `Unavailable` if a place does not answer.

    Nothing is written, and no more than a few items are read.
    """
    return (
        ("SVC_STORE", lambda: ports.store.get_many(Address(table, "none") for table in Table)),
        ("SVC_BLOBS", lambda: ports.blobs.get("srl/none")),
        ("SVC_KEYS", lambda: _seal_and_open(ports)),
    )


def _seal_and_open(ports: Ports) -> None:
    context = seeds.seal_context("doctor", "doctor", purpose=Purpose.SRL)
    ports.sealer.unseal(ports.sealer.seal(b"doctor", context=context), context=context)
