"""`rescind migrate`, for operators: migrate all data to another store."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from infra import data_folder, private_files
from infra.cli.commands import local_command
from infra.cli.errors import option
from infra.cli.output import Output
from shared import wiring
from shared.errors import InvalidSettings
from shared.operations.operator import moving
from shared.ports import Ports

_EXAMPLE: Final = (
    "rescind migrate --from sqlite:.data/svc.db --to dynamodb:rescind-prod- "
    "--to-blobs s3:BUCKET --to-keys kms:alias/rescind-prod"
)
_PLACE: Final = "PLACE"
_SQLITE: Final = "default for SQLite: same folder"
_NEXT: Final = """The source is still active. To finish the migration:
  1. Restart every process of the source with RESCIND_MODE=read-only, and wait for a minute.
  2. Repeat this command with --finish.
  3. Serve from the target."""


From = Annotated[str, option("--from", "Source store, as in RESCIND_STORE.", _PLACE)]
FromBlobs = Annotated[
    str | None, option("--from-blobs", f"Blobs of the source ({_SQLITE}).", _PLACE)
]
FromKeys = Annotated[
    str | None, option("--from-keys", f"Wrapping key of the source ({_SQLITE}).", _PLACE)
]
To = Annotated[str, option("--to", "Target store, which must be empty.", _PLACE)]
ToBlobs = Annotated[str | None, option("--to-blobs", f"Blobs of the target ({_SQLITE}).", _PLACE)]
ToKeys = Annotated[
    str | None, option("--to-keys", f"Wrapping key of the target ({_SQLITE}).", _PLACE)
]
Finish = Annotated[bool, option("--finish", "Finish the migration. The source must be read-only.")]


def register(root: typer.Typer) -> None:
    """Add the command."""
    local_command(root, "migrate", example=_EXAMPLE)(migrate)


def migrate(
    out: Output,
    from_: From,
    to: To,
    from_blobs: FromBlobs = None,
    from_keys: FromKeys = None,
    to_blobs: ToBlobs = None,
    to_keys: ToKeys = None,
    finish: Finish = False,
) -> None:
    """Migrate all data between one machine, PostgreSQL and AWS, in any direction.

    The first run copies while the source serves. With --finish, the command copies later changes,
    compares both stores, and switches to the target. You can repeat it after an interruption.
    """
    with ExitStack() as stack:
        source = stack.enter_context(_open_store(from_, from_blobs, from_keys))
        target = stack.enter_context(_open_store(to, to_blobs, to_keys))
        moving.begin(source, target)
        if not finish:
            with out.progress("items read", None) as bar:
                read = 0

                def report(count: int) -> None:
                    nonlocal read
                    bar.advance(count - read)
                    read = count

                done = moving.copy(source, target, report=report)
            counts = f"{done.put} put, {done.deleted} deleted, {done.blobs} blobs copied"
            out.print_message(f"Read {done.read} items: {counts}.")
            out.print_message(_NEXT)
            return
        # Later changes by a local server would be lost. A server on AWS cannot be detected here.
        if (folder := data_folder.of_store(from_)) is not None:
            remedy = "Restart it with RESCIND_MODE=read-only, and repeat this command."
            stack.enter_context(data_folder.exclusive_access(folder, remedy))
        for handle, version in moving.finish(source, target, user=private_files.name()):
            out.print_message(f"{handle}: published version {version} from the target.")
        out.print_message("The target is now active. The source refuses to start.")


@contextmanager
def _open_store(store: str, blobs: str | None, keys: str | None) -> Iterator[Ports]:
    """Open the ports of a store, which need not be active."""
    if folder := data_folder.of_store(store):
        blobs, keys = blobs or f"file:{folder / 'blobs'}", keys or f"file:{folder / 'master.key'}"
        if keys == f"file:{folder / 'master.key'}" and not (folder / "master.key").exists():
            if Path(store.partition(":")[2]).exists():
                raise InvalidSettings(
                    f"{folder / 'master.key'} is missing; set --from-keys or --to-keys."
                )
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            wiring.create_master_key(folder / "master.key")
    if blobs is None or keys is None:
        raise InvalidSettings(
            f"{store} requires blobs and a wrapping key; add the options for both."
        )
    named = {"RESCIND_STORE": store, "RESCIND_BLOBS": blobs, "RESCIND_KEY_WRAPPER": keys}
    environment = {name: value for name, value in os.environ.items() if name != "RESCIND_MODE"}
    with closing(wiring.assemble(wiring.settings(environment | named))) as ports:
        yield ports
