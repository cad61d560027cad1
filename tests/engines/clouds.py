"""A cloud at the addresses that the environment names, service by service.

    RESCIND_TEST_DYNAMODB_ENDPOINT  RESCIND_TEST_S3_ENDPOINT
    RESCIND_TEST_KMS_ENDPOINT  RESCIND_TEST_SQS_ENDPOINT
    RESCIND_TEST_VAULT_ENDPOINT, with the token in the file that VAULT_TOKEN_FILE names
    RESCIND_TEST_AZURE_ENDPOINT, of an account with the key AZURE_STORAGE_ACCOUNT_KEY

What a test makes there has a name of its own, and is gone at its end.
"""

from __future__ import annotations

import base64
import hmac
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import pytest
import requests
from botocore.session import get_session

from shared.adapters.aws import clients, dynamodb, kms, s3, sqs
from shared.adapters.vault.sealer import VaultSealer
from tests.kit.aws import create_tables, pretend_credentials, stack, table_prefix

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kms import KMSClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

_Client = TypeVar("_Client")
_FEWEST_DAYS: Final = 7


def address(service: str) -> str | None:
    """Where the environment says that the service is."""
    return os.environ.get(f"RESCIND_TEST_{service.upper()}_ENDPOINT")


class Cloud:
    """Clients, made once, and what a test needs of each service."""

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        return self._connect("dynamodb", dynamodb.connect)

    @cached_property
    def s3(self) -> S3Client:
        return self._connect("s3", s3.connect)

    @cached_property
    def kms(self) -> KMSClient:
        return self._connect("kms", kms.connect)

    @cached_property
    def sqs(self) -> SQSClient:
        return self._connect("sqs", sqs.connect)

    @contextmanager
    def tables(self) -> Iterator[str]:
        """The stack's tables, by what their names begin with."""
        stage = _name()
        create_tables(self.dynamodb, stage=stage)
        yield table_prefix(stage)
        for resource in stack(stage).values():
            if resource["Type"] == "AWS::DynamoDB::Table":
                self.dynamodb.delete_table(TableName=resource["Properties"]["TableName"])

    @contextmanager
    def bucket(self) -> Iterator[str]:
        """A bucket, by its name."""
        name = f"rescind-{_name()}"
        place: Any = {"LocationConstraint": self.s3.meta.region_name}
        self.s3.create_bucket(Bucket=name, CreateBucketConfiguration=place)
        yield name
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=name)
        for found in (each for page in pages for each in page.get("Contents", ())):
            self.s3.delete_object(Bucket=name, Key=found["Key"])
        self.s3.delete_bucket(Bucket=name)

    @contextmanager
    def key(self, **options: Any) -> Iterator[str]:
        """A key, by its identifier."""
        key_id = self.kms.create_key(**options)["KeyMetadata"]["KeyId"]
        yield key_id
        self.kms.schedule_key_deletion(KeyId=key_id, PendingWindowInDays=_FEWEST_DAYS)

    @contextmanager
    def queue(self) -> Iterator[str]:
        """A queue, by its address."""
        url = self.sqs.create_queue(QueueName=_name())["QueueUrl"]
        yield url
        self.sqs.delete_queue(QueueUrl=url)

    def _connect(self, service: str, connect: Callable[..., _Client]) -> _Client:
        """A client that signs as whoever runs the tests, where that is anybody."""
        with pytest.MonkeyPatch.context() as environment:
            if not {"AWS_ACCESS_KEY_ID", "AWS_PROFILE"} & os.environ.keys():
                pretend_credentials(environment)
            # The session in use may hold the credentials of another test.
            environment.setattr(clients, "_session", get_session)
            return connect(endpoint_url=address(service))


@contextmanager
def transit() -> Iterator[str]:
    """A key of a mount that is new in a Vault or OpenBao, by its location."""
    mount, token = _name(), Path(os.environ["VAULT_TOKEN_FILE"]).read_text(encoding="ascii")

    def call(method: str, path: str, **body: str) -> None:
        url, headers = f"{address('vault')}/v1/{path}", {"X-Vault-Token": token.strip()}
        requests.request(method, url, headers=headers, json=body, timeout=10).raise_for_status()

    call("POST", f"sys/mounts/{mount}", type="transit")
    call("POST", f"{mount}/keys/rescind", type="aes256-gcm96")
    yield f"{mount}/rescind"
    call("DELETE", f"sys/mounts/{mount}")


@contextmanager
def container() -> Iterator[str]:
    """A container in an Azure storage account, by its location."""
    at, name = str(address("azure")), _name()
    found = urlsplit(at)
    # An emulator has the account in the path.
    account = found.path.strip("/") or str(found.hostname).partition(".")[0]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AZURE_STORAGE_ENDPOINT", at)
        _azure("PUT", f"{at}/{name}", account)
        yield f"{account}/{name}"
        _azure("DELETE", f"{at}/{name}", account)


def _azure(method: str, url: str, account: str) -> None:
    """Make or remove a container, which obstore cannot."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
    named = [f"{name}:{value}" for name, value in headers.items()]
    # Eleven headers that it has not.
    text = [method, *[""] * 11, *named, f"/{account}{urlsplit(url).path}", "restype:container"]
    key = base64.b64decode(os.environ["AZURE_STORAGE_ACCOUNT_KEY"])
    signed = base64.b64encode(hmac.digest(key, "\n".join(text).encode(), "sha256")).decode()
    headers["Authorization"] = f"SharedKey {account}:{signed}"
    asked = {"restype": "container"}
    requests.request(method, url, params=asked, headers=headers, timeout=10).raise_for_status()


def sealer(location: str) -> VaultSealer:
    """Seals made with the key."""
    return VaultSealer(location, os.environ | {"VAULT_ADDR": str(address("vault"))})


@cache
def cloud() -> Cloud:
    """The one cloud of this process."""
    return Cloud()


def _name() -> str:
    return f"t{uuid.uuid4().hex[:12]}"
