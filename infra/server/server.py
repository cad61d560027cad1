"""Run the whole service on one machine: all functions at one address, data in one folder.

This process makes ready, opens the addresses, and keeps the others running: one that publishes,
some that answer requests, and one for metrics. The first start creates the tenant `local` and its
admin key.
"""

import importlib
import logging.config
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, Final, NoReturn

from infra import data_folder, private_files
from infra.server import (
    addresses,
    console_code,
    documents,
    worker,
)
from infra.server import (
    console as local_console,
)
from infra.server import (
    publisher as local_publisher,
)
from infra.server.addresses import OpsAddress
from infra.server.board import OPS, PUBLISHER, Board
from infra.server.console import ConsoleMode
from infra.server.processes import Processes
from infra.server.publications import Publications
from shared import logs, wiring
from shared.errors import Corrupt, InvalidSettings, NotFound, RescindError
from shared.operations.base import tenants
from shared.operations.operator import deployment, onboarding, restored
from shared.ports import Ports
from shared.ports.one_machine import LocalStore

_TENANT = "local"
# How long the start waits for what is due, which takes longer only with thousands of tenants or a
# very slow disk.
_FIRST_SECONDS: Final = 30

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
    console: ConsoleMode = ConsoleMode.ON
    docs: documents.DocumentsMode = documents.DocumentsMode.ON


def serve(options: Options) -> int:
    """Serve until a signal. Return 0, or 1 after a message if the service cannot start."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _stop)
    try:
        try:
            sockets = _prepare(options)
        except RescindError as error:
            print(f"Cannot start:\n{error}", file=sys.stderr)
            return 1
        _serve(options, sockets)
    except _Stopped:
        pass
    print("\nStopped; the data is in", options.data)
    return 0


class _Stopped(KeyboardInterrupt):
    """Ctrl-C was pressed, or the server was told to end.

    A signal may arrive while Python compiles a module. Then Python drops all exceptions but this
    one and its subclasses. After KeyboardInterrupt itself it exits by the signal, even if that
    was caught.
    """


def _stop(_signal: int, _frame: object) -> NoReturn:
    raise _Stopped


@dataclass(frozen=True)
class _Sockets:
    """Where requests arrive, and where those for metrics do."""

    requests: socket.socket
    ops: socket.socket | None

    def close(self) -> None:
        self.requests.close()
        if self.ops is not None:
            self.ops.close()


def _prepare(options: Options) -> _Sockets:
    """Make the folder and the tenant, and open the addresses."""
    data_folder.check_named(options.data, os.environ)
    listener = addresses.bind(options.host, options.port)
    key = data_folder.master_key(options.data, options.keys, os.environ)
    data_folder.prepare(options.data, key)
    # The other processes read these.
    os.environ.update(data_folder.environment(options.data, key))
    os.environ[local_console.VARIABLE] = options.console
    os.environ[documents.VARIABLE] = options.docs
    if not wiring.is_read_only():
        data_folder.use(options.data)
    sockets = _Sockets(listener, _listen(options.ops_address, options.data))
    logging.config.dictConfig(_log_config(options))
    with closing(_opened(options.data)) as ports:
        if not wiring.is_read_only():
            restored.check_recovered(ports)
            deployment.mark_schema(ports)
            _ensure_tenant(ports, options.data / "admin.key")
    # SQLite's connections must not be used across a fork. Each process has its own.
    wiring.from_environment.cache_clear()
    return sockets


def _take_codes(options: Options) -> str | None:
    """Let this server take one-time codes, and return the address of its console; None if not."""
    name = addresses.of_this_machine(options.host)
    if name is None or options.console is ConsoleMode.OFF or wiring.is_read_only():
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
    listener = addresses.listen(address)
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


def _log_config(options: Options) -> dict[str, Any]:
    counted_by = None if options.ops_address is None else "infra.server.metrics.Handler"
    return logs.for_one_machine(options.log_level, counted_by=counted_by)


def _serve(options: Options, sockets: _Sockets) -> None:
    """Publish what is due; then answer requests until a signal."""
    workers = [f"worker {number}" for number in range(1, options.workers + 1)]
    publisher = [] if wiring.is_read_only() else [PUBLISHER]
    ops = [] if sockets.ops is None else [OPS]
    board, publications = Board([*publisher, *workers, *ops]), Publications()
    with Processes(board) as processes, closing(sockets), closing(publications):
        if publisher:
            processes.start(PUBLISHER, partial(_publish, board, publications, sockets))
        address = _take_codes(options)
        # The modules of those that answer are in memory once. Meanwhile what is due is published.
        local_app = importlib.import_module("infra.server.app")
        if publisher:
            local_app.publish_by(publications, board)
            _wait_for_lists(processes, board)
        if sockets.ops is not None:
            processes.start(OPS, partial(_tell, sockets, board))
        for each in workers:
            processes.start(each, partial(_work, sockets, partial(board.beat, each)))
        _print_summary(options, options.data / "admin.key", sockets.ops)
        _print_console(options, address)
        print("Ctrl-C stops it.", flush=True)
        processes.keep()


def _publish(board: Board, publications: Publications, sockets: _Sockets, stop: int) -> None:
    sockets.close()
    local_publisher.run(stop, board, publications)


def _wait_for_lists(processes: Processes, board: Board, seconds: float = _FIRST_SECONDS) -> None:
    processes.wait(board.has_begun, seconds=seconds)
    if not board.has_begun():
        _log.warning(
            "publishing due lists takes more than %d seconds; serving meanwhile, and some lists may"
            " have expired",
            seconds,
        )


def _work(sockets: _Sockets, beat: Callable[[], None], stop: int) -> None:
    if sockets.ops is not None:
        sockets.ops.close()
    worker.run(stop, sockets.requests, beat)


def _tell(sockets: _Sockets, board: Board, stop: int) -> None:
    sockets.requests.close()
    # Not imported before: the library for metrics reads its folder when it is imported.
    importlib.import_module("infra.server.ops").run(stop, sockets.ops, board)


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
        _, created = onboarding.create_tenant(ports, handle=_TENANT, user=private_files.name())
        data_folder.write_secret(admin_key, created.secret)
        print(f"Created the tenant {_TENANT}.")


def _print_summary(options: Options, admin_key: Path, ops: socket.socket | None) -> None:
    if admin_key.exists():
        print(f"Its admin key is in {admin_key}.")
    else:
        command = f"rescind admin-key {_TENANT} {_places(options)}"
        print(f"There is no {admin_key}; to create an admin key, run: {command}")
    if ops is not None:
        metrics = OpsAddress(*ops.getsockname()[:2])
        print(f"Metrics are on http://{metrics}/metrics.")
    host, name = options.host, addresses.named(options.host)
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
    if options.console is ConsoleMode.OFF:
        return
    if address is None:
        name = addresses.named(options.host)
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
