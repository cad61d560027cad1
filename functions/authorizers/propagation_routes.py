"""The proof of propagation over HTTP (FLEET-10)."""

from typing import Annotated

from fastapi import Path, Response

from functions.authorizers import propagation
from functions.authorizers.bodies import RevocationPropagation, Wait, respond
from functions.authorizers.registrations import count_registered
from shared.errors import NotFound
from shared.web.costs import EndpointCost, charges
from shared.web.fields import RevocationId
from shared.web.routes import ApiRequest, router, serves

routes = router("Revocations")

OneRevocation = Annotated[RevocationId, Path(alias="id")]


@routes.get("/v1/revocations/{id}/propagation", response_model=RevocationPropagation)
@serves(propagation.progress_of, raises=(NotFound,))
@charges(EndpointCost(records=count_registered))
async def get_revocation_propagation(
    request: ApiRequest, revocation_id: OneRevocation, query: Wait
) -> Response:
    """Prove that every registered authorizer refuses the warrant.

    An authorizer is *enforced* if it reported the feed entry of the revocation, or a later entry.
    It is *fail_closed* if it did not report the entry, and its state without the entry exceeds its
    staleness limit. It then refuses every request. `is_complete` means that no authorizer is
    *unknown*. With `wait`, the service delays a response that is not complete.

    The proof relies on the entries and staleness limits that authorizers report, which the service
    cannot verify. It assumes that the clocks of the service differ by less than a minute. It covers
    the registered authorizers only.

    404: there is no such revocation, or it was deleted.
    """
    progress = request.run(propagation.progress_of, revocation_id=revocation_id)
    body = RevocationPropagation.of(progress).model_dump_json()
    # The response is final if the warrant has expired.
    is_last = progress.propagation.is_complete or progress.traced.ended_at is not None
    return respond(request, body, query.wait, is_last=is_last)
