"""Trust documents over HTTP (TRUST-8, TRUST-17)."""

import re
from typing import Annotated, Final

from fastapi import Path, Query, Response
from pydantic import BaseModel, Field

from functions.trust import documents, published_keys, publishing, schemas
from shared.authorizer.formats.documents import answer
from shared.authorizer.formats.members import NUMBER_MAX
from shared.errors import Conflict, NotFound, NotSignedByRoots
from shared.model.lists.head import CACHE_CONTROL
from shared.model.rate_limit import BucketPurpose
from shared.web import stored as bodies
from shared.web.app import create_app, lambda_handler
from shared.web.conditional import condition, matches, responses
from shared.web.fields import WHOLE
from shared.web.routes import ApiRequest, router, serves
from shared.web.stored import header
from shared.web.work import WorkKind

routes = router("Trust")


class TrustQuery(BaseModel):
    """The newest document that the caller has."""

    # The order matters: the API document omits constraints that follow a validator.
    after: Annotated[int, Field(ge=0, le=NUMBER_MAX), WHOLE] = Field(
        default=0,
        description="Version of the newest trust document that you have; 0 if you have none.",
    )


_ETAG: Final = {"ETag": header("Identifies the newest trust document. Send it in `If-None-Match`.")}
_KEYS: Final = bodies.immutable_responses("key bundle", {"ETag": header("Identifies the bytes.")})
Sha256 = Annotated[str, Path(description="SHA-256 of the key bundle, in hexadecimal.")]


@routes.get(
    "/v1/trust",
    response_model=schemas.TrustDocuments,
    responses=responses("The newest trust document has not changed", _ETAG),
    openapi_extra=condition("The `ETag` of the last response to the same query."),
)
@serves(documents.newest, purpose=BucketPurpose.FEED)
async def get_trust(request: ApiRequest, query: Annotated[TrustQuery, Query()]) -> Response:
    """List trust documents newer than version `after`.

    The response contains each later document with different roots, and the newest document: 64 at
    most. It is empty if the version is the newest, or if the tenant has no document yet. Accept a
    document only if the roots that you trust have signed it.
    """
    head = request.run(documents.newest)
    tag = f"{head.version}-{head.sha256.hex()[:32]}" if head else "0"
    headers = {"ETag": f'"{tag}-{query.after}"', "Cache-Control": CACHE_CONTROL}
    if matches(request, etag=headers["ETag"]):
        return Response(status_code=304, headers=headers)
    signed_documents = request.run(documents.read_since, of=head, after=query.after)
    return Response(answer(signed_documents), headers=headers, media_type="application/json")


@routes.get(
    "/v1/trust/keys/{sha256}",
    response_class=Response,
    responses=_KEYS,
    openapi_extra=condition("The `ETag` of the key bundle."),
)
@serves(published_keys.read_key_blob, raises=(NotFound,), purpose=BucketPurpose.FEED)
async def get_trust_keys(request: ApiRequest, sha256: Sha256) -> Response:
    """Get a key bundle by its SHA-256.

    A feed head contains the hash. The key bundle is a CBOR map. The response never changes. Follow
    redirects, and do not send `Authorization` to the address of a redirect.

    404: there is no key bundle with this hash, or it was deleted. Poll the feed for the newest.
    """
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise NotFound("There is no such key bundle.")
    form, blob = request.run(published_keys.read_key_blob, sha256=bytes.fromhex(sha256))
    return bodies.immutable(request, form, body=lambda: blob)


@routes.get("/v1/trust/draft")
@serves(publishing.draft)
async def get_trust_draft(
    request: ApiRequest, query: Annotated[schemas.DraftQuery, Query()]
) -> schemas.TrustDocumentBody:
    """Get a draft of the next trust document for the roots to sign.

    The draft is valid for 180 days. Each call creates a different draft: let all roots sign the
    same bytes, and publish them with `PUT /v1/trust`. To replace roots, name the new ones in
    `roots` and `threshold`. Both the current and the new roots must then sign.

    400: `roots` is missing, and there is no document yet.
    """
    return schemas.TrustDocumentBody.of(
        request.run(publishing.draft, roots=query.requested_roots())
    )


@routes.put("/v1/trust")
@serves(
    publishing.publish,
    raises=(Conflict, NotSignedByRoots),
    kind=WorkKind.PUBLICATION,
)
async def publish_trust(request: ApiRequest, body: schemas.PublishTrust) -> schemas.PublishedTrust:
    """Publish a trust document that the roots have signed.

    If the same document is already published, the call has no effect.

    400: the code is `invalid_signature` if not enough roots have signed.

    409: the document is outdated, or does not name the current signers. Get a new draft.
    """
    head = request.make(publishing.publish, payload=body.Payload, signatures=body.signatures())
    return schemas.PublishedTrust.of(head)


app = create_app(routes)
handler = lambda_handler(app)
