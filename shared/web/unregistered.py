"""The response body of clients with a rejected registration (FLEET-34)."""

from typing import Annotated, Final

from pydantic import JsonValue

from shared.model.fleet.unregistered import ALL_MAX
from shared.web.fields import MomentOut, RecordBody, example, response_field

UNREGISTERED: Final[dict[str, JsonValue]] = {
    "name": "gateway-8",
    "owner": "checkout@acme.svc",
    "code": "conflict",
    "last_seen_at": "2026-11-21T12:00:00Z",
}


class UnregisteredClientBody(RecordBody):
    """A client with a rejected registration."""

    model_config = example(**UNREGISTERED)

    name: str = response_field("The name under which it asks to be registered.")
    owner: str = response_field("Who asks for it, as the audit log names callers.")
    code: str = response_field(
        "The error code of the refusal: `conflict` if another key has the name, or "
        "`authorizer_limit`."
    )
    last_seen_at: MomentOut = response_field("The time of the last refusal that was stored.")


UnregisteredClients = Annotated[
    list[UnregisteredClientBody],
    response_field(
        "Clients that were refused a registration within the last hour. No count has them, and "
        "nothing is known of them.",
        maxItems=ALL_MAX,
    ),
]
