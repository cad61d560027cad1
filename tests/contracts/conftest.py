"""Every adapter of every port, so that one suite holds all of them to the same promises.

With SVC_TEST_DYNAMODB_ENDPOINT set to the address of a DynamoDB, say of an emulator, the store's
suite runs there too.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from shared.adapters import dynamodb
from shared.adapters.dynamodb import DynamoStore
from shared.adapters.filesystem import FileBlobs
from shared.adapters.kms import KmsKeys
from shared.adapters.local_keys import KeyFile
from shared.adapters.s3 import S3Blobs
from shared.adapters.sqlite import SqliteStore
from shared.ports.blobs import BlobStore
from shared.ports.key_wrapper import KeyWrapper
from shared.ports.store import Store
from tests.aws import aws, create_tables, pretend_credentials, table_prefix

ENDPOINT = os.environ.get("SVC_TEST_DYNAMODB_ENDPOINT")

# moto forgets write tokens, and two of its transactions can interleave.
EXACT = ["sqlite-memory", "sqlite-file", *(["dynamodb-endpoint"] if ENDPOINT else [])]


@contextmanager
def _store_at_endpoint() -> Iterator[Store]:
    with pytest.MonkeyPatch.context() as environment:
        pretend_credentials(environment)
        client = dynamodb.connect(endpoint_url=ENDPOINT)
        stage = f"t{uuid.uuid4().hex[:12]}"
        create_tables(client, stage=stage)
        yield DynamoStore(client, table_prefix=table_prefix(stage))
        client.close()


@contextmanager
def _open_store(kind: str, folder: Path) -> Iterator[Store]:
    if kind == "dynamodb-endpoint":
        with _store_at_endpoint() as store:
            yield store
    elif kind == "dynamodb":
        with aws() as account:
            yield DynamoStore(account.dynamodb, table_prefix=account.table_prefix)
    else:
        path = ":memory:" if kind == "sqlite-memory" else str(folder / "store.db")
        with closing(SqliteStore(path)) as sqlite:
            yield sqlite


@pytest.fixture(params=["dynamodb", *EXACT])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with _open_store(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture(params=EXACT)
def exact_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store on an engine that remembers tokens and can be used by many threads."""
    with _open_store(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture(params=["filesystem", "s3"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlobStore]:
    if request.param == "filesystem":
        yield FileBlobs(tmp_path / "blobs")
    else:
        with aws() as account:
            yield S3Blobs(account.s3, bucket=account.bucket)


@pytest.fixture
def follow(blobs: BlobStore) -> Callable[[str], bytes | None]:
    """Fetch an address as whoever was given it would."""

    def follow(url: str) -> bytes | None:
        if not isinstance(blobs, FileBlobs):
            return requests.get(url, timeout=5).content
        parts = urlsplit(url)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        return blobs.open_url(parts.path.removeprefix("/blobs/"), **asked)

    return follow


@pytest.fixture(params=["key-file", "kms"], scope="module")  # wrappers keep nothing
def keys(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KeyWrapper]:
    if request.param == "key-file":
        yield KeyFile.create(tmp_path_factory.mktemp("keys") / "master.key")
    else:
        with aws() as account:
            yield KmsKeys(account.kms, key_id=account.key_id)
