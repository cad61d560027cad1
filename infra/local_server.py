"""Run the whole service on one machine: all functions at one address, data in one folder.

The first start creates the tenant `local` and its admin key. Due lists are published at the start
and then every minute, by the operation that the schedule runs on AWS. A change is in the feed at
once.
"""

import importlib
import logging.config
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import uvicorn

from infra import (
    console_code,
    data_folder,
    local_addresses,
    local_console,
    local_documents,
    local_protocol,
    os_user,
)
from infra.local_addresses import OpsAddress
from infra.local_ages import Ages
from infra.local_console import Choice
from infra.local_feed import LOCK_VARIABLE, Feed
from infra.local_sealing import Sealing
from infra.local_timer import Timer
from infra.local_webhooks import Webhooks
from shared import logs, wiring
from shared.errors import Corrupt, InvalidSettings, NotFound, RescindError
from shared.operations.operator import deployment, onboarding
from shared.operations.rules import tenants
from shared.ports import Ports
from shared.ports.one_machine import LocalStore

_TENANT = "local"

_log = logging.getLogger("rescind")


@dataclass(frozen=True)
class Options:
    """Where and how to serve.

    `keys` is the file of the master key, if it is not in the folder `data`.
    """

    host: IPv4Address | IPv6Address
    port: int
    data: Path
    keys: Path | None
    workers: int
    ops_address: OpsAddress | None
    log_level: str
    console: Choice = Choice.ON
    docs: local_documents.Choice = local_documents.Choice.ON


def serve(options: Options) -> int:
    """Serve until interrupted. Return 0, or 1 after a message if the service cannot start."""
    signal.signal(signal.SIGINT, _stop)
    try:
        try:
            ports, listener = _prepare(options)
        except RescindError as error:
            print(f"Cannot start:\n{error}", file=sys.stderr)
            return 1
        _serve(ports, options, listener)
    except (_Stopped, SystemExit):
        # uvicorn exits if it is stopped before its first step.
        if not _Stopped.raised:
            raise
    print("\nStopped; the data is in", options.data)
    return 0


class _Stopped(KeyboardInterrupt):
    """Ctrl-C was pressed.

    A signal may arrive while Python compiles a module. Then Python drops all exceptions but this
    one and its subclasses. After KeyboardInterrupt itself it exits by the signal, even if that
    was caught.
    """

    raised: ClassVar[bool] = False


def _stop(_signal: int, _frame: object) -> NoReturn:
    _Stopped.raised = True
    raise _Stopped


def _prepare(options: Options) -> tuple[Ports, socket.socket | None]:
    """Return the ports, and a socket on the address for metrics if one was chosen."""
    data_folder.check_named(options.data, os.environ)
    local_addresses.check_free(options.host, options.port)
    key = data_folder.master_key(options.data, options.keys, os.environ)
    data_folder.prepare(options.data, key)
    # Worker processes read these.
    os.environ.update(data_folder.environment(options.data, key))
    if not wiring.is_read_only():
        data_folder.use(options.data)
    listener = _listen(options.ops_address, options.data)
    logging.config.dictConfig(_log_config(options))
    ports = _opened(options.data)
    os.environ[local_console.VARIABLE] = options.console
    os.environ[local_documents.VARIABLE] = options.docs
    if wiring.is_read_only():
        return ports, listener
    os.environ[LOCK_VARIABLE] = str(data_folder.feed_lock(options.data))
    deployment.mark_schema(ports)
    _ensure_tenant(ports, options.data / "admin.key")
    return ports, listener


def _take_codes(options: Options) -> str | None:
    """Let this server take one-time codes, and return the address of its console; None if not."""
    name = local_addresses.of_this_machine(options.host)
    if name is None or options.console is Choice.OFF or wiring.is_read_only():
        with suppress(OSError):
            console_code.withdraw(options.data)
        return None
    os.environ[local_console.CODES_VARIABLE] = str(options.data)
    address = f"http://{name}:{options.port}"
    console_code.announce(options.data, address)
    return address


def _listen(address: OpsAddress | None, data: Path) -> socket.socket | None:
    if address is None:
        return None
    listener = local_addresses.listen(address)
    os.environ[data_folder.METRICS_VARIABLE] = str(data_folder.empty_metrics(data, str(address)))
    return listener


def _opened(data: Path) -> Ports:
    """Return the ports. Raises `InvalidSettings`, also if the database is damaged."""
    try:
        ports = wiring.from_environment()
    except Corrupt as error:
        raise _damaged(data, str(error)) from error
    if isinstance(ports.store, LocalStore):
        for damage in ports.store.problems(quickly=True):
            raise _damaged(data, damage)
    return ports


def _damaged(data: Path, damage: str) -> InvalidSettings:
    return InvalidSettings(
        f"{data / 'svc.db'} is damaged. {damage}",
        "Restore svc.db from a backup; then run: recover (docs/deploy.md, restore).",
    )


