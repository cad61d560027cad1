"""The token buckets on DynamoDB: what they cost, and what happens where DynamoDB fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ReadTimeoutError

from shared.adapters.aws.dynamodb_buckets import DynamoBuckets
from shared.errors import DataCorrupt
from shared.ports.token_buckets import Lease
from tests.adapters.answers import Answer, Answers, Given, error
from tests.adapters.outages import URL

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

NOW = 1_795_262_400_000_000
SECOND = 1_000_000
LAST = NOW - 1


@pytest.fixture
def buckets(dynamodb_client: DynamoDBClient) -> DynamoBuckets:
    return DynamoBuckets(dynamodb_client, table_prefix="a-")


def taken(full_at: int) -> Answer:
    """The write was made, and this is when the bucket is full."""
    return Answer({"Attributes": {"full_at": {"N": str(full_at)}}})


def refused(full_at: int | None = None) -> Answer:
    """The condition failed on a bucket that is full at this moment; None for a new one."""
    code = "ConditionalCheckFailedException"
    if full_at is None:
        return error(code)
    key = {"pk": {"S": "t1#bucket"}, "sk": {"S": "-"}}
    return error(code, Item=key | {"full_at": {"N": str(full_at)}})


def asked(answers: Answers) -> list[int]:
    """How many tokens each request was for; each of them is a write."""
    for request in answers.requests:
        assert request.headers["X-Amz-Target"] == b"DynamoDB_20120810.UpdateItem"
    costs = [body["ExpressionAttributeValues"][":cost"]["N"] for body in answers.bodies]
    return [int(cost) // 1000 for cost in costs]


# --- what a lease costs ---


def test_a_bucket_in_use_costs_one_write(given: Given, buckets: DynamoBuckets) -> None:
    """F32: the ordinary lease is one conditional write, with no read."""
    answers = given(taken(NOW + 8000))
    assert buckets.lease("t1", 7, now=NOW) == Lease(7, NOW + 8000)
    assert asked(answers) == [7]
    (body,) = answers.bodies
    assert body["TableName"] == "a-keys"
    assert body["Key"] == {"pk": {"S": "t1#bucket"}, "sk": {"S": "-"}}


@pytest.mark.parametrize("full_at", [None, LAST, 0])
def test_a_bucket_that_is_full_or_new_costs_two(
    given: Given, buckets: DynamoBuckets, full_at: int | None
) -> None:
    """F32: a bucket that is not in use is begun by a second write, with no read."""
    answers = given(refused(full_at), taken(NOW + 7000))
    assert buckets.lease("t1", 7, now=NOW) == Lease(7, NOW + 7000)
    assert asked(answers) == [7, 7]


# --- lost races ---


def test_a_bucket_begun_by_another_is_taken_from(given: Given, buckets: DynamoBuckets) -> None:
    """F32: of two that begin a bucket one does; the other takes its tokens from what is left."""
    answers = given(refused(), refused(NOW + 5000), taken(NOW + 12_000))
    assert buckets.lease("t1", 7, now=NOW) == Lease(7, NOW + 12_000)
    assert asked(answers) == [7, 7, 7]


def test_a_bucket_emptied_by_another_gives_nothing(given: Given, buckets: DynamoBuckets) -> None:
    """F32: the last tokens, once seen, may be gone: then there are none, and none is made up."""
    answers = given(refused(NOW + 2 * SECOND - 4000), refused(NOW + 2 * SECOND))
    assert buckets.lease("t1", 7, now=NOW) == Lease(0, NOW + 2 * SECOND)
    assert asked(answers) == [7, 4]


def test_each_round_asks_for_what_was_left(given: Given, buckets: DynamoBuckets) -> None:
    """F32: while others take, the lease shrinks to what they left, and never grows again."""
    left = [refused(NOW + 2 * SECOND - tokens * 1000) for tokens in (5, 3, 6)]
    answers = given(*left, taken(NOW + 2 * SECOND - 3000))
    assert buckets.lease("t1", 7, now=NOW) == Lease(3, NOW + 2 * SECOND - 3000)
    assert asked(answers) == [7, 5, 3, 3]


@pytest.mark.parametrize("full_at", [NOW, NOW + SECOND, LAST, None])
def test_a_race_lost_again_and_again_is_given_up(
    given: Given, buckets: DynamoBuckets, full_at: int | None
) -> None:
    """F32: however busy the bucket is, a lease is a bounded number of writes."""
    answers = given(refused(full_at))
    assert buckets.lease("t1", 7, now=NOW).granted == 0
    assert len(asked(answers)) <= 8


# --- failures ---


def test_a_lost_answer_costs_tokens_and_makes_none(given: Given, buckets: DynamoBuckets) -> None:
    """F22: a write whose answer was lost may count twice, and still grants its tokens once."""
    answers = given(ReadTimeoutError(endpoint_url=URL), taken(NOW + 14_000))
    assert buckets.lease("t1", 7, now=NOW) == Lease(7, NOW + 14_000)
    assert asked(answers) == [7, 7]


@pytest.mark.parametrize("attribute", [{"S": "0"}, {"N": "1.5"}, {"NULL": True}, None], ids=str)
@pytest.mark.parametrize("held", ["in the answer", "in the refusal"])
def test_a_bucket_of_another_hand_is_corrupt(
    given: Given, buckets: DynamoBuckets, held: str, attribute: Any
) -> None:
    """F10: a malformed bucket is neither full nor empty."""
    attributes = {"other": {"S": "x"}} | ({"full_at": attribute} if attribute else {})
    refusal = error("ConditionalCheckFailedException", Item=attributes)
    answer = Answer({"Attributes": attributes}) if held == "in the answer" else refusal
    given(answer)
    with pytest.raises(DataCorrupt):
        buckets.lease("t1", 7, now=NOW)


def test_an_answer_without_the_bucket_is_corrupt(given: Given, buckets: DynamoBuckets) -> None:
    """F22: a success that does not say when the bucket is full is not believed."""
    given(Answer({}))
    with pytest.raises(DataCorrupt):
        buckets.lease("t1", 7, now=NOW)
