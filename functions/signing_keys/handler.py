"""Signing keys over HTTP (service.md 4.2, decisions 3)."""

from typing import Annotated

from fastapi import Path, Query

from functions.signing_keys.schemas import (
    CreateKey,
    KeyFields,
    KeyList,
    KeyQuery,
    KeyVersion,
    KeyVersions,
    RevokedKey,
    RevokeKey,
    RotatedKey,
    Sign,
    SignedWarrant,
    SuspendedKey,
    WarrantList,
)
from shared.errors import InvalidState, NotFound, RequestConflict
from shared.model.signing_keys import Status, Type
from shared.operations import key_revocation, signing_keys, warrants
from shared.web import paging
from shared.web.app import create_app, lambda_handler
from shared.web.paging import Paging
from shared.web.routes import Here, router, serves

routes = router()

KeyId = Annotated[str, Path(alias="keyId")]


@routes.get("/v1/keys")
@serves(signing_keys.page)
async def list_keys(here: Here, query: Annotated[KeyQuery, Query()]) -> KeyList:
    """List the tenant's signing keys, newest first, superseded versions among them."""
    endpoint = f"keys?type={query.type}&status={query.status}"
    page = signing_keys.page(
        here.ports,
        here.caller,
        before=paging.decode(query.cursor, here.caller, endpoint=endpoint),
        limit=query.limit,
        type_=Type(query.type) if query.type else None,
        status=Status(query.status) if query.status else None,
    )
    cursor = paging.encode(page.next_before, here.caller, endpoint=endpoint)
    return KeyList.of(page, cursor=cursor)


@routes.post("/v1/keys", status_code=201)
@serves(signing_keys.create, raises=(InvalidState, RequestConflict))
async def create_key(here: Here, body: CreateKey) -> KeyFields:
    """Create a signing key."""
    key = signing_keys.create(
        here.ports,
        here.caller,
        type_=Type(body.type),
        name=body.name,
        parent_id=body.parent_id,
        expires_at=body.expires_at,
    )
    return KeyFields.of(key)


@routes.get("/v1/keys/{keyId}")
@serves(signing_keys.get, raises=(NotFound,))
async def get_key(here: Here, key_id: KeyId) -> KeyFields:
    """Get one signing key."""
    return KeyFields.of(signing_keys.get(here.ports, here.caller, key_id=key_id))


@routes.get("/v1/keys/{keyId}/versions")
@serves(signing_keys.versions, raises=(NotFound,))
async def list_key_versions(here: Here, key_id: KeyId) -> KeyVersions:
    """List all versions of a signing key, newest first."""
    versions = signing_keys.versions(here.ports, here.caller, key_id=key_id)
    return KeyVersions(versions=[KeyVersion.of(each) for each in versions])


@routes.post("/v1/keys/{keyId}/rotate")
@serves(signing_keys.rotate, raises=(NotFound, InvalidState, RequestConflict))
async def rotate_key(here: Here, key_id: KeyId) -> RotatedKey:
    """Give a signing key a new version; the one before can sign no more."""
    return RotatedKey.of(signing_keys.rotate(here.ports, here.caller, key_id=key_id))


@routes.post("/v1/keys/{keyId}/suspend")
@serves(signing_keys.suspend, raises=(NotFound, InvalidState))
async def suspend_key(here: Here, key_id: KeyId) -> SuspendedKey:
    """Disable a signing key for a time."""
    return SuspendedKey.of(signing_keys.suspend(here.ports, here.caller, key_id=key_id))


@routes.post("/v1/keys/{keyId}/enable")
@serves(signing_keys.enable, raises=(NotFound, InvalidState))
async def enable_key(here: Here, key_id: KeyId) -> KeyFields:
    """Put a suspended signing key back in use."""
    return KeyFields.of(signing_keys.enable(here.ports, here.caller, key_id=key_id))


@routes.post("/v1/keys/{keyId}/revoke")
@serves(key_revocation.revoke, raises=(NotFound,))
async def revoke_key(here: Here, key_id: KeyId, body: RevokeKey) -> RevokedKey:
    """Revoke a signing key for good, and with it every warrant that it signed."""
    revoked = key_revocation.revoke(
        here.ports,
        here.caller,
        key_id=key_id,
        reason=body.reason,
        cascade=body.cascade,
        dry_run=body.dry_run,
    )
    return RevokedKey.of_revocation(revoked)


@routes.post("/v1/keys/{keyId}/sign", status_code=201)
@serves(warrants.sign, raises=(NotFound, InvalidState, RequestConflict))
async def sign(here: Here, key_id: KeyId, body: Sign) -> SignedWarrant:
    """Sign a payload as a warrant."""
    signed = warrants.sign(here.ports, here.caller, key_id=key_id, order=body.order())
    return SignedWarrant.of(signed)


@routes.get("/v1/keys/{keyId}/warrants")
@serves(warrants.page, raises=(NotFound,))
async def list_warrants(here: Here, key_id: KeyId, query: Paging) -> WarrantList:
    """List what a signing key signed, newest first."""
    endpoint = f"keys/{key_id}/warrants"
    page = warrants.page(
        here.ports,
        here.caller,
        key_id=key_id,
        before=paging.decode(query.cursor, here.caller, endpoint=endpoint),
        limit=query.limit,
    )
    return WarrantList.of(
        page, cursor=paging.encode(page.next_before, here.caller, endpoint=endpoint)
    )


app = create_app(routes)
handler = lambda_handler(app)