def _ops() -> Any:
    """Import what serves the metrics. Not before: the library reads its folder when imported."""
    return importlib.import_module("infra.local_ops")


def _log_config(options: Options) -> dict[str, Any]:
    counted_by = None if options.ops_address is None else "infra.local_metrics.Handler"
    return logs.for_one_machine(options.log_level, counted_by=counted_by)


def _serve(ports: Ports, options: Options, listener: socket.socket | None) -> None:
    with ExitStack() as until_stopped:
        ages = Ages()
        if not wiring.is_read_only():
            ages = until_stopped.enter_context(_publishing(ports, options))
        if listener is not None:
            until_stopped.enter_context(_ops().serving(listener, ports, ages))
        address = _take_codes(options)
        _print_summary(options, options.data / "admin.key", listener)
        _print_console(options, address)
        print("Ctrl-C stops it.", flush=True)
        _run(options)


@contextmanager
def _publishing(ports: Ports, options: Options) -> Iterator[Ages]:
    """Publish and seal meanwhile; yield what tells how long ago that was done."""
    webhooks = Webhooks(ports, wiring.sender_from_environment())
    sink = wiring.audit_sink_from_environment()
    timer, sealing = Timer(ports), Sealing(ports, webhooks.sealed, sink)
    feed = Feed(ports, data_folder.feed_lock(options.data), timer.publish)
    try:
        timer.start()
        feed.start()
        webhooks.start()
        sealing.start()
        yield Ages(timer.idle_seconds, sealing.unsealed_seconds)
    finally:
        webhooks.stop()
        sealing.stop()
        feed.stop()
        timer.stop()


def _run(options: Options) -> None:
    uvicorn.run(
        "infra.local_app:app",
        host=str(options.host),
        port=options.port,
        workers=options.workers,
        # A worker may start slowly on a busy machine.
        timeout_worker_healthcheck=30,
        log_config=_log_config(options),
        # Warnings report malformed requests, of which any caller can send any number.
        log_level="error",
        lifespan="on",
        ws="none",
        http=local_protocol.LocalProtocol,
        backlog=local_protocol.limits().backlog,
        # Connections close themselves before that.
        timeout_graceful_shutdown=local_protocol.STOP_SECONDS + 2,
        # The gate decides which forwarded addresses are used.
        proxy_headers=False,
        server_header=False,
    )


def _ensure_tenant(ports: Ports, admin_key: Path) -> None:
    """Create the tenant and its first admin key, unless the tenant exists."""
    try:
        tenants.find(ports, _TENANT)
    except NotFound:
        has_tenants = any(True for _ in tenants.directory(ports))
        data_folder.check_whole(admin_key.parent, has_tenants=has_tenants)
        if admin_key.exists():
            raise InvalidSettings(
                f"{admin_key} exists, but the tenant {_TENANT} does not; move the file away."
            ) from None
        _, created = onboarding.create_tenant(ports, handle=_TENANT, user=os_user.name())
        data_folder.write_secret(admin_key, created.secret)
        print(f"Created the tenant {_TENANT}.")


def _print_summary(options: Options, admin_key: Path, listener: socket.socket | None) -> None:
    if admin_key.exists():
        print(f"Its admin key is in {admin_key}.")
    else:
        command = f"rescind admin-key {_TENANT} {_places(options)}"
        print(f"There is no {admin_key}; to create an admin key, run: {command}")
    if listener is not None:
        metrics = OpsAddress(*listener.getsockname()[:2])
        print(f"Metrics are on http://{metrics}/metrics.")
    host, name = options.host, local_addresses.named(options.host)
    print(f"Rescind serves on http://{name}:{options.port}, data in {options.data}.")
    if not host.is_loopback:
        print(
            "Other machines can reach this address, and there is no TLS: API keys cross the network"
            " as plain text. Put a proxy with TLS in front (docs/one-machine.md)."
        )
    if wiring.is_read_only():
        print("It is read-only (SVC_MODE): nothing is changed, and no list is published.")


def _print_console(options: Options, address: str | None) -> None:
    """Print the `address` of the console; on a terminal, with a code that signs in once."""
    if options.console is Choice.OFF:
        return
    if address is None:
        name = local_addresses.named(options.host)
        print(f"Console: http://{name}:{options.port}/ (sign in with an API key)")
    elif sys.stdout.isatty():
        print(f"Console: {console_code.link(options.data, _TENANT)}")
        print(f"It signs in once, within 5 minutes; then run: rescind console {_places(options)}")
    else:
        # Output that goes to a log must not sign in whoever reads the log.
        print(f"Console: {address}/ (to sign in, run: rescind console {_places(options)})")


def _places(options: Options) -> str:
    """Return the options with which a command finds the same data."""
    return f"--data {options.data}" + (f" --keys {options.keys}" if options.keys else "")
