"""Signing keys over HTTP (KEY-6)."""

from typing import Annotated

from fastapi import Path, Query

from functions.signing_keys import schemas
from shared.capabilities import INSTALLED
from shared.errors import Conflict, InvalidState, NotFound
from shared.model.signing_keys import KeyFilters
from shared.operations.changes import key_revocation, signing_keys, warrants
from shared.web.app import create_app, lambda_handler
from shared.web.fields import SigningKeyId
from shared.web.paging import CursorCodec, Paging
from shared.web.routes import ApiRequest, router, serves

routes = router("Signing keys")

KeyId = Annotated[SigningKeyId, Path(alias="keyId")]


@routes.get("/v1/keys")
@serves(signing_keys.page)
async def list_signing_keys(
    request: ApiRequest, query: Annotated[schemas.KeyQuery, Query()]
) -> schemas.SigningKeyList:
    """List the signing keys.

    The newest key comes first. Each old version of a key is a separate entry with the status
    `rotated`.
    """
    pages = CursorCodec(
        request.caller, query.cursor, f"keys?type={query.type}&status={query.status}"
    )
    page = request.run(
        signing_keys.page,
        before=pages.position,
        limit=query.limit,
        filters=KeyFilters(query.type, query.status),
        with_count=schemas.WARRANT_COUNT in query.includes,
    )
    listed = schemas.SigningKeyList.of(page, pages)
    if schemas.VERSION not in query.includes:
        for key in listed.keys:
            key.hide_version()
    return listed


@routes.post("/v1/keys", status_code=201)
@serves(signing_keys.create, raises=(InvalidState, Conflict))
async def create_signing_key(
    request: ApiRequest, body: schemas.CreateSigningKey
) -> schemas.SigningKeyBody:
    """Create a signing key.

    The service generates an Ed25519 key pair. The private key never leaves it. An issuer or a
    notary needs a parent, which is a root or an issuer, and cannot expire later than its parent.

    409: the parent is not active, has expired or has 32 ancestors, or the tenant has 5000 active
    and suspended keys.
    """
    key = request.run(
        signing_keys.create,
        type_=body.type,
        name=body.name,
        parent_id=body.parent_id,
        expires_at=body.expires_at,
    )
    return schemas.SigningKeyBody.of(key)


@routes.get("/v1/keys/{keyId}")
@serves(signing_keys.get, raises=(NotFound,))
async def get_signing_key(request: ApiRequest, key_id: KeyId) -> schemas.SigningKeyBody:
    """Get a signing key, or an old version of a signing key."""
    return schemas.SigningKeyBody.of(request.run(signing_keys.get, key_id=key_id))


@routes.get("/v1/keys/{keyId}/versions")
@serves(signing_keys.versions, raises=(NotFound,))
async def list_signing_key_versions(
    request: ApiRequest, key_id: KeyId
) -> schemas.SigningKeyVersionList:
    """List all versions of a signing key, newest first.

    The path may name the key or the record of any old version of it.
    """
    versions = request.run(signing_keys.versions, key_id=key_id)
    return schemas.SigningKeyVersionList(
        versions=[schemas.SigningKeyVersion.of(each) for each in versions]
    )


@routes.post("/v1/keys/{keyId}/rotate")
@serves(signing_keys.rotate, raises=(NotFound, InvalidState))
async def rotate_signing_key(request: ApiRequest, key_id: KeyId) -> schemas.RotatedSigningKey:
    """Rotate a signing key.

    The key keeps its identifier and gets a new key pair. The previous version gets a separate
    record with the status `rotated`. It can no longer sign, and the warrants that it signed remain
    valid.

    409: the key is not active.
    """
    return schemas.RotatedSigningKey.of(request.run(signing_keys.rotate, key_id=key_id))


@routes.post("/v1/keys/{keyId}/suspend")
@serves(signing_keys.suspend, raises=(NotFound, InvalidState))
async def suspend_signing_key(request: ApiRequest, key_id: KeyId) -> schemas.SuspendedSigningKey:
    """Suspend a signing key.

    The key cannot sign until it is enabled again. The warrants that it signed remain valid. If the
    key is already suspended, the call has no effect.

    409: the key is neither active nor suspended.
    """
    return schemas.SuspendedSigningKey.of(request.run(signing_keys.suspend, key_id=key_id))


@routes.post("/v1/keys/{keyId}/enable")
@serves(signing_keys.enable, raises=(NotFound, InvalidState))
async def enable_signing_key(request: ApiRequest, key_id: KeyId) -> schemas.SigningKeyBody:
    """Enable a suspended signing key.

    If the key is already active, the call has no effect.

    409: the key is neither suspended nor active.
    """
    return schemas.SigningKeyBody.of(request.run(signing_keys.enable, key_id=key_id))


@routes.post("/v1/keys/{keyId}/revoke")
@serves(key_revocation.revoke, raises=(NotFound,), is_protected=True)
async def revoke_signing_key(
    request: ApiRequest, key_id: KeyId, body: schemas.RevokeSigningKey
) -> schemas.RevokedSigningKey:
    """Revoke a signing key and every warrant that it signed.

    A revocation cannot be undone. Checks see it from the next request on, regardless of how many
    warrants the key signed. You can also revoke the record of an old version, which affects only
    the warrants of that version. Descendants of the key do not change, unless `cascade` is true. To
    see the impact of a revocation in advance, set `dry_run`. If the key is already revoked, the
    response shows when and why, and the key does not change.

    Keys of a large cascade are revoked in several steps. If the call fails, repeat it: it continues
    with the remaining keys.
    """
    revoked = request.run(
        key_revocation.revoke,
        key_id=key_id,
        reason=body.reason,
        cascade=body.cascade,
        dry_run=body.dry_run,
    )
    return schemas.RevokedSigningKey.of_revocation(revoked)


@routes.post("/v1/keys/{keyId}/sign", status_code=201)
@serves(warrants.sign, raises=(NotFound, InvalidState, Conflict))
async def sign_warrant(
    request: ApiRequest, key_id: KeyId, body: schemas.SignWarrant
) -> schemas.SignedWarrantBody:
    """Sign a payload as a warrant.

    By default the result is a COSE_Sign1 message (RFC 9052) that contains the payload, the
    identifier of the warrant, the tenant and the times (a CWT claims set, RFC 8392). With the
    format `raw` the result is the signature over the payload alone.

    409: the key is not active or has expired, an ancestor of the key is not active, or the
    identifier was used before.
    """
    signed = request.run(warrants.sign, key_id=key_id, order=body.order())
    return schemas.SignedWarrantBody.of(signed)


@routes.get("/v1/keys/{keyId}/warrants")
@serves(warrants.page, raises=(NotFound,))
async def list_warrants(
    request: ApiRequest, key_id: KeyId, query: Paging
) -> schemas.IssuedWarrantList:
    """List the warrants signed by a signing key, newest first.

    With the record of an old version, the list contains only the warrants of that version.
    """
    pages = CursorCodec(request.caller, query.cursor, f"keys/{key_id}/warrants")
    page = request.run(warrants.page, key_id=key_id, before=pages.position, limit=query.limit)
    return schemas.IssuedWarrantList.of(page, pages)


app = create_app(routes, *INSTALLED.routers("signing_keys"))
handler = lambda_handler(app)
