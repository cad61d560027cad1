"""The status and the history of SRLs over HTTP (SRL-21, SRL-22)."""

from typing import Final

from fastapi import Response
from pydantic import AliasPath, Field, JsonValue

from functions.srl import schemas
from shared.model.lists.head import CACHE_CONTROL
from shared.operations.changes import srl
from shared.web.conditional import condition, json_response_with_etag, responses
from shared.web.fields import (
    CURSOR,
    MomentOut,
    NextCursor,
    RecordBody,
    ResponseBody,
    SigningKeyId,
    attribute,
    example,
    field,
)
from shared.web.paging import CursorCodec, Paging
from shared.web.routes import ApiRequest, router, serves
from shared.web.stored import header

_VERSION: Final[dict[str, JsonValue]] = {
    "version": 2,
    "issued_at": "2026-11-21T12:00:00Z",
    "expires_at": "2026-11-21T13:00:00Z",
    "count": 1,
    "added_count": 1,
    "removed_count": 0,
    "key_id": schemas.SIGNER["key_id"],
    "sha256": "dc31d4b8ed6457468e78c38ab0ef5e56b04151747703cc0eccf7a11f90a2fb8f",
}

routes = router("Signed Revocation List")

_ETAG: Final = {"ETag": header("Identifies the content. Send it in `If-None-Match`.")}
_RESPONSES: Final = responses("The status has not changed", _ETAG)


class ListStatusBody(RecordBody):
    """The status of the current SRL."""

    model_config = example(
        version=2,
        issued_at="2026-11-21T12:00:00Z",
        expires_at="2026-11-21T13:00:00Z",
        count=1,
        key_id=schemas.SIGNER["key_id"],
        feed_sequence=17,
        pending=3,
        pending_truncated=False,
        oldest_pending_at="2026-11-21T12:10:04Z",
        next_due_at="2026-11-21T12:11:04Z",
    )

    version: int = attribute("head.version", "Version of the current SRL.", minimum=1)
    issued_at: MomentOut = attribute("head.issued_at", "Issue time of the SRL.")
    expires_at: MomentOut = attribute("head.expires_at", "Expiry of the SRL.")
    count: int = attribute("head.count", "Number of revoked warrants in the SRL.", minimum=0)
    key_id: SigningKeyId = Field(validation_alias=AliasPath("head", "key_id"))
    feed_sequence: int | None = field(
        "Sequence of the newest feed entry; null if there is none. Authorizers that follow the "
        "feed report their sequence."
    )
    pending: int = attribute(
        "pending.warrants",
        "Number of warrants that were revoked or unrevoked since the SRL was issued. Clients of "
        "the feed receive these changes before the next SRL.",
        minimum=0,
    )
    pending_truncated: bool = attribute(
        "pending.is_truncated",
        "Whether there may be more pending changes than `pending`, because there are very many, "
        "or because the warrants of a revoked key are not counted yet.",
    )
    oldest_pending_at: MomentOut | None = attribute(
        "pending.oldest_at",
        "Time of the oldest pending change; null if there is none, or if unknown.",
    )
    next_due_at: MomentOut = field(
        "Time by which the scheduler starts the next SRL: one minute after `oldest_pending_at`, "
        "or after half of the SRL lifetime. The scheduler is late if this time has passed by more "
        "than the duration of a publication."
    )


class SrlVersion(RecordBody):
    """A published SRL."""

    model_config = example(**_VERSION)

    version: int = field("SRL version.", minimum=1)
    issued_at: MomentOut = field("Issue time of the SRL.")
    expires_at: MomentOut = field("Expiry of the SRL.")
    count: int = field("Number of revoked warrants in the SRL.", minimum=0)
    added_count: int | None = field(
        "Number of warrants that the previous SRL did not contain; null if unknown.", minimum=0
    )
    removed_count: int | None = field(
        "Number of warrants that only the previous SRL contained; null if unknown.",
        minimum=0,
    )
    key_id: SigningKeyId
    sha256: str = field(
        "SHA-256 of the signed bytes (`Payload`), in hexadecimal.",
        pattern="^[0-9a-f]{64}$",
    )


class SrlVersionList(ResponseBody):
    """A page of the history of SRLs."""

    model_config = example(versions=[_VERSION], cursor=CURSOR)

    versions: list[SrlVersion] = field("The SRLs, newest first.")
    cursor: NextCursor


@routes.get(
    "/v1/revocations/srl/status",
    response_model=ListStatusBody,
    responses=_RESPONSES,
    openapi_extra=condition("The `ETag` of the last response."),
)
@serves(srl.read)
async def get_srl_status(request: ApiRequest) -> Response:
    """Get the status of the current Signed Revocation List.

    The response contains the current version, the number of warrants changed since then, and the
    latest time of the next scheduled publication. Poll it with `If-None-Match`, for example every
    five seconds. 304 means that the status has not changed.
    """
    body = ListStatusBody.of(request.run(srl.read)).model_dump_json()
    response = json_response_with_etag(request, body.encode())
    response.headers["Cache-Control"] = CACHE_CONTROL
    return response


@routes.get("/v1/revocations/srl/versions")
@serves(srl.page)
async def list_srl_versions(request: ApiRequest, query: Paging) -> SrlVersionList:
    """List the Signed Revocation Lists published in the last 30 days.

    Each publication has an entry, including scheduled ones. The SRLs themselves are kept for a
    shorter time.
    """
    pages = CursorCodec(request.caller, query.cursor, "srl/versions")
    page = request.run(srl.page, before=pages.position, limit=query.limit)
    return SrlVersionList(
        versions=[SrlVersion.of(each) for each in page.entries],
        cursor=pages.cursor_after(page.next_before),
    )
