"""Run the whole service on one machine: all functions at one address, data in one folder.

The first start creates the tenant `local` and its admin key. Due lists are published at the start
and then every minute, by the operation that the schedule runs on AWS. A change is in the feed at
once.
"""

import argparse
import logging.config
import os
import signal
import socket
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import ClassVar, NoReturn

import uvicorn

from infra import command_line, data_folder, local_protocol, os_user
from infra.local_feed import LOCK_VARIABLE, Feed
from infra.local_timer import Timer
from shared import logs, wiring
from shared.errors import InvalidSettings, NotFound, RescindError
from shared.operations.operator import onboarding
from shared.operations.rules import tenants
from shared.ports import Ports
from shared.ports.one_machine import LocalStore

_HOST = ip_address("127.0.0.1")
_IPV4 = 4
_TENANT = "local"

_log = logging.getLogger("rescind")


def main() -> int:
    """Serve until interrupted. Return 0, or 1 after a message if the service cannot start."""
    arguments = _arguments()
    logging.config.dictConfig(logs.for_one_machine(arguments.log_level))
    signal.signal(signal.SIGINT, _stop)
    try:
        try:
            ports = _prepare(arguments)
        except RescindError as error:
            print(f"Cannot start:\n{error}", file=sys.stderr)
            return 1
        _serve(ports, arguments)
    except (_Stopped, SystemExit):
        # uvicorn exits if it is stopped before its first step.
        if not _Stopped.raised:
            raise
    print("\nStopped; the data is in", arguments.data)
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


def _prepare(arguments: argparse.Namespace) -> Ports:
    _check_address(arguments.host, arguments.port)
    key = data_folder.master_key(arguments.data, arguments.keys, os.environ)
    data_folder.prepare(arguments.data, key)
    # Worker processes read these.
    os.environ.update(data_folder.environment(arguments.data, key))
    os.environ[LOCK_VARIABLE] = str(data_folder.feed_lock(arguments.data))
    ports = wiring.from_environment()
    _check_store(ports, arguments.data)
    _ensure_tenant(ports, arguments.data / "admin.key")
    return ports


def _check_store(ports: Ports, data: Path) -> None:
    """Raise `InvalidSettings` if the database is damaged."""
    if not isinstance(ports.store, LocalStore):
        return
    damage = next(ports.store.problems(quickly=True), None)
    if damage is not None:
        raise InvalidSettings(
            f"{data / 'svc.db'} is damaged. {damage}",
            "Restore svc.db from a backup; then run: recover (docs/deploy.md, restore).",
        )


def _serve(ports: Ports, arguments: argparse.Namespace) -> None:
    timer = Timer(ports)
    feed = Feed(ports, data_folder.feed_lock(arguments.data), timer.publish)
    try:
        timer.start()
        feed.start()
        _print_summary(arguments, arguments.data / "admin.key")
        uvicorn.run(
            "infra.local_app:app",
            host=str(arguments.host),
            port=arguments.port,
            workers=arguments.workers,
            # A worker may start slowly on a busy machine.
            timeout_worker_healthcheck=30,
            log_config=logs.for_one_machine(arguments.log_level),
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
    finally:
        feed.stop()
        timer.stop()


def _arguments() -> argparse.Namespace:
    parser = command_line.parser("local_server", __doc__)
    parser.add_argument(
        "--host",
        type=_address,
        default=_HOST,
        help="IP address to serve on (default 127.0.0.1, which only this machine reaches)",
    )
    parser.add_argument("--port", type=int, default=8080, help="(default 8080)")
    parser.add_argument("--data", type=Path, default=Path(".data"), help="folder (default .data)")
    parser.add_argument(
        "--keys", type=Path, help="file of the master key (default: master.key in the data folder)"
    )
    parser.add_argument("--workers", type=int, default=1, help="server processes (default 1)")
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="info",
        help="what is logged on standard error; info logs each request (default info)",
    )
    return parser.parse_args()


def _address(text: str) -> IPv4Address | IPv6Address:
    try:
        return ip_address(text)
    except ValueError:
        problem = f"{text} is not an IP address such as 127.0.0.1, 0.0.0.0 or ::1"
        raise argparse.ArgumentTypeError(problem) from None


def _check_address(host: IPv4Address | IPv6Address, port: int) -> None:
    family = socket.AF_INET if host.version == _IPV4 else socket.AF_INET6
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((str(host), port))
    except (OSError, OverflowError) as error:
        problem = f"address {host}, port {port}: {error}"
        raise InvalidSettings(f"{problem}. Try another: --port 8081, make run PORT=8081") from error


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


def _print_summary(arguments: argparse.Namespace, admin_key: Path) -> None:
    if admin_key.exists():
        print(f"Its admin key is in {admin_key}.")
    else:
        key = f" --keys {arguments.keys}" if arguments.keys else ""
        command = (
            f"{command_line.program('admin')} --data {arguments.data}{key} admin-key {_TENANT}"
        )
        print(f"There is no {admin_key}; to create an admin key, run: {command}")
    host = arguments.host
    name = host if host.version == _IPV4 else f"[{host}]"
    print(f"Rescind serves on http://{name}:{arguments.port}, data in {arguments.data}.")
    if not host.is_loopback:
        print(
            "Other machines can reach this address, and there is no TLS: API keys cross the network"
            " as plain text. Put a proxy with TLS in front (docs/one-machine.md)."
        )
    print("Ctrl-C stops it.", flush=True)


if __name__ == "__main__":
    # All files of this process are private, also in a folder that is not.
    os.umask(0o077)
    sys.exit(main())
