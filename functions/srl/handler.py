"""The Signed Revocation List over HTTP (SRL-1)."""

from functools import partial
from typing import Annotated, Final

from fastapi import Path, Query, Response
from pydantic import BaseModel, Field

from functions.srl import schemas, status
from shared.errors import Conflict, InvalidState, NotFound
from shared.model.lists.head import CACHE_CONTROL
from shared.operations.changes import list_signers, srl
from shared.web import stored as bodies
from shared.web.app import create_app, lambda_handler
from shared.web.conditional import accepts_gzip, condition, responses
from shared.web.fields import (
    SigningKeyId,
    decimal,
    omittable,
)
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
    """The requested SRL. Without a parameter, it is the current SRL."""

    # The order matters: the API document omits constraints that follow a validator.
    version: Annotated[int, Field(ge=1, lt=10**12), _VERSION] | None = omittable("SRL version.")
    sha256: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of the signed bytes of the SRL (`Payload`), in hexadecimal.",
    )

    @property
    def is_old(self) -> bool:
        """Whether a specific SRL is requested."""
        return self.version is not None or self.sha256 is not None


_NOT_FORCED: Final = schemas.ActivateSrlKey()
_NOT_STOLEN: Final = schemas.RotateSrlKey()

routes = router("Signed Revocation List")


_HEADERS: Final = {
    "ETag": header("Identifies this encoding of this SRL. It depends only on the bytes."),
    "X-SRL-Key-Id": header("Identifier of the SRL signer."),
    "Vary": header("`Accept-Encoding`, because a large SRL may be compressed with gzip."),
}
_HEADERS_NOW: Final = _HEADERS | AGE
_RESPONSES: Final = responses("The current SRL has not changed", _HEADERS_NOW) | {
    307: bodies.redirect("SRL", _HEADERS_NOW)
}
_CONDITION: Final = condition("The `ETag` of the last response.")


@routes.get(
    "/v1/revocations/srl",
    response_model=schemas.SignedRevocationList,
    responses=_RESPONSES,
    openapi_extra=_CONDITION,
)
@routes.get(
    "/v1/revocations/srl/signed",
    name="get_signed_srl",
    response_model=schemas.SignedRevocationList,
    responses=_RESPONSES,
    openapi_extra=_CONDITION,
)
@serves(srl.old, raises=(NotFound,))
async def get_srl(request: ApiRequest, query: Annotated[ListQuery, Query()]) -> Response:
    """Get the current or an earlier Signed Revocation List.

    Verify the bytes in `srl` and use their content; `payload` has the same content in readable
    form. Send the `ETag` of the last SRL in `If-None-Match`, with the same `Accept-Encoding`: 304
    means that it is still current. Keep the `ETag` of this response, also if it is a redirect.
    Follow redirects, and do not send `Authorization` to the address of a redirect.

    `/v1/revocations/srl` and `/v1/revocations/srl/signed` are the same resource.

    `Age` is the age of the oldest change that the current SRL may lack. If it is unknown, the
    status is 503.

    With `version` or `sha256` the response is that SRL, if the service still has it. It does not
    change, and may be cached. Do not use it as the current SRL.
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
        # An SRL of a specific version never changes. A client with keys of several tenants must not
        # mix up their SRLs, so the responses also vary by `Authorization`.
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
async def regenerate_srl(request: ApiRequest) -> schemas.PublishedList:
    """Publish the next version of the Signed Revocation List now.

    The service also publishes automatically, within about a minute of a change. This call always
    publishes, even without changes, and the version increases by one. A tenant may call it 25 times
    per second for a short SRL, and once in two seconds for an SRL with a million entries. Above
    this limit the status is 429, and no SRL is published.
    """
    request.run(srl.take)
    return schemas.PublishedList.of(request.make(srl.regenerate))


@routes.get("/v1/revocations/srl/keys")
@serves(list_signers.page)
async def list_srl_keys(request: ApiRequest, cursor: Cursor = None) -> schemas.SrlKeyList:
    """List the keys that sign the Signed Revocation List.

    The signer of the current SRL comes first, then the newest. A retired key is listed until its
    last SRL has expired. A revoked key remains listed, so that a verifier that pinned it learns of
    the revocation. If more than 100 are revoked, the oldest of them are on further pages.
    """
    pages = CursorCodec(request.caller, cursor, "srl/keys")
    page = request.run(list_signers.page, before=pages.position)
    return schemas.SrlKeyList(
        keys=[schemas.SrlKey.of(each) for each in page.entries],
        cursor=pages.cursor_after(page.next_before),
    )


@routes.post("/v1/revocations/srl/keys", status_code=201)
@serves(list_signers.create, raises=(InvalidState, Conflict))
async def create_srl_key(request: ApiRequest) -> schemas.SrlKey:
    """Create a pending signer for the Signed Revocation List.

    The key is listed as `pending`, so that authorizers can fetch it. It does not sign until it is
    activated. The current key signs its `statement`.

    409: a pending key exists already, or 100 retired keys are listed.
    """
    return schemas.SrlKey.of(request.run(list_signers.create))


@routes.post("/v1/revocations/srl/keys/rotate", status_code=201)
@serves(list_signers.rotate, raises=(Conflict,), kind=WorkKind.PUBLICATION, is_protected=True)
async def rotate_srl_key(
    request: ApiRequest, body: schemas.RotateSrlKey = _NOT_STOLEN
) -> schemas.SrlKey:
    """Rotate the signer of the Signed Revocation List immediately.

    Activates the pending key, or a new key if none is pending, and publishes an SRL signed by it.
    Clients of the feed follow its `statement`. Authorizers that read SRLs refuse that SRL if they
    do not know the key. To give them time, create a pending key and activate it later.

    With `compromised` the current key is revoked, as with `POST …/srl/keys/{keyId}/revoke`. Each
    such call revokes the key that is active then. Send an `Idempotency-Key`, or list the keys
    before you repeat a call with a lost response. The body may be omitted.

    409: there is no pending key, and 100 retired keys are listed.
    """
    return schemas.SrlKey.of(request.make(list_signers.rotate, compromised=body.compromised))


@routes.post("/v1/revocations/srl/keys/{keyId}/activate")
@serves(
    list_signers.activate,
    raises=(NotFound, InvalidState),
    kind=WorkKind.PUBLICATION,
    is_protected=True,
)
async def activate_srl_key(
    request: ApiRequest, key_id: KeyId, body: schemas.ActivateSrlKey = _NOT_FORCED
) -> schemas.SrlKey:
    """Activate a pending key and publish an SRL signed by it.

    The previous key is retired. The body may be omitted.

    409: the key is not pending, or `activates_at` has not come and `force` is not true.
    """
    signer = request.make(list_signers.activate, key_id=key_id, force=body.force)
    return schemas.SrlKey.of(signer)


@routes.post("/v1/revocations/srl/keys/{keyId}/revoke")
@serves(list_signers.revoke, raises=(NotFound,), kind=WorkKind.PUBLICATION, is_protected=True)
async def revoke_srl_key(request: ApiRequest, key_id: KeyId) -> schemas.SrlKey:
    """Revoke a stolen key of the Signed Revocation List.

    If the key signed the current SRL, another key takes over, and an SRL signed by it is published
    in the same step. The new key has no `statement`, because the thief could have created one too.
    Authorizers that pin a key must pin the new one. The feed gets a discontinuity, so that clients
    that accepted forged entries continue with the new SRL.
    """
    return schemas.SrlKey.of(request.make(list_signers.revoke, key_id=key_id))


app = create_app(status.routes, routes)
handler = lambda_handler(app)
