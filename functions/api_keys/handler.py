"""API keys over HTTP (APIKEY-5), and the caller of a request (AUTH-13)."""

from typing import Annotated, Self

from fastapi import Path, Query

from functions.api_keys import schemas
from functions.api_keys.leaks import LeakReports
from shared import wiring
from shared.errors import Conflict, InvalidState, NotFound
from shared.model.callers import Scope
from shared.model.identifiers import PERSON, SESSION, TENANT
from shared.operations.access import api_key_rotation, api_keys
from shared.web.api_keys import KEY_EXAMPLE, ApiKeyList
from shared.web.app import create_public_app, lambda_handler
from shared.web.fields import (
    ApiKeyId,
    MomentOut,
    ResponseBody,
    example,
    field,
    identifier,
    sample,
)
from shared.web.paging import CursorCodec
from shared.web.routes import ApiRequest, router, serves

routes = router("API keys")

KeyId = Annotated[ApiKeyId, Path(alias="id")]


class CallerBody(ResponseBody):
    """The caller of this request."""

    model_config = example(
        tenant_id=sample(TENANT),
        tenant_name="Acme",
        identity="gateway@acme.svc",
        api_key_id=KEY_EXAMPLE["id"],
        api_key_name=KEY_EXAMPLE["name"],
        scopes=KEY_EXAMPLE["scopes"],
        expires_at=KEY_EXAMPLE["expires_at"],
        can_create_until=KEY_EXAMPLE["expires_at"],
        name=KEY_EXAMPLE["name"],
        role="authorizer",
        person_id=sample(PERSON),
        session_id=sample(SESSION),
        authenticated_at="2026-11-21T12:00:00Z",
    )

    tenant_id: str = field("Identifier of the tenant.", **identifier(TENANT))
    tenant_name: str = field("Name of the tenant, from its settings.")
    identity: str = field(
        "Name of the caller in the audit log: the e-mail of the person or the service account, or "
        "the name derived from the API key."
    )
    api_key_id: ApiKeyId | None = field("Identifier of the API key; null for a session.")
    api_key_name: str | None = field("Name of the API key; null for a session.")
    scopes: tuple[Scope, ...] = field("Scopes of the caller.", uniqueItems=True)
    expires_at: MomentOut | None = field(
        "Expiry of the credential that sent this request; null if it does not expire."
    )
    can_create_until: MomentOut | None = field(
        "Latest allowed expiry of API keys that the caller creates. It applies to people and to "
        "API keys without the scope `admin`. Null if there is no limit."
    )
    name: str = field("Display name of the person, the service account or the API key.")
    role: str | None = field("Role of the caller; null for an API key without a role.")
    person_id: str | None = field(
        "Identifier of the person; null if the caller is a program.", **identifier(PERSON)
    )
    session_id: str | None = field(
        "Identifier of the session; null for an API key.", **identifier(SESSION)
    )
    authenticated_at: MomentOut | None = field(
        "Time at which the identity provider authenticated the caller; null for an API key."
    )

    @classmethod
    def of(cls, caller_profile: api_keys.CallerProfile) -> Self:
        """Return the body for a caller with its tenant and its API key."""
        caller, settings, key = caller_profile.caller, caller_profile.settings, caller_profile.key
        return cls(
            tenant_id=caller.tenant_id,
            tenant_name=settings.name,
            identity=caller.identity,
            api_key_id=key.id if key else None,
            api_key_name=key.name if key else None,
            scopes=caller.scopes,
            expires_at=caller.key_expires_at,
            can_create_until=caller_profile.can_create_until,
            name=key.name if key else caller.name or caller.identity,
            role=caller.role,
            person_id=caller.person_id,
            session_id=caller.session_id,
            authenticated_at=caller.authenticated_at,
        )


@routes.get("/v1/whoami")
@serves(api_keys.introduce)
async def get_caller(request: ApiRequest) -> CallerBody:
    """Get the current caller.

    The response contains the tenant, the API key or session, and the scopes. Every API key and
    every session can call this operation.
    """
    return CallerBody.of(request.run(api_keys.introduce))


