"""Identity providers, people, sessions and roles over HTTP (IDENTITY-1)."""

from typing import Annotated

from fastapi import Path, Query

from functions.identities.approval_schemas import (
    ApprovalBody,
    ApprovalId,
    ApprovalList,
    ApprovalQuery,
    ProtectedActsBody,
    SetProtectedActs,
)
from functions.identities.schemas import (
    CreateIdentityProvider,
    DisabledPersonBody,
    DisablePerson,
    IdentityProviderBody,
    IdentityProviderCheck,
    IdentityProviderList,
    PersonBody,
    PersonId,
    PersonList,
    ProviderId,
    PutRole,
    RoleBody,
    RoleList,
    RoleName,
    SessionBody,
    SessionList,
    UpdateIdentityProvider,
)
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

Provider = Annotated[ProviderId, Path(alias="id")]
Who = Annotated[PersonId, Path(alias="id")]
SessionId = Annotated[
    str, Path(alias="id", description="Identifier of the session, or `current` for this one.")
]

OneRole = Annotated[str, Path(alias="name", description="The name of the role.")]
Which = Annotated[ApprovalId, Path(alias="id")]

_PROVIDERS = "/v1/tenant/identity-providers"


@routes.get(_PROVIDERS)
@serves(identity_providers.page)
async def list_identity_providers(request: ApiRequest, query: Paging) -> IdentityProviderList:
    """List the identity providers, newest first."""
    pages = CursorCodec(request.caller, query.cursor, "identity-providers")
    page = request.run(identity_providers.page, before=pages.position, limit=query.limit)
    return IdentityProviderList.of(page, pages)


@routes.post(_PROVIDERS, status_code=201)
@serves(identity_providers.create, kind=WorkKind.OUTBOUND, raises=(Conflict,), is_protected=True)
async def create_identity_provider(
    request: ApiRequest, body: CreateIdentityProvider
) -> IdentityProviderBody:
    """Bind an identity provider, whose people or programs may then have sessions.

    409: the tenant has 10 identity providers.
    """
    made = request.run(identity_providers.create, kind=body.kind, change=body.change())
    return IdentityProviderBody.of(made)


@routes.get(f"{_PROVIDERS}/{{id}}")
@serves(identity_providers.get, raises=(NotFound,))
async def get_identity_provider(request: ApiRequest, provider_id: Provider) -> IdentityProviderBody:
    """Get one identity provider."""
    return IdentityProviderBody.of(request.run(identity_providers.get, provider_id=provider_id))


@routes.patch(f"{_PROVIDERS}/{{id}}")
@serves(identity_providers.update, kind=WorkKind.OUTBOUND, raises=(NotFound,), is_protected=True)
async def update_identity_provider(
    request: ApiRequest, provider_id: Provider, body: UpdateIdentityProvider
) -> IdentityProviderBody:
    """Change an identity provider.

    If you change its issuer, clients, keys, grants or domains, the sessions that it gave end.
    """
    changed = request.run(identity_providers.update, provider_id=provider_id, change=body.change())
    return IdentityProviderBody.of(changed)


@routes.delete(f"{_PROVIDERS}/{{id}}", status_code=204)
@serves(identity_providers.delete, raises=(NotFound, TooFewApprovers), is_protected=True)
async def delete_identity_provider(request: ApiRequest, provider_id: Provider) -> None:
    """Delete an identity provider. The sessions that it gave end.

    409: fewer than two people could approve what is protected.
    """
    request.run(identity_providers.delete, provider_id=provider_id)


@routes.post(f"{_PROVIDERS}/{{id}}/check")
@serves(identity_providers.check, kind=WorkKind.OUTBOUND, raises=(NotFound,))
async def check_identity_provider(
    request: ApiRequest, provider_id: Provider
) -> IdentityProviderCheck:
    """Ask the issuer of an identity provider what it publishes. This changes nothing."""
    provider, found = request.run(identity_providers.check, provider_id=provider_id)
    return IdentityProviderCheck.comparing(provider, found)


@routes.get("/v1/people")
@serves(people.page)
async def list_people(request: ApiRequest, query: Paging) -> PersonList:
    """List the people who have signed in, newest first."""
    pages = CursorCodec(request.caller, query.cursor, "people")
    return PersonList.of(request.run(people.page, before=pages.position, limit=query.limit), pages)


@routes.get("/v1/people/{id}")
@serves(people.get, raises=(NotFound,))
async def get_person(request: ApiRequest, person_id: Who) -> PersonBody:
    """Get one person."""
    return PersonBody.of(request.run(people.get, person_id=person_id))


@routes.post("/v1/people/{id}/disable")
@serves(made_keys.disable_person, raises=(NotFound, Conflict, TooFewApprovers))
async def disable_person(
    request: ApiRequest, person_id: Who, body: DisablePerson
) -> DisabledPersonBody:
    """Disable a person, end the sessions, and end or keep the API keys that the person made.

    The next request of each session is refused, and the person cannot sign in. With `made_keys`
    `end`, a request revokes up to 50 keys that the person made or rotated, and keys that such keys
    made. Repeat it until `keys_left` is 0. `GET /v1/api-keys?created_by_id=` lists them.

    409: fewer than two people could approve what is protected, and nothing changes. Or the last
    admin key is among them: the person is disabled, and other keys have ended. Create another admin
    key, and repeat the request.
    """
    found = request.run(made_keys.disable_person, person_id=person_id, made_keys=body.made_keys)
    return DisabledPersonBody.of_disabled(found)


