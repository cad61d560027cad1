"""The Signed Revocation List over HTTP (SRL-1)."""

from functools import partial
from typing import Annotated, Any, Final

from fastapi import Path, Query, Response
from pydantic import BaseModel, Field

from functions.srl import status
from functions.srl.schemas import (
    ActivateSrlKey,
    PublishedList,
    RotateSrlKey,
    SignedRevocationList,
    SrlKey,
    SrlKeyList,
)
from shared.errors import Conflict, InvalidState, NotFound
from shared.model.lists.head import CACHE_CONTROL
from shared.operations.changes import list_signers, srl
from shared.web import stored as bodies
from shared.web.app import create_app, lambda_handler
from shared.web.conditional import accepts_gzip, condition
from shared.web.fields import SigningKeyId, decimal
from shared.web.freshness import AGE, FRESHNESS
from shared.web.paging import Cursor, CursorCodec
from shared.web.routes import ApiRequest, router, serves
from shared.web.stored import header
from shared.web.work import WorkKind

KeyId = Annotated[SigningKeyId, Path(alias="keyId")]

_VERSION: Final = decimal(
    "[1-9][0-9]{0,11}", must="be a version: 1 to 12 decimal digits, without a leading zero"
)


class ListQuery(BaseModel):
    """Which list is asked for; without a parameter, the one that is in force."""

    # The order matters: what follows a validator is checked, but is not in the API document.
    version: Annotated[int, Field(ge=1, lt=10**12), _VERSION] | None = Field(
        default=None, description="The list of this version."
    )
    sha256: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="The list whose signed bytes, those in `Payload`, have this SHA-256, in "
        "hexadecimal digits.",
    )

    @property
    def is_old(self) -> bool:
        """Whether one certain list is asked for."""
        return self.version is not None or self.sha256 is not None


_NOT_FORCED: Final = ActivateSrlKey()
_NOT_STOLEN: Final = RotateSrlKey()

routes = router("Signed Revocation List")


_HEADERS: Final = {
    "ETag": header("Identifies this encoding of this list. It depends only on the bytes."),
    "X-SRL-Key-Id": header("The identifier of the key that signed this list."),
    "Vary": header("`Accept-Encoding`: a long list may be sent in gzip to who accepts it."),
}
_HEADERS_NOW: Final = _HEADERS | AGE
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"headers": _HEADERS_NOW},
    304: {
        "description": "The list in force is the one that `If-None-Match` names",
        "headers": _HEADERS_NOW,
    },
    307: {
        "description": "The list is larger than 4 MiB; `Location` is its address",
        "headers": _HEADERS_NOW | bodies.location_header("list"),
    },
}
_CONDITION: Final = condition("The `ETag` of the list that you have.")


@routes.get(
    "/v1/revocations/srl",
    response_model=SignedRevocationList,
    responses=_RESPONSES,
    openapi_extra=_CONDITION,
)
@routes.get(
    "/v1/revocations/srl/signed",
    name="get_signed_srl",
    response_model=SignedRevocationList,
    responses=_RESPONSES,
    openapi_extra=_CONDITION,
)
@serves(srl.old, raises=(NotFound,))
async def get_srl(request: ApiRequest, query: Annotated[ListQuery, Query()]) -> Response:
    """Get the Signed Revocation List that is in force, or an old one.

    Verify the bytes in `srl` and use their content; `payload` has the same content in readable
    form. Send the `ETag` of the last list in `If-None-Match`, with the same `Accept-Encoding`: 304
    means that it is still in force. Keep the `ETag` of this response, also if it is a redirect.
    Follow redirects, and do not send `Authorization` to the address of a redirect.

    `/v1/revocations/srl` and `/v1/revocations/srl/signed` are the same resource.

    `Age` tells how old the oldest change is that the list in force may lack. If that is not known,
    the status is 503.

    With `version` or `sha256` the response is that list, if the service still has it. It does not
    change, and may be cached. Do not take it for the list in force.
    """
    age, packed = dict[str, str](), accepts_gzip(request)
    if query.is_old:
        head = request.run(srl.old, **query.model_dump())
    else:
        fresh = FRESHNESS.look(request)
        head, newest = request.run(srl.current, is_gzip=packed)
        age = fresh.age(newest, listed_at=head.issued_at)
    form = head.form(is_gzip=packed)
    headers = {
        "ETag": form.etag,
        # A list of a certain version never changes. A client with keys of several tenants must not
        # confuse their lists, so the responses also vary by `Authorization`.
        "Cache-Control": bodies.IMMUTABLE if query.is_old else CACHE_CONTROL,
        "Vary": "Accept-Encoding, Authorization" if query.is_old else "Accept-Encoding",
        "X-SRL-Key-Id": head.key_id,
        **age,
    }
    return bodies.stored_body_response(
        request,
        form,
        headers,
        body=partial(request.run, srl.body, of=form),
        file=partial(request.run, srl.file, of=form),
    )