@routes.get("/v1/api-keys")
@serves(api_keys.page)
async def list_api_keys(
    request: ApiRequest, query: Annotated[schemas.ApiKeyQuery, Query()]
) -> ApiKeyList:
    """List the API keys.

    The newest key comes first. The list includes revoked and expired keys. It never includes the
    secret of a key.
    """
    filters = f"{query.service_account_id}&{query.created_by_id}"
    pages = CursorCodec(request.caller, query.cursor, f"api-keys?{filters}")
    page = request.run(
        api_keys.page,
        before=pages.position,
        limit=query.limit,
        account_id=query.service_account_id,
        maker_id=query.created_by_id,
    )
    return ApiKeyList.of(page, pages)


@routes.post("/v1/api-keys", status_code=201)
@serves(api_keys.create, raises=(InvalidState, Conflict), is_protected=True)
async def create_api_key(request: ApiRequest, body: schemas.CreateApiKey) -> schemas.CreatedApiKey:
    """Create an API key.

    The member `key` of the response is the secret. It is shown in this response only: store it now.
    If the calling key expires, the new key must expire at the same time or earlier.

    409: the service account is disabled, or it owns 50 API keys already.
    """
    created = request.run(
        api_keys.create,
        name=body.name,
        scopes=tuple(body.scopes or ()),
        role=body.role,
        expires_at=body.expires_at,
        service_account_id=body.service_account_id,
        networks=tuple(body.networks),
    )
    return schemas.CreatedApiKey.of(created)


@routes.get("/v1/api-keys/{id}")
@serves(api_keys.get, raises=(NotFound,))
async def get_api_key(request: ApiRequest, key_id: KeyId) -> schemas.ApiKeyDetail:
    """Get an API key and its usage."""
    return schemas.ApiKeyDetail.of(request.run(api_keys.get, key_id=key_id))


@routes.post("/v1/api-keys/{id}/rotate", status_code=201)
@serves(api_key_rotation.rotate, raises=(NotFound, InvalidState, Conflict), is_protected=True)
async def rotate_api_key(
    request: ApiRequest, key_id: KeyId, body: schemas.RotateApiKey
) -> schemas.RotatedApiKey:
    """Rotate an API key.

    The new key has the name, the scopes and the service account of the old one. The member `key` is
    its secret, which is shown in this response only. The old key is accepted for `grace_seconds`,
    or until it expires if that is earlier. Both are listed until you delete them.

    409: the key is revoked, has expired, or was rotated already; its service account is disabled,
    or owns 50 API keys; or this is the last admin key of the tenant that stays valid for at least
    24 hours, and the new key would expire sooner than that.
    """
    rotated = request.run(
        api_key_rotation.rotate,
        key_id=key_id,
        grace_seconds=body.grace_seconds,
        expires_at=body.expires_at,
    )
    return schemas.RotatedApiKey.of_rotation(rotated)


@routes.post("/v1/api-keys/{id}/revoke")
@serves(api_keys.revoke, raises=(NotFound, Conflict))
async def revoke_api_key(request: ApiRequest, key_id: KeyId) -> schemas.RevokedApiKey:
    """Revoke an API key permanently.

    The next request with this key is rejected. A revocation cannot be undone. If the key is already
    revoked, the response shows when it was revoked, and the key does not change.

    409: this is the last admin key of the tenant that stays valid for at least 24 hours.
    """
    return schemas.RevokedApiKey.of(request.run(api_keys.revoke, key_id=key_id))


@routes.delete("/v1/api-keys/{id}", status_code=204)
@serves(api_keys.delete, raises=(NotFound, Conflict))
async def delete_api_key(request: ApiRequest, key_id: KeyId) -> None:
    """Delete an API key permanently.

    The key may be active or revoked. Its entries in the audit log remain.

    409: this is the last admin key of the tenant that stays valid for at least 24 hours.
    """
    request.run(api_keys.delete, key_id=key_id)


app = create_public_app(LeakReports(wiring.from_environment), routes)
handler = lambda_handler(app)