@routes.post("/v1/people/{id}/enable")
@serves(people.enable, raises=(NotFound, Conflict), is_protected=True)
async def enable_person(request: ApiRequest, person_id: Who) -> PersonBody:
    """Let a person sign in again. If the person is active already, nothing changes.

    While anything is protected, this needs an approval.

    409: another active person has the same e-mail.
    """
    return PersonBody.of(request.run(people.enable, person_id=person_id))


@routes.post("/v1/people/{id}/sign-out")
@serves(people.sign_out, raises=(NotFound,))
async def sign_out_person(request: ApiRequest, person_id: Who) -> PersonBody:
    """End all sessions of a person, who can sign in again."""
    return PersonBody.of(request.run(people.sign_out, person_id=person_id))


@routes.get("/v1/sessions")
@serves(sessions.page)
async def list_sessions(request: ApiRequest, query: Paging) -> SessionList:
    """List the sessions that are accepted, newest first.

    Administrators see all of the tenant, and others their own.
    """
    pages = CursorCodec(request.caller, query.cursor, "sessions")
    found, next_before = request.run(sessions.page, before=pages.position, limit=query.limit)
    listed = [SessionBody.of(each) for each in found]
    return SessionList(sessions=listed, cursor=pages.cursor_after(next_before))


@routes.delete("/v1/sessions/{id}", status_code=204)
@serves(sessions.delete, raises=(NotFound,))
async def delete_session(request: ApiRequest, session_id: SessionId) -> None:
    """End a session, whose next request is refused.

    Administrators end any session of the tenant, and others their own.
    """
    request.run(sessions.delete, session_id=session_id)


@routes.get("/v1/roles")
@serves(roles.every)
async def list_roles(request: ApiRequest) -> RoleList:
    """List the roles: the scopes, which are built in, then those of the tenant by name."""
    return RoleList(roles=[RoleBody.of(each) for each in request.run(roles.every)])


@routes.get("/v1/roles/{name}")
@serves(roles.get, raises=(NotFound,))
async def get_role(request: ApiRequest, name: OneRole) -> RoleBody:
    """Get one role."""
    return RoleBody.of(request.run(roles.get, name=name))


@routes.put("/v1/roles/{name}")
@serves(roles.put_role, raises=(Conflict, TooFewApprovers), is_protected=True)
async def put_role(request: ApiRequest, name: RoleName, body: PutRole) -> RoleBody:
    """Create a role, or replace it.

    The next request of each caller who has it follows the new one. Grants of identity providers
    name roles.

    409: the role is built in, the tenant has 20 roles, or fewer than two people could approve.
    """
    return RoleBody.of(request.run(roles.put_role, role=body.role(name)))


@routes.delete("/v1/roles/{name}", status_code=204)
@serves(roles.delete, raises=(NotFound, Conflict, TooFewApprovers), is_protected=True)
async def delete_role(request: ApiRequest, name: OneRole) -> None:
    """Delete a role. Callers who have it may do nothing from their next request on.

    409: the role is built in, or fewer than two people could approve.
    """
    request.run(roles.delete, name=name)


@routes.get("/v1/tenant/protected-acts")
@serves(protected_acts.get)
async def get_protected_acts(request: ApiRequest) -> ProtectedActsBody:
    """Get the acts that need an approval by another person."""
    return ProtectedActsBody.of(request.run(protected_acts.get))


@routes.put("/v1/tenant/protected-acts")
@serves(protected_acts.update, raises=(TooFewApprovers,), is_protected=True)
async def set_protected_acts(request: ApiRequest, body: SetProtectedActs) -> ProtectedActsBody:
    """Set the acts that need an approval by another person.

    If there are any, this request, changes of identity providers and changes of roles need one too.

    409: fewer than two people with the role `admin` have signed in.
    """
    changed = request.run(
        protected_acts.update, acts=tuple(body.acts), restore_above=body.restore_above
    )
    return ProtectedActsBody.of(changed)


@routes.get("/v1/approvals")
@serves(approvals.page)
async def list_approvals(
    request: ApiRequest, query: Annotated[ApprovalQuery, Query()]
) -> ApprovalList:
    """List approvals, and the requests that wait for one, newest first.

    Those who cannot read the settings of the tenant see their own.
    """
    pages = CursorCodec(request.caller, query.cursor, f"approvals?{query.status}")
    found, next_before = request.run(
        approvals.page, before=pages.position, limit=query.limit, status=query.status
    )
    return ApprovalList.of(found, pages.cursor_after(next_before))


@routes.get("/v1/approvals/{id}")
@serves(approvals.get, raises=(NotFound,))
async def get_approval(request: ApiRequest, approval_id: Which) -> ApprovalBody:
    """Get one approval."""
    return ApprovalBody.of(request.run(approvals.get, approval_id=approval_id))


@routes.post("/v1/approvals/{id}/approve")
@serves(approvals.approve, raises=(NotFound, InvalidState))
async def approve_request(request: ApiRequest, approval_id: Which) -> ApprovalBody:
    """Approve what another person asked for, who may do it within an hour.

    The service does not do it by itself: that person repeats the request, with the identifier of
    the approval in the header `Rescind-Approval`.

    409: it was rejected, or has expired.
    """
    return ApprovalBody.of(request.run(approvals.approve, approval_id=approval_id))


@routes.post("/v1/approvals/{id}/reject")
@serves(approvals.reject, raises=(NotFound, InvalidState))
async def reject_request(request: ApiRequest, approval_id: Which) -> ApprovalBody:
    """Reject what another person asked for, or end an approval that is not used up.

    The person who asked may withdraw the request by this.

    409: it has expired.
    """
    return ApprovalBody.of(request.run(approvals.reject, approval_id=approval_id))


app = create_app(routes)
handler = lambda_handler(app)
