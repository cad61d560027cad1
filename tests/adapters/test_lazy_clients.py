"""Clients that are made when they are first used."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shared.adapters.aws.clients import Lazy
from shared.adapters.aws.kms import KmsSealer
from shared.adapters.aws.s3 import S3Blobs
from shared.adapters.aws.sqs import SqsQueue


def test_a_client_is_made_at_its_first_use_and_once() -> None:
    """Threads that come at the same time get one and the same client."""
    made: list[object] = []
    start = threading.Barrier(8)

    def connect() -> object:
        made.append(object())
        return made[-1]

    client = Lazy(connect)
    assert made == []

    def use(_number: int) -> object:
        start.wait()
        return client()

    with ThreadPoolExecutor(8) as pool:
        used = list(pool.map(use, range(8)))
    assert len(made) == 1
    assert set(used) == set(made)


def _fail() -> Any:
    raise AttributeError("a fault while the client is made")


@pytest.mark.parametrize(
    "call",
    [
        lambda: S3Blobs(_fail, bucket="b").get("name"),
        lambda: KmsSealer(_fail, key_id="k").seal(b"seed", context={"tenant": "t"}),
        lambda: SqsQueue(_fail, url="u").send(["message"]),
    ],
    ids=["S3", "KMS", "SQS"],
)
def test_a_fault_while_a_client_is_made_is_raised(call: Callable[[], object]) -> None:
    """F38a: An error during the creation of an AWS client is raised and blocks nothing."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 (compared below)
            raised.append(error)

    # A daemon, so that a thread that hangs does not hold up the end of the run.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout=10)
    assert [type(error) for error in raised] == [AttributeError]
