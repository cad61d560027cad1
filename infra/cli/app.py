"""The `rescind` command line, for users of the API and for operators.

Each noun has a module in this folder, and the operators' nouns are in `operator`. `commands.py`
explains how to write a command. `errors.py` defines the exit codes.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final

from typer.core import TyperGroup
from typer.main import get_group

from infra.cli.commands import noun
from infra.cli.errors import option

NAME: Final = "rescind"
_HELP: Final = """Revoke warrants, manage keys, and run the service.

Start with [bold]rescind login[/bold]. Exit codes: 0 success, 1 failure, 2 wrong usage, 3 a
warrant is revoked.
"""

_USERS: Final = "Users of the API"
_OPERATORS: Final = "Operators of the service"
# The module and the help panel of each command, in the order of the help.
_MODULES: Final = {
    "login": ("login", _USERS),
    "logout": ("login", _USERS),
    "whoami": ("login", _USERS),
    "revoke": ("revoking", _USERS),
    "unrevoke": ("revoking", _USERS),
    "check": ("revocations", _USERS),
    "revocations": ("revocations", _USERS),
    "changes": ("changes", _USERS),
    "srl": ("operator.srl_publication", _USERS),
    "signing-keys": ("signing_keys", _USERS),
    "warrants": ("warrants", _USERS),
    "status-lists": ("status_lists", _USERS),
    "api-keys": ("api_keys", _USERS),
    "service-accounts": ("service_accounts", _USERS),
    "identity-providers": ("operator.identities", _USERS),
    "people": ("operator.identities", _USERS),
    "sessions": ("operator.identities", _USERS),
    "roles": ("operator.identities", _USERS),
    "trust": ("operator.roots", _USERS),
    "audit-log": ("audit_log", _USERS),
    "authorizers": ("authorizers", _USERS),
    "webhooks": ("webhooks", _USERS),
    "settings": ("tenant_settings", _USERS),
    "approvals": ("operator.approvals", _USERS),
    "api": ("requests", _USERS),
    "serve": ("operator.serve", _OPERATORS),
    "witness": ("operator.witness", _OPERATORS),
    "setup": ("operator.setup", _OPERATORS),
    "console": ("operator.console", _OPERATORS),
    "tenant": ("operator.tenants", _OPERATORS),
    "admin-key": ("operator.tenants", _OPERATORS),
    "doctor": ("operator.maintenance", _OPERATORS),
    "recover": ("operator.maintenance", _OPERATORS),
    "mark-restored": ("operator.maintenance", _OPERATORS),
    "upgrade": ("operator.maintenance", _OPERATORS),
    "canary": ("operator.maintenance", _OPERATORS),
    "backup": ("operator.backup", _OPERATORS),
    "restore": ("operator.backup", _OPERATORS),
    "migrate": ("operator.moving", _OPERATORS),
    "failover": ("operator.failover", _OPERATORS),
    "set-write-region": ("operator.failover", _OPERATORS),
}


class _Commands(Mapping[str, Any]):
    """Maps names to commands. Imports a module when its first command is used."""

    def __getitem__(self, name: str) -> Any:
        module, panel = _MODULES[name]
        command = _load_commands(module)[name]
        command.rich_help_panel = panel
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


@cache
def _load_commands(module_name: str) -> dict[str, Any]:
    """Return the commands of a module, by name. A module without `register` has one group."""
    module, root = import_module(f"infra.cli.{module_name}"), noun("")
    if hasattr(module, "register"):
        module.register(root)
    else:
        (name,) = (each for each, (of, _) in _MODULES.items() if of == module_name)
        root.add_typer(module.app, name=name)
    return dict(get_group(root).commands)


class _Root(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()  # type: ignore[assignment]


app = noun(_HELP, cls=_Root)


@app.callback()
def _begin(
    _version: Annotated[bool, option("--version", "Print the version.")] = False,
) -> None:
    """Show --version in the help. `__main__.py` has handled the option before."""
