"""Make moto's requests cost what they touch, not what the tables hold.

Before each transaction moto copies the tables that it names, item by item, to put them back if the
transaction fails; for each query it sorts all items of the table. So each request of a test pays
for all that was written before. With `installed`, the copy shares the items that the transaction
does not name, and a query sorts the items of its partition. All else is moto's own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import pytest
from moto.core.serialize import BaseJSONSerializer
from moto.dynamodb import models
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import Table

# The operations of the transaction at hand: each is {"Put": {"TableName": …, "Item": …}} or alike.
_Operations = list[dict[str, Mapping[str, Any]]]
_operations: ContextVar[_Operations] = ContextVar("operations")
_transact = models.DynamoDBBackend.transact_write_items
# The partition of the query at hand.
_partition: ContextVar[DynamoType | None] = ContextVar("partition", default=None)
_query, _all_items = Table.query, Table.all_items
_serialize = BaseJSONSerializer._serialize


@contextmanager
def installed() -> Iterator[None]:
    """Until the end, moto looks at what a request names, and at nothing else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models.DynamoDBBackend, "transact_write_items", _transact_write_items)
        patch.setattr(models, "copy", SimpleNamespace(deepcopy=_copied))
        patch.setattr(Table, "query", _query_a_partition)
        patch.setattr(Table, "all_items", _items)
        patch.setattr(BaseJSONSerializer, "_serialize", _serialized)
        yield


def _transact_write_items(backend: models.DynamoDBBackend, transact_items: _Operations) -> None:
    token = _operations.set(transact_items)
    try:
        _transact(backend, transact_items)
    finally:
        _operations.reset(token)


def _query_a_partition(
    table: Table, hash_key: DynamoType | None, *arguments: Any, **options: Any
) -> Any:
    # An index has other partitions than its table; which it is comes seventh.
    token = _partition.set(None if arguments[6] else hash_key)
    try:
        return _query(table, hash_key, *arguments, **options)
    finally:
        _partition.reset(token)


def _items(table: Table) -> list[Item]:
    partition = _partition.get()
    if partition is None or table.range_key_attr is None:
        return _all_items(table)
    items = table.items.get(partition, {}).values()
    return sorted(items, key=lambda item: item.range_key)


def _copied(original: object) -> object:
    if not isinstance(original, Table):
        return copy.deepcopy(original)
    twin = copy.copy(original)
    twin.items = original.items.copy()
    for operation in _operations.get():
        (named,) = operation.values()
        if named["TableName"] == original.name:
            _separate(twin, named.get("Key") or named["Item"])
    return twin


def _separate(twin: Table, named: Mapping[str, Any]) -> None:
    """Give the copy an item of its own for the one that is named, if there is one."""
    pk = DynamoType(named[twin.hash_key_attr])
    if pk not in twin.items:
        return
    if twin.range_key_attr is None:
        twin.items[pk] = copy.deepcopy(twin.items[pk])
        return
    sk = DynamoType(named[twin.range_key_attr])
    partition = twin.items[pk] = twin.items[pk].copy()
    if sk in partition:
        partition[sk] = copy.deepcopy(partition[sk])


def _serialized(
    serializer: BaseJSONSerializer, serialized: dict[str, Any], value: Any, shape: Any, key: str
) -> None:
    if shape.name == "AttributeValue" and type(value.get("S", value.get("N"))) is str:
        serialized[key] = value
        return
    _serialize(serializer, serialized, value, shape, key)
