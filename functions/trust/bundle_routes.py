"""The trust bundle over HTTP (TRUST-1). The function of signing keys serves it."""

from typing import Final

from fastapi import Response

from functions.trust import trust_bundle
from functions.trust.schemas import TrustBundle
from functions.trust.trust_bundle import BundleVersion
from shared.web.conditional import condition, responses, tags
from shared.web.paging import Cursor, CursorCodec
from shared.web.routes import ApiRequest, router, serves
from shared.web.stored import header

routes = router("Signing keys")

_BUNDLE_HEADERS: Final = {
    "ETag": header(
        "Identifies the response. Send it in `If-None-Match` with the next request. It can change "
        "without a change of `revision`."
    )
}


@routes.get(
    "/v1/trust-bundle",
    response_model=TrustBundle,
    responses=responses("The bundle has not changed", _BUNDLE_HEADERS),
    openapi_extra=condition("The `ETag` of the last response."),
)
@serves(trust_bundle.page)
async def get_trust_bundle(
    request: ApiRequest, response: Response, cursor: Cursor = None
) -> TrustBundle | Response:
    """Get the public keys that verify warrants and SRLs, with their states.

    The newest key comes first, at most 1000 on a page. Old versions and revoked keys are included.
    Poll the first page with `If-None-Match`, for example each minute. 304 means that no key on any
    page has changed. After a 200, read the other pages again. The first polls after a change, and
    one poll per hour, return 200 even without a new change.
    """
    pages = CursorCodec(request.caller, cursor, "trust-bundle")
    before = pages.position
    current, now = request.run(trust_bundle.revision), request.ports.now()
    cached = list(filter(None, map(BundleVersion.parse, tags(request))))
    headers = {"Cache-Control": "private, no-cache"}
    confirmed = next((each for each in cached if each.confirms(current.name, now=now)), None)
    if confirmed is not None:
        return Response(status_code=304, headers=headers | {"ETag": confirmed.etag})
    page = request.run(trust_bundle.page, of=current, before=before)
    response.headers.update(headers)
    response.headers["ETag"] = BundleVersion.next(current.name, cached, now=now).etag
    return TrustBundle.page(current, page, pages)
