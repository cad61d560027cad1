"""`rescind console`: create a sign-in link for the console."""

from typing import Annotated

import typer

from infra.cli.errors import option
from infra.cli.operator.operators import Handle, Operator, operator_command
from infra.server import addresses
from shared.operations.identities import tickets

Url = Annotated[str, option("--url", "Service URL.")]


def register(root: typer.Typer) -> None:
    """Add the command."""
    operator_command(root, "console", example="rescind console --data .data")(print_link)


def print_link(operator: Operator, tenant: Handle = "local", url: Url = addresses.LOCAL) -> None:
    """Print a link that signs in once to the console, as an administrator of a tenant.

    The link works for 5 minutes, in any browser that can reach the service.
    """
    ticket = tickets.issue(operator.ports, operator.caller(tenant))
    link = f"{url.rstrip('/')}/#ticket={ticket}"
    operator.out.show({"link": link}, link)
    operator.out.print_message("The link works once, within 5 minutes. The session lasts one hour.")
