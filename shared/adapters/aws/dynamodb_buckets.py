"""The token buckets on DynamoDB: one item per bucket, in the keys table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from shared.adapters.aws import clients
from shared.adapters.aws.clients import code_of, reject_truncated_responses, translating_errors
from shared.adapters.aws.dynamodb_items import Attributes, decode_item, encode, encode_address
from shared.model import api_keys, times
from shared.model.rate_limit import BURST, FULL_AT_MAX, INTERVAL, Bucket
from shared.model.records import integer
from shared.ports.store import Address, Table
from shared.ports.token_buckets import Lease, UsageDelta

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# A round fails only if another instance took the tokens.
_ROUNDS: Final = 4

_NAMES: Final = {"#full": "full_at"}
# If the bucket is not full and has enough tokens.
_TAKE: Final = {
    "UpdateExpression": "SET #full = #full + :cost",
    "ConditionExpression": "#full BETWEEN :now AND :latest",
}
# If the bucket is full, new, or implausibly far in the future.
_BEGIN: Final = {
    "UpdateExpression": "SET #full = :now + :cost",
    "ConditionExpression": "attribute_not_exists(#full) OR #full < :now OR #full > :far",
}


# The timeout of a request. A write takes a few milliseconds.
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


class DynamoBuckets:
    """`TokenBuckets` in the table `<table_prefix>keys`. A given `region` has separate buckets.

    Writes are plain, not transactions. A write with a lost response may count twice. Too many
    tokens are then taken, never too few.
    """

    def __init__(self, client: DynamoDBClient, *, table_prefix: str, region: str = "") -> None:
        reject_truncated_responses(client)
        self._client: Any = client  # requests are built as plain dictionaries
        self._table = f"{table_prefix}{Table.KEYS}"
        self._suffix = f"#{region}#bucket" if region else "#bucket"

    def lease(self, name: str, tokens: int, *, now: int, reserve: int = 0, least: int = 1) -> Lease:
        """Take up to `tokens`, or none if there are fewer than `least`. Raises `Unavailable`."""
        tokens = min(tokens, BURST - reserve)
        if tokens < least:
            return Lease(0, now)
        granted, full_at, refilled = False, None, False
        for _ in range(_ROUNDS):
            # Without a known state, assume that the bucket is in use.
            granted, full_at = self._update(name, _TAKE, tokens, now, reserve)
            if not granted and (full_at is None or not now <= full_at <= now + FULL_AT_MAX):
                refilled = full_at is not None and full_at > now
                granted, full_at = self._update(name, _BEGIN, tokens, now, reserve)
            if granted:
                break
            tokens = min(tokens, Bucket(full_at or now, now).available_above(reserve))
            if tokens < least:
                break
        return Lease(tokens if granted else 0, full_at or now, refilled and granted)

    def _update(
        self, name: str, update: dict[str, str], tokens: int, now: int, reserve: int
    ) -> tuple[bool, int | None]:
        """Return whether the tokens were taken, and the bucket's `full_at`; None if it is new."""
        cost = tokens * INTERVAL
        values = {
            ":now": now,
            ":cost": cost,
            ":latest": now + (BURST - reserve) * INTERVAL - cost,
            ":far": now + FULL_AT_MAX,
        }
        text = " ".join(update.values())
        request = {
            "TableName": self._table,
            "Key": encode_address(Address(Table.KEYS, f"{name}{self._suffix}")),
            "ExpressionAttributeNames": _NAMES,
            "ExpressionAttributeValues": {
                name: encode(value) for name, value in values.items() if name in text
            },
            "ReturnValues": "UPDATED_NEW",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            **update,
        }
        is_met, attributes = _update_item(self._client, request)
        is_new = not (is_met or attributes)
        return is_met, None if is_new else integer(decode_item(attributes), "full_at")


def _update_item(client: Any, request: dict[str, Any]) -> tuple[bool, Attributes]:
    """Return whether the condition was met, and the attributes in the response."""
    with translating_errors():
        try:
            return True, client.update_item(**request).get("Attributes", {})
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            item: Any = error.response.get("Item", {})
            return False, item


def connect(*, region: str | None = None, endpoint_url: str | None = None) -> DynamoDBClient:
    """Return a client that makes one short attempt.

    Both arguments default to the AWS settings of the process.
    """
    client: DynamoDBClient = clients.connect(
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

    Writes are plain, not transactions, because all instances that serve an API key write to its
    item. DynamoDB rejects concurrent transactions, but serializes plain writes.
    """

    def __init__(self, client: DynamoDBClient, *, table_prefix: str) -> None:
        self._client: Any = client  # requests are built as plain dictionaries
        self._table = f"{table_prefix}{Table.KEYS}"

    def add(self, usage: UsageDelta) -> None:
        """Add to the count. Raises `Unavailable`."""
        request = {
            "TableName": self._table,
            "Key": encode_address(api_keys.usage(usage.tenant_id).address(usage.key_id)),
            "ExpressionAttributeNames": {
                "#pk": "pk",
                "#count": "request_count",
                "#last": "last_used_at",
            },
            "ExpressionAttributeValues": {
                ":count": encode(usage.requests),
                ":last": encode(times.format_utc(usage.last_used_at)),
            },
        }
        if not usage.late:
            _update_item(self._client, request | _COUNT)
            return
        is_last, _ = _update_item(self._client, request | _COUNT_AS_LAST)
        if not is_last:
            _update_item(self._client, request | _COUNT_ONLY)
