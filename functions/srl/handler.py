"""The Signed Revocation List over HTTP (service.md 2.4 and 4.3, decisions 3)."""

from typing import Annotated, Any, Final

from fastapi import Path, Response

from functions.srl.schemas import (
    ActivateSigner,
    Regenerated,
    SignedRevocationList,
    SrlSigner,
    SrlSigners,
)
from shared.errors import InvalidState, NotFound
from shared.operations import srl, srl_rotation
from shared.web.app import create_app, lambda_handler
from shared.web.conditional import matches
from shared.web.routes import Here, router, serves

# Lambda answers with at most 6 MB; a longer list is fetched from where it is stored.
_ANSWER_MAX: Final = 4 * 1024 * 1024

# For its caller only, and to be asked for again each time: a 304 costs little.
_CACHE: Final = "private, no-cache"

KeyId = Annotated[str, Path(alias="keyId")]

_NOT_FORCED: Final = ActivateSigner()

routes = router()


def _header(description: str) -> dict[str, Any]:
    return {"schema": {"type": "string"}, "description": description}


_HEADERS: Final = {
    "ETag": _header("Of the content alone."),
    "X-SRL-Key-Id": _header("The key that signed this list."),
}
_LOCATION: Final = {"Location": _header("Short-lived.")}
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"headers": _HEADERS},
    304: {"description": "The caller has this very list", "headers": _HEADERS},
    307: {"description": "A list of more than 4 MiB lies there", "headers": _HEADERS | _LOCATION},
}


@routes.get("/v1/revocations/srl", response_model=SignedRevocationList, responses=_RESPONSES)
@routes.get("/v1/revocations/srl/signed", response_model=SignedRevocationList, responses=_RESPONSES)
@serves(srl.head)
async def get_srl(here: Here) -> Response:
    """Get the list in force, signed."""
    head = srl.head(here.ports, here.caller)
    headers = {"ETag": head.etag, "Cache-Control": _CACHE, "X-SRL-Key-Id": head.key_id}
    if matches(here, etag=head.etag):
        return Response(status_code=304, headers=headers)
    if head.size > _ANSWER_MAX:
        location = srl.address(here.ports, here.caller, of=head)
        return Response(status_code=307, headers=headers | {"Location": location})
    body = srl.body(here.ports, here.caller, of=head)
    return Response(body, headers=headers, media_type="application/json")


@routes.post("/v1/revocations/srl/regenerate")
@serves(srl.regenerate)
async def regenerate_srl(here: Here) -> Regenerated:
    """Publish the next version of the list, from the revocations of now."""
    return Regenerated.of(srl.regenerate(here.ports, here.caller))


@routes.get("/v1/revocations/srl/keys")
@serves(srl_rotation.listing)
async def list_srl_keys(here: Here) -> SrlSigners:
    """List the keys that sign the tenant's lists, the one of the list in force first."""
    listed = srl_rotation.listing(here.ports, here.caller)
    return SrlSigners(keys=[SrlSigner.of(each) for each in listed])


@routes.post("/v1/revocations/srl/keys", status_code=201)
@serves(srl_rotation.create, raises=(InvalidState,))
async def create_srl_key(here: Here) -> SrlSigner:
    """Create the key that is to sign the lists next; it signs nothing until it is activated."""
    return SrlSigner.of(srl_rotation.create(here.ports, here.caller))


@routes.post("/v1/revocations/srl/keys/rotate", status_code=201)
@serves(srl_rotation.rotate)
async def rotate_srl_key(here: Here) -> SrlSigner:
    """Activate the pending key, or a new one, at once, and publish a list that it signed."""
    return SrlSigner.of(srl_rotation.rotate(here.ports, here.caller))


@routes.post("/v1/revocations/srl/keys/{keyId}/activate")
@serves(srl_rotation.activate, raises=(NotFound, InvalidState))
async def activate_srl_key(
    here: Here, key_id: KeyId, body: ActivateSigner = _NOT_FORCED
) -> SrlSigner:
    """Activate a pending key, and publish a list that it signed."""
    signer = srl_rotation.activate(here.ports, here.caller, key_id=key_id, force=body.force)
    return SrlSigner.of(signer)


@routes.post("/v1/revocations/srl/keys/{keyId}/revoke")
@serves(srl_rotation.revoke, raises=(NotFound,))
async def revoke_srl_key(here: Here, key_id: KeyId) -> SrlSigner:
    """Revoke a stolen key; if it signs the lists, another one takes over in the same step."""
    return SrlSigner.of(srl_rotation.revoke(here.ports, here.caller, key_id=key_id))


app = create_app(routes)
handler = lambda_handler(app)
