"""A cloud that is not there, and retries that do not wait."""

import time
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from shared.adapters.aws import dynamodb, kms, s3
from tests.adapters.answers import Answers, FakeTime, Given
from tests.kit.aws import pretend_credentials

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kms import KMSClient
    from mypy_boto3_s3 import S3Client


@pytest.fixture
def fake_time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretended credentials, and a botocore that retries at once."""
    pretend_credentials(monkeypatch)
    at_once = SimpleNamespace(sleep=lambda _: None, time=time.time)
    monkeypatch.setattr("botocore.endpoint.time", at_once)


@pytest.fixture
def dynamodb_client(cloud: None) -> "Iterator[DynamoDBClient]":
    client = dynamodb.connect()
    yield client
    client.close()


@pytest.fixture
def given(dynamodb_client: "DynamoDBClient") -> Given:
    """What DynamoDB answers."""
    return partial(Answers, dynamodb_client)


@pytest.fixture
def s3_client(cloud: None) -> "Iterator[S3Client]":
    client = s3.connect()
    yield client
    client.close()


@pytest.fixture
def kms_client(cloud: None) -> "Iterator[KMSClient]":
    client = kms.connect()
    yield client
    client.close()
