"""Search over HTTP."""

from typing import Annotated

from fastapi import Query

from functions.search import operations
from functions.search.schemas import SearchHit, SearchQuery, SearchResults
from shared.web.routes import ApiRequest, router, serves

routes = router("Revocations")


@routes.get("/v1/search")
@serves(operations.search)
async def search(request: ApiRequest, query: Annotated[SearchQuery, Query()]) -> SearchResults:
    """Find warrants, revocations, batches, keys, accounts, authorizers and audit entries.

    `q` is an identifier, the beginning of one, or words of a name. Names are searched among the
    newest 1,000 of each kind. Results include only kinds that the API key may list. To find an
    audit entry or a batch, `q` must contain five characters of its identifier after `svc_evt_` or
    `svc_bat_`.
    """
    hits = request.run(operations.search, query=query.q, limit=query.limit)
    return SearchResults(results=[SearchHit.of(each) for each in hits])
