"""The usage of API keys on DynamoDB: what a count costs, and what happens where DynamoDB fails."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from shared.adapters.aws import dynamodb_buckets
from shared.adapters.aws.dynamodb_buckets import DynamoUsage
from shared.errors import Unavailable
from shared.ports.token_buckets import UsageDelta
from tests.adapters.answers import Answer, Answers
from tests.adapters.outages import PASSING

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

AT = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def client(cloud: None) -> Iterator[DynamoDBClient]:
    client = dynamodb_buckets.connect()
    yield client
    client.close()


def add(client: DynamoDBClient) -> None:
    counts = DynamoUsage(client, table_prefix="a-")
    counts.add(UsageDelta("t1", "svc_ak_1", 7, AT))


def test_a_count_is_one_plain_write(client: DynamoDBClient) -> None:
    """F134a: Counting the use of an API key is one plain write without a transaction."""
    answers = Answers(client, Answer())
    add(client)
    (request,), (body,) = answers.requests, answers.bodies
    assert request.headers["X-Amz-Target"] == b"DynamoDB_20120810.UpdateItem"
    assert body["TableName"] == "a-keys"
    assert body["Key"] == {"pk": {"S": "t1#usage"}, "sk": {"S": "svc_ak_1"}}
    assert body["UpdateExpression"].startswith("ADD ")
    assert body["ExpressionAttributeValues"][":count"] == {"N": "7"}


@pytest.mark.parametrize("step", PASSING.values(), ids=list(PASSING))
def test_a_count_is_never_sent_twice(client: DynamoDBClient, step: Answer | Exception) -> None:
    """F134b: A count whose answer was lost is never sent again."""
    answers = Answers(client, step)
    with pytest.raises(Unavailable):
        add(client)
    assert len(answers.requests) == 1
