"""`rescind serve`: run the whole service."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from infra.cli.commands import local_command, noun
from infra.cli.errors import option
from infra.cli.output import Output
from infra.server import addresses, places
from infra.server import server as local_server
from infra.server.addresses import MetricsAddress
from infra.server.documents import ConsoleMode, DocumentsMode
from shared.authorizer.relay.connections import IDLE_SECONDS

EXAMPLE: Final = "rescind serve --port 8080 --data .data"


Host = Annotated[
    str,
    option(
        "--host",
        "IP address to listen on. Only this machine can reach 127.0.0.1.",
        "ADDRESS",
        lambda text: str(addresses.ip(text)),
    ),
]
Port = Annotated[int, option("--port", "TCP port.")]
Data = Annotated[
    Path | None,
    option(
        "--data",
        "Data folder (or RESCIND_DATA). Default: .data, or the stores of RESCIND_STORE.",
        "FOLDER",
    ),
]
KeyFile = Annotated[
    Path | None,
    option("--key-file", "Wrapping key, if it is not master.key in the data folder.", "FILE"),
]
Workers = Annotated[int, option("--workers", "Number of processes that serve requests.", min=1)]
Ops = Annotated[
    MetricsAddress | None,
    option(
        "--ops-address",
        "Serve metrics and health on this address without a key, such as 127.0.0.1:9464.",
        "ADDRESS:PORT",
        MetricsAddress.parse,
    ),
]


class Level(StrEnum):
    """The minimum severity of log lines on standard error."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


ConsoleChoice = Annotated[
    ConsoleMode,
    option("--console", "Serve the console at /. reload reads its files for each request."),
]
DocsChoice = Annotated[
    DocumentsMode, option("--docs", "Serve the API document at /docs and /openapi.json.")
]
DrainSeconds = Annotated[
    int,
    option(
        "--drain-seconds",
        "Seconds to serve after SIGTERM while /readyz fails, for a load balancer.",
        "SECONDS",
        min=0,
    ),
]
Idle = Annotated[
    int,
    option(
        "--idle",
        "Seconds before an idle connection is closed; longer than the limit of a proxy.",
        "SECONDS",
        min=1,
    ),
]
LogLevel = Annotated[
    Level, option("--log-level", "Minimum level of log lines; info logs each request.")
]


def serve(
    out: Output,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    data: Data = None,
    key_file: KeyFile = None,
    workers: Workers = 1,
    ops_address: Ops = None,
    log_level: LogLevel = Level.INFO,
    console: ConsoleChoice = ConsoleMode.ON,
    docs: DocsChoice = DocumentsMode.ON,
    drain_seconds: DrainSeconds = 0,
    idle: Idle = IDLE_SECONDS,
) -> int:
    """Run the whole service, with its data in one folder or in the stores of RESCIND_STORE.

    In a folder, the first start creates the tenant `local` and its admin key. For other stores, run
    `rescind setup`. SRLs that are due are published at the start and then every minute. A change is
    published in the feed at once. Ctrl-C stops the service.
    """
    del out
    address, place = addresses.ip(host), places.choose_source(data, key_file)
    return local_server.serve(
        local_server.Options(
            address,
            port,
            place,
            workers,
            ops_address,
            log_level,
            console,
            docs,
            drain_seconds,
            idle,
        )
    )


def register(root: typer.Typer) -> None:
    """Add the command."""
    local_command(root, "serve", example=EXAMPLE)(serve)


if __name__ == "__main__":
    # Tests start many servers, and this imports less than `rescind serve`.
    os.umask(0o077)
    server = noun("Run the server.")
    register(server)
    server()
