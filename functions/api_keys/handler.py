"""API keys over HTTP (service.md 4.1)."""

from typing import Annotated

from fastapi import Query

from functions.api_keys.schemas import (
    ApiKeyDetail,
    ApiKeyQuery,
    CreateApiKey,
    CreatedApiKey,
    RevokedApiKey,
)
from shared.errors import InvalidState, NotFound, RequestConflict
from shared.model.callers import Scope
from shared.operations import api_keys
from shared.web import paging
from shared.web.api_keys import ApiKeyList
from shared.web.app import create_app, lambda_handler
from shared.web.routes import Here, router, serves

routes = router()


@routes.get("/v1/api-keys")
@serves(api_keys.page)
async def list_api_keys(here: Here, query: Annotated[ApiKeyQuery, Query()]) -> ApiKeyList:
    """List the tenant's API keys, newest first; those of one service account if it is given."""
    endpoint = f"api-keys?{query.service_account_id}"
    page = api_keys.page(
        here.ports,
        here.caller,
        before=paging.decode(query.cursor, here.caller, endpoint=endpoint),
        limit=query.limit,
        account_id=query.service_account_id,
    )
    cursor = paging.encode(page.next_before, here.caller, endpoint=endpoint)
    return ApiKeyList.of(page, cursor=cursor)


@routes.post("/v1/api-keys", status_code=201)
@serves(api_keys.create, raises=(InvalidState, RequestConflict))
async def create_api_key(here: Here, body: CreateApiKey) -> CreatedApiKey:
    """Create an API key; its secret is in this response and nowhere after."""
    created = api_keys.create(
        here.ports,
        here.caller,
        name=body.name,
        scopes=tuple(map(Scope, body.scopes)),
        expires_at=body.expires_at,
        service_account_id=body.service_account_id,
    )
    return CreatedApiKey.of(created)


@routes.get("/v1/api-keys/{id}")
@serves(api_keys.get, raises=(NotFound,))
async def get_api_key(here: Here, id: str) -> ApiKeyDetail:  # noqa: A002 (the contract's name)
    """Get one API key, with its usage."""
    return ApiKeyDetail.of(*api_keys.get(here.ports, here.caller, key_id=id))


@routes.post("/v1/api-keys/{id}/revoke")
@serves(api_keys.revoke, raises=(NotFound, RequestConflict))
async def revoke_api_key(here: Here, id: str) -> RevokedApiKey:  # noqa: A002
    """Revoke an API key for good, from the next request on."""
    return RevokedApiKey.of(api_keys.revoke(here.ports, here.caller, key_id=id))


@routes.delete("/v1/api-keys/{id}", status_code=204)
@serves(api_keys.delete, raises=(NotFound, RequestConflict))
async def delete_api_key(here: Here, id: str) -> None:  # noqa: A002
    """Remove an API key for good."""
    api_keys.delete(here.ports, here.caller, key_id=id)


app = create_app(routes)
handler = lambda_handler(app)
