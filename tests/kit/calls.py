"""AWS calls, counted on the wire to a pretended account.

    recorder = Recorder(dynamodb, s3, kms)
    with recorder.counting() as calls:
        …

Capacity is counted by DynamoDB's rules, since moto tells the same figure for everything: a
consistent read costs one unit for each 4 KiB begun, a write one for each KiB begun, in a
transaction twice that. A query costs as one read of all that it returns,
or counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from typing import Any, Final

from shared.ports import sequentially

_READ_BYTES: Final = 4096
_WRITE_BYTES: Final = 1024


@dataclass
class Calls:
    """What was called: each request by name, the trips that follow each other, and the capacity."""

    requests: list[str] = field(default_factory=list)
    trips: int = 0
    read_units: int = 0
    write_units: int = 0

    def count(self, prefix: str) -> int:
        """The requests whose name begins so, such as `kms.` or `s3.PutObject`."""
        return sum(request.startswith(prefix) for request in self.requests)


def gathered(counted: Any, *reads: Callable[[], Any]) -> Any:
    """Reads in turn; `counted.trips` grows by those of the one that takes most."""
    before, answers = counted.trips, []
    most = before
    for read in reads:
        counted.trips = before
        answers.append(read())
        most = max(most, counted.trips)
    counted.trips = most
    return tuple(answers)


class Recorder:
    """Watches clients; what they call while `counting` is counted."""

    def __init__(self, *clients: Any) -> None:
        self._calls: Calls | None = None
        # A batch is read in several threads.
        self._lock = RLock()
        for client in clients:
            client.meta.events.register("provide-client-params.*.*", self._asked)
            client.meta.events.register("after-call.*.*", partial(self._answered, client))

    @contextmanager
    def counting(self) -> Iterator[Calls]:
        """Count what is called inside."""
        calls = self._calls = Calls()
        yield calls
        self._calls = None

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """Count nothing of what is called inside."""
        calls, self._calls = self._calls, None
        yield
        self._calls = calls

    def gather(self, *reads: Callable[[], Any]) -> Any:
        """Reads in turn, counted as the trips of the one that takes most."""
        return sequentially(*reads) if self._calls is None else gathered(self._calls, *reads)

    def _asked(self, params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["asked"] = params

    def _answered(
        self, client: Any, parsed: dict[str, Any], model: Any, context: dict[str, Any], **_: Any
    ) -> None:
        with self._lock:
            if self._calls is not None:
                self._count(self._calls, client, parsed, model, context.get("asked", {}))

    def _count(
        self, calls: Calls, client: Any, parsed: dict[str, Any], model: Any, asked: dict[str, Any]
    ) -> None:
        service = model.service_model.service_name
        calls.requests.append(f"{service}.{model.name}")
        calls.trips += 1
        if service == "dynamodb":
            read = self._listed(client, asked) if asked.get("Select") == "COUNT" else parsed
            calls.read_units += _read_units(model.name, asked, read)
            calls.write_units += _write_units(model.name, asked)

    def _listed(self, client: Any, asked: dict[str, Any]) -> dict[str, Any]:
        """The entries that were counted, whose size the answer does not tell."""
        calls, self._calls = self._calls, None
        asked = {name: value for name, value in asked.items() if name != "Select"}
        listed: dict[str, Any] = client.query(**asked)
        self._calls = calls
        return listed


def _read_units(name: str, asked: dict[str, Any], parsed: dict[str, Any]) -> int:
    match name:
        case "GetItem":
            return _units(parsed.get("Item", {}), _READ_BYTES)
        case "BatchGetItem":
            found = [item for items in parsed["Responses"].values() for item in items]
            wanted = sum(len(keys["Keys"]) for keys in asked["RequestItems"].values())
            absent = wanted - len(found)
            return absent + sum(_units(item, _READ_BYTES) for item in found)
        case "Query":
            # A count says nothing of the size of what it counts: here, it is of a few entries.
            size = sum(map(item_size, parsed.get("Items", ())))
            return max(1, math.ceil(size / _READ_BYTES))
    return 0


def _write_units(name: str, asked: dict[str, Any]) -> int:
    match name:
        case "TransactWriteItems":
            changes = (next(iter(each.values())) for each in asked["TransactItems"])
            return sum(2 * _units(each.get("Item", {}), _WRITE_BYTES) for each in changes)
        case "UpdateItem":
            return 1
    return 0


def _units(item: dict[str, Any], unit: int) -> int:
    return max(1, math.ceil(item_size(item) / unit))


def item_size(item: dict[str, Any]) -> int:
    """The bytes of an item, near enough: names, and values as they are sent."""
    return sum(len(name) + _value_size(value) for name, value in item.items())


def _value_size(value: Any) -> int:
    ((kind, held),) = value.items()
    match kind:
        case "L":
            return 3 + sum(1 + _value_size(each) for each in held)
        case "M":
            return 3 + item_size(held)
        case "BOOL" | "NULL":
            return 1
    return len(held)
