"""Opens the ports on PostgreSQL."""

from contextlib import ExitStack, closing

from shared.adapters.openings import Records, StoreOptions
from shared.adapters.postgresql import blobs, buckets, database, store
from shared.adapters.stored_usage import StoreUsageCounts
from shared.adapters.threads import ThreadedGather
from shared.errors import InvalidSettings
from shared.ports.blobs import BlobStore
from shared.ports.store import Store


def open_store(location: str, stack: ExitStack, options: StoreOptions) -> Records:
    """Open a database."""
    pool = database.PostgresqlDatabase(
        f"postgresql:{location}",
        connections=options.pool_size(),
        prepare=options.uses_prepared_statements(),
        is_known=options.is_known,
    )
    items = stack.enter_context(closing(store.PostgresqlStore(pool)))
    return items, buckets.PostgresqlBuckets(pool), StoreUsageCounts(items), ThreadedGather()


def open_blobs(_: str, items: Store | None) -> BlobStore:
    """Return the blobs in the database of the store."""
    if not isinstance(items, store.PostgresqlStore):
        raise InvalidSettings("RESCIND_BLOBS=postgresql: requires RESCIND_STORE=postgresql://…")
    return blobs.PostgresqlBlobs(items.database)
