"""`rescind signing-keys`: the signing keys, as a tree, and what is done with one."""

from enum import StrEnum
from typing import Annotated, Final

from infra.cli.client import segment
from infra.cli.columns import Column
from infra.cli.commands import ApiSession, command, confirm, noun
from infra.cli.errors import (
    SHOWN,
    DryRun,
    Expires,
    Limit,
    Reason,
    Yes,
    argument,
    drop_missing,
    option,
)

_PATH: Final = "/v1/keys"
_COLUMNS: Final = (
    Column("key", "id"),
    Column("type", "type"),
    Column("status", "status"),
    Column("name", "name", wraps=True),
)

Cascade = Annotated[bool, option("--cascade", "Also revoke all descendant keys.")]
KeyId = Annotated[str, argument("KEY", "svc_key_…")]

_IMPACT: Final = ("id", "name", "type", "status", "keys", "warrants")

app = noun("Create, rotate, suspend and revoke signing keys.")


@command(app, "tree", example="rescind signing-keys tree", watches=True)
def show_tree(session: ApiSession) -> None:
    """Show the key hierarchy."""
    page = session.api.list_records(_PATH, "keys")
    session.out.print_tree("signing keys", page, page["keys"], _COLUMNS)


@command(app, "list", example="rescind signing-keys list -n 20", watches=True)
def list_(session: ApiSession, limit: Limit = SHOWN) -> None:
    """List the signing keys."""
    session.out.print_page(session.api.list_records(_PATH, "keys", most=limit), "keys", _COLUMNS)


@command(app, "show", example="rescind signing-keys show svc_key_01J…", watches=True)
def show(session: ApiSession, key: KeyId) -> None:
    """Show one signing key."""
    session.out.record(session.api.get(_one(key)))


ParentId = Annotated[str | None, option("--parent", "Parent key.", "KEY")]


class KeyType(StrEnum):
    """The types of signing keys (KEY-1)."""

    ROOT = "root"
    ISSUER = "issuer"
    NOTARY = "notary"


@command(app, "create", example="rescind signing-keys create issuer laptops --parent svc_key_01J…")
def create(
    session: ApiSession,
    type_: Annotated[KeyType, argument("TYPE", "Key type: root, issuer or notary.")],
    name: Annotated[str, argument("NAME", "Display name.")],
    parent: ParentId = None,
    expires_at: Expires = None,
) -> None:
    """Create a signing key. Its private key never leaves the service."""
    body = {"type": type_, "name": name, "parent_id": parent, "expires_at": expires_at}
    session.out.record(session.api.post(_PATH, drop_missing(body)))


@command(app, "rotate", example="rescind signing-keys rotate svc_key_01J…")
def rotate(session: ApiSession, key: KeyId) -> None:
    """Rotate a signing key to a new version, which signs from now on.

    Warrants of the old version stay valid.
    """
    session.out.record(session.api.post(_one(key, "/rotate")))


@command(app, "versions", example="rescind signing-keys versions svc_key_01J…", watches=True)
def list_versions(session: ApiSession, key: KeyId) -> None:
    """List the versions of a key with their public keys."""
    document = session.api.get(_one(key, "/versions"))
    columns = (
        Column("version", "version"),
        Column("status", "status"),
        Column("created at", "created_at"),
        Column("public key", "public_key"),
    )
    session.out.print_table(document, document["versions"], columns)


@command(
    app,
    "warrants",
    example="rescind signing-keys warrants svc_key_01J… --limit 0 -o json",
    watches=True,
)
def list_warrants(session: ApiSession, key: KeyId, limit: Limit = SHOWN) -> None:
    """List the warrants that a key has signed."""
    columns = (
        Column("warrant", "warrant_id"),
        Column("version", "key_version"),
        Column("signed at", "signed_at"),
        Column("expires at", "expires_at"),
    )
    page = session.api.list_records(_one(key, "/warrants"), "warrants", most=limit)
    session.out.print_page(page, "warrants", columns)


@command(app, "suspend", example="rescind signing-keys suspend svc_key_01J…")
def suspend(session: ApiSession, key: KeyId) -> None:
    """Suspend a key. Its warrants stay valid."""
    session.out.record(session.api.post(_one(key, "/suspend")))


@command(app, "enable", example="rescind signing-keys enable svc_key_01J…")
def enable(session: ApiSession, key: KeyId) -> None:
    """Enable a suspended key."""
    session.out.record(session.api.post(_one(key, "/enable")))


@command(
    app,
    "revoke",
    example='rescind signing-keys revoke svc_key_01J… --reason "leaked" --cascade',
    is_protected=True,
)
def revoke(
    session: ApiSession,
    key: KeyId,
    reason: Reason,
    cascade: Cascade = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Revoke a key and all warrants that it has signed. This cannot be undone."""
    if dry_run:
        body = {"reason": reason, "cascade": cascade, "dry_run": True}
        session.out.record(session.api.post(_one(key, "/revoke"), body), _IMPACT)
        return
    if not yes and session.request_approval is None:
        body = {"reason": reason, "cascade": cascade, "dry_run": True}
        would = session.api.post(_one(key, "/revoke"), body)
        below = f" and {would['keys'] - 1} descendant key(s)" if cascade else ""
        number = would["warrants"]
        confirm(f"Revoke {would['name']}{below}, with {number} warrant(s)?", yes=yes, number=number)
    done = session.api.post(_one(key, "/revoke"), {"reason": reason, "cascade": cascade})
    session.out.record(done)


def _one(key: str, action: str = "") -> str:
    return f"{_PATH}/{segment(key)}{action}"
