"""Reading a long list from DynamoDB: what our adapter adds to the SDK that it stands on.

The pages come from memory, at the place where the SDK would send its requests.
"""

import binascii
import json
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from shared.adapters.dynamodb import DynamoStore
from shared.adapters.dynamodb_items import Attribute, encode_address, encode_item
from shared.model import identifiers, revocations
from shared.model.revocations import RevokedWarrant
from tests.adapters.answers import Answer
from tests.bench.measure import alternate, timed
from tests.bench.report import NotMeasured, Row, compared
from tests.bench.revoked import warrant_ids
from tests.worlds import Clock

# Where DynamoDB ends a page, counting items as they are stored, not as they are asked for.
_PAGE_BYTES = 1024 * 1024
_PREFIX = "bench-"
_SHARD = revocations.shards("svc_tnt_01kah0m4v0x3q8d7c5b2a1f9e6")[0]


def run(*, pages: int = 3, page_bytes: int = _PAGE_BYTES, rounds: int = 15) -> Iterator[Row]:
    """The cost of an item that a publication reads, beside the SDK's own."""
    items = list(islice(_items(), page_bytes // _stored_size(next(_items()))))
    last = {"Items": items, "Count": len(items), "ScannedCount": len(items)}
    bodies = [last | {"LastEvaluatedKey": encode_address(_SHARD.address("next"))}] * (pages - 1) + [
        last
    ]
    answers = [_answer(json.dumps(body).encode()) for body in bodies]
    ours, plain = _Service(answers), _Service(answers)
    with ours.client() as adapted, plain.client() as alone:
        figures = alternate(
            timed(lambda: _through_the_adapter(adapted), clock=time.process_time),
            timed(lambda: _plain(alone), clock=time.process_time),
            rounds=rounds,
        )
    if (ours.asked, plain.asked) != (pages * rounds,) * 2:
        raise NotMeasured(f"{ours.asked} pages were read beside {plain.asked}")
    unit = ("µs CPU", 1e6 / (pages * len(items)))
    name, against = "read of one item of 1 MB pages from DynamoDB", "client.query alone"
    yield compared(name, figures[0], against, figures[1], unit=unit, goal="≤ 1.2")


def _through_the_adapter(client: Any) -> None:
    store = DynamoStore(client, table_prefix=_PREFIX)
    start = identifiers.BEFORE_WARRANT_IDS
    deque(store.column(_SHARD, "ends_at", after=start), maxlen=0)


def _plain(client: Any) -> None:
    request: dict[str, Any] = {
        "TableName": f"{_PREFIX}{_SHARD.table}",
        "ConsistentRead": True,
        "KeyConditionExpression": "pk = :pk AND sk > :after",
        "ProjectionExpression": "sk, expires_at",
        "ExpressionAttributeValues": {
            ":pk": {"S": _SHARD.pk},
            ":after": {"S": identifiers.BEFORE_WARRANT_IDS},
        },
    }
    while True:
        page = client.query(**request)
        deque(page["Items"], maxlen=0)
        if "LastEvaluatedKey" not in page:
            return
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def _items() -> Iterator[dict[str, Attribute]]:
    """Revoked warrants as the projection leaves them, every second with an expiry."""
    expiring = encode_item(RevokedWarrant(Clock().moment).to_item())
    for number, warrant_id in enumerate(warrant_ids()):
        yield {"sk": {"S": warrant_id}} | (expiring if number % 2 == 0 else {})


def _stored_size(item: dict[str, Attribute]) -> int:
    whole = encode_address(_SHARD.address("")) | item
    return sum(len(name) + len(value["S"]) for name, value in whole.items())


def _answer(body: bytes) -> Answer:
    """What DynamoDB would send; both sides look at the checksum."""
    return Answer(body, headers={"x-amz-crc32": str(binascii.crc32(body))})


@dataclass
class _Service:
    """Gives the same answers again and again, and counts them."""

    answers: Sequence[Answer]
    asked: int = 0

    @contextmanager
    def client(self) -> Iterator[Any]:
        """A client as the adapter has it, whose requests come here."""
        client: Any = boto3.client(
            "dynamodb",
            region_name="eu-west-1",
            aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
            aws_secret_access_key="pretended",
        )
        client.meta.events.register_first("before-send", self._answer)
        with closing(client):
            yield client

    def _answer(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        answer = self.answers[self.asked % len(self.answers)]
        self.asked += 1
        return answer.to(request)
