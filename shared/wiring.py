"""From settings to ports: the one place that chooses adapters, and the only one to import them.

Each adapter is imported where it is chosen: a function on AWS loads no SQLite, a server on one
machine no SDK.
"""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from ulid import LaxMonotonicPolicy, ULIDGenerator

from shared.ports import Ports
from shared.ports.blobs import BlobStore
from shared.ports.key_wrapper import KeyWrapper
from shared.ports.store import Store
from shared.settings import Place, Settings


@cache
def from_environment() -> Ports:
    """The ports of this process, built on first use. Raises `InvalidSettings`."""
    return build(Settings.load(os.environ))


def build(settings: Settings) -> Ports:
    """The ports that the settings name. Raises `InvalidSettings` where a place cannot be used."""
    return Ports(
        store=_store(settings.store),
        blobs=_blobs(settings.blobs),
        keys=_keys(settings.keys),
        now=now,
        new_id=identifiers(now),
    )


def now() -> datetime:
    """The present time, in UTC."""
    return datetime.now(UTC)


def identifiers(clock: Callable[[], datetime]) -> Callable[[str], str]:
    """A maker of identifiers; those of one maker sort by creation, even within a millisecond."""
    ulids = ULIDGenerator(policy=LaxMonotonicPolicy())
    return lambda kind: f"svc_{kind}_{str(ulids.generate(clock())).lower()}"


def _store(place: Place) -> Store:
    if place.scheme == "dynamodb":
        from shared.adapters import dynamodb

        return dynamodb.DynamoStore(dynamodb.connect(), table_prefix=place.location)
    from shared.adapters import sqlite

    return sqlite.SqliteStore(place.location)


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
