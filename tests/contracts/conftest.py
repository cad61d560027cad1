"""Every adapter of every port, so that one suite holds all of them to the same promises.

Environment variables add real services or emulators, by their address:

- RESCIND_TEST_DYNAMODB_ENDPOINT for the store and the token buckets
- RESCIND_TEST_S3_ENDPOINT for the blobs
- RESCIND_TEST_KMS_ENDPOINT for the key wrapper
- RESCIND_TEST_SQS_ENDPOINT for the queue
- RESCIND_TEST_VAULT_ENDPOINT for the key wrapper, with a token in the file VAULT_TOKEN_FILE
- RESCIND_TEST_AZURE_ENDPOINT and AZURE_STORAGE_ACCOUNT_KEY for the blobs
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from shared.adapters.aws import sqs
from shared.adapters.aws.dynamodb import DynamoStore
from shared.adapters.aws.dynamodb_buckets import DynamoBuckets, DynamoUsage
from shared.adapters.aws.kms import KmsRoot, KmsSealer
from shared.adapters.aws.s3 import S3Blobs
from shared.adapters.aws.sqs import SqsQueue
from shared.adapters.azure.blobs import AzureBlobs
from shared.adapters.local.file_root import FileRoot
from shared.adapters.local.file_sealer import FileSealer
from shared.adapters.local.filesystem import FileBlobs
from shared.adapters.local.sqlite import SqliteStore
from shared.adapters.local.sqlite_buckets import SqliteBuckets
from shared.adapters.pkcs11.root import Pkcs11Root
from shared.adapters.pkcs11.uri import Pkcs11Uri
from shared.adapters.postgresql.blobs import PostgresqlBlobs
from shared.adapters.postgresql.buckets import PostgresqlBuckets
from shared.adapters.postgresql.database import PostgresqlDatabase
from shared.adapters.postgresql.store import PostgresqlStore
from shared.adapters.stored_usage import StoreUsageCounts
from shared.ports.blobs import BlobStore
from shared.ports.one_machine import LinkedBlobs
from shared.ports.outside import KeyWrapper, MessageQueue, RootSigner
from shared.ports.store import Store
from shared.ports.token_buckets import TokenBuckets, UsageCounts
from shared.settings import uses_prepared_statements
from tests.engines.clouds import address, cloud, container, sealer, transit
from tests.kit import postgresql
from tests.kit.aws import aws
from tests.kit.hsm import needs_softhsm, softhsm
from tests.world.memory import Records

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient


def _endpoint(service: str) -> list[str]:
    """The parameter for an engine at an address of its own, where there is one."""
    return [f"{service}-endpoint"] if address(service) else []


# Two transactions of moto can interleave.
EXACT = ["sqlite-memory", "sqlite-file", "postgresql", *_endpoint("dynamodb")]


@contextmanager
def _tables(kind: str) -> Iterator[tuple[DynamoDBClient, str]]:
    """A client, and what the names of its tables begin with."""
    if kind == "dynamodb":
        with aws() as account:
            yield account.dynamodb, account.table_prefix
    else:
        with cloud().tables() as prefix:
            yield cloud().dynamodb, prefix


@contextmanager
def _postgresql() -> Iterator[PostgresqlDatabase]:
    with closing(
        PostgresqlDatabase(postgresql.emptied(), prepare=uses_prepared_statements(os.environ))
    ) as database:
        yield database


def _place(kind: str, folder: Path) -> str:
    """Where SQLite has its data."""
    return ":memory:" if kind == "sqlite-memory" else str(folder / "store.db")


@contextmanager
def _store(kind: str, folder: Path) -> Iterator[Store]:
    if kind.startswith("dynamodb"):
        with _tables(kind) as (client, prefix):
            yield DynamoStore(client, table_prefix=prefix)
    elif kind == "postgresql":
        with _postgresql() as database:
            yield PostgresqlStore(database)
    elif kind == "world":
        yield Records()
    else:
        with closing(SqliteStore(_place(kind, folder))) as opened:
            yield opened


@contextmanager
def _buckets(kind: str, folder: Path) -> Iterator[TokenBuckets]:
    if kind.startswith("dynamodb"):
        with _tables(kind) as (client, prefix):
            yield DynamoBuckets(client, table_prefix=prefix)
    elif kind == "postgresql":
        with _postgresql() as database:
            yield PostgresqlBuckets(database)
    else:
        with closing(SqliteBuckets(_place(kind, folder))) as opened:
            yield opened


@pytest.fixture(params=["dynamodb", *EXACT, "world"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with _store(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture(params=EXACT)
def exact_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store on an engine that can be used by many threads."""
    with _store(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture(params=["dynamodb", *EXACT])
def buckets(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TokenBuckets]:
    with _buckets(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture(params=EXACT)
def exact_buckets(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TokenBuckets]:
    """Buckets on an engine that can be used by many threads."""
    with _buckets(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture(params=["dynamodb", *EXACT])
def usage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[UsageCounts, Store]]:
    """Usage counts, and the store that they are in."""
    if request.param.startswith("dynamodb"):
        with _tables(request.param) as (client, prefix):
            yield DynamoUsage(client, table_prefix=prefix), DynamoStore(client, table_prefix=prefix)
    else:
        with _store(request.param, tmp_path) as opened:
            yield StoreUsageCounts(opened), opened


@pytest.fixture(params=["filesystem", "postgresql", "s3", *_endpoint("s3"), *_endpoint("azure")])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlobStore]:
    if request.param == "filesystem":
        yield FileBlobs(tmp_path / "blobs")
    elif request.param == "postgresql":
        with _postgresql() as database:
            yield PostgresqlBlobs(database)
    elif request.param == "s3":
        with aws() as account:
            yield S3Blobs(lambda: account.s3, bucket=account.bucket)
    elif request.param == "azure-endpoint":
        with container() as location:
            yield AzureBlobs(location)
    else:
        with cloud().bucket() as bucket:
            yield S3Blobs(lambda: cloud().s3, bucket=bucket)


@pytest.fixture
def follow(blobs: BlobStore) -> Callable[[str], bytes | None]:
    """Fetch an address as whoever was given it would."""

    def follow(url: str) -> bytes | None:
        if not isinstance(blobs, LinkedBlobs):
            return requests.get(url, timeout=60).content
        parts = urlsplit(url)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        found = blobs.open_url(parts.path.removeprefix("/blobs/"), **asked)
        return found.read_bytes() if isinstance(found, Path) else found

    return follow


# Wrappers keep nothing.
@pytest.fixture(params=["key-file", "kms", *_endpoint("kms"), *_endpoint("vault")], scope="module")
def keys(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KeyWrapper]:
    if request.param == "key-file":
        yield FileSealer.create(tmp_path_factory.mktemp("keys") / "master.key")
    elif request.param == "kms":
        with aws() as account:
            yield KmsSealer(lambda: account.kms, key_id=account.key_id)
    elif request.param == "vault-endpoint":
        with transit() as location:
            yield sealer(location)
    else:
        with cloud().key() as key_id:
            yield KmsSealer(lambda: cloud().kms, key_id=key_id)


@pytest.fixture(
    params=[
        "root-file",
        "root-passphrase",
        pytest.param("root-hsm", marks=needs_softhsm),
        *_endpoint("kms"),
    ],
    scope="module",
)
def root(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RootSigner]:
    folder = tmp_path_factory.mktemp("roots")
    if request.param == "root-file":
        yield FileRoot.create(folder / "root.key")
    elif request.param == "root-passphrase":
        yield FileRoot.create(folder / "root.key", passphrase=b"open sesame")
    elif request.param == "root-hsm":
        with softhsm(folder / "hsm") as hsm:
            yield Pkcs11Root(Pkcs11Uri.parse(hsm.add("root").removeprefix("pkcs11:")))
    else:
        with cloud().key(KeySpec="ECC_NIST_EDWARDS25519", KeyUsage="SIGN_VERIFY") as key_id:
            yield KmsRoot(lambda: cloud().kms, key_id=key_id)


@pytest.fixture(params=["sqs", *_endpoint("sqs")])
def mailbox(request: pytest.FixtureRequest) -> Iterator[tuple[SQSClient, str]]:
    """A client, and the address of a queue of its own."""
    if request.param == "sqs":
        with aws(), closing(sqs.connect()) as client:
            yield client, client.create_queue(QueueName=uuid.uuid4().hex)["QueueUrl"]
    else:
        with cloud().queue() as url:
            yield cloud().sqs, url


@pytest.fixture
def queue(mailbox: tuple[SQSClient, str]) -> MessageQueue:
    client, url = mailbox
    return SqsQueue(lambda: client, url=url)


@pytest.fixture
def delivered(mailbox: tuple[SQSClient, str]) -> Callable[[], Counter[str]]:
    """Take from the queue all that is in it."""
    client, url = mailbox

    def delivered() -> Counter[str]:
        bodies: Counter[str] = Counter()
        while messages := client.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=0
        ).get("Messages"):
            bodies.update(message["Body"] for message in messages)
        return bodies

    return delivered
