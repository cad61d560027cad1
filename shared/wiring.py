"""From settings to ports: the one place that chooses adapters, and the only one to import them.

Each adapter is imported where it is chosen: a function on AWS loads no SQLite, a server on one
machine no SDK.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Lock

from ulid import LaxMonotonicPolicy, ULIDGenerator

from shared.errors import InvalidSettings, Unavailable
from shared.ports import Ports
from shared.ports.blobs import BlobStore
from shared.ports.key_wrapper import KeyWrapper
from shared.ports.queue import Queue
from shared.ports.store import Store
from shared.ports.together import Together, in_turn
from shared.ports.token_buckets import TokenBuckets
from shared.settings import Place, Settings


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
    from shared.adapters import sqs

    return sqs.SqsQueue(sqs.connect(), url=place.location)


def build(settings: Settings) -> Ports:
    """The ports that the settings name. Raises `InvalidSettings` where a place cannot be used."""
    # First the keys: without them nothing else is to be made.
    keys = _keys(settings.keys)
    with _naming("SVC_STORE", settings.store):
        store, buckets, together = _store(settings.store)
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


def _store(place: Place) -> tuple[Store, TokenBuckets, Together]:
    if place.scheme == "dynamodb":
        from shared.adapters import dynamodb, dynamodb_buckets, threads

        client = dynamodb.connect()
        return (
            dynamodb.DynamoStore(client, table_prefix=place.location),
            dynamodb_buckets.DynamoBuckets(client, table_prefix=place.location),
            threads.AtOnce(),
        )
    from shared.adapters import sqlite

    both = sqlite.SqliteStore(place.location)
    return both, both, in_turn


def _blobs(place: Place) -> BlobStore:
    if place.scheme == "s3":
        from shared.adapters import s3

        return s3.S3Blobs(s3.connect(), bucket=place.location)
    from shared.adapters import filesystem

    return filesystem.FileBlobs(Path(place.location))


def _keys(place: Place) -> KeyWrapper:
    if place.scheme == "kms":
        from shared.adapters import kms

        return kms.KmsKeys(kms.connect(), key_id=place.location)
    from shared.adapters import local_keys

    return local_keys.KeyFile(Path(place.location))
