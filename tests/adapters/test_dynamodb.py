"""The store on DynamoDB, where DynamoDB fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from shared.adapters.aws.dynamodb import DynamoStore
from shared.errors import DataCorrupt, PreconditionFailed, Unavailable
from shared.ports.store import (
    Address,
    Check,
    Expect,
    Increment,
    ItemFilter,
    Partition,
    Put,
    Table,
    VersionIs,
)
from tests.adapters.answers import Answer, FakeTime, Given, Step, error
from tests.adapters.outages import OUTAGES, PASSING, URL

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KEY = Address(Table.KEYS, "t1#api-keys", "svc_ak_1")
OTHER = Address(Table.AUDIT, "t1#2026-01", "svc_evt_1")
PARTITION = Partition(Table.KEYS, KEY.pk)

CALLS: dict[str, Callable[[DynamoStore], object]] = {
    "get": lambda store: store.get(KEY),
    "get_many": lambda store: store.get_many([KEY, OTHER]),
    "query": lambda store: list(store.query(PARTITION)),
    "query_many": lambda store: store.query_many([PARTITION])[PARTITION],
    "count": lambda store: store.count(PARTITION),
    "column": lambda store: [sk for page in store.column(PARTITION, "odd") for sk in page.names],
    "write": lambda store: store.write(Put(KEY, {}, Expect.ANYTHING)),
}
# What each call is answered where nothing was ever stored.
NOTHING = Answer({"Responses": {}, "Items": [], "Count": 0})


@pytest.fixture
def store(dynamodb_client: DynamoDBClient, fake_time: FakeTime) -> DynamoStore:
    return DynamoStore(dynamodb_client, table_prefix="a-", patience=fake_time.patience())


def stored(address: Address, **attributes: Any) -> dict[str, Any]:
    return {"pk": {"S": address.pk}, "sk": {"S": address.sk}} | attributes


# --- outages ---


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("outage", OUTAGES)
def test_an_outage_is_unavailable(given: Given, store: DynamoStore, outage: str, call: str) -> None:
    """F22: no answer is `Unavailable` after a bounded number of tries, and tells no names."""
    answers = given(OUTAGES[outage])
    with pytest.raises(Unavailable) as caught:
        CALLS[call](store)
    # A checksum that does not match is botocore's to retry, as PASSING are.
    assert len(answers.requests) == (3 if outage in {*PASSING, "answer altered"} else 1)
    assert not any(word in str(caught.value).lower() for word in ("a-keys", "dynamo", "aws"))
    assert caught.value.__cause__ is not None


_ROLE = "arn:aws:sts::123456789012:assumed-role/rescind-prod-revocations-eu-west-1/x"
_SAID = (
    f"User: {_ROLE} is not authorized to perform: dynamodb:PutItem on resource:"
    " arn:aws:dynamodb:eu-west-1:123456789012:table/rescind-prod-keys because no identity-based"
    " policy allows the dynamodb:PutItem action"
)


@pytest.mark.parametrize(
    "denied",
    [
        error("AccessDeniedException", message=_SAID),
        error(
            "TransactionCanceledException",
            message=_SAID,
            CancellationReasons=[{"Code": "ConditionalCheckFailed"}, {"Code": "AccessDenied"}],
        ),
    ],
    ids=["whole", "in part"],
)
def test_a_denied_write_is_not_repeated(
    given: Given, store: DynamoStore, caplog: pytest.LogCaptureFixture, denied: Answer
) -> None:
    """F597a: A write that IAM denies is tried once; the log names the role and the statement."""
    answers = given(denied)
    with pytest.raises(Unavailable):
        store.write(Put(KEY, {}, Expect.ABSENT), Put(OTHER, {}, Expect.ABSENT))
    assert len(answers.requests) == 1
    (said,) = [record.getMessage() for record in caplog.records]
    assert _ROLE in said
    assert "See statement PutKeys of that role in template.yaml" in said


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("outage", PASSING)
def test_a_short_outage_is_not_noticed(
    given: Given, store: DynamoStore, outage: str, call: str
) -> None:
    """F22: what succeeds at a further try is a success."""
    given(PASSING[outage], NOTHING)
    assert not CALLS[call](store)


def test_the_client_gives_up_in_seconds(dynamodb_client: DynamoDBClient) -> None:
    """F22: no call outlasts the function that makes it."""
    config: Any = dynamodb_client.meta.config
    assert (config.connect_timeout, config.read_timeout) == (1, 3)
    assert config.retries == {"total_max_attempts": 3, "mode": "standard"}


# --- reads ---


@pytest.mark.parametrize("call", sorted(CALLS.keys() - {"write"}))
def test_every_read_is_consistent(given: Given, store: DynamoStore, call: str) -> None:
    """F13c: The DynamoDB adapter asks only for consistent reads."""
    answers = given(NOTHING)
    CALLS[call](store)
    (body,) = answers.bodies
    for request in body.get("RequestItems", {"": body}).values():
        assert request["ConsistentRead"] is True


def test_unprocessed_keys_are_asked_for_again(
    given: Given, store: DynamoStore, fake_time: FakeTime
) -> None:
    """F23a: The DynamoDB adapter asks again for keys that a batch answer left out."""
    left = {"a-audit": {"Keys": [stored(OTHER)], "ConsistentRead": True}}
    answers = given(
        Answer({"Responses": {"a-keys": [stored(KEY, n={"N": "1"})]}, "UnprocessedKeys": left}),
        Answer({"Responses": {}, "UnprocessedKeys": left}),
        Answer({"Responses": {"a-audit": [stored(OTHER)]}, "UnprocessedKeys": {}}),
    )
    assert store.get_many([KEY, OTHER]) == {KEY: {"n": 1}, OTHER: {}}
    assert [body["RequestItems"] for body in answers.bodies[1:]] == [left, left]
    assert len(fake_time.slept) == 2


def test_keys_that_stay_unprocessed_are_unavailable(
    given: Given, store: DynamoStore, fake_time: FakeTime
) -> None:
    """F23: a key that was never read is not taken for absent."""
    left = {"a-keys": {"Keys": [stored(KEY)], "ConsistentRead": True}}
    answers = given(Answer({"Responses": {}, "UnprocessedKeys": left}))
    with pytest.raises(Unavailable):
        store.get_many([KEY, OTHER])
    assert len(answers.requests) > 3
    assert 2 < sum(fake_time.slept) < 4


def test_a_key_is_asked_for_once(given: Given, store: DynamoStore) -> None:
    """F23c: The DynamoDB adapter asks for each key once and for at most 100 keys in a batch."""
    answers = given(NOTHING)
    store.get_many([PARTITION.address(str(number % 150)) for number in range(300)])
    sizes = [len(body["RequestItems"]["a-keys"]["Keys"]) for body in answers.bodies]
    assert sorted(sizes) == [50, 100]


def test_an_empty_page_is_not_the_end(given: Given, store: DynamoStore) -> None:
    """F23b: A walk over DynamoDB does not end at an empty page that says there are more."""
    keys = [PARTITION.address(sk) for sk in "abc"]
    given(
        Answer({"Items": [], "LastEvaluatedKey": stored(keys[0])}),
        Answer({"Items": [stored(keys[1])], "LastEvaluatedKey": stored(keys[1])}),
        Answer({"Items": [], "LastEvaluatedKey": stored(keys[1])}),
        Answer({"Items": [stored(keys[2])]}),
    )
    assert [entry.sk for entry in store.query(PARTITION)] == ["b", "c"]


def test_a_count_brings_no_item_and_adds_up_its_pages(given: Given, store: DynamoStore) -> None:
    """F70d: The DynamoDB adapter counts entries without reading them and adds up the pages."""
    answers = given(
        Answer({"Count": 0, "LastEvaluatedKey": stored(OTHER)}),
        Answer({"Count": 7, "LastEvaluatedKey": stored(OTHER)}),
        Answer({"Count": 5}),
    )
    where = ItemFilter({"details.warrant_id": "svc_wrt_a"}, alive_at=5)
    assert store.count(Partition(Table.AUDIT, OTHER.pk), after="a", where=where) == 12
    assert len(answers.bodies) == 3
    for body in answers.bodies:
        assert (body["Select"], body["ConsistentRead"]) == ("COUNT", True)
        assert "svc_wrt_a" in json.dumps(body["ExpressionAttributeValues"])
        assert body["FilterExpression"].count(" AND ") == 1


def test_a_page_that_fails_fails_the_walk(given: Given, store: DynamoStore) -> None:
    """F23: a walk that breaks off raises, it does not just end."""
    first = {"Items": [stored(KEY)], "LastEvaluatedKey": stored(KEY)}
    given(Answer(first), error("InternalServerError", status=500))
    walk = store.query(PARTITION)
    assert next(walk).sk == KEY.sk
    with pytest.raises(Unavailable):
        next(walk)


def test_a_walk_asks_for_no_more_than_it_needs(given: Given, store: DynamoStore) -> None:
    """A limit reaches DynamoDB, with room for the ends of the range, and stops the walk."""
    keys = [PARTITION.address(sk) for sk in "abcd"]
    page = {"Items": [stored(key) for key in keys], "LastEvaluatedKey": stored(keys[3])}
    answers = given(Answer(page))
    assert [entry.sk for entry in store.query(PARTITION, after="a", before="z", limit=2)] == [
        "b",
        "c",
    ]
    (body,) = answers.bodies
    assert body["Limit"] == 4
    assert list(store.query(PARTITION, limit=0)) == []
    assert list(store.query(PARTITION, after="b", before="b")) == []
    assert len(answers.requests) == 1


@pytest.mark.parametrize(
    ("bounds", "used"),
    [
        ({}, {"#pk", ":pk"}),
        ({"after": "a"}, {"#pk", ":pk", "#sk", ":after"}),
        ({"before": "a"}, {"#pk", ":pk", "#sk", ":before"}),
        ({"after": "a", "before": "b"}, {"#pk", ":pk", "#sk", ":after", ":before"}),
    ],
)
def test_a_query_names_only_what_it_uses(
    given: Given, store: DynamoStore, bounds: dict[str, str], used: set[str]
) -> None:
    """DynamoDB refuses a request with a name or value that its expression does not use."""
    answers = given(NOTHING)
    list(store.query(PARTITION, after=bounds.get("after"), before=bounds.get("before")))
    (body,) = answers.bodies
    words = {word for word in body["KeyConditionExpression"].split() if word[0] in "#:"}
    assert {*body["ExpressionAttributeNames"], *body["ExpressionAttributeValues"]} == used
    assert words == used


@pytest.mark.parametrize(
    "attribute",
    [
        {"SS": ["a"]},
        {"NS": ["1"]},
        {"N": "1.5"},
        {"N": "1E3"},
        {"L": [{"BS": ["YQ=="]}]},
        {"M": {"a": {"N": "NaN"}}},
        {},
    ],
    ids=str,
)
def test_an_item_of_another_hand_is_corrupt(
    given: Given, store: DynamoStore, attribute: dict[str, Any]
) -> None:
    """F10: an attribute of a type that is never written is not guessed at, in any read."""
    found = stored(KEY, odd=attribute)
    given(
        Answer({"Item": found, "Items": [found], "Responses": {"a-keys": [found]}}),
    )
    for call in ("get", "get_many", "query", "column"):
        with pytest.raises(DataCorrupt):
            CALLS[call](store)


# --- writes ---

CHANGES = (
    Put(KEY, {"version": 2}, VersionIs(1)),
    Check(OTHER, Expect.PRESENT),
    Increment(PARTITION.address("counts"), {"n": 1}, Expect.PRESENT),
)
FAILED = "ConditionalCheckFailed"


def cancelled(*codes: str) -> Answer:
    reasons = [{"Code": code, "Message": "said by a test"} for code in codes]
    return error("TransactionCanceledException", CancellationReasons=reasons)


@pytest.mark.parametrize(
    ("codes", "lost"),
    [
        ((FAILED, "None", "None"), [0]),
        (("None", "None", FAILED), [2]),
        ((FAILED, FAILED, FAILED), [0, 1, 2]),
        (("TransactionConflict", FAILED, "None"), [1]),
        (("ThrottlingError", FAILED, "ProvisionedThroughputExceeded"), [1]),
    ],
)
def test_a_lost_expectation_is_a_conflict(
    given: Given, store: DynamoStore, codes: tuple[str, ...], lost: list[int]
) -> None:
    """OPS-1, F24b: A failed condition of a DynamoDB transaction raises `PreconditionFailed`."""
    answers = given(cancelled(*codes))
    with pytest.raises(PreconditionFailed) as caught:
        store.write(*CHANGES)
    assert caught.value.lost == tuple(CHANGES[number].address for number in lost)
    assert len(answers.requests) == 1


PASSING_REFUSALS: dict[str, Step] = {
    "conflict": cancelled("None", "TransactionConflict", "None"),
    "throttled": cancelled("ThrottlingError", "None", "None"),
    "no throughput": cancelled("None", "None", "ProvisionedThroughputExceeded"),
    "several": cancelled("TransactionConflict", "ThrottlingError", "None"),
    "no reasons": error("TransactionCanceledException"),
    "in progress": error("TransactionInProgressException"),
}


@pytest.mark.parametrize("name", PASSING_REFUSALS)
def test_contention_is_tried_again(
    given: Given, store: DynamoStore, fake_time: FakeTime, name: str
) -> None:
    """F24a: The DynamoDB adapter repeats a transaction that met contention or throttling."""
    refusals = [PASSING_REFUSALS[name]] * 4
    answers = given(*refusals, NOTHING)
    store.write(*CHANGES)
    assert len(answers.requests) == 5
    assert len({body["ClientRequestToken"] for body in answers.bodies}) == 1
    assert fake_time.slept


@pytest.mark.parametrize("name", PASSING_REFUSALS)
def test_lasting_contention_is_unavailable(
    given: Given, store: DynamoStore, fake_time: FakeTime, name: str
) -> None:
    """F24: at the deadline contention becomes `Unavailable`; it is never a `PreconditionFailed`."""
    given(PASSING_REFUSALS[name])
    with pytest.raises(Unavailable, match=r"\(TransactWriteItems: \w+Exception\)"):
        store.write(*CHANGES)
    assert 2 < sum(fake_time.slept) < 4


@pytest.mark.parametrize(
    "codes",
    [
        ("ValidationError", "None"),
        ("ValidationError", "ThrottlingError"),
        ("ItemCollectionSizeLimitExceeded", "None"),
        ("TransactionConflict", "ItemCollectionSizeLimitExceeded"),
    ],
)
def test_an_invalid_change_is_no_outage(
    given: Given, store: DynamoStore, codes: tuple[str, ...]
) -> None:
    """A change that can never succeed is not repeated, and not called an outage."""
    answers = given(cancelled(*codes))
    with pytest.raises(ClientError):
        store.write(*CHANGES)
    assert len(answers.requests) == 1


def test_a_lost_answer_is_asked_for_under_the_same_token(given: Given, store: DynamoStore) -> None:
    """F22d: The DynamoDB adapter repeats a write whose answer was lost under the same token."""
    lost, busy = ReadTimeoutError(endpoint_url=URL), error("TransactionInProgressException")
    # The client gives up after three attempts, and the store goes on.
    answers = given(lost, *[busy] * 3, NOTHING)
    store.write(Put(KEY, {}, Expect.ABSENT))
    first, *others = answers.bodies
    assert others == [first] * 4
    assert str(UUID(first["ClientRequestToken"])) == first["ClientRequestToken"]
