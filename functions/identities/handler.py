"""Identity providers, people, sessions and roles over HTTP (IDENTITY-1)."""

from typing import Annotated

from fastapi import Path, Query

from functions.identities import approval_schemas, schemas
from shared.errors import Conflict, InvalidState, NotFound, TooFewApprovers
from shared.operations.access import made_keys
from shared.operations.identities import (
    approvals,
    identity_providers,
    people,
    protected_acts,
    roles,
    sessions,
)
from shared.web.app import create_app, lambda_handler
from shared.web.paging import CursorCodec, Paging
from shared.web.routes import ApiRequest, router, serves
from shared.web.work import WorkKind

routes = router("Identities")

Provider = Annotated[schemas.ProviderId, Path(alias="id")]
Who = Annotated[schemas.PersonId, Path(alias="id")]
SessionId = Annotated[
    str,
    Path(
        alias="id",
        description="Identifier of the session, or `current` for the session of this request.",
    ),
]

OneRole = Annotated[str, Path(alias="name", description="Name of the role.")]
Which = Annotated[approval_schemas.ApprovalId, Path(alias="id")]

_PROVIDERS = "/v1/tenant/identity-providers"


@routes.get(_PROVIDERS)
@serves(identity_providers.page)
async def list_identity_providers(
    request: ApiRequest, query: Paging
) -> schemas.IdentityProviderList:
    """List the identity providers, newest first."""
    pages = CursorCodec(request.caller, query.cursor, "identity-providers")
    page = request.run(identity_providers.page, before=pages.position, limit=query.limit)
    return schemas.IdentityProviderList.of(page, pages)


@routes.post(_PROVIDERS, status_code=201)
@serves(identity_providers.create, kind=WorkKind.OUTBOUND, raises=(Conflict,), is_protected=True)
async def create_identity_provider(
    request: ApiRequest, body: schemas.CreateIdentityProvider
) -> schemas.IdentityProviderBody:
    """Bind an identity provider.

    People and programs of the provider can then get sessions.

    409: the tenant has 10 identity providers.
    """
    provider = request.run(identity_providers.create, usage=body.usage, change=body.change())
    return schemas.IdentityProviderBody.of(provider)


@routes.get(f"{_PROVIDERS}/{{id}}")
@serves(identity_providers.get, raises=(NotFound,))
async def get_identity_provider(
    request: ApiRequest, provider_id: Provider
) -> schemas.IdentityProviderBody:
    """Get an identity provider."""
    return schemas.IdentityProviderBody.of(
        request.run(identity_providers.get, provider_id=provider_id)
    )


@routes.patch(f"{_PROVIDERS}/{{id}}")
@serves(identity_providers.update, kind=WorkKind.OUTBOUND, raises=(NotFound,), is_protected=True)
async def update_identity_provider(
    request: ApiRequest, provider_id: Provider, body: schemas.UpdateIdentityProvider
) -> schemas.IdentityProviderBody:
    """Change an identity provider.

    If you change its issuer, clients, keys, role mappings or domains, all sessions from this
    provider end.
    """
    changed = request.run(identity_providers.update, provider_id=provider_id, change=body.change())
    return schemas.IdentityProviderBody.of(changed)


@routes.delete(f"{_PROVIDERS}/{{id}}", status_code=204)
@serves(identity_providers.delete, raises=(NotFound, TooFewApprovers), is_protected=True)
async def delete_identity_provider(request: ApiRequest, provider_id: Provider) -> None:
    """Delete an identity provider, and end all sessions from it.

    409: fewer than two people could approve protected actions.
    """
    request.run(identity_providers.delete, provider_id=provider_id)


@routes.post(f"{_PROVIDERS}/{{id}}/check")
@serves(identity_providers.check, kind=WorkKind.OUTBOUND, raises=(NotFound,))
async def check_identity_provider(
    request: ApiRequest, provider_id: Provider
) -> schemas.IdentityProviderCheck:
    """Check the metadata that the issuer of an identity provider publishes.

    This does not change the provider.
    """
    provider, metadata = request.run(identity_providers.check, provider_id=provider_id)
    return schemas.IdentityProviderCheck.comparing(provider, metadata)


