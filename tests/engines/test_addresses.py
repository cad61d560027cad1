"""Presigned addresses at servers that check them, as S3 and Azure do and moto does not."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import pytest
import requests
from botocore.session import get_session

from shared.adapters.aws import clients, s3
from shared.adapters.aws.s3 import S3Blobs
from shared.adapters.azure.blobs import AzureBlobs
from shared.ports.blobs import BlobStore
from tests.engines.clouds import container
from tests.engines.programs import azurite, ministack, s3rver
from tests.kit.aws import REGION
from tests.kit.waiting import soon

NAME = "srl/t1/1.json"
OTHER = "srl/t2/1.json"
BUCKET = "a-bucket"
SERVERS = {"ministack": ministack, "s3rver": s3rver, "Azurite": azurite}

pytestmark = pytest.mark.slow


@contextmanager
def _blobs(server: str, folder: Path) -> Iterator[BlobStore]:
    with pytest.MonkeyPatch.context() as environment, SERVERS[server](folder) as settings:
        for name, value in settings.items():
            environment.setenv(name, value)
        opened = _azure() if server == "Azurite" else _s3(settings, environment)
        with opened as blobs:
            for name in (NAME, OTHER):
                blobs.put(name, name.encode())
            yield blobs


@contextmanager
def _azure() -> Iterator[BlobStore]:
    with container() as location:
        yield AzureBlobs(location)


@contextmanager
def _s3(settings: dict[str, str], environment: pytest.MonkeyPatch) -> Iterator[BlobStore]:
    # The session in use may hold the credentials of another test.
    environment.setattr(clients, "_session", get_session)
    client = s3.connect(endpoint_url=settings["RESCIND_TEST_S3_ENDPOINT"])
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    yield S3Blobs(lambda: client, bucket=BUCKET)
    client.close()


@pytest.fixture(params=SERVERS)
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlobStore]:
    with _blobs(request.param, tmp_path) as blobs:
        yield blobs


def altered(url: str, **changes: str) -> str:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query)) | changes
    return urlunsplit(parts._replace(query=urlencode(query)))


def test_an_address_comes_to_an_end(blobs: BlobStore) -> None:
    """F27: whoever has the address needs nothing else, until its seconds are over."""
    assert requests.get(blobs.url(NAME, ttl_seconds=300), timeout=5).content == NAME.encode()
    url = blobs.url(NAME, ttl_seconds=1)
    soon(lambda: requests.get(url, timeout=5).status_code == HTTPStatus.FORBIDDEN, seconds=30)
    assert blobs.get(NAME) == NAME.encode()


@pytest.mark.parametrize(
    ("server", "longer", "signature"),
    [
        ("ministack", {"X-Amz-Expires": "3000"}, {"X-Amz-Signature": "0" * 64}),
        ("Azurite", {"se": "2199-01-01T00:00:00Z"}, {"sig": "A" * 43 + "="}),
    ],
)
def test_an_address_opens_nothing_else(
    server: str, longer: dict[str, str], signature: dict[str, str], tmp_path: Path
) -> None:
    """F12: an address with another name, a longer life or another signature is refused."""
    with _blobs(server, tmp_path) as blobs:
        url = blobs.url(NAME, ttl_seconds=300)
        assert requests.get(altered(url), timeout=5).status_code == HTTPStatus.OK
        for other in (url.replace(NAME, OTHER), altered(url, **longer), altered(url, **signature)):
            assert requests.get(other, timeout=5).status_code == HTTPStatus.FORBIDDEN, other
