"""Revocations over HTTP (REVOKE-1, CHECK-1)."""

from dataclasses import replace
from typing import Annotated

from fastapi import Path, Query, Response

from functions.revocations.batch_schemas import BatchRevocations, RevocationChanges
from functions.revocations.change_schemas import (
    ChangeBody,
    ChangeId,
    ChangeList,
    ChangesQuery,
    RevocationPropagation,
    SearchHit,
    SearchQuery,
    SearchResults,
    Wait,
)
from functions.revocations.manifest_schemas import (
    MANIFEST_BODY_MAX,
    ApplyManifestPart,
    CreateManifest,
    ManifestBody,
    ManifestId,
    ManifestMembers,
    ManifestPartChanges,
    NewManifest,
)
from functions.revocations.schemas import (
    BATCH_BODY_MAX,
    CheckQuery,
    CheckRevocations,
    CountsQuery,
    CreateRevocation,
    NamedRevocation,
    RevocationCheck,
    RevocationCounts,
    RevocationId,
    RevocationList,
    RevocationQuery,
    RevocationStatus,
    RevocationStatuses,
    RevocationWithPublication,
)
from shared.errors import NotFound
from shared.operations.audit import revocation_counts
from shared.operations.changes import revocation_batches, revocations, unrevoke_manifests
from shared.operations.fleet import changes, propagation
from shared.operations.fleet import search as search_operation
from shared.web.app import create_app, lambda_handler
from shared.web.fields import WHOLE, Reason
from shared.web.paging import CursorCodec, Paging
from shared.web.routes import ApiRequest, router, serves
from shared.web.work import ProvisionalResponse, WorkKind

routes = router("Revocations")

Which = Annotated[ManifestId, Path(alias="id")]
OneRevocation = Annotated[RevocationId, Path(alias="id")]
_MANIFESTS = "/v1/unrevoke-manifests"


@routes.get("/v1/revocations/check")
@serves(revocations.check, kind=WorkKind.QUICK)
async def check_revocation(
    request: ApiRequest, query: Annotated[CheckQuery, Query()]
) -> RevocationCheck:
    """Check whether a warrant, or a token of another issuer, is revoked.

    A warrant is revoked if it has a revocation record, or if the key that signed it is revoked. The
    result is always current and does not wait for the next SRL. An unknown identifier is not
    revoked. If the service cannot determine the result, it returns 503 and never `false`.
    """
    return RevocationCheck.of(request.run(revocations.check, warrant_id=query.one))


@routes.post("/v1/revocations/check-batch")
@serves(revocations.check_batch, body_max=BATCH_BODY_MAX)
async def check_revocations(request: ApiRequest, body: CheckRevocations) -> RevocationStatuses:
    """Check whether each of up to 1000 warrants is revoked.

    The results are the same as for the single check, without the reason. If an identifier is
    repeated, the response contains it once.
    """
    verdicts = request.run(revocations.check_batch, warrant_ids=body.warrant_ids)
    results = {name: RevocationStatus.of(verdict) for name, verdict in verdicts.items()}
    return RevocationStatuses(results=results)


@routes.get("/v1/revocations")
@serves(revocations.page)
async def list_revocations(
    request: ApiRequest, query: Annotated[RevocationQuery, Query()]
) -> RevocationList:
    """List the revocation records.

    The newest record comes first, except with `batch_id` or `warrant_prefix`. If more than one
    filter is given, a record must match all of them. With a filter, a page may have fewer records
    than `limit`, or none, although more follow. In this case, `cursor` is not null. Warrants that
    are revoked because their signing key is revoked have no record. `GET /v1/keys/{keyId}/warrants`
    lists the warrants of a key.
    """
    filters = query.filters()
    listed = query.model_dump_json(exclude={"limit", "cursor", "include"}, exclude_none=True)
    endpoint = "revocations" if listed == "{}" else f"revocations?{listed}"
    pages = CursorCodec(request.caller, query.cursor, endpoint)
    page = request.run(revocations.page, before=pages.position, limit=query.limit, filters=filters)
    if query.include is None:
        unnamed = [replace(each, created_by_name=None) for each in page.entries]
        page = replace(page, entries=unnamed)
    return RevocationList.of(page, pages)


@routes.post(
    "/v1/revocations",
    status_code=201,
    responses={
        200: {
            "model": NamedRevocation,
            "description": "The warrant is already revoked; the response is its revocation record",
        }
    },
)
@serves(revocations.create)
async def create_revocation(
    request: ApiRequest, body: CreateRevocation, response: Response
) -> NamedRevocation:
    """Revoke a warrant.

    Checks see the revocation from the next request on. The Signed Revocation List contains it from
    its next version on. If the warrant already has a revocation record, the status is 200 and the
    response is that record. The record changes only if it has a `warrant_expires_at` and the new
    one is later or omitted. It then gets the new value, and the warrant returns to the SRL if it
    had left it. If another identity created the record, deleting it unrevokes the warrant for you
    too.
    """
    record, is_new = request.run(
        revocations.create,
        warrant_id=body.one,
        reason=body.reason,
        warrant_expires_at=body.warrant_expires_at,
        issuer=body.token.issuer if body.token else None,
        token_value=body.token.value if body.token else None,
    )
    response.status_code = 201 if is_new else 200
    return NamedRevocation.of(record)


