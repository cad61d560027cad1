"""Builds the ports from the settings. Only this module chooses and imports adapters.

Each adapter is imported where it is chosen. A function on AWS therefore does not load SQLite, and a
server on one machine does not load the AWS SDK.
"""

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final, TypeAlias, TypeVar

from ulid import LaxMonotonicPolicy, ULIDGenerator

from shared import logs
from shared import settings as environment
from shared.errors import InvalidSettings, Unavailable
from shared.model import deployment
from shared.model.audit.witnesses import WitnessPolicy
from shared.model.deployment import Deployment
from shared.model.outbound import Network
from shared.ports import Gather, NewId, Ports, sequentially
from shared.ports.blobs import BlobStore
from shared.ports.outside import (
    AuditSink,
    KeyWrapper,
    MessageQueue,
    OutboundHttp,
    RootSigner,
    Sender,
    WitnessClient,
)
from shared.ports.store import Store
from shared.ports.token_buckets import TokenBuckets, UsageCounts
from shared.settings import Mode, Settings, Switch, Uri

C = TypeVar("C")

_log = logging.getLogger(__name__)

# The ports for records: items, rate limits, usage, and the executor of several reads.
Records: TypeAlias = tuple[Store, TokenBuckets, UsageCounts, Gather]


# The locations of stores that were usable when this process or its parent process started.
_known: Final[set[str]] = set()
# Ports that were built before a snapshot and are not in use yet.
_made_early: Final[list[Ports]] = []


@cache
def from_environment() -> Ports:
    """Return the ports of this process, built at the first call.

    Raises `InvalidSettings` if they cannot be used, or if this process must not use the store
    (OPS-12, OPS-13). Raises `Unavailable` if the store cannot be checked.
    """
    found = settings(os.environ)
    return _require_usable(_made_early.pop() if _made_early else assemble(found), found)


def prepare_fork() -> None:
    """Prepare separate ports for the child processes of this process.

    If a database was usable here and does not respond there, it is an outage and not a wrong
    setting.
    """
    _known.add(settings(os.environ).store.location)
    from_environment.cache_clear()


def prepare_snapshot() -> None:
    """Assemble the ports of this process if Lambda is about to take a snapshot of it.

    Creating the AWS clients takes longer than most requests, and a restored instance has them
    already. The store is first read after the restore, because its schema may change before that. A
    failure is logged, and the first request tries again.
    """
    if _is_snapshotted():
        logs.configure_standard_output()
        try:
            _made_early.append(assemble(settings(os.environ)))
        except Exception:  # noqa: BLE001 (the first request raises it again)
            _log.exception("cannot create the clients before the snapshot")


def _is_snapshotted() -> bool:
    return os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start"


def _early(connect: Callable[[], C]) -> Callable[[], C]:
    """Return `connect`, or before a snapshot a function that returns a client created now."""
    if not _is_snapshotted():
        return connect
    client = connect()
    return lambda: client


@cache
def queue_from_environment() -> MessageQueue:
    """Return the queue of tenants with due SRLs. Raises `InvalidSettings`."""
    uri = settings(os.environ).queue
    if uri is None:
        raise InvalidSettings("RESCIND_QUEUE is not set; set it to sqs:…")
    from shared.adapters.aws import sqs

    return sqs.SqsQueue(sqs.connect, url=uri.location)


@cache
def sender_from_environment() -> Sender:
    """Return the sender of webhooks. Raises `InvalidSettings`."""
    from shared.adapters import https

    return https.HttpsSender(environment.outbound_networks(os.environ))


@cache
def outbound_from_environment() -> OutboundHttp:
    """Return the client for identity providers. Raises `InvalidSettings`."""
    from shared.adapters import https

    return https.HttpsClient(environment.outbound_networks(os.environ))


def settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings in `environment`. Raises `InvalidSettings`, which names all problems."""
    return Settings.load(environment, _SCHEMES)


@cache
def audit_sink_from_environment() -> AuditSink | None:
    """Return the sink for copies of audit entries, or None. Raises `InvalidSettings`."""
    uri = environment.audit_sink(os.environ, ("file", "s3"))
    if uri is None:
        return None
    if uri.scheme == "file":
        from shared.adapters.local import files

        return files.FileSink(Path(uri.location))
    from shared.adapters.aws import s3

    return s3.S3Sink(s3.connect, bucket=uri.location)


@cache
def witnesses() -> WitnessPolicy | None:
    """Return the witnesses of the transparency log, or None. Raises `InvalidSettings`."""
    return environment.witnesses(os.environ)


def witness_client() -> WitnessClient:
    """Return the client for witnesses."""
    from shared.adapters import https

    return https.HttpWitnesses()


@cache
def trusted_proxies() -> tuple[Network, ...]:
    """Return the networks of proxies with a trusted X-Forwarded-For header.

    Raises `InvalidSettings`.
    """
    return environment.trusted_proxies(os.environ)


def base_path() -> str:
    """Return the path below which API Gateway serves the API, or `/`. Raises `InvalidSettings`."""
    return environment.base_path(os.environ)


def build(settings: Settings) -> Ports:
    """Return the ports for these settings, for a process that serves or changes the data.

    Raises the same errors as `from_environment`.
    """
    return _require_usable(assemble(settings), settings)


def _require_usable(ports: Ports, settings: Settings) -> Ports:
    """Return the ports if this process may use the store; otherwise close them and raise.

    Their store raises once this process may no longer use it.
    """
    from shared.adapters.fenced import DeploymentFence, FencedUsage

    try:
        found = Deployment.of(ports.store.get(deployment.ADDRESS))
        found.check_schema()
        found.check_in_charge()
    except BaseException:
        ports.close()
        raise
    is_standby = settings.mode is Mode.STANDBY
    fence = DeploymentFence(ports.store, found, region=settings.region, is_standby=is_standby)
    usage = FencedUsage(ports.usage, fence.is_in_charge)
    return replace(ports, store=fence.store, usage=usage, is_in_charge=fence.is_in_charge)


def is_read_only() -> bool:
    """Return whether this process must reject writes (`RESCIND_MODE`). Raises `InvalidSettings`."""
    return environment.mode(os.environ) is Mode.READ_ONLY


def is_near() -> bool:
    """Return whether a read of the store is faster than starting a thread for it.

    Raises `InvalidSettings`.
    """
    return settings(os.environ).store.scheme == "sqlite"


def may_lead() -> bool:
    """Return whether this server may lead (`RESCIND_LEADER_ELIGIBLE`). Raises `InvalidSettings`."""
    return environment.duties(os.environ) is Switch.ON


def assemble(settings: Settings) -> Ports:
    """Return the ports for these settings, without checking whether the store may be used.

    With `RESCIND_MODE=read-only` their store rejects each write. Raises `InvalidSettings` if a port
    cannot be used.
    """
    open_store, open_blobs = _STORES[settings.store.scheme], _BLOBS[settings.blobs.scheme]
    # The key wrapper first, because without it no other file may be created.
    sealer = _KEYS[settings.key_wrapper.scheme](settings.key_wrapper.location)
    root = None
    if settings.root is None:
        default = default_root(settings)
        if default is not None and default.exists():
            root = _root_file(str(default), None)
    elif settings.root.scheme != _OFFLINE:
        file = settings.root_passphrase
        passphrase = read_passphrase(Path(file)) if file else None
        root = _ROOTS[settings.root.scheme](settings.root.location, passphrase)
    with ExitStack() as opened:
        with _naming("RESCIND_STORE", settings.store):
            store, buckets, usage, gather = open_store(settings.store.location, opened)
        with _naming("RESCIND_BLOBS", settings.blobs):
            blobs = open_blobs(settings.blobs.location, store)
        if settings.mode is Mode.READ_ONLY:
            from shared.adapters import fenced

            store, usage = fenced.ReadOnlyStore(store), fenced.ReadOnlyUsage()
        return Ports(
            store=store,
            buckets=buckets,
            usage=usage,
            blobs=blobs,
            sealer=sealer,
            now=now,
            new_id=identifiers(now),
            gather=gather,
            look_seconds=_LOOK_SECONDS.get(settings.store.scheme, 1.0),
            root=root,
            witnesses=environment.witnesses(os.environ),
            outbound=outbound_from_environment,
            close=opened.pop_all().close,
        )


def create_master_key(file: Path) -> None:
    """Create the wrapping key of this machine. Raises `InvalidSettings` if the file exists."""
    from shared.adapters.local import file_sealer

    file_sealer.FileSealer.create(file)


def default_root(settings: Settings) -> Path | None:
    """Return the default file of the root key if `RESCIND_ROOT` is not set.

    It is in the folder of the wrapping key. Returns None if the wrapping key is not in a file.
    """
    if settings.root is not None or settings.key_wrapper.scheme != "file":
        return None
    return Path(settings.key_wrapper.location).with_name("root.key")


def root_at(place: str, passphrase: bytes | None = None) -> RootSigner:
    """Return the root at a place: a file, or as in `RESCIND_ROOT`. Raises `InvalidSettings`."""
    scheme, _, location = place.partition(":")
    open_ = _ROOTS.get(scheme) if location else None
    return open_(location, passphrase) if open_ else _root_file(place, passphrase)


def is_root_encrypted(place: str) -> bool:
    """Return whether the root at a place is in a file that needs a passphrase.

    Raises `InvalidSettings`.
    """
    from shared.adapters.local import file_root

    scheme, _, location = place.partition(":")
    if location and scheme in _ROOTS:
        return scheme == "file" and file_root.FileRoot.is_encrypted(Path(location))
    return file_root.FileRoot.is_encrypted(Path(place))


def read_passphrase(file: Path) -> bytes:
    """Return the first line of a file that only its owner can use. Raises `InvalidSettings`."""
    from shared.adapters.local import file_root

    return file_root.read_passphrase(file)


def create_root(file: Path, passphrase: bytes | None = None) -> RootSigner:
    """Create a root key, and return it. Raises `InvalidSettings` if the file exists."""
    from shared.adapters.local import file_root

    return file_root.FileRoot.create(file, passphrase=passphrase)


def blobs_in(folder: Path) -> BlobStore:
    """Return the blob store in a folder on this machine. Raises `Unavailable`."""
    from shared.adapters.local import filesystem

    return filesystem.FileBlobs(folder)


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def identifiers(clock: Callable[[], datetime]) -> NewId:
    """Return a generator of identifiers, which sort by creation even if the clock steps back."""
    ulids, of_moments = (ULIDGenerator(policy=LaxMonotonicPolicy()) for _ in range(2))
    lock = Lock()
    latest = datetime.min.replace(tzinfo=UTC)

    def new_id(kind: str, at: datetime | None = None) -> str:
        nonlocal latest
        with lock:
            if at is not None:
                made = of_moments.generate(at)
            else:
                latest = max(latest, clock())
                made = ulids.generate(latest)
        return f"svc_{kind}_{str(made).lower()}"

    return new_id


@contextmanager
def _naming(setting: str, uri: Uri) -> Iterator[None]:
    try:
        yield
    except Unavailable as error:
        raise InvalidSettings(
            f"{setting}: cannot open {uri.location}: {error.__cause__ or error}"
        ) from error


def _sqlite(file: str, stack: ExitStack) -> Records:
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


def _dynamodb(table_prefix: str, stack: ExitStack) -> Records:
    from shared.adapters import threads
    from shared.adapters.aws import dynamodb, dynamodb_buckets

    client = stack.enter_context(closing(dynamodb.connect()))
    # A standby has separate buckets, because its table receives the buckets of the replicated
    # region.
    region = client.meta.region_name if environment.mode(os.environ) is Mode.STANDBY else ""
    hasty = stack.enter_context(closing(dynamodb_buckets.connect()))
    return (
        dynamodb.DynamoStore(client, table_prefix=table_prefix),
        dynamodb_buckets.DynamoBuckets(client, table_prefix=table_prefix, region=region),
        dynamodb_buckets.DynamoUsage(hasty, table_prefix=table_prefix),
        threads.ThreadedGather(),
    )


def _postgresql(place: str, stack: ExitStack) -> Records:
    with _extra("postgresql"):
        from shared.adapters.postgresql import buckets as postgresql_buckets
        from shared.adapters.postgresql import database as postgresql_database
        from shared.adapters.postgresql import store as postgresql
    from shared.adapters import stored_usage, threads

    database = postgresql_database.PostgresqlDatabase(
        f"postgresql:{place}",
        connections=environment.pool_size(os.environ),
        prepare=environment.uses_prepared_statements(os.environ),
        is_known=place in _known,
    )
    store = stack.enter_context(closing(postgresql.PostgresqlStore(database)))
    buckets = postgresql_buckets.PostgresqlBuckets(database)
    return store, buckets, stored_usage.StoreUsageCounts(store), threads.ThreadedGather()


def store_in(settings: Settings, region: str, *, endpoint: str | None = None) -> Store:
    """Return the store of these settings in another AWS region, without a deployment check.

    `endpoint` is the address of DynamoDB there, if it is not the AWS default.
    """
    if settings.store.scheme != "dynamodb":
        raise InvalidSettings(
            "RESCIND_STORE does not name DynamoDB tables; only DynamoDB has regions."
        )
    from shared.adapters.aws import dynamodb

    client = dynamodb.connect(region=region, endpoint_url=endpoint)
    return dynamodb.DynamoStore(client, table_prefix=settings.store.location)


def create_tables(settings: Settings, *, role: str | None = None) -> None:
    """Create the tables of a store if this service is responsible, and grant `role` its rows.

    Raises `InvalidSettings`.
    """
    if settings.store.scheme == "postgresql":
        with _extra("postgresql"):
            from shared.adapters.postgresql import database as postgresql_database
            from shared.adapters.postgresql import schema as postgresql_schema

        url = f"postgresql:{settings.store.location}"
        postgresql_database.check_url(url)
        postgresql_schema.setup(url, role=role)
    elif role is not None:
        raise InvalidSettings("--role is for RESCIND_STORE=postgresql://…")


@contextmanager
def _extra(name: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise InvalidSettings(
            f"{error.name} is not installed; run: pip install 'rescind[{name}]'"
        ) from error


def _s3(bucket: str, _: Store) -> BlobStore:
    from shared.adapters.aws import s3

    return s3.S3Blobs(_early(s3.connect), bucket=bucket)


def _azure(location: str, _: Store) -> BlobStore:
    with _extra("azure"):
        from shared.adapters.azure import blobs as azure

    return azure.AzureBlobs(location)


def _postgresql_blobs(_: str, store: Store) -> BlobStore:
    from shared.adapters.postgresql import blobs as postgresql_blobs
    from shared.adapters.postgresql import store as postgresql

    if not isinstance(store, postgresql.PostgresqlStore):
        raise InvalidSettings("RESCIND_BLOBS=postgresql: requires RESCIND_STORE=postgresql://…")
    return postgresql_blobs.PostgresqlBlobs(store.database)


def _key_file(file: str) -> KeyWrapper:
    from shared.adapters.local import file_sealer

    return file_sealer.FileSealer(Path(file))


def _kms(key_id: str) -> KeyWrapper:
    from shared.adapters.aws import kms

    return kms.KmsSealer(_early(kms.connect), key_id=key_id)


def _vault(location: str) -> KeyWrapper:
    from shared.adapters.vault import sealer as vault

    return vault.VaultSealer(location, os.environ)


def _root_file(file: str, passphrase: bytes | None) -> RootSigner:
    from shared.adapters.local import file_root

    return file_root.FileRoot(Path(file), passphrase=passphrase)


def _root_in_kms(key_id: str, _: bytes | None) -> RootSigner:
    from shared.adapters.aws import kms

    # The ARN of a key contains its region: arn:aws:kms:REGION:…
    region = "".join(key_id.split(":")[3:4]) or None
    return kms.KmsRoot(_early(lambda: kms.connect(region=region)), key_id=key_id)


def _root_in_hsm(location: str, _: bytes | None) -> RootSigner:
    from shared.adapters.pkcs11.uri import Pkcs11Uri

    uri = Pkcs11Uri.parse(location)
    with _extra("pkcs11"):
        from shared.adapters.pkcs11 import root as pkcs11_root

    return pkcs11_root.Pkcs11Root(uri)


# The adapters by scheme. No other adapter can be chosen.
_STORES: Final[Mapping[str, Callable[[str, ExitStack], Records]]] = {
    "sqlite": _sqlite,
    "dynamodb": _dynamodb,
    "postgresql": _postgresql,
}
_BLOBS: Final[Mapping[str, Callable[[str, Store], BlobStore]]] = {
    "file": lambda folder, _: blobs_in(Path(folder)),
    "s3": _s3,
    "azure": _azure,
    "postgresql": _postgresql_blobs,
}
# SQLite sends notifications; each poll of DynamoDB costs money.
_LOOK_SECONDS: Final = {"postgresql": 0.05}
_KEYS: Final[Mapping[str, Callable[[str], KeyWrapper]]] = {
    "file": _key_file,
    "kms": _kms,
    "vault": _vault,
}
# Each opens a root key with its location and passphrase.
_ROOTS: Final[Mapping[str, Callable[[str, bytes | None], RootSigner]]] = {
    "file": _root_file,
    "kms": _root_in_kms,
    "pkcs11": _root_in_hsm,
}
_OFFLINE: Final = "offline"
_SCHEMES: Final[Mapping[str, Collection[str]]] = {
    "RESCIND_STORE": _STORES,
    "RESCIND_BLOBS": _BLOBS,
    "RESCIND_KEY_WRAPPER": _KEYS,
    "RESCIND_ROOT": (*_ROOTS, _OFFLINE),
    "RESCIND_QUEUE": ("sqs",),
}
