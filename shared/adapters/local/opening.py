"""Opens the ports on one machine. A key file does not load SQLite."""

from contextlib import ExitStack, closing
from pathlib import Path

from shared.adapters.local import file_root, file_sealer, files, filesystem
from shared.adapters.openings import Records, StoreOptions
from shared.errors import InvalidSettings, Unavailable
from shared.ports import sequentially
from shared.ports.blobs import BlobStore
from shared.ports.outside import AuditSink, KeyWrapper, RootSigner
from shared.ports.store import Store


def open_store(file: str, stack: ExitStack, _: StoreOptions) -> Records:
    """Open a file of SQLite, and another for the rate limits."""
    from shared.adapters import stored_usage
    from shared.adapters.local import sqlite, sqlite_buckets

    store = stack.enter_context(closing(sqlite.SqliteStore(file)))
    # In a separate file, so that a request does not wait for writers of the store.
    limits = file if file == ":memory:" else f"{file}-limits"
    try:
        buckets = stack.enter_context(closing(sqlite_buckets.SqliteBuckets(limits)))
    except Unavailable as error:
        problem = f"cannot open {limits}: {error.__cause__ or error}"
        raise InvalidSettings(f"{problem}. It contains no records; remove it.") from error
    return store, buckets, stored_usage.StoreUsageCounts(store), sequentially


def open_blobs(folder: str, _: Store | None) -> BlobStore:
    """Open a folder of blobs."""
    return filesystem.FileBlobs(Path(folder))


def open_key_wrapper(file: str) -> KeyWrapper:
    """Open a file with a wrapping key."""
    return file_sealer.FileSealer(Path(file))


def open_root(file: str, passphrase: bytes | None) -> RootSigner:
    """Open a file with a root key."""
    return file_root.FileRoot(Path(file), passphrase=passphrase)


def open_audit_sink(folder: str) -> AuditSink:
    """Open a folder for copies of audit entries."""
    return files.FileSink(Path(folder))