@routes.post("/v1/revocations/batch")
@serves(revocation_batches.apply, body_max=BATCH_BODY_MAX)
async def batch_revocations(request: ApiRequest, body: BatchRevocations) -> RevocationChanges:
    """Revoke up to 1000 warrants, or delete up to 1000 revocations.

    The call is made in several writes of up to 24 warrants, each with its audit entry. A failed
    write does not prevent the others: each identifier has its own result. If the response was lost,
    or if some identifiers failed, repeat the call with the same `batch_id` and the same
    identifiers. A repeated call changes nothing twice. For more than 1000, make several calls with
    one `batch_id`. If no write is known to have succeeded, the status is 503. If the tenant
    requires an approval to unrevoke these warrants, the status is 403: create a manifest.

    A call takes one token of the rate limit, and one more for each 10 identifiers.
    """
    applied = request.run(revocation_batches.apply, batch=body.batch())
    return RevocationChanges.of(applied)


@routes.post(_MANIFESTS, status_code=201)
@serves(unrevoke_manifests.create, body_max=MANIFEST_BODY_MAX)
async def create_unrevoke_manifest(request: ApiRequest, body: CreateManifest) -> NewManifest:
    """Create a manifest of up to 50,000 revocations to unrevoke.

    The manifest contains the current revocations, and is immutable. It expires after 30 days.
    Warrants are unrevoked only when its parts are applied. You can compute its `sha256` yourself.

    A call takes 100 tokens of the rate limit, and one more for each 50 identifiers.
    """
    return NewManifest.of_new(request.run(unrevoke_manifests.create, **body.to_arguments()))


@routes.get(f"{_MANIFESTS}/{{id}}")
@serves(unrevoke_manifests.get, raises=(NotFound,))
async def get_unrevoke_manifest(request: ApiRequest, manifest_id: Which) -> ManifestBody:
    """Get a manifest."""
    return ManifestBody.of(request.run(unrevoke_manifests.get, manifest_id=manifest_id))


@routes.get(f"{_MANIFESTS}/{{id}}/members")
@serves(unrevoke_manifests.members, raises=(NotFound,))
async def list_unrevoke_manifest_members(
    request: ApiRequest, manifest_id: Which, query: Paging
) -> ManifestMembers:
    """List the revocations of a manifest, sorted by their identifiers."""
    pages = CursorCodec(request.caller, query.cursor, f"unrevoke-manifests/{manifest_id}")
    page = request.run(
        unrevoke_manifests.members,
        manifest_id=manifest_id,
        before=pages.position,
        limit=query.limit,
    )
    return ManifestMembers.of(page, pages)


@routes.post(f"{_MANIFESTS}/{{id}}/parts/{{number}}/apply")
@serves(unrevoke_manifests.apply, raises=(NotFound,), is_protected=True)
async def apply_unrevoke_manifest_part(
    request: ApiRequest,
    manifest_id: Which,
    number: Annotated[int, Path(description="Number of the part, from 1."), WHOLE],
    body: ApplyManifestPart,
) -> ManifestPartChanges:
    """Unrevoke up to 500 members of a manifest.

    If the response was lost, or if some members failed, repeat the call. A repeated call changes
    nothing twice, and reports the same results. A member that was unrevoked by another request has
    the outcome `not_revoked`. If its warrant is revoked again, the result has the new
    `revocation_id`. An approval applies to all parts of the manifest, regardless of the part that
    requested it.

    A call takes 50 tokens of the rate limit.
    """
    applied = request.run(
        unrevoke_manifests.apply, manifest_id=manifest_id, number=number, reason=body.reason
    )
    return ManifestPartChanges.of(applied)


@routes.get("/v1/revocations/counts")
@serves(revocation_counts.counts)
async def count_revocations(
    request: ApiRequest, query: Annotated[CountsQuery, Query()]
) -> RevocationCounts:
    """Count created and deleted revocations per day.

    Days are in UTC. A change is counted when its entry is appended to the transparency log, usually
    within ten seconds. Counts of days before `counted_since` are null, because the tenant did not
    exist or the service did not count. `by_key` is the number of warrants with a revoked signing
    key. These warrants have no revocation record, or were revoked before.

    400: `to` is before `from`, or there are more than 92 days, or 31 with `interval=hour`.
    """
    start, end = query.window(request.ports.now())
    counts = request.run(revocation_counts.counts, start=start, end=end, hourly=query.is_hourly)
    return RevocationCounts.from_counts(counts, hourly=query.is_hourly)


