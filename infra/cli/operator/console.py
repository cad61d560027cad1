"""`rescind console`: a link that signs in to the console of a server on this machine."""

from http import HTTPStatus
from typing import Final

import httpx2
import typer

from infra.cli.errors import NoUsableAnswer
from infra.cli.operator.operators import Handle, Operator, operator_command
from infra.server.console import SESSION
from shared.operations.base import tenants
from shared.operations.operator import console_codes

_PATIENCE_SECONDS: Final = 2


def register(root: typer.Typer) -> None:
    """Add the command."""
    operator_command(root, "console", example="rescind console --data .data")(link)


def link(operator: Operator, tenant: Handle = "local") -> None:
    """Print a link that signs in to the console once, as administrator of a tenant.

    It is for a browser on the machine of the server that was started last. The link works within
    5 minutes.
    """
    tenants.find(operator.ports, tenant)
    _check_takes_codes(console_codes.address(operator.ports))
    found = console_codes.link(operator.ports, tenant)
    operator.out.show({"link": found}, found)
    operator.out.say("It signs in once, within 5 minutes.")


def _check_takes_codes(address: str) -> None:
    """Check by a request without a code."""
    try:
        answer = httpx2.post(
            f"{address}{SESSION}",
            headers={"Origin": address},
            timeout=_PATIENCE_SECONDS,
            trust_env=False,
        )
    except httpx2.HTTPError as error:
        raise NoUsableAnswer(f"No server answers at {address}: {error}.") from error
    if answer.status_code != HTTPStatus.UNSUPPORTED_MEDIA_TYPE:
        raise NoUsableAnswer(
            f"The server at {address} takes no codes: it is read-only, serves no console, or does"
            " not listen on 127.0.0.1 or ::1."
        )
