"""How wiring opens the ports of a folder of adapters: by its module `opening`, loaded by name."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from shared.errors import InvalidSettings
from shared.ports import Gather
from shared.ports.blobs import BlobStore
from shared.ports.outside import AuditSink, KeyWrapper, MessageQueue, RootSigner
from shared.ports.store import Store
from shared.ports.token_buckets import TokenBuckets, UsageCounts

# The folders that need the extra of the same name.
_EXTRAS: Final = frozenset({"azure", "pkcs11", "postgresql"})

# The ports for records: items, rate limits, usage, and the executor of several reads.
Records: TypeAlias = tuple[Store, TokenBuckets, UsageCounts, Gather]


class StoreOptions(NamedTuple):
    """The settings of a store besides its location. Each adapter reads only its own.

    `is_known` states whether this process or its parent process could use the store before.
    """

    is_standby: bool
    is_known: bool
    pool_size: Callable[[], int]
    uses_prepared_statements: Callable[[], bool]


class Opening(Protocol):
    """A module `opening`. It has the functions that its entries in the tables of wiring need.

    A function raises `InvalidSettings` or `Unavailable` if it cannot open the location.
    """

    def open_store(self, location: str, stack: ExitStack, options: StoreOptions, /) -> Records:
        """Return the ports for records. `stack` closes them."""

    def open_blobs(self, location: str, store: Store | None, /) -> BlobStore:
        """Return the blob store. `store` is the store of the same process, if it is open."""

    def open_key_wrapper(self, location: str, /) -> KeyWrapper:
        """Return the key wrapper."""

    def open_root(self, location: str, passphrase: bytes | None, /) -> RootSigner:
        """Return the root key."""

    def open_queue(self, location: str, /) -> MessageQueue:
        """Return the queue."""

    def open_audit_sink(self, location: str, /) -> AuditSink:
        """Return the sink for copies of audit entries."""


def load(name: str) -> Any:
    """Return a module of `shared.adapters`. Raises `InvalidSettings` without its extra."""
    extra = name.partition(".")[0]
    try:
        return import_module(f"shared.adapters.{name}")
    except ImportError as error:
        if extra not in _EXTRAS:
            raise
        problem = f"{error.name} is not installed; run: pip install 'rescind[{extra}]'"
        raise InvalidSettings(problem) from error


def is_snapshotted() -> bool:
    """Return whether Lambda takes a snapshot of this process before its first request."""
    return os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start"
