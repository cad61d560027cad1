"""What a caller gives: the identifier of a record, and the moment when something is to end."""

from datetime import datetime
from typing import TypeVar

from shared.errors import InvalidRequest, NotFound
from shared.model import times
from shared.model.identifiers import is_identifier
from shared.model.items import Partition
from shared.model.records import Record
from shared.ports import Ports

R = TypeVar("R", bound=Record)


def find(ports: Ports, partition: Partition, identifier: str, *, kind: str, record: type[R]) -> R:
    """The record with this identifier of `kind` in a partition of the caller's own.

    Raises `NotFound`, the same for what another tenant has as for what nobody has.
    """
    item = None
    # Another form names nothing, and some would be no key of any store.
    if is_identifier(identifier, kind=kind):
        item = ports.store.get(partition.address(identifier))
    if item is None:
        raise NotFound
    return record.from_item(item)


def check_end(ports: Ports, expires_at: datetime | None) -> None:
    """Raise `InvalidRequest` if `expires_at` is given and does not lie in the future (API-17)."""
    if times.has_passed(expires_at, ports.now()):
        raise InvalidRequest("expires_at: must lie in the future.")
