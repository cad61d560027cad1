"""The queue on SQS, where SQS fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ReadTimeoutError

from shared.adapters.aws import sqs
from shared.adapters.aws.sqs import SqsQueue
from shared.errors import InvalidSettings, Unavailable
from tests.adapters import outages
from tests.adapters.answers import Answer, Answers, FakeTime, Step, error
from tests.kit.aws import pretend_credentials

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

URL = "https://sqs.example.invalid/123456789012/a-queue"
LOST = ReadTimeoutError(endpoint_url=outages.URL)
OUTAGES: dict[str, Step] = outages.OUTAGES | {
    "no such queue": error("QueueDoesNotExist"),
    "key disabled": error("KmsDisabled"),
    "throttled its own way": error("RequestThrottled", status=403),
    "too many in flight": error("OverLimit", status=403),
}


@pytest.fixture
def sqs_client(cloud: None) -> Iterator[SQSClient]:
    client = sqs.connect()
    yield client
    client.close()


@pytest.fixture
def queue(sqs_client: SQSClient, fake_time: FakeTime) -> SqsQueue:
    return SqsQueue(lambda: sqs_client, url=URL, patience=fake_time.patience())


def batch(*taken: int, failed: tuple[int, ...] = (), sender: bool = False) -> Answer:
    """What SQS says of a batch: which entries it took, and which not."""
    successful = [
        {"Id": str(number), "MessageId": f"m{number}", "MD5OfMessageBody": "0" * 32}
        for number in taken
    ]
    refused = [
        {"Id": str(number), "SenderFault": sender, "Code": "InternalError"} for number in failed
    ]
    body: dict[str, Any] = {"Successful": successful} if successful else {}
    return Answer(body | ({"Failed": refused} if refused else {}))


def sent(answers: Answers) -> list[list[str]]:
    """The messages of each request."""
    return [[entry["MessageBody"] for entry in body["Entries"]] for body in answers.bodies]


@pytest.mark.parametrize("outage", OUTAGES)
def test_an_outage_is_unavailable(sqs_client: SQSClient, queue: SqsQueue, outage: str) -> None:
    """F26: whatever is no answer is `Unavailable`, in words that name nothing of ours."""
    Answers(sqs_client, OUTAGES[outage])
    with pytest.raises(Unavailable) as caught:
        queue.send(["a"])
    assert type(caught.value) is Unavailable
    assert "a-queue" not in str(caught.value)


def test_a_lost_answer_sends_again(sqs_client: SQSClient, queue: SqsQueue) -> None:
    """F22: not knowing is not having sent; that some are delivered twice is what readers expect."""
    answers = Answers(sqs_client, LOST, batch(0))
    queue.send(["a"])
    assert sent(answers) == [["a"], ["a"]]


def test_ten_go_in_a_request(sqs_client: SQSClient, queue: SqsQueue) -> None:
    """SQS takes no more at once; each batch goes once, to the queue that was named."""
    answers = Answers(sqs_client, batch(*range(10)), batch(*range(10)), batch(0))
    messages = [f"m{number}" for number in range(21)]
    queue.send(messages)
    assert sent(answers) == [messages[:10], messages[10:20], messages[20:]]
    assert {body["QueueUrl"] for body in answers.bodies} == {URL}


def test_only_what_was_not_taken_goes_again(
    sqs_client: SQSClient, queue: SqsQueue, fake_time: FakeTime
) -> None:
    """F23: entries that failed, or of which nothing was said, are sent again, and no others."""
    answers = Answers(sqs_client, batch(0, 3, failed=(1,)), batch(2, failed=(1,)), batch(1))
    queue.send(["a", "b", "c", "d"])
    assert sent(answers) == [["a", "b", "c", "d"], ["b", "c"], ["b"]]
    assert len(fake_time.slept) == 2


@pytest.mark.parametrize(
    "answer",
    [
        batch(0, failed=(1,)),
        batch(0, failed=(1,), sender=True),
        batch(0),
        batch(),
        batch(0, 7),
    ],
    ids=["failed", "refused", "not said", "nothing said", "another said"],
)
def test_what_is_never_taken_is_unavailable(
    sqs_client: SQSClient, queue: SqsQueue, fake_time: FakeTime, answer: Answer
) -> None:
    """F23: at the deadline, a message that was not taken is an outage, never passed over."""
    answers = Answers(sqs_client, answer)
    with pytest.raises(Unavailable):
        queue.send(["a", "b"])
    assert sent(answers)[-1][-1] == "b"
    assert 2 < sum(fake_time.slept) < 4


def test_a_missing_region_is_a_wrong_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a region there is no queue, and the message says what to set."""
    pretend_credentials(monkeypatch)
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(InvalidSettings, match="AWS_DEFAULT_REGION"):
        sqs.connect()
