"""The queue on SQS."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING

from shared.adapters.aws import clients
from shared.adapters.aws.clients import Lazy, reject_truncated_responses, translating_errors
from shared.adapters.retries import PATIENCE, RetryPolicy
from shared.errors import Unavailable

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

_MOST_IN_A_BATCH = 10


def connect(*, region: str | None = None, endpoint_url: str | None = None) -> SQSClient:
    """Return a client. Both arguments default to the AWS settings of the process."""
    client: SQSClient = clients.connect("sqs", region=region, endpoint_url=endpoint_url)
    return client


class SqsQueue:
    """A `Queue` at the URL `url`. If a response is lost, its messages may be sent twice."""

    def __init__(
        self, connect: Callable[[], SQSClient], *, url: str, patience: RetryPolicy = PATIENCE
    ) -> None:
        self._client: Lazy[SQSClient] = Lazy(lambda: reject_truncated_responses(connect()))
        self._url = url
        self._patience = patience

    def send(self, messages: Iterable[str]) -> None:
        """Send the messages, ten per request. Raises `Unavailable`."""
        unsent = iter(messages)
        while batch := list(islice(unsent, _MOST_IN_A_BATCH)):
            pending: dict[str, SendMessageBatchRequestEntryTypeDef] = {
                str(number): {"Id": str(number), "MessageBody": message}
                for number, message in enumerate(batch)
            }
            for _ in self._patience.attempts():
                with translating_errors():
                    answer = self._client().send_message_batch(
                        QueueUrl=self._url, Entries=list(pending.values())
                    )
                # A message that the response does not list as successful was not sent.
                for sent in answer.get("Successful", ()):
                    pending.pop(sent["Id"], None)
                if not pending:
                    break
            else:
                raise Unavailable
