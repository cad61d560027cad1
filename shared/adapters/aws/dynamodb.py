"""The store on DynamoDB: three tables. Reads are consistent; writes are transactions.

A transaction costs twice as much as a plain write. In return it has a request token: after a lost
response, a retry is applied only once, and the first attempt does not make it fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from botocore.exceptions import ClientError

from shared.adapters.aws import clients
from shared.adapters.aws.clients import (
    cancelled_because,
    code_of,
    is_denied,
    reject_truncated_responses,
    translating_errors,
    unavailable,
)
from shared.adapters.aws.dynamodb_items import (
    Attribute,
    decode,
    decode_item,
    encode,
    encode_address,
    encode_item,
    matching,
)
from shared.adapters.preconditions import check_write
from shared.adapters.retries import PATIENCE, RetryPolicy
from shared.adapters.threads import ThreadedGather
from shared.errors import PreconditionFailed, Unavailable
from shared.ports.store import (
    EVERYTHING,
    Address,
    Change,
    Check,
    ColumnPage,
    Delete,
    Expect,
    Expectation,
    Increment,
    Item,
    ItemFilter,
    ItemRow,
    Partition,
    Put,
    Table,
    VersionIs,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_MOST_KEYS_IN_A_BATCH = 100

# Cancellation reasons after which a retry may succeed.
_PASSING = frozenset(
    {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", "None"}
)


def connect(*, region: str | None = None, endpoint_url: str | None = None) -> DynamoDBClient:
    """Return a client. Both arguments default to the AWS settings of the process."""
    client: DynamoDBClient = clients.connect("dynamodb", region=region, endpoint_url=endpoint_url)
    return client


class DynamoStore:
    """A `Store` on the tables `<table_prefix>keys`, `…revocations` and `…audit`."""

    def __init__(
        self, client: DynamoDBClient, *, table_prefix: str, patience: RetryPolicy = PATIENCE
    ) -> None:
        reject_truncated_responses(client)
        self._client: Any = client  # requests are built as plain dictionaries
        self._patience = patience
        # A separate pool, because a read in the pool of the `Ports` must not wait for that pool.
        self._together = ThreadedGather()
        self._names = {table: f"{table_prefix}{table}" for table in Table}
        self._tables = {name: table for table, name in self._names.items()}

    def made_at(self) -> str:
        """Return the creation times of the tables, for operator commands. Raises `Unavailable`."""
        with translating_errors():
            tables = [self._client.describe_table(TableName=name) for name in self._names.values()]
        return " ".join(each["Table"]["CreationDateTime"].isoformat() for each in tables)

    def get(self, address: Address) -> Item | None:
        """Return the item, or None if it does not exist. Raises `Unavailable`."""
        with translating_errors():
            answer = self._client.get_item(
                TableName=self._names[address.table],
                Key=encode_address(address),
                ConsistentRead=True,
            )
        found = answer.get("Item")
        return None if found is None else decode_item(found)

    def get_many(self, addresses: Iterable[Address]) -> dict[Address, Item]:
        """Return the existing items. Raises `Unavailable` unless all were read."""
        wanted = list(dict.fromkeys(addresses))
        batches = [
            wanted[start : start + _MOST_KEYS_IN_A_BATCH]
            for start in range(0, len(wanted), _MOST_KEYS_IN_A_BATCH)
        ]
        found: dict[Address, Item] = {}
        for items in self._together(*(partial(self._get_batch, batch) for batch in batches)):
            found |= items
        return found

    def _get_batch(self, addresses: Sequence[Address]) -> dict[Address, Item]:
        found: dict[Address, Item] = {}
        pending: dict[str, Any] = {}
        for address in addresses:
            request = pending.setdefault(
                self._names[address.table], {"Keys": [], "ConsistentRead": True}
            )
            request["Keys"].append(encode_address(address))
        for _ in self._patience.attempts():
            with translating_errors():
                answer = self._client.batch_get_item(RequestItems=pending)
            for name, items in answer["Responses"].items():
                for item in items:
                    address = Address(self._tables[name], item["pk"]["S"], item["sk"]["S"])
                    found[address] = decode_item(item)
            pending = answer.get("UnprocessedKeys")
            if not pending:
                return found
        raise Unavailable

    def query(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        where: ItemFilter = EVERYTHING,
    ) -> Iterator[ItemRow]:
        """Yield the rows of the partition in order, in pages of 1 MB. Raises `Unavailable`."""
        if before is not None and before <= (after or ""):
            return
        request: dict[str, Any] = {
            "TableName": self._names[partition.table],
            "ConsistentRead": True,
            "ScanIndexForward": not newest_first,
            **matching(partition.pk, after or None, before, where),
        }
        # DynamoDB applies the limit before the filter.
        if limit is not None and not where.equal:
            request["Limit"] = limit + 2  # the bounds of a BETWEEN are dropped below
        pages = self._answers(request, self._client.query)
        items = chain.from_iterable(page["Items"] for page in pages)
        entries = (ItemRow(each["sk"]["S"], decode_item(each)) for each in items)
        inside = (entry for entry in entries if entry.sk not in {after, before})
        yield from islice(inside, limit)

    def query_many(
        self,
        partitions: Iterable[Partition],
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> dict[Partition, list[ItemRow]]:
        """Return the rows of each partition, read concurrently. Raises `Unavailable`."""

        def read(partition: Partition) -> list[ItemRow]:
            return list(self.query(partition, after=after, before=before, limit=limit))

        asked = list(dict.fromkeys(partitions))
        found = self._together(*(partial(read, each) for each in asked))
        return dict(zip(asked, found, strict=True))

    def count(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        where: ItemFilter = EVERYTHING,
    ) -> int:
        """Return the number of rows that `query` would yield. Raises `Unavailable`."""
        if before is not None and before <= (after or ""):
            return 0
        request = {
            "TableName": self._names[partition.table],
            "ConsistentRead": True,
            "Select": "COUNT",
            **matching(partition.pk, after or None, before, where),
        }
        total = sum(int(page["Count"]) for page in self._answers(request, self._client.query))
        if not after or before is None:
            return total
        # The bounds are exclusive, but a BETWEEN includes them.
        ends = self.get_many([partition.address(after), partition.address(before)])
        return total - sum(1 for item in ends.values() if where.holds(item))

    def column(
        self, partition: Partition, attribute: str, *, after: str | None = None
    ) -> Iterator[ColumnPage]:
        """Yield the sort keys after `after` with one attribute. Raises `Unavailable`."""
        request: dict[str, Any] = {
            "TableName": self._names[partition.table],
            "ConsistentRead": True,
            "ProjectionExpression": "#sk, #attribute",
            **matching(partition.pk, after or None, None, EVERYTHING),
        }
        request["ExpressionAttributeNames"] |= {"#sk": "sk", "#attribute": attribute}
        for page in self._answers(request, self._client.query):
            items = page["Items"]
            values = {
                each["sk"]["S"]: decode(each[attribute]) for each in items if attribute in each
            }
            yield ColumnPage([each["sk"]["S"] for each in items], values)

    def everything(self, table: Table) -> Iterator[tuple[Address, Item]]:
        """Yield all items of a table, in pages of 1 MB. Raises `Unavailable`."""
        request: dict[str, Any] = {"TableName": self._names[table], "ConsistentRead": True}
        for page in self._answers(request, self._client.scan):
            for each in page["Items"]:
                yield Address(table, each["pk"]["S"], each["sk"]["S"]), decode_item(each)

    def _answers(
        self, request: dict[str, Any], ask: Callable[..., dict[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        while True:
            with translating_errors():
                page = ask(**request)
            yield page
            # The last page is the page without this key. An empty page is not necessarily the last.
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def write(self, *changes: Change) -> None:
        """Apply all writes or none.

        Raises `PreconditionFailed` with the addresses of the failed preconditions, and
        `Unavailable`.
        """
        check_write(changes)
        request = {
            "TransactItems": [self._operation(change) for change in changes],
            # DynamoDB applies a request only once if it is repeated with the same token.
            "ClientRequestToken": str(uuid4()),
        }
        refused = None
        for _ in self._patience.attempts():
            with translating_errors():
                try:
                    self._client.transact_write_items(**request)
                except ClientError as error:
                    if not _is_passing(error, changes):
                        raise
                    refused = error
                else:
                    return
        raise unavailable(refused) from refused

    def _operation(self, change: Change) -> dict[str, Any]:
        request = {"TableName": self._names[change.address.table], **_condition(change.expect)}
        key = encode_address(change.address)
        match change:
            case Put(item=item):
                return {"Put": request | {"Item": key | encode_item(item)}}
            case Delete():
                return {"Delete": request | {"Key": key}}
            case Check():
                return {"ConditionCheck": request | {"Key": key}}
            case Increment():
                return {"Update": _addition(change, request) | {"Key": key}}


def _condition(expect: Expectation) -> dict[str, Any]:
    match expect:
        case Expect.ANYTHING:
            return {}
        case Expect.ABSENT:
            return _expression("attribute_not_exists(#pk)", {"#pk": "pk"})
        case Expect.PRESENT:
            return _expression("attribute_exists(#pk)", {"#pk": "pk"})
        case VersionIs(version=version):
            return _expression("#version = :version", {"#version": "version"}) | {
                "ExpressionAttributeValues": {":version": encode(version)}
            }


def _expression(text: str, names: dict[str, str]) -> dict[str, Any]:
    return {"ConditionExpression": text, "ExpressionAttributeNames": names}


def _addition(change: Increment, request: dict[str, Any]) -> dict[str, Any]:
    """Return the request with an update, which shares its names and values with the condition."""
    names: dict[str, str] = dict(request.get("ExpressionAttributeNames", {}))
    values: dict[str, Attribute] = dict(request.get("ExpressionAttributeValues", {}))
    terms = []
    for number, (name, amount) in enumerate(change.amounts.items()):
        names[f"#n{number}"] = name
        values[f":n{number}"] = encode(amount)
        terms.append(f"#n{number} :n{number}")
    expression = f"ADD {', '.join(terms)}"
    for number, (name, value) in enumerate(change.assign.items()):
        names[f"#s{number}"] = name
        values[f":s{number}"] = encode(value)
        expression += f"{', ' if number else ' SET '}#s{number} = :s{number}"
    return request | {
        "UpdateExpression": expression,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }


def _is_passing(error: ClientError, changes: Sequence[Change]) -> bool:
    """Return whether a retry may succeed. Raises `PreconditionFailed`."""
    code = code_of(error)
    if code != "TransactionCanceledException":
        return code == "TransactionInProgressException"
    # A conflict in the same transaction would be retried in vain.
    if is_denied(error):
        return False
    reasons = cancelled_because(error)
    pairs = zip(changes, reasons, strict=False)
    lost = [change.address for change, reason in pairs if reason == "ConditionalCheckFailed"]
    if lost:
        raise PreconditionFailed(lost) from error
    return _PASSING.issuperset(reasons)
