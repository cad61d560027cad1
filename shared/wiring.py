"""Builds the ports from the settings. Only this module chooses adapters.

It loads the folders of the chosen adapters by name. A function on AWS therefore does not load
SQLite, and a server on one machine does not load the AWS SDK.
"""

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Final, cast

from ulid import LaxMonotonicPolicy, ULIDGenerator

from shared import logs
from shared import settings as environment
from shared.adapters.fenced import DeploymentFence, FencedUsage, ReadOnlyStore, ReadOnlyUsage
from shared.adapters.openings import Opening, StoreOptions, is_snapshotted, load
from shared.capabilities import INSTALLED
from shared.errors import InvalidSettings, Unavailable
from shared.model import deployment
from shared.model.audit.witness_policy import WitnessPolicy
from shared.model.deployment import Deployment
from shared.model.outbound import Network
from shared.ports import NewId, Ports, outside
from shared.ports.blobs import BlobStore
from shared.ports.store import Store
from shared.settings import Mode, Settings, Switch, Uri

_log = logging.getLogger(__name__)

# The folder of `shared/adapters` for each scheme of a setting. No other adapter can be chosen.
_STORES: Final = {"sqlite": "local", "dynamodb": "aws", "postgresql": "postgresql"}
_BLOBS: Final = {"file": "local", "s3": "aws", "azure": "azure", "postgresql": "postgresql"}
_KEYS: Final = {"file": "local", "kms": "aws", "vault": "vault"}
_ROOTS: Final = {"file": "local", "kms": "aws", "pkcs11": "pkcs11"}
_QUEUES: Final = {"sqs": "aws"}
_AUDIT_SINKS: Final = {"file": "local", "s3": "aws"}

_OFFLINE: Final = "offline"
_SCHEMES: Final[Mapping[str, Collection[str]]] = {
    "RESCIND_STORE": _STORES,
    "RESCIND_BLOBS": _BLOBS,
    "RESCIND_KEY_WRAPPER": _KEYS,
    "RESCIND_ROOT": (*_ROOTS, _OFFLINE),
    "RESCIND_QUEUE": _QUEUES,
}
# SQLite sends notifications; each poll of DynamoDB costs money.
_LOOK_SECONDS: Final = {"postgresql": 0.05}

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
    if is_snapshotted():
        logs.configure_standard_output()
        try:
            _made_early.append(assemble(settings(os.environ)))
            for each in INSTALLED:
                each.prepare_snapshot()
        except Exception:  # noqa: BLE001 (the first request raises it again)
            _log.exception("cannot create the clients before the snapshot")


@cache
def queue_from_environment() -> outside.MessageQueue:
    """Return the queue of tenants with due SRLs. Raises `InvalidSettings`."""
    uri = settings(os.environ).queue
    if uri is None:
        raise InvalidSettings("RESCIND_QUEUE is not set; set it to sqs:…")
    return _load(_QUEUES[uri.scheme]).open_queue(uri.location)


@cache
def sender_from_environment() -> outside.Sender:
    """Return the sender of webhooks. Raises `InvalidSettings`."""
    networks = environment.outbound_networks(os.environ)
    return cast("outside.Sender", load("https").HttpsSender(networks))


@cache
def outbound_from_environment() -> outside.OutboundHttp:
    """Return the client for identity providers. Raises `InvalidSettings`."""
    networks = environment.outbound_networks(os.environ)
    return cast("outside.OutboundHttp", load("https").HttpsClient(networks))


def settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings in `environment`. Raises `InvalidSettings`, which names all problems."""
    return Settings.load(environment, _SCHEMES)


@cache
def audit_sink_from_environment() -> outside.AuditSink | None:
    """Return the sink for copies of audit entries, or None. Raises `InvalidSettings`."""
    uri = environment.audit_sink(os.environ, _AUDIT_SINKS)
    if uri is None:
        return None
    return _load(_AUDIT_SINKS[uri.scheme]).open_audit_sink(uri.location)


@cache
def witnesses() -> WitnessPolicy | None:
    """Return the witnesses of the transparency log, or None. Raises `InvalidSettings`."""
    return environment.witnesses(os.environ)


def witness_client() -> outside.WitnessClient:
    """Return the client for witnesses."""
    return cast("outside.WitnessClient", load("https").HttpWitnesses())


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
    store_folder, blobs_folder = _STORES[settings.store.scheme], _BLOBS[settings.blobs.scheme]
    # The key wrapper first, because without it no other file may be created.
    wrapper = settings.key_wrapper
    sealer = _load(_KEYS[wrapper.scheme]).open_key_wrapper(wrapper.location)
    root = None
    if settings.root is None:
        default = default_root(settings)
        if default is not None and default.exists():
            root = _load("local").open_root(str(default), None)
    elif settings.root.scheme != _OFFLINE:
        file = settings.root_passphrase
        passphrase = read_passphrase(Path(file)) if file else None
        root = _load(_ROOTS[settings.root.scheme]).open_root(settings.root.location, passphrase)
    options = StoreOptions(
        is_standby=environment.mode(os.environ) is Mode.STANDBY,
        is_known=settings.store.location in _known,
        pool_size=partial(environment.pool_size, os.environ),
        uses_prepared_statements=partial(environment.uses_prepared_statements, os.environ),
    )
    with ExitStack() as stack:
        with _naming("RESCIND_STORE", settings.store):
            records = _load(store_folder).open_store(settings.store.location, stack, options)
        store, buckets, usage, gather = records
        with _naming("RESCIND_BLOBS", settings.blobs):
            blobs = _load(blobs_folder).open_blobs(settings.blobs.location, store)
        if settings.mode is Mode.READ_ONLY:
            store, usage = ReadOnlyStore(store), ReadOnlyUsage()
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
            close=stack.pop_all().close,
        )


def create_master_key(file: Path) -> None:
    """Create the wrapping key of this machine. Raises `InvalidSettings` if the file exists."""
    load("local.file_sealer").FileSealer.create(file)


def default_root(settings: Settings) -> Path | None:
    """Return the default file of the root key if `RESCIND_ROOT` is not set.

    It is in the folder of the wrapping key. Returns None if the wrapping key is not in a file.
    """
    if settings.root is not None or settings.key_wrapper.scheme != "file":
        return None
    return Path(settings.key_wrapper.location).with_name("root.key")


def root_at(place: str, passphrase: bytes | None = None) -> outside.RootSigner:
    """Return the root at a place: a file, or as in `RESCIND_ROOT`. Raises `InvalidSettings`."""
    uri = _root_uri(place)
    return _load(_ROOTS[uri.scheme]).open_root(uri.location, passphrase)


def _root_uri(place: str) -> Uri:
    scheme, _, location = place.partition(":")
    return Uri(scheme, location) if location and scheme in _ROOTS else Uri("file", place)


def is_root_encrypted(place: str) -> bool:
    """Return whether the root at a place is in a file that needs a passphrase.

    Raises `InvalidSettings`.
    """
    uri = _root_uri(place)
    is_encrypted = load("local.file_root").FileRoot.is_encrypted
    return uri.scheme == "file" and bool(is_encrypted(Path(uri.location)))


def read_passphrase(file: Path) -> bytes:
    """Return the first line of a file that only its owner can use. Raises `InvalidSettings`."""
    return cast("bytes", load("local.file_root").read_passphrase(file))


def create_root(file: Path, passphrase: bytes | None = None) -> outside.RootSigner:
    """Create a root key, and return it. Raises `InvalidSettings` if the file exists."""
    file_root = load("local.file_root")
    return cast("outside.RootSigner", file_root.FileRoot.create(file, passphrase=passphrase))


def blobs_in(folder: Path) -> BlobStore:
    """Return the blob store in a folder on this machine. Raises `Unavailable`."""
    return _load("local").open_blobs(str(folder), None)


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


def store_in(settings: Settings, region: str, *, endpoint: str | None = None) -> Store:
    """Return the store of these settings in another AWS region, without a deployment check.

    `endpoint` is the address of DynamoDB there, if it is not the AWS default.
    """
    if settings.store.scheme != "dynamodb":
        raise InvalidSettings(
            "RESCIND_STORE does not name DynamoDB tables; only DynamoDB has regions."
        )
    dynamodb = load("aws.dynamodb")
    client = dynamodb.connect(region=region, endpoint_url=endpoint)
    return cast("Store", dynamodb.DynamoStore(client, table_prefix=settings.store.location))


def create_tables(settings: Settings, *, role: str | None = None) -> None:
    """Create the tables of a store if this service is responsible, and grant `role` its rows.

    Raises `InvalidSettings`.
    """
    if settings.store.scheme == "postgresql":
        url = f"postgresql:{settings.store.location}"
        load("postgresql.database").check_url(url)
        load("postgresql.schema").setup(url, role=role)
    elif role is not None:
        raise InvalidSettings("--role is for RESCIND_STORE=postgresql://…")


def _load(folder: str) -> Opening:
    return cast("Opening", load(f"{folder}.opening"))
