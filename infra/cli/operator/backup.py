"""`rescind backup` and `rescind restore`, for a data folder."""

import os
from pathlib import Path
from typing import Annotated

import typer

from infra import backup, data_folder
from infra.cli.commands import local_command
from infra.cli.errors import argument, option
from infra.cli.operator.operators import DataOption, KeyFileOption
from infra.cli.output import Output
from shared.errors import InvalidSettings

Destination = Annotated[Path, argument("BACKUP", "New folder for the backup.")]
Source = Annotated[Path, argument("BACKUP", "Folder that `backup` created.")]
WithKey = Annotated[
    bool,
    option(
        "--with-master-key",
        "Also copy the wrapping key. Anyone with the backup can then sign with every key.",
    ),
]
Replace = Annotated[bool, option("--replace", "Rename the existing store instead of failing.")]

_WITH_KEY = "The backup contains the wrapping key. Anyone with this folder can sign with every key."
_WITHOUT_KEY = "The backup lacks the wrapping key. Keep a copy elsewhere, or add --with-master-key."
_LEFT_OUT = "The backup lacks admin.key. After a restore, create another key: rescind admin-key."


def register(root: typer.Typer) -> None:
    """Add the commands."""
    for name, function in (("backup", create_backup), ("restore", put_back)):
        example = f"rescind {name} /backups/monday --data .data"
        local_command(root, name, example=example)(function)


def create_backup(
    out: Output,
    folder: Destination,
    data: DataOption = None,
    key_file: KeyFileOption = None,
    with_master_key: WithKey = False,
) -> None:
    """Back up a data folder while the server runs, and verify the backup.

    The backup contains the store, the current SRLs, the transparency log, and a hash of each file.
    """
    data = _backup_name(data)
    data_folder.folder_environment(data, key_file, os.environ)
    manifest = backup.back_up(
        data, data_folder.master_key(data, key_file), folder, with_key=with_master_key
    )
    out.print_message(
        f"Created and verified {folder}: {manifest.tenants} tenant(s), {len(manifest.files)} files."
    )
    out.print_message(_WITH_KEY if with_master_key else _WITHOUT_KEY)
    out.print_message(_LEFT_OUT)


def put_back(
    out: Output,
    folder: Source,
    data: DataOption = None,
    key_file: KeyFileOption = None,
    replace: Replace = False,
) -> None:
    """Verify a backup, and restore it to a data folder. Stop the server first.

    SRLs that are newer than the backup are kept. `recover` re-applies their revocations. Run it for
    each tenant before you start the server.
    """
    data = _backup_name(data)
    done = backup.restore(folder, data, key=key_file, replace=replace)
    if done.set_aside is not None:
        out.print_message(f"Renamed the previous store to {done.set_aside}.")
    out.print_message(
        f"Restored the backup of {done.manifest.made_at}. Before you start the server, run:"
    )
    for handle in done.handles:
        out.print_message(f"  rescind recover {handle} --data {data}")


def _backup_name(data: Path | None) -> Path:
    if (folder := data_folder.resolve_folder(data, os.environ)) is None:
        raise InvalidSettings("backup and restore require a data folder; set --data.")
    return folder
