"""`rescind witness`: run a witness of transparency logs."""

from pathlib import Path
from typing import Annotated, Final

import typer
import uvicorn

from infra import witness as service
from infra.cli.commands import local_command
from infra.cli.errors import UsageError, option
from infra.cli.output import Output
from infra.server import addresses, worker
from infra.witness import WitnessStore
from shared.authorizer.relay.connections import Config
from shared.model.audit.witness_policy import NoteKey

EXAMPLE: Final = "rescind witness --data .witness --name witness.example/1"


def run_witness(
    out: Output,
    data: Annotated[Path, option("--data", "Folder for the state of the witness.", "FOLDER")],
    name: Annotated[
        str | None, option("--name", "Name of a new witness, such as witness.example/1.")
    ] = None,
    log: Annotated[
        list[str] | None,
        option(
            "--log",
            "Verifier key of a log to cosign, from `GET /v1/audit-logs/keys`. Needed once per "
            "key; may be repeated.",
            "KEY",
        ),
    ] = None,
    host: Annotated[str, option("--host", "IP address to listen on.")] = "127.0.0.1",
    port: Annotated[int, option("--port", "TCP port.")] = 7380,
) -> None:
    """Run a witness, which cosigns checkpoints that extend all checkpoints it signed before.

    Run it where the operators of the service cannot change it. Never restore an older copy of its
    folder. Create a new witness instead. Ctrl-C stops it.
    """
    try:
        known = [NoteKey.parse(each) for each in log or ()]
    except ValueError as error:
        raise UsageError(f"--log: {error}") from error
    memory = WitnessStore.open(data, name)
    for each in known:
        memory.add(each)
    address = addresses.ip(host)
    with addresses.bind(address, port) as listener:
        listener.listen()
        place = f"{addresses.url_host(address)}:{listener.getsockname()[1]}"
        out.print_message(f"This is the witness {memory.identity.key}")
        out.print_message(f"http://{place}")
        config = Config(
            service.application(memory),
            worker.limits(),
            http=worker.LocalConnection,
            lifespan="off",
        )
        uvicorn.Server(config).run(sockets=[listener])


def register(root: typer.Typer) -> None:
    """Add the command."""
    local_command(root, "witness", example=EXAMPLE)(run_witness)
