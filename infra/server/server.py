"""Run the whole service: all functions at one address.

This process prepares the stores, opens the sockets, and supervises the other processes: one that
publishes, several that answer requests, and one for metrics.
"""

import importlib
import logging.config
import os
import signal
import socket
import sys
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final, NoReturn

from infra import data_folder, private_files
from infra.server import addresses, documents, places, worker
from infra.server import publisher as local_publisher
from infra.server.addresses import MetricsAddress
from infra.server.board import OPS, PUBLISHER, ProcessStatus
from infra.server.documents import ConsoleMode
from infra.server.places import DataSource
from infra.server.processes import ProcessSupervisor
from infra.server.publications import PublicationRequests
from shared import logs, wiring
from shared.authorizer.relay.connections import IDLE_SECONDS
from shared.errors import DataCorrupt, InvalidSettings, RescindError
from shared.operations.identities import tickets
from shared.operations.operator import onboarding, restored
from shared.ports import Ports
from shared.ports.one_machine import LocalBlobs, LocalStore

# How long the start waits for due publications, in seconds. Only thousands of tenants or a very
# slow disk need more.
_FIRST_SECONDS: Final = 30

_log = logging.getLogger("rescind")


@dataclass(frozen=True)
class Options:
    """Where and how to serve.

    After SIGTERM, requests are served for `drain_seconds` while `/readyz` reports that the server
    stops, so a load balancer can stop sending requests. Another signal ends the drain. A connection
    without a request is closed after `idle_seconds`.
    """

    host: IPv4Address | IPv6Address
    port: int
    place: DataSource
    workers: int
    ops_address: MetricsAddress | None
    log_level: str
    console: ConsoleMode = ConsoleMode.ON
    docs: documents.DocumentsMode = documents.DocumentsMode.ON
    drain_seconds: int = 0
    idle_seconds: int = IDLE_SECONDS


