"""Service accounts over HTTP (decisions 3, service accounts)."""

from functions.service_accounts.schemas import (
    CreateServiceAccount,
    ServiceAccountFields,
    ServiceAccountList,
)
from shared.errors import NotFound, RequestConflict
from shared.operations import api_keys, service_accounts
from shared.web import paging
from shared.web.api_keys import ApiKeyList
from shared.web.app import create_app, lambda_handler
from shared.web.paging import Paging
from shared.web.routes import Here, router, serves

routes = router()


@routes.get("/v1/service-accounts")
@serves(service_accounts.page)
async def list_service_accounts(here: Here, query: Paging) -> ServiceAccountList:
    """List the tenant's service accounts, newest first."""
    before = paging.decode(query.cursor, here.caller, endpoint="service-accounts")
    page = service_accounts.page(here.ports, here.caller, before=before, limit=query.limit)
    cursor = paging.encode(page.next_before, here.caller, endpoint="service-accounts")
    return ServiceAccountList.of(page, cursor=cursor)


@routes.post("/v1/service-accounts", status_code=201)
@serves(service_accounts.create, raises=(RequestConflict,))
async def create_service_account(here: Here, body: CreateServiceAccount) -> ServiceAccountFields:
    """Create a service account."""
    account = service_accounts.create(
        here.ports, here.caller, name=body.name, description=body.description
    )
    return ServiceAccountFields.of(account)


@routes.get("/v1/service-accounts/{id}")
@serves(service_accounts.get, raises=(NotFound,))
async def get_service_account(here: Here, id: str) -> ServiceAccountFields:  # noqa: A002
    """Get one service account."""
    account = service_accounts.get(here.ports, here.caller, account_id=id)
    return ServiceAccountFields.of(account)


@routes.get("/v1/service-accounts/{id}/api-keys")
@serves(api_keys.page_of_account, raises=(NotFound,))
async def list_api_keys_of_account(
    here: Here,
    id: str,  # noqa: A002
    query: Paging,
) -> ApiKeyList:
    """List the API keys of a service account, newest first, revoked ones too."""
    endpoint = f"service-accounts/{id}/api-keys"
    page = api_keys.page_of_account(
        here.ports,
        here.caller,
        account_id=id,
        before=paging.decode(query.cursor, here.caller, endpoint=endpoint),
        limit=query.limit,
    )
    cursor = paging.encode(page.next_before, here.caller, endpoint=endpoint)
    return ApiKeyList.of(page, cursor=cursor)


@routes.post("/v1/service-accounts/{id}/disable")
@serves(service_accounts.disable, raises=(NotFound, RequestConflict))
async def disable_service_account(here: Here, id: str) -> ServiceAccountFields:  # noqa: A002
    """Stop all API keys of a service account, from the next request on."""
    account = service_accounts.disable(here.ports, here.caller, account_id=id)
    return ServiceAccountFields.of(account)


@routes.post("/v1/service-accounts/{id}/enable")
@serves(service_accounts.enable, raises=(NotFound,))
async def enable_service_account(here: Here, id: str) -> ServiceAccountFields:  # noqa: A002
    """Restore the API keys of a service account that were not revoked."""
    account = service_accounts.enable(here.ports, here.caller, account_id=id)
    return ServiceAccountFields.of(account)


@routes.delete("/v1/service-accounts/{id}", status_code=204)
@serves(service_accounts.delete, raises=(NotFound, RequestConflict))
async def delete_service_account(here: Here, id: str) -> None:  # noqa: A002
    """Remove a service account that owns no API key."""
    service_accounts.delete(here.ports, here.caller, account_id=id)


app = create_app(routes)
handler = lambda_handler(app)