@routes.get("/v1/revocations/{id}")
@serves(revocations.get, raises=(NotFound,))
async def get_revocation(
    request: ApiRequest, revocation_id: OneRevocation
) -> RevocationWithPublication:
    """Get a revocation record and its publication status.

    An authorizer refuses the warrant after it has applied the feed entry `feed_sequence`, or an SRL
    of `srl_version` or later.
    """
    record, reach = request.run(revocations.get, revocation_id=revocation_id)
    return RevocationWithPublication.following(record, reach)


@routes.get("/v1/revocations/{id}/propagation", response_model=RevocationPropagation)
@serves(propagation.progress_of, raises=(NotFound,))
async def get_revocation_propagation(
    request: ApiRequest, revocation_id: OneRevocation, query: Wait
) -> Response:
    """Prove that every registered authorizer refuses the warrant.

    An authorizer is *enforced* if it reported the feed entry of the revocation, or a later entry.
    It is *fail_closed* if it did not report the entry, and its state without the entry exceeds its
    staleness limit. It then refuses every request. `is_complete` means that no authorizer is
    *unknown*. With `wait`, the service delays a response that is not complete.

    The proof relies on the entries and staleness limits that authorizers report, which the service
    cannot verify. It assumes that the clocks of the service differ by less than a minute. It covers
    the registered authorizers only.

    404: there is no such revocation, or it was deleted.
    """
    progress = request.run(propagation.progress_of, revocation_id=revocation_id)
    body = RevocationPropagation.of(progress).model_dump_json()
    # The response is final if the warrant has expired.
    is_last = progress.propagation.is_complete or progress.traced.ended_at is not None
    return _answer(request, body, query.wait, is_last=is_last)


def _answer(request: ApiRequest, body: str, wait: int, *, is_last: bool) -> Response:
    """Return the response, delayed if a later one may be better (FLEET-14)."""
    seconds = min(wait, request.max_wait_seconds)
    if is_last or not seconds:
        return Response(body, media_type="application/json")
    return ProvisionalResponse(body, seconds=seconds, media_type="application/json")


@routes.get("/v1/changes")
@serves(changes.page)
async def list_changes(request: ApiRequest, query: Annotated[ChangesQuery, Query()]) -> ChangeList:
    """List changes.

    A change is a revocation of a warrant, a batch, a signing key, an API key or an SRL signer. The
    newest change comes first, in the order of the audit log. Each call of a batch is one change. A
    page may have fewer changes than `limit`, although more follow. In this case, `cursor` is not
    null.
    """
    filters = query.filters(request.ports.now())
    listed = query.model_dump_json(exclude={"limit", "cursor"})
    pages = CursorCodec(request.caller, query.cursor, f"changes?{listed}")
    page = request.run(changes.page, filters=filters, before=pages.position, limit=query.limit)
    return ChangeList.of(page, pages)


@routes.get("/v1/changes/{id}", response_model=ChangeBody)
@serves(changes.of_change, raises=(NotFound,))
async def get_change(
    request: ApiRequest, change_id: Annotated[ChangeId, Path(alias="id")], query: Wait
) -> Response:
    """Get a change, and the authorizers that are known to enforce it.

    The states and `is_complete` are the same as in the proof of propagation, for the feed entry
    that completes the change. With `wait`, the service delays a response that is not complete. If a
    warrant was unrevoked, the change has `unrevoked_at` while the audit log contains it, and no
    authorizer has the state `enforced`.

    404: there is no such change.
    """
    progress = request.run(changes.of_change, change_id=change_id)
    body = ChangeBody.following(progress).model_dump_json()
    is_last = progress.is_complete or progress.feed is None or progress.unrevoked_at is not None
    return _answer(request, body, query.wait, is_last=is_last)


@routes.delete("/v1/revocations/{id}", status_code=204)
@serves(revocations.delete, raises=(NotFound,), is_protected=True)
async def delete_revocation(
    request: ApiRequest,
    revocation_id: OneRevocation,
    reason: Annotated[
        Reason | None, Query(description="Reason, recorded in the audit log.")
    ] = None,
) -> None:
    """Delete a revocation.

    The warrant is valid again, unless its signing key is revoked. If the tenant's setting
    `unrevoke_policy` is `own`, keys without the scope `admin` can delete only revocations of their
    own identity that no other identity repeated. Otherwise the status is 403.
    """
    request.run(revocations.delete, revocation_id=revocation_id, reason=reason)


@routes.get("/v1/search")
@serves(search_operation.search)
async def search(request: ApiRequest, query: Annotated[SearchQuery, Query()]) -> SearchResults:
    """Find warrants, revocations, batches, keys, accounts, authorizers and audit entries.

    `q` is an identifier, the beginning of one, or words of a name. Names are searched among the
    newest 1,000 of each kind. Results include only kinds that the API key may list. To find an
    audit entry or a batch, `q` must contain five characters of its identifier after `svc_evt_` or
    `svc_bat_`.
    """
    hits = request.run(search_operation.search, query=query.q, limit=query.limit)
    return SearchResults(results=[SearchHit.of(each) for each in hits])


app = create_app(routes)
handler = lambda_handler(app)