@routes.post("/v1/revocations/srl/regenerate")
@serves(srl.regenerate, kind=WorkKind.PUBLICATION)
async def regenerate_srl(request: ApiRequest) -> PublishedList:
    """Publish the next version of the Signed Revocation List now.

    The service also publishes automatically, within about a minute of a change. This call always
    publishes, even if nothing changed, and the version increases by one. A tenant may call it 25
    times per second if its list is short, and once in two seconds if the list has a million
    entries. Above this limit the status is 429, and nothing is published.
    """
    request.run(srl.take)
    return PublishedList.of(request.make(srl.regenerate))


@routes.get("/v1/revocations/srl/keys")
@serves(list_signers.page)
async def list_srl_keys(request: ApiRequest, cursor: Cursor = None) -> SrlKeyList:
    """List the keys that sign the Signed Revocation List.

    The key that signed the list in force comes first, then the newest. A retired key is listed
    until its last list has expired. A revoked key remains listed, so that a verifier that pinned it
    learns of the revocation. If more than 100 are revoked, the oldest of them are on further pages.
    """
    pages = CursorCodec(request.caller, cursor, "srl/keys")
    page = request.run(list_signers.page, before=pages.position)
    return SrlKeyList(
        keys=[SrlKey.of(each) for each in page.signers],
        cursor=pages.cursor_after(page.next_before),
    )


@routes.post("/v1/revocations/srl/keys", status_code=201)
@serves(list_signers.create, raises=(InvalidState, Conflict))
async def create_srl_key(request: ApiRequest) -> SrlKey:
    """Create the key that will sign the Signed Revocation List next.

    The key is listed as `pending`, so that authorizers can learn of it, and signs nothing until it
    is activated. `statement` is signed by the current key.

    409: there is a pending key already, or 100 retired keys are listed.
    """
    return SrlKey.of(request.run(list_signers.create))


@routes.post("/v1/revocations/srl/keys/rotate", status_code=201)
@serves(list_signers.rotate, raises=(Conflict,), kind=WorkKind.PUBLICATION, is_protected=True)
async def rotate_srl_key(request: ApiRequest, body: RotateSrlKey = _NOT_STOLEN) -> SrlKey:
    """Replace the key that signs the Signed Revocation List at once.

    Activates the pending key, or a new key if none is pending, and publishes a list that it signed.
    Clients of the feed follow its `statement`. Authorizers that read lists refuse that list if they
    do not know the key. To give them time, create a pending key and activate it later.

    With `compromised` the present key is revoked, as `POST …/srl/keys/{keyId}/revoke` does.
    Each such call revokes the key that is active then: send an `Idempotency-Key`, or list the keys
    before you repeat a call whose response was lost. The body may be omitted.

    409: there is no pending key, and 100 retired keys are listed.
    """
    return SrlKey.of(request.make(list_signers.rotate, compromised=body.compromised))


@routes.post("/v1/revocations/srl/keys/{keyId}/activate")
@serves(
    list_signers.activate,
    raises=(NotFound, InvalidState),
    kind=WorkKind.PUBLICATION,
    is_protected=True,
)
async def activate_srl_key(
    request: ApiRequest, key_id: KeyId, body: ActivateSrlKey = _NOT_FORCED
) -> SrlKey:
    """Activate a pending key and publish a list that it signed.

    The previous key is retired. The body may be omitted.

    409: the key is not pending, or `activates_at` has not come and `force` is not true.
    """
    signer = request.make(list_signers.activate, key_id=key_id, force=body.force)
    return SrlKey.of(signer)


@routes.post("/v1/revocations/srl/keys/{keyId}/revoke")
@serves(list_signers.revoke, raises=(NotFound,), kind=WorkKind.PUBLICATION, is_protected=True)
async def revoke_srl_key(request: ApiRequest, key_id: KeyId) -> SrlKey:
    """Revoke a stolen key of the Signed Revocation List.

    If the key signed the list in force, another key takes over, and a list that it signed is
    published in the same step. That key has no `statement`, because the thief could have made one
    too: authorizers that pin a key must pin the new one. The feed breaks, so that clients that
    accepted what the thief signed continue with the new list.
    """
    return SrlKey.of(request.make(list_signers.revoke, key_id=key_id))


app = create_app(status.routes, routes)
handler = lambda_handler(app)
