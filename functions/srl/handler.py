"""The Signed Revocation List over HTTP (service.md 2.4 and 4.3, decisions 3)."""

from typing import Any, Final

from fastapi import Response

from functions.srl.schemas import Regenerated, SignedRevocationList, SrlSigner, SrlSigners
from shared.operations import srl, srl_keys
from shared.web.app import create_app, lambda_handler
from shared.web.conditional import matches
from shared.web.routes import Here, router, serves

# Lambda answers with at most 6 MB; a longer list is fetched from where it is stored.
_ANSWER_MAX: Final = 4 * 1024 * 1024

# For its caller only, and to be asked for again each time: a 304 costs little.
_CACHE: Final = "private, no-cache"

routes = router()


_ETAG: Final = {"ETag": {"schema": {"type": "string"}, "description": "Of the content alone."}}
_LOCATION: Final = {"Location": {"schema": {"type": "string"}, "description": "Short-lived."}}
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"headers": _ETAG},
    304: {"description": "The caller has this very list", "headers": _ETAG},
    307: {"description": "A list of more than 4 MiB lies there", "headers": _LOCATION},
}


@routes.get("/v1/revocations/srl", response_model=SignedRevocationList, responses=_RESPONSES)
@routes.get("/v1/revocations/srl/signed", response_model=SignedRevocationList, responses=_RESPONSES)
@serves(srl.head)
async def get_srl(here: Here) -> Response:
    """Get the list in force, signed."""
    head = srl.head(here.ports, here.caller)
    headers = {"ETag": head.etag, "Cache-Control": _CACHE}
    if matches(here, etag=head.etag):
        return Response(status_code=304, headers=headers)
    if head.size > _ANSWER_MAX:
        location = srl.address(here.ports, here.caller, of=head)
        return Response(status_code=307, headers={"Location": location})
    body = srl.body(here.ports, here.caller, of=head)
    return Response(body, headers=headers, media_type="application/json")


@routes.post("/v1/revocations/srl/regenerate")
@serves(srl.regenerate)
async def regenerate_srl(here: Here) -> Regenerated:
    """Publish the next version of the list, from the revocations of now."""
    return Regenerated.of(srl.regenerate(here.ports, here.caller))


@routes.get("/v1/revocations/srl/keys")
@serves(srl_keys.listing)
async def list_srl_keys(here: Here) -> SrlSigners:
    """List the keys that sign the tenant's lists."""
    return SrlSigners(
        keys=[SrlSigner.of(each) for each in srl_keys.listing(here.ports, here.caller)]
    )


@routes.post("/v1/revocations/srl/keys/rotate", status_code=201)
@serves(srl_keys.rotate)
async def rotate_srl_key(here: Here) -> SrlSigner:
    """Start a new signer; the list in force stays valid under the old one."""
    return SrlSigner.of(srl_keys.rotate(here.ports, here.caller))


app = create_app(routes)
handler = lambda_handler(app)
