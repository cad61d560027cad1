"""Commands for operators, which access the store directly.

    @operator_command(app, "doctor", example="rescind doctor --data .data")
    def examine(operator: Operator) -> None:
        '''Print each problem and its remedy.'''

`--data` or the environment selects the store (see shared/settings.py).
"""

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from infra import data_folder, private_files
from infra.cli.commands import OPTIONS, PANEL, Command, add, raise_on_signals, run_guarded
from infra.cli.errors import argument, option
from infra.cli.output import Output
from shared import wiring
from shared.errors import InvalidSettings
from shared.model import text
from shared.model.callers import Caller
from shared.operations.operator import onboarding
from shared.ports import Ports

_REMEDY: Final = "Set them in the environment, or name a data folder with --data."

DataOption = Annotated[
    Path | None,
    option(
        "--data", "Data folder, such as .data (or RESCIND_DATA).", "FOLDER", rich_help_panel=PANEL
    ),
]
KeyFileOption = Annotated[
    Path | None,
    option(
        "--key-file",
        "With --data: wrapping key, if it is elsewhere.",
        "FILE",
        rich_help_panel=PANEL,
    ),
]

_OPTIONS: Final[Mapping[str, tuple[Any, object]]] = {
    "data": (DataOption, None),
    "key_file": (KeyFileOption, None),
    "output": OPTIONS["output"],
}


def handle(value: str) -> str:
    """Return the name of a tenant. Raises `ValueError` if it is invalid."""
    try:
        return text.label(value)
    except ValueError as error:
        raise ValueError(f"a tenant name {error}") from None


Handle = Annotated[str, argument("TENANT", "Name of the tenant.", handle)]


@dataclass
class Operator:
    """The ports of an operator command, and the data folder if `--data` names one."""

    out: Output
    ports: Ports
    data: Path | None

    def caller(self, handle: str) -> Caller:
        """Return the operator as a caller in a tenant. Raises `NotFound`."""
        return onboarding.operator(self.ports, handle=handle, user=private_files.name())


def operator_command(app: typer.Typer, name: str, *, example: str) -> Callable[[Command], Command]:
    """Add a command that works on the store. Its first parameter is an `Operator`."""

    def run(function: Command, arguments: dict[str, Any]) -> int | None:
        data = data_folder.resolve_folder(arguments.pop("data"), os.environ)
        key_file, out = arguments.pop("key_file"), Output(arguments.pop("output"))

        def work() -> int | None:
            with closing(_open_ports(data, key_file)) as ports:
                return function(Operator(out, ports, data), **arguments)

        with raise_on_signals():
            return run_guarded(out, work)

    return add(app, name, example=example, options=_OPTIONS, run=run)


def _open_ports(data: Path | None, key_file: Path | None) -> Ports:
    try:
        return wiring.build(
            wiring.settings(data_folder.folder_environment(data, key_file, os.environ))
        )
    except InvalidSettings as error:
        if data is not None or data_folder.settings_in(os.environ):
            raise
        raise InvalidSettings(*error.problems, _REMEDY) from None
