"""`rescind console`: a link that signs in to the console of a server on this machine."""

import socket
from typing import Final
from urllib.parse import urlsplit

import typer

from infra.cli.errors import NoUsableAnswer, WrongUsage
from infra.cli.operator.operators import Handle, Operator, operator_command
from infra.server import console_code
from shared.operations.base import tenants

_PATIENCE_SECONDS: Final = 2


def register(root: typer.Typer) -> None:
    """Add the command."""
    operator_command(root, "console", example="rescind console --data .data")(link)


def link(operator: Operator, tenant: Handle = "local") -> None:
    """Print a link that signs in to the console once, as administrator of a tenant.

    A server must be running on the data folder. The link works within 5 minutes, and the one before
    it does not work any more.
    """
    if operator.data is None:
        raise WrongUsage("--data: name the data folder of the server on this machine.")
    tenants.find(operator.ports, tenant)
    address = console_code.address(operator.data)
    _check_answers(address)
    found = console_code.link(operator.data, tenant)
    operator.out.show({"link": found}, found)
    operator.out.say("It signs in once, within 5 minutes.")


def _check_answers(address: str) -> None:
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=_PATIENCE_SECONDS).close()
    except OSError as error:
        raise NoUsableAnswer(
            f"No server answers at {address}: {error.strerror or error}."
        ) from error