@routes.get("/v1/people")
@serves(people.page)
async def list_people(request: ApiRequest, query: Paging) -> schemas.PersonList:
    """List the people who have signed in, newest first."""
    pages = CursorCodec(request.caller, query.cursor, "people")
    return schemas.PersonList.of(
        request.run(people.page, before=pages.position, limit=query.limit), pages
    )


@routes.get("/v1/people/{id}")
@serves(people.get, raises=(NotFound,))
async def get_person(request: ApiRequest, person_id: Who) -> schemas.PersonBody:
    """Get a person."""
    return schemas.PersonBody.of(request.run(people.get, person_id=person_id))


@routes.post("/v1/people/{id}/disable")
@serves(made_keys.disable_person, raises=(NotFound, Conflict, TooFewApprovers))
async def disable_person(
    request: ApiRequest, person_id: Who, body: schemas.DisablePerson
) -> schemas.DisabledPersonBody:
    """Disable a person, end the sessions, and revoke or keep the person's API keys.

    The next request of each session is rejected, and the person cannot sign in. With `made_keys`
    `end`, a request revokes up to 50 keys that the person created or rotated, and keys created by
    such keys. Repeat it until `keys_left` is 0. `GET /v1/api-keys?created_by_id=` lists them.

    409: fewer than two people could approve protected actions, and nothing changes. Or the last
    admin key would be revoked: the person is disabled, and other keys have been revoked. Create
    another admin key, and repeat the request.
    """
    person = request.run(made_keys.disable_person, person_id=person_id, made_keys=body.made_keys)
    return schemas.DisabledPersonBody.of_disabled(person)


@routes.post("/v1/people/{id}/enable")
@serves(people.enable, raises=(NotFound, Conflict), is_protected=True)
async def enable_person(request: ApiRequest, person_id: Who) -> schemas.PersonBody:
    """Enable a person.

    The person can sign in again. If the person is already active, the call has no effect. This
    needs an approval if any action is protected.

    409: another active person has the same e-mail.
    """
    return schemas.PersonBody.of(request.run(people.enable, person_id=person_id))


@routes.post("/v1/people/{id}/sign-out")
@serves(people.sign_out, raises=(NotFound,))
async def sign_out_person(request: ApiRequest, person_id: Who) -> schemas.PersonBody:
    """End all sessions of a person.

    The person can sign in again.
    """
    return schemas.PersonBody.of(request.run(people.sign_out, person_id=person_id))


@routes.get("/v1/sessions")
@serves(sessions.page)
async def list_sessions(request: ApiRequest, query: Paging) -> schemas.SessionList:
    """List the active sessions, newest first.

    Administrators see all sessions of the tenant. Other callers see their own.
    """
    pages = CursorCodec(request.caller, query.cursor, "sessions")
    active, next_before = request.run(sessions.page, before=pages.position, limit=query.limit)
    listed = [schemas.SessionBody.of(each) for each in active]
    return schemas.SessionList(sessions=listed, cursor=pages.cursor_after(next_before))


@routes.delete("/v1/sessions/{id}", status_code=204)
@serves(sessions.delete, raises=(NotFound,))
async def delete_session(request: ApiRequest, session_id: SessionId) -> None:
    """End a session.

    Its next request is rejected. Administrators can end any session of the tenant. Other callers
    can end their own.
    """
    request.run(sessions.delete, session_id=session_id)


@routes.get("/v1/roles")
@serves(roles.every)
async def list_roles(request: ApiRequest) -> schemas.RoleList:
    """List the roles.

    Built-in roles come first, one per scope. The roles of the tenant follow by name.
    """
    return schemas.RoleList(roles=[schemas.RoleBody.of(each) for each in request.run(roles.every)])


@routes.get("/v1/roles/{name}")
@serves(roles.get, raises=(NotFound,))
async def get_role(request: ApiRequest, name: OneRole) -> schemas.RoleBody:
    """Get a role."""
    return schemas.RoleBody.of(request.run(roles.get, name=name))


