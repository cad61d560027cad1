"""Checks of what callers send: identifiers of records and times of expiry."""

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
    """Read the record with an identifier of `kind` from a partition of the caller's tenant.

    Raises `NotFound`, which is the same whether another tenant has the record or none.
    """
    item = None
    # No record has a malformed identifier, and some are not valid as keys of a store.
    if is_identifier(identifier, kind=kind):
        item = ports.store.get(partition.address(identifier))
    if item is None:
        raise NotFound
    return record.from_item(item)


def check_end(ports: Ports, expires_at: datetime | None) -> None:
    """Check an optional time of expiry (API-17).

    Raises `InvalidRequest` if it is not in the future.
    """
    if times.has_passed(expires_at, ports.now()):
        raise InvalidRequest("expires_at: must be in the future.")
