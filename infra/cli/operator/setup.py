"""`rescind setup`: make stores ready that several servers share."""

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

import typer

from infra import data_folder, private_files
from infra.cli.commands import local_command
from infra.cli.errors import WrongUsage, checked
from infra.cli.operator.operators import handle
from infra.cli.operator.tenants import show_key
from infra.cli.output import Output
from shared import wiring
from shared.errors import Conflict, InvalidSettings
from shared.operations.operator import deployment, onboarding
from shared.ports import Ports
from shared.settings import Uri

_EXAMPLE: Final = "rescind setup --tenant acme > acme.key"

Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant", parser=checked(handle), metavar="NAME", help="The first tenant, to be created."
    ),
]


Role = Annotated[
    str | None,
    typer.Option(
        "--role", metavar="ROLE", help="The role of the servers in PostgreSQL, if not the owner's."
    ),
]


def register(root: typer.Typer) -> None:
    """Add the command."""
    local_command(root, "setup", example=_EXAMPLE)(set_up)


def set_up(out: Output, tenant: Tenant = None, role: Role = None) -> None:
    """Make the stores ready that the environment names, and print the first admin key once.

    In PostgreSQL run it as the owner of the database. If SVC_KEYS names a file that does not exist,
    it is created. A data folder needs no setup. The command may be repeated: what exists stays as
    it is.
    """
    if not data_folder.settings_in(os.environ):
        raise WrongUsage("name the stores in SVC_STORE, SVC_BLOBS and SVC_KEYS.")
    settings = wiring.settings(os.environ)
    wiring.create_tables(settings, role=role)
    _make_key(out, settings.keys)
    with closing(wiring.build(settings)) as ports:
        deployment.mark_if_new(ports)
        if tenant is not None:
            _make_tenant(out, ports, tenant)
    out.say("The stores are ready; now run rescind serve with the same settings.")


def _make_key(out: Output, keys: Uri) -> None:
    """Create the key file. Another `setup` may do the same."""
    file = Path(keys.location)
    if keys.scheme != "file" or file.exists():
        return
    try:
        wiring.create_master_key(file)
    except InvalidSettings:
        if not file.exists():
            raise
    else:
        out.say(f"Created {file}: each server needs the same file, and so does a restore.")


def _make_tenant(out: Output, ports: Ports, tenant: str) -> None:
    try:
        _, created = onboarding.create_tenant(ports, handle=tenant, user=private_files.name())
    except Conflict:
        out.say(f"The tenant {tenant} exists; for an admin key, run: rescind admin-key {tenant}")
        return
    out.say(f"Created the tenant {tenant}.")
    show_key(out, created)
