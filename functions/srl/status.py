"""The status and the history of SRLs over HTTP (SRL-21, SRL-22)."""

import hashlib
from typing import Any, Final, Self

from fastapi import Response
from pydantic import JsonValue

from functions.srl import schemas
from shared.model.lists.head import CACHE_CONTROL, MEDIA_TYPE
from shared.operations.changes import srl
from shared.web.conditional import condition, matches
from shared.web.fields import (
    CURSOR,
    MomentOut,
    NextCursor,
    RecordBody,
    ResponseBody,
    SigningKeyId,
    example,
    response_field,
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
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"headers": _ETAG},
    304: {"description": "The status is the one that `If-None-Match` names", "headers": _ETAG},
}


class ListStatusBody(ResponseBody):
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

    version: int = response_field("Number of the list in force.", minimum=1)
    issued_at: MomentOut = response_field("When the list was made.")
    expires_at: MomentOut = response_field("When the list expires.")
    count: int = response_field("How many warrants are on the list.", minimum=0)
    key_id: SigningKeyId
    feed_sequence: int | None = response_field(
        "The newest entry of the feed; null before the first. Authorizers that follow the feed "
        "report the entry that they hold."
    )
    pending: int = response_field(
        "How many warrants were revoked, or are not revoked any more, since the list was made. "
        "The list does not say so yet; clients of the feed know of it earlier.",
        minimum=0,
    )
    pending_truncated: bool = response_field(
        "Whether more may wait than `pending` says: very many do, or a key was revoked whose "
        "warrants are not counted yet."
    )
    oldest_pending_at: MomentOut | None = response_field(
        "Since when the first of them waits; null if none does, or if that is not known."
    )
    next_due_at: MomentOut = response_field(
        "By when the schedule begins the next list at the latest, if it runs each minute: a minute "
        "after `oldest_pending_at`, or after half of the list's lifetime. If this has passed by "
        "more than the time that a list takes to make, the schedule is late."
    )

    @classmethod
    def of(cls, status: srl.ListStatus) -> Self:
        """Return the body for a status."""
        head, pending = status.head, status.pending
        return cls(
            version=head.version,
            issued_at=head.issued_at,
            expires_at=head.expires_at,
            count=head.count,
            key_id=head.key_id,
            feed_sequence=status.feed_sequence,
            pending=pending.warrants,
            pending_truncated=pending.is_truncated,
            oldest_pending_at=pending.oldest_at,
            next_due_at=status.next_due_at,
        )


class SrlVersion(RecordBody):
    """A published SRL."""

    model_config = example(**_VERSION)

    version: int = response_field("Number of the list.", minimum=1)
    issued_at: MomentOut = response_field("When the list was made.")
    expires_at: MomentOut = response_field("When the list expires.")
    count: int = response_field("How many warrants are on the list.", minimum=0)
    added_count: int | None = response_field(
        "How many of them were not on the list before; null if that could not be read.", minimum=0
    )
    removed_count: int | None = response_field(
        "How many warrants were on the list before and are not on this one; null likewise.",
        minimum=0,
    )
    key_id: SigningKeyId
    sha256: str = response_field(
        "The SHA-256 of the signed bytes, those in `Payload`, in hexadecimal digits.",
        pattern="^[0-9a-f]{64}$",
    )


class SrlVersionList(ResponseBody):
    """A page of the history of SRLs."""

    model_config = example(versions=[_VERSION], cursor=CURSOR)

    versions: list[SrlVersion] = response_field("The lists, the newest first.")
    cursor: NextCursor


@routes.get(
    "/v1/revocations/srl/status",
    response_model=ListStatusBody,
    responses=_RESPONSES,
    openapi_extra=condition("The `ETag` of the status that you have."),
)
@serves(srl.read)
async def get_srl_status(request: ApiRequest) -> Response:
    """Get the status of the Signed Revocation List, without the list.

    The response contains the current version, the number of warrants changed since then, and the
    latest time of the next scheduled publication. Poll it with `If-None-Match`, for example every
    five seconds. 304 means that the status has not changed.
    """
    body = ListStatusBody.of(request.run(srl.read)).model_dump_json()
    headers = {
        "ETag": f'"{hashlib.sha256(body.encode()).hexdigest()[:32]}"',
        "Cache-Control": CACHE_CONTROL,
    }
    if matches(request, etag=headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=MEDIA_TYPE)


@routes.get("/v1/revocations/srl/versions")
@serves(srl.page)
async def list_srl_versions(request: ApiRequest, query: Paging) -> SrlVersionList:
    """List the Signed Revocation Lists that were published in the last 30 days.

    Each publication has an entry, including scheduled ones. The SRLs themselves are kept for a
    shorter time.
    """
    pages = CursorCodec(request.caller, query.cursor, "srl/versions")
    page = request.run(srl.page, before=pages.position, limit=query.limit)
    return SrlVersionList(
        versions=[SrlVersion.of(each) for each in page.entries],
        cursor=pages.cursor_after(page.next_before),
    )
