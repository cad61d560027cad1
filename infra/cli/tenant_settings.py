"""`rescind settings`: show and change the tenant settings."""

from typing import Annotated, Final

from infra.cli import inputs
from infra.cli.commands import ApiSession, command, noun
from infra.cli.errors import UsageError, argument

_PATH: Final = "/v1/tenant/settings"
_TEXTS: Final = frozenset({"name", "srl_publication"})

Changes = Annotated[
    list[str], argument("NAME=VALUE", "Setting and value, such as srl_ttl_seconds=3600.")
]

app = noun("Show and change the tenant settings.")


@command(app, "show", example="rescind settings show")
def show(session: ApiSession) -> None:
    """Show the settings."""
    session.out.record(session.api.get(_PATH))


@command(
    app,
    "set",
    example="rescind settings set srl_ttl_seconds=1800 feed_window_ms=0",
    is_protected=True,
)
def set_(session: ApiSession, changes: Changes) -> None:
    """Change settings. `settings show` prints their names."""
    session.out.record(session.api.patch(_PATH, inputs.by_name(map(_change, changes))))


def _change(text: str) -> tuple[str, str | int]:
    name, equals, value = text.partition("=")
    name = name.strip().replace(" ", "_")
    if not equals or not name:
        raise UsageError(f"{text} is not NAME=VALUE.")
    if name in _TEXTS or not (value.isascii() and value.isdecimal()):
        return name, value
    return name, int(value)
