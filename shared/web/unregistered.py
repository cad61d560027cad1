"""The response body of clients with a rejected registration (FLEET-34)."""

from typing import Annotated, Final

from pydantic import JsonValue

from shared.model.fleet.unregistered import ALL_MAX
from shared.web.fields import MomentOut, RecordBody, example, field

UNREGISTERED: Final[dict[str, JsonValue]] = {
    "name": "gateway-8",
    "owner": "checkout@acme.svc",
    "code": "conflict",
    "last_seen_at": "2026-11-21T12:00:00Z",
}


class UnregisteredClientBody(RecordBody):
    """A client with a rejected registration."""

    model_config = example(**UNREGISTERED)

    name: str = field("Name in the registration request.")
    owner: str = field("Caller of the registration request, as in the audit log.")
    code: str = field(
        "Error code of the rejection: `conflict` if another key has the name, or "
        "`authorizer_limit`."
    )
    last_seen_at: MomentOut = field("Time of the last stored rejection.")


UnregisteredClients = Annotated[
    list[UnregisteredClientBody],
    field(
        "Clients with a registration that was rejected within the last hour. They are not "
        "counted, and their state is unknown.",
        maxItems=ALL_MAX,
    ),
]
