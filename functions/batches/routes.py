"""Batches of revocations, and manifests of revocations to unrevoke, over HTTP (REVOKE-20)."""

from typing import Annotated

from fastapi import Path

from functions.batches import manifests as unrevoke_manifests
from functions.batches import operations as revocation_batches
from functions.batches.manifest_schemas import (
    MANIFEST_BODY_MAX,
    ApplyManifestPart,
    CreateManifest,
    ManifestBody,
    ManifestId,
    ManifestMembers,
    ManifestPartChanges,
    NewManifest,
)
from functions.batches.schemas import BatchRevocations, RevocationChanges
from shared.errors import NotFound
from shared.web.bodies import BATCH_BODY_MAX
from shared.web.fields import WHOLE
from shared.web.paging import CursorCodec, Paging
from shared.web.routes import ApiRequest, router, serves

routes = router("Revocations")

Which = Annotated[ManifestId, Path(alias="id")]
_MANIFESTS = "/v1/unrevoke-manifests"


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
