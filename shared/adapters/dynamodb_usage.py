"""The usage of API keys on DynamoDB: one item per key, in the keys table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from shared.adapters import aws
from shared.adapters.aws import code_of, translating_errors
from shared.adapters.dynamodb_items import encode, encode_address
from shared.model import api_keys, times
from shared.ports.store import Table
from shared.ports.usage_counts import Used

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# The longest that a request waits for this. A write takes a few milliseconds.
_TIMEOUT_SECONDS: Final = 0.25

_COUNT: Final = {
    "UpdateExpression": "ADD #count :count SET #last = :last",
    "ConditionExpression": "attribute_exists(#pk)",
}
_COUNT_AS_LAST: Final = {
    "UpdateExpression": "ADD #count :count SET #last = :last",
    "ConditionExpression": (
        "attribute_exists(#pk) AND (attribute_not_exists(#last) OR #last <= :last)"
    ),
}
_COUNT_ONLY: Final = {
    "UpdateExpression": "ADD #count :count",
    "ConditionExpression": "attribute_exists(#pk) AND #last > :last",
}


def connect(*, region: str | None = None, endpoint_url: str | None = None) -> DynamoDBClient:
    """Return a client that makes one short attempt. Both arguments default to the AWS settings."""
    client: DynamoDBClient = aws.connect(
        "dynamodb",
        region=region,
        endpoint_url=endpoint_url,
        connect_timeout_seconds=_TIMEOUT_SECONDS,
        read_timeout_seconds=_TIMEOUT_SECONDS,
        attempts=1,
    )
    return client


class DynamoUsage:
    """`UsageCounts` in the table `<table_prefix>keys`. The client must not retry.

    Writes are plain, not transactions: all instances that serve one key write to its item. DynamoDB
    refuses concurrent transactions, but serializes plain writes.
    """

    def __init__(self, client: DynamoDBClient, *, table_prefix: str) -> None:
        self._client: Any = client  # requests are built as plain dictionaries
        self._table = f"{table_prefix}{Table.KEYS}"

    def add(self, used: Used) -> None:
        """Add to the count. Raises `Unavailable`."""
        request = {
            "TableName": self._table,
            "Key": encode_address(api_keys.usage(used.tenant_id).address(used.key_id)),
            "ExpressionAttributeNames": {
                "#pk": "pk",
                "#count": "request_count",
                "#last": "last_used_at",
            },
            "ExpressionAttributeValues": {
                ":count": encode(used.requests),
                ":last": encode(times.text(used.last_used_at)),
            },
        }
        if not used.late:
            self._update(request | _COUNT)
        elif not self._update(request | _COUNT_AS_LAST):
            self._update(request | _COUNT_ONLY)

    def _update(self, request: dict[str, Any]) -> bool:
        """Return whether the condition held."""
        with translating_errors():
            try:
                self._client.update_item(**request)
            except ClientError as error:
                if code_of(error) != "ConditionalCheckFailedException":
                    raise
                return False
        return True
