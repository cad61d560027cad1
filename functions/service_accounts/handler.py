"""Service accounts over HTTP (ACCOUNT-1)."""

from typing import Annotated

from fastapi import Path

from functions.service_accounts.schemas import (
    CreateServiceAccount,
    ServiceAccountBody,
    ServiceAccountId,
    ServiceAccountList,
)
from shared.errors import Conflict, NotFound
from shared.operations.access import api_keys, service_accounts
from shared.web.api_keys import ApiKeyList
from shared.web.app import create_app, lambda_handler
from shared.web.paging import CursorCodec, Paging
from shared.web.routes import ApiRequest, router, serves

routes = router("Service accounts")

AccountId = Annotated[ServiceAccountId, Path(alias="id")]


@routes.get("/v1/service-accounts")
@serves(service_accounts.page)
async def list_service_accounts(request: ApiRequest, query: Paging) -> ServiceAccountList:
    """List the service accounts, newest first."""
    pages = CursorCodec(request.caller, query.cursor, "service-accounts")
    page = request.run(service_accounts.page, before=pages.position, limit=query.limit)
    return ServiceAccountList.of(page, pages)


@routes.post("/v1/service-accounts", status_code=201)
@serves(service_accounts.create, raises=(Conflict,))
async def create_service_account(
    request: ApiRequest, body: CreateServiceAccount
) -> ServiceAccountBody:
    """Create a service account.

    A service account is a non-human identity that owns API keys. Its `email` names it in the audit
    log and in revocation records.

    409: the tenant has or once had a service account with this name.
    """
    account = request.run(service_accounts.create, name=body.name, description=body.description)
    return ServiceAccountBody.of(account)


@routes.get("/v1/service-accounts/{id}")
@serves(service_accounts.get, raises=(NotFound,))
async def get_service_account(request: ApiRequest, account_id: AccountId) -> ServiceAccountBody:
    """Get a service account."""
    account = request.run(service_accounts.get, account_id=account_id)
    return ServiceAccountBody.of(account)


@routes.get("/v1/service-accounts/{id}/api-keys")
@serves(api_keys.page_of_account, raises=(NotFound,))
async def list_service_account_api_keys(
    request: ApiRequest,
    account_id: AccountId,
    query: Paging,
) -> ApiKeyList:
    """List the API keys of a service account, newest first, including revoked keys."""
    pages = CursorCodec(request.caller, query.cursor, f"service-accounts/{account_id}/api-keys")
    page = request.run(
        api_keys.page_of_account, account_id=account_id, before=pages.position, limit=query.limit
    )
    return ApiKeyList.of(page, pages)


@routes.post("/v1/service-accounts/{id}/disable")
@serves(service_accounts.disable, raises=(NotFound, Conflict))
async def disable_service_account(request: ApiRequest, account_id: AccountId) -> ServiceAccountBody:
    """Disable a service account and all its API keys.

    The next request with any of its keys is rejected. If the account is already disabled, the call
    has no effect.

    409: no other admin key of the tenant would stay valid for at least 24 hours.
    """
    account = request.run(service_accounts.disable, account_id=account_id)
    return ServiceAccountBody.of(account)


@routes.post("/v1/service-accounts/{id}/enable")
@serves(service_accounts.enable, raises=(NotFound,), is_protected=True)
async def enable_service_account(request: ApiRequest, account_id: AccountId) -> ServiceAccountBody:
    """Enable a service account again.

    Its API keys are accepted again, except for revoked keys. If the account is already active, the
    call has no effect. An account that gives the scope `admin` may need an approval.
    """
    account = request.run(service_accounts.enable, account_id=account_id)
    return ServiceAccountBody.of(account)


@routes.delete("/v1/service-accounts/{id}", status_code=204)
@serves(service_accounts.delete, raises=(NotFound, Conflict))
async def delete_service_account(request: ApiRequest, account_id: AccountId) -> None:
    """Delete a service account without API keys.

    Its name remains reserved, because the audit log refers to the account by name.

    409: the account still owns API keys. Delete them first.
    """
    request.run(service_accounts.delete, account_id=account_id)


app = create_app(routes)
handler = lambda_handler(app)