def serve(options: Options) -> int:
    """Serve until a signal. Return 0, or 1 after a message if the service cannot start."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _stop)
    try:
        with ExitStack() as stack:
            try:
                sockets = _prepare(options, stack)
            except RescindError as error:
                print(f"Cannot start:\n{error}", file=sys.stderr)
                return 1
            _serve(options, sockets)
    except _ShutdownRequested:
        pass
    print("\nStopped; the data is in", options.place)
    return 0


class _ShutdownRequested(KeyboardInterrupt):
    """Ctrl-C was pressed, or the server received a signal to stop.

    A signal may arrive while Python compiles a module. Python then drops all exceptions except
    KeyboardInterrupt and its subclasses. After KeyboardInterrupt itself, Python exits by the signal
    even if the exception was caught.
    """

    def __init__(self, number: int) -> None:
        self.signal = number


def _stop(number: int, _frame: object) -> NoReturn:
    raise _ShutdownRequested(number)


@dataclass(frozen=True)
class _Sockets:
    """The sockets for requests and for metrics.

    `console` is the address of the console, with a sign-in ticket if it may be printed. It is None
    if the server is read-only, because tickets do not work there.
    """

    requests: socket.socket
    ops: socket.socket | None
    console: str | None

    def close(self) -> None:
        self.requests.close()
        if self.ops is not None:
            self.ops.close()


def _prepare(options: Options, stack: ExitStack) -> _Sockets:
    """Prepare the stores, and open the sockets."""
    requests = addresses.bind(options.host, options.port)
    options.place.prepare()
    # The other processes read these variables.
    os.environ[documents.CONSOLE] = options.console
    os.environ[documents.DOCS] = options.docs
    ops = handler = console = None
    if (address := options.ops_address) is not None:
        ops, handler = addresses.listen(address), "infra.server.metrics.Handler"
        folder = data_folder.empty_metrics(options.place.scratch(stack), str(address))
        os.environ[data_folder.METRICS_VARIABLE] = str(folder)
    logging.config.dictConfig(logs.for_one_machine(options.log_level, counted_by=handler))
    with closing(_open_ports()) as ports:
        if not wiring.is_read_only():
            options.place.begin(ports)
            console = _console(options, ports)
    # SQLite connections must not be used across a fork, so each process opens its own.
    wiring.prepare_fork()
    return _Sockets(requests, ops, console)


def _console(options: Options, ports: Ports) -> str:
    """Return the address of the console, with a sign-in ticket if it is for a terminal.

    Output to a log must not contain a ticket, because readers of the log could sign in.
    """
    address, tenant = _address(options), options.place.tenant
    if options.console is ConsoleMode.OFF or tenant is None or not sys.stdout.isatty():
        return address
    operator = onboarding.operator(ports, handle=tenant, user=private_files.name())
    return f"{address}#ticket={tickets.issue(ports, operator)}"


def _address(options: Options) -> str:
    return f"http://{addresses.browser_host(options.host)}:{options.port}/"


def _open_ports() -> Ports:
    """Return the ports after checking the stores. Raises `InvalidSettings`."""
    try:
        ports = wiring.from_environment()
    except DataCorrupt as error:
        raise _damage_error(str(error)) from error
    if isinstance(ports.store, LocalStore):
        for damage in ports.store.problems(quickly=True):
            raise _damage_error(damage)
    if not (isinstance(ports.store, LocalStore) and isinstance(ports.blobs, LocalBlobs)):
        places.probe()
    elif not wiring.is_read_only():
        restored.check_recovered(ports)
    return ports


def _damage_error(damage: str) -> InvalidSettings:
    store = Path(os.environ["RESCIND_STORE"].partition(":")[2])
    return InvalidSettings(
        f"{store} is damaged. {damage}",
        f"Restore {store.name} from a backup; then run: rescind recover (docs/restore.md).",
    )


def _serve(options: Options, sockets: _Sockets) -> None:
    """Publish due SRLs, then answer requests until a signal."""
    workers = [f"worker {number}" for number in range(1, options.workers + 1)]
    publisher = [] if wiring.is_read_only() else [PUBLISHER]
    ops = [] if sockets.ops is None else [OPS]
    board, publications = ProcessStatus([*publisher, *workers, *ops]), PublicationRequests()

    def publish(stop: int) -> None:
        sockets.close()
        local_publisher.run(stop, board, publications)

    def run_ops(stop: int) -> None:
        sockets.requests.close()
        # Imported late, because the metrics library reads its folder at import time.
        importlib.import_module("infra.server.ops").run(stop, sockets.ops, board)

    with ProcessSupervisor(board) as processes, closing(sockets), closing(publications):
        if publisher:
            processes.start(PUBLISHER, publish)
        # Imported once here, so workers share the memory. The publisher runs at the same time.
        local_app = importlib.import_module("infra.server.app")
        local_app.set_process_state(board, publications if publisher else None)
        if publisher:
            _wait_for_lists(processes, board)
        if sockets.ops is not None:
            processes.start(OPS, run_ops)
        for each in workers:
            processes.start(each, partial(_run_worker, options, sockets, board, each))
        _print_summary(options, sockets.ops)
        _print_console(options, sockets.console)
        print("Ctrl-C stops it.", flush=True)
        try:
            processes.keep()
        except _ShutdownRequested as stopped:
            if stopped.signal == signal.SIGTERM:
                board.record_stopping()
                processes.wait(lambda: False, seconds=options.drain_seconds)
            raise


def _run_worker(
    options: Options, sockets: _Sockets, board: ProcessStatus, name: str, stop: int
) -> None:
    if sockets.ops is not None:
        sockets.ops.close()
    worker.run(stop, sockets.requests, board, name, idle_seconds=options.idle_seconds)


def _wait_for_lists(
    processes: ProcessSupervisor, board: ProcessStatus, seconds: float = _FIRST_SECONDS
) -> None:
    processes.wait(board.has_begun, seconds=seconds)
    if not board.has_begun():
        message = (
            "publishing due SRLs takes more than %d seconds; some served SRLs may have expired"
        )
        _log.warning(message, seconds)


def _print_summary(options: Options, ops: socket.socket | None) -> None:
    print(options.place.keys())
    if ops is not None:
        metrics = MetricsAddress(*ops.getsockname()[:2])
        print(f"Metrics are on http://{metrics}/metrics.")
    host, name = options.host, addresses.url_host(options.host)
    print(f"Rescind serves on http://{name}:{options.port}, data in {options.place}.")
    if not host.is_loopback:
        print(
            "Other machines can reach this address, and there is no TLS: API keys cross the network"
            " as plain text. Put a proxy with TLS in front (docs/one-machine.md)."
        )
    if wiring.is_read_only():
        print("It is read-only (RESCIND_MODE): it changes no data, and publishes no SRL.")


def _print_console(options: Options, address: str | None) -> None:
    """Print the address of the console that `_console` returned."""
    if options.console is ConsoleMode.OFF:
        return
    plain = _address(options)
    url = "" if plain == addresses.LOCAL else f" --url {plain}"
    command = f"{options.place.command('console')}{url}"
    if address is None:
        print(f"Console: {plain} (sign in with an API key)")
    elif "#" in address:
        print(f"Console: {address}")
        print(f"It signs in once, within 5 minutes; then run: {command}")
    else:
        print(f"Console: {address} (to sign in, run: {command})")
