"""`rescind list signers`: the keys that sign the Signed Revocation List."""

from typing import Annotated, Any, Final

import typer

from infra.cli.client import Api, segment
from infra.cli.commands import ApiSession, command, confirm, noun
from infra.cli.errors import Yes
from infra.cli.output import Column

_PATH: Final = "/v1/revocations/srl/keys"
_COLUMNS: Final = (
    Column("list signer", "key_id"),
    Column("status", "status"),
    Column("activates at", "activates_at"),
    Column("public key", "public_key"),
)

SignerId = Annotated[str, typer.Argument(metavar="SIGNER", help="svc_key_…")]
Force = Annotated[bool, typer.Option("--force", help="Also before its time.")]
Compromised = Annotated[
    bool, typer.Option("--compromised", help="The present key was stolen: revoke it.")
]

app = noun("The keys that sign the list: create, activate, rotate, revoke.")


@command(app, "list", example="rescind list signers list")
def list_(session: ApiSession) -> None:
    """List the list signers. The first one signed the list in force."""
    found = all_of(session.api)
    session.out.table(found, found["keys"], _COLUMNS)


@command(app, "create", example="rescind list signers create")
def create(session: ApiSession) -> None:
    """Create the key that will sign next, so that authorizers can learn of it."""
    session.out.record(session.api.post(_PATH))


@command(app, "activate", example="rescind list signers activate svc_key_01J…")
def activate(session: ApiSession, signer: SignerId, force: Force = False) -> None:
    """Let a pending key sign from now on, and publish a list that it signed."""
    path = f"{_PATH}/{segment(signer)}/activate"
    session.out.record(session.api.post(path, {"force": force}))


@command(app, "rotate", example="rescind list signers rotate --compromised --yes")
def rotate(session: ApiSession, compromised: Compromised = False, yes: Yes = False) -> None:
    """Replace the key at once, and publish a list that the new one signed.

    Authorizers that read lists refuse it until they know the new key. To give them time, use
    `create` and, later, `activate`.
    """
    confirm("Replace the key that signs the list now?", yes=yes)
    session.out.record(session.api.post(f"{_PATH}/rotate", {"compromised": compromised}))


@command(app, "revoke", example="rescind list signers revoke svc_key_01J… --yes")
def revoke(session: ApiSession, signer: SignerId, yes: Yes = False) -> None:
    """Revoke a stolen key; another takes over at once. This cannot be undone."""
    confirm(f"Revoke the list signer {signer}?", yes=yes)
    session.out.record(session.api.post(f"{_PATH}/{segment(signer)}/revoke"))


def all_of(api: Api) -> dict[str, Any]:
    """Return all list signers in one page. The first one signed the list in force."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = api.get(_PATH, {"cursor": cursor})
        found += page["keys"]
        cursor = page["cursor"]
        if cursor is None:
            return {"keys": found, "cursor": None}
