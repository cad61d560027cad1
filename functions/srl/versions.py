"""The history of lists over HTTP (SRL-22)."""

from functions.srl.versions_schemas import SrlVersion, SrlVersionList
from shared.operations.changes import srl
from shared.web.paging import Pager, Paging
from shared.web.routes import ApiRequest, router, serves

routes = router("Signed Revocation List")


@routes.get("/v1/revocations/srl/versions")
@serves(srl.page)
async def list_srl_versions(here: ApiRequest, query: Paging) -> SrlVersionList:
    """List the Signed Revocation Lists that were published in the last 30 days.

    Each publication has an entry, those of the schedule as well. The lists themselves are kept for
    a shorter time. Lists of releases that did not keep this history are missing.
    """
    pages = Pager(here.caller, query.cursor, "srl/versions")
    page = here.run(srl.page, before=pages.before, limit=query.limit)
    return SrlVersionList(
        versions=[SrlVersion.of(each) for each in page.entries],
        cursor=pages.after(page.next_before),
    )
