"""From settings to ports: the one place that chooses adapters, and the only one to import them.

Each adapter is imported where it is chosen: a function on AWS loads no SQLite, a server on one
machine no SDK.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast

from ulid import LaxMonotonicPolicy, ULIDGenerator

from shared.errors import InvalidSettings, Unavailable
from shared.ports import Ports
from shared.ports.blobs import BlobStore
from shared.ports.key_wrapper import KeyWrapper
from shared.ports.queue import Queue
from shared.ports.store import Store
from shared.ports.together import Together, in_turn
from shared.ports.token_buckets import TokenBuckets
from shared.settings import Network, Place, Settings
from shared.settings import trusted_proxies as load_trusted_proxies

T = TypeVar("T")


@cache
def from_environment() -> Ports:
    """The ports of this process, built on first use. Raises `InvalidSettings`."""
    return build(Settings.load(os.environ))


@cache
def queue_from_environment() -> Queue:
    """The queue between the schedule and those who publish. Raises `InvalidSettings`."""
    place = Settings.load(os.environ).queue
    if place is None:
        raise InvalidSettings(["SVC_QUEUE is not set; set it to sqs:…"])
    return _later(lambda: _sqs(place.location))


@cache
def trusted_proxies() -> tuple[Network, ...]:
    """The networks whose X-Forwarded-For this process believes. Raises `InvalidSettings`."""
    return load_trusted_proxies(os.environ)


def build(settings: Settings) -> Ports:
    """The ports that the settings name. Raises `InvalidSettings` where a place cannot be used."""
    # First the keys: without them nothing else is to be made.
    keys = _keys(settings.keys)
    with ExitStack() as opened:
        with _naming("SVC_STORE", settings.store):
            store, buckets, together = _store(settings.store, opened)
        with _naming("SVC_BLOBS", settings.blobs):
            blobs = _blobs(settings.blobs)
        return Ports(
            store=store,
            buckets=buckets,
            blobs=blobs,
            keys=keys,
            now=now,
            new_id=identifiers(now),
            together=together,
            close=opened.pop_all().close,
        )


def now() -> datetime:
    """The present time, in UTC."""
    return datetime.now(UTC)


def identifiers(clock: Callable[[], datetime]) -> Callable[[str], str]:
    """A maker of identifiers; those of one maker sort by creation, whatever the clock does."""
    ulids = ULIDGenerator(policy=LaxMonotonicPolicy())
    lock = Lock()
    latest = datetime.min.replace(tzinfo=UTC)

    def new_id(kind: str) -> str:
        nonlocal latest
        with lock:
            latest = max(latest, clock())
            return f"svc_{kind}_{str(ulids.generate(latest)).lower()}"

    return new_id


@contextmanager
def _naming(setting: str, place: Place) -> Iterator[None]:
    try:
        yield
    except Unavailable as error:
        raise InvalidSettings(
            [f"{setting}: {place.location} cannot be opened: {error.__cause__ or error}"]
        ) from error


def _store(place: Place, opened: ExitStack) -> tuple[Store, TokenBuckets, Together]:
    if place.scheme == "dynamodb":
        from shared.adapters import dynamodb, dynamodb_buckets, threads

        client = opened.enter_context(closing(dynamodb.connect()))
        return (
            dynamodb.DynamoStore(client, table_prefix=place.location),
            dynamodb_buckets.DynamoBuckets(client, table_prefix=place.location),
            threads.AtOnce(),
        )
    from shared.adapters import sqlite, sqlite_buckets

    return (
        opened.enter_context(closing(sqlite.SqliteStore(place.location))),
        opened.enter_context(closing(sqlite_buckets.SqliteBuckets(place.location))),
        in_turn,
    )


def _blobs(place: Place) -> BlobStore:
    if place.scheme == "s3":
        return _later(lambda: _s3(place.location))
    from shared.adapters import filesystem

    return filesystem.FileBlobs(Path(place.location))


def _keys(place: Place) -> KeyWrapper:
    if place.scheme == "kms":
        return _later(lambda: _kms(place.location))
    from shared.adapters import local_keys

    return local_keys.KeyFile(Path(place.location))


def _s3(bucket: str) -> BlobStore:
    from shared.adapters import s3

    return s3.S3Blobs(s3.connect(), bucket=bucket)


def _sqs(url: str) -> Queue:
    from shared.adapters import sqs

    return sqs.SqsQueue(sqs.connect(), url=url)


def _kms(key_id: str) -> KeyWrapper:
    from shared.adapters import kms

    return kms.KmsKeys(kms.connect(), key_id=key_id)


class _Later:
    """Stands for an adapter that is made when it is first used.

    Making a client reads the description of its service, which takes longer than most requests; and
    most requests never call S3, KMS or SQS.
    """

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make
        self._lock = Lock()

    @cached_property
    def _made(self) -> object:
        return self._make()

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            made = self._made
        return getattr(made, name)


def _later(make: Callable[[], T]) -> T:
    return cast("T", _Later(make))
