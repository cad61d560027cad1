"""Where the API tests run: on SQLite in memory, or where RESCIND_TEST_API_ON says.

`sqlite-file` is SQLite in a file, `postgresql` the server of this process, `moto` the cloud that is
pretended in it, `endpoints` the cloud at the addresses that the environment names; a service
without one stays on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest
from moto import mock_aws

from shared.adapters.aws.dynamodb import DynamoStore
from shared.adapters.aws.dynamodb_buckets import DynamoBuckets
from shared.adapters.aws.kms import KmsSealer
from shared.adapters.aws.s3 import S3Blobs
from shared.adapters.azure.blobs import AzureBlobs
from shared.adapters.postgresql.blobs import PostgresqlBlobs
from shared.adapters.postgresql.buckets import PostgresqlBuckets
from shared.adapters.postgresql.database import PostgresqlDatabase
from shared.adapters.postgresql.store import PostgresqlStore
from shared.adapters.stored_usage import StoreUsageCounts
from shared.adapters.threads import ThreadedGather
from shared.ports import Ports
from shared.settings import uses_prepared_statements
from tests.engines.clouds import Cloud, address, cloud, container, sealer, transit
from tests.kit import postgresql
from tests.kit.aws import pretend_credentials
from tests.kit.worlds import close, embedded

ON: Final = os.environ.get("RESCIND_TEST_API_ON", "sqlite-memory")


@contextmanager
def chosen(folder: Path, clock: Callable[[], datetime]) -> Iterator[Ports]:
    """Ports on the engine that was named, with nothing on it; they are closed at the end."""
    with ExitStack() as stack:
        at = str(folder / "store.db") if ON == "sqlite-file" else ":memory:"
        ports = embedded(folder, clock, store=at)
        stack.callback(close, ports)
        if ON == "postgresql":
            ports = _in_postgresql(ports, stack)
        elif ON == "moto":
            stack.enter_context(mock_aws())
            pretend_credentials(stack.enter_context(pytest.MonkeyPatch.context()))
            ports = _on(_PRETENDED, ports, stack, services={"dynamodb", "s3", "kms"})
        elif ON == "endpoints":
            named = {each for each in ("dynamodb", "s3", "kms") if address(each)}
            ports = _on(cloud(), ports, stack, services=named)
            if address("vault"):
                ports = replace(ports, sealer=sealer(stack.enter_context(transit())))
            if address("azure"):
                ports = replace(ports, blobs=AzureBlobs(stack.enter_context(container())))
        yield ports


def _in_postgresql(ports: Ports, stack: ExitStack) -> Ports:
    """The ports with the records and blobs in PostgreSQL, until the stack is closed."""
    url = stack.enter_context(postgresql.borrowed())
    database = stack.enter_context(
        closing(PostgresqlDatabase(url, prepare=uses_prepared_statements(os.environ)))
    )
    store = PostgresqlStore(database)
    return replace(
        ports,
        store=store,
        buckets=PostgresqlBuckets(database),
        usage=StoreUsageCounts(store),
        blobs=PostgresqlBlobs(database),
        gather=ThreadedGather(),
        look_seconds=0.05,
    )


_PRETENDED: Final = Cloud()


def _on(at: Cloud, ports: Ports, stack: ExitStack, *, services: set[str]) -> Ports:
    """The ports with those of the services at `at`, until the stack is closed."""
    if "dynamodb" in services:
        prefix = stack.enter_context(at.tables())
        ports = replace(
            ports,
            store=DynamoStore(at.dynamodb, table_prefix=prefix),
            buckets=DynamoBuckets(at.dynamodb, table_prefix=prefix),
            gather=ThreadedGather(),
        )
    if "s3" in services:
        ports = replace(
            ports, blobs=S3Blobs(lambda: at.s3, bucket=stack.enter_context(at.bucket()))
        )
    if "kms" in services:
        ports = replace(
            ports, sealer=KmsSealer(lambda: at.kms, key_id=stack.enter_context(at.key()))
        )
    return ports
