"""`rescind setup`: initialize stores that several servers share."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

import typer

from functions.trust.state import has_documents
from infra import data_folder, private_files
from infra.cli.commands import local_command
from infra.cli.errors import UsageError, option
from infra.cli.operator.operators import handle
from infra.cli.operator.tenants import show_key
from infra.cli.output import Output
from shared import wiring
from shared.errors import Conflict, InvalidSettings
from shared.operations.operator import deployment, onboarding
from shared.ports import Ports

_EXAMPLE: Final = "rescind setup --tenant acme > acme.key"

Tenant = Annotated[str | None, option("--tenant", "Create this tenant.", "NAME", handle)]


Role = Annotated[
    str | None, option("--role", "PostgreSQL role of the servers, if it is not the owner.", "ROLE")
]


def register(root: typer.Typer) -> None:
    """Add the command."""
    local_command(root, "setup", example=_EXAMPLE)(set_up)


def set_up(out: Output, tenant: Tenant = None, role: Role = None) -> None:
    """Initialize the configured stores, and print the first admin key once.

    For PostgreSQL, run it as the owner of the database. If RESCIND_KEY_WRAPPER names a missing
    file, it is created together with a root key in the same folder. A data folder needs no setup.
    The command is safe to repeat and keeps existing data.
    """
    if not data_folder.settings_in(os.environ):
        raise UsageError("set RESCIND_STORE, RESCIND_BLOBS and RESCIND_KEY_WRAPPER.")
    settings = wiring.settings(os.environ)
    wiring.create_tables(settings, role=role)
    if settings.key_wrapper.scheme == "file":
        _make_file(out, Path(settings.key_wrapper.location), wiring.create_master_key)
    with closing(wiring.build(settings)) as ports:
        deployment.mark_if_new(ports)
        root = wiring.default_root(settings)
        # Another root may have signed trust documents.
        if root is not None and not root.exists():
            if has_documents(ports):
                out.print_message(f"{root} is missing: {data_folder.LOST_ROOT}")
            else:
                _make_file(out, root, wiring.create_root)
        if tenant is not None:
            _make_tenant(out, ports, tenant)
    out.print_message("The stores are ready. Run rescind serve with the same settings.")


def _make_file(out: Output, file: Path, create: Callable[[Path], object]) -> None:
    """Create a key file. A concurrent `setup` may have created it."""
    if file.exists():
        return
    try:
        create(file)
    except InvalidSettings:
        if not file.exists():
            raise
    else:
        out.print_message(f"Created {file}. Every server and every restore requires the same file.")


def _make_tenant(out: Output, ports: Ports, tenant: str) -> None:
    try:
        _, created = onboarding.create_tenant(ports, handle=tenant, user=private_files.name())
    except Conflict:
        out.print_message(
            f"The tenant {tenant} exists; for an admin key, run: rescind admin-key {tenant}"
        )
        return
    out.print_message(f"Created the tenant {tenant}.")
    show_key(out, created)
