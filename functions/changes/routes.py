"""Changes over HTTP (FLEET-30, FLEET-33)."""

from typing import Annotated

from fastapi import Path, Query, Response

from functions.authorizers.bodies import Wait, respond
from functions.authorizers.registrations import count_registered
from functions.changes import operations as changes
from functions.changes.schemas import ChangeBody, ChangeId, ChangeList, ChangesQuery
from shared.errors import NotFound
from shared.web.costs import SEARCH, EndpointCost, charges
from shared.web.paging import CursorCodec
from shared.web.routes import ApiRequest, router, serves

routes = router("Revocations")


@routes.get("/v1/changes")
@serves(changes.page)
@charges(EndpointCost(flat=SEARCH, by_window=True))
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
@charges(EndpointCost(records=count_registered))
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
    is_last = (
        progress.is_complete
        or progress.facts.feed is None
        or progress.facts.unrevoked_at is not None
    )
    return respond(request, body, query.wait, is_last=is_last)