@routes.put("/v1/roles/{name}")
@serves(roles.put_role, raises=(Conflict, TooFewApprovers), is_protected=True)
async def put_role(
    request: ApiRequest, name: schemas.RoleName, body: schemas.PutRole
) -> schemas.RoleBody:
    """Create or replace a role.

    The change applies from the next request of each holder. Role mappings of identity providers
    refer to roles by name.

    409: the role is built in, the tenant has 20 roles, or fewer than two people could approve.
    """
    return schemas.RoleBody.of(request.run(roles.put_role, role=body.role(name)))


@routes.delete("/v1/roles/{name}", status_code=204)
@serves(roles.delete, raises=(NotFound, Conflict, TooFewApprovers), is_protected=True)
async def delete_role(request: ApiRequest, name: OneRole) -> None:
    """Delete a role.

    Its holders lose access immediately.

    409: the role is built in, or fewer than two people could approve.
    """
    request.run(roles.delete, name=name)


@routes.get("/v1/tenant/protected-actions")
@serves(protected_acts.get)
async def get_protected_actions(request: ApiRequest) -> approval_schemas.ProtectedActionsBody:
    """Get the actions that need an approval by another person."""
    return approval_schemas.ProtectedActionsBody.of(request.run(protected_acts.get))


@routes.put("/v1/tenant/protected-actions")
@serves(protected_acts.update, raises=(TooFewApprovers,), is_protected=True)
async def update_protected_actions(
    request: ApiRequest, body: approval_schemas.UpdateProtectedActions
) -> approval_schemas.ProtectedActionsBody:
    """Set the actions that need an approval by another person.

    If any action is protected, this request also needs an approval, and so do changes of identity
    providers and roles.

    409: fewer than two people with the role `admin` have signed in.
    """
    changed = request.run(
        protected_acts.update,
        actions=tuple(body.actions),
        unrevoke_threshold=body.unrevoke_threshold,
    )
    return approval_schemas.ProtectedActionsBody.of(changed)


@routes.get("/v1/approvals")
@serves(approvals.page)
async def list_approvals(
    request: ApiRequest, query: Annotated[approval_schemas.ApprovalQuery, Query()]
) -> approval_schemas.ApprovalList:
    """List approvals and pending requests, newest first.

    Callers who cannot read the settings of the tenant see only their own requests.
    """
    pages = CursorCodec(request.caller, query.cursor, f"approvals?{query.status}")
    listed, next_before = request.run(
        approvals.page, before=pages.position, limit=query.limit, status=query.status
    )
    return approval_schemas.ApprovalList.of(listed, pages.cursor_after(next_before))


@routes.get("/v1/approvals/{id}")
@serves(approvals.get, raises=(NotFound,))
async def get_approval(request: ApiRequest, approval_id: Which) -> approval_schemas.ApprovalBody:
    """Get an approval."""
    return approval_schemas.ApprovalBody.of(request.run(approvals.get, approval_id=approval_id))


@routes.post("/v1/approvals/{id}/approve")
@serves(approvals.approve, raises=(NotFound, InvalidState))
async def approve_request(request: ApiRequest, approval_id: Which) -> approval_schemas.ApprovalBody:
    """Approve a request of another person.

    The approval is valid for an hour. The service does not make the request: the requester repeats
    it, with the identifier of the approval in the header `Rescind-Approval`.

    409: the request was rejected or has expired.
    """
    return approval_schemas.ApprovalBody.of(request.run(approvals.approve, approval_id=approval_id))


@routes.post("/v1/approvals/{id}/reject")
@serves(approvals.reject, raises=(NotFound, InvalidState))
async def reject_request(request: ApiRequest, approval_id: Which) -> approval_schemas.ApprovalBody:
    """Reject a request of another person, or revoke an unused approval.

    Requesters can withdraw their own requests in the same way.

    409: the request or approval has expired.
    """
    return approval_schemas.ApprovalBody.of(request.run(approvals.reject, approval_id=approval_id))


app = create_app(routes)
handler = lambda_handler(app)
