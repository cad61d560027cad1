"""Register an authorizer: the answer to our clients and to stock authorizers (FLEET-2)."""

from typing import Any, Final

from fastapi import Response

from functions.authorizers.schemas import RegisteredAuthorizer
from shared.model.fleet.authorizers import Description
from shared.operations.fleet import authorizers
from shared.web.routes import ApiRequest

REGISTERED_BEFORE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "model": RegisteredAuthorizer,
        "description": "The caller registered it already; this is its identifier",
    }
}


def registered(
    here: ApiRequest, described: Description, response: Response, *, is_stock: bool = False
) -> RegisteredAuthorizer:
    """Register an authorizer, or find it. `response` gets 201 if it is new, and 200 otherwise."""
    made = here.run(authorizers.register, described=described, is_stock=is_stock)
    response.status_code = 201 if made.is_new else 200
    return RegisteredAuthorizer.of(made)
