"""Registration for the client library and for stock authorizers (FLEET-2)."""

from typing import Any, Final

from fastapi import Response

from functions.authorizers.schemas import RegisteredAuthorizer
from shared.model.fleet.heartbeats import AuthorizerDescription, SignedStatement
from shared.operations.fleet import registering
from shared.web.routes import ApiRequest

REGISTERED_BEFORE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "model": RegisteredAuthorizer,
        "description": "The caller registered the authorizer before; the `id` is the same",
    }
}


def register(
    request: ApiRequest,
    response: Response,
    description: AuthorizerDescription,
    proof: SignedStatement | None = None,
) -> RegisteredAuthorizer:
    """Register an authorizer, or find it. `response` gets 201 if it is new, and 200 otherwise."""
    registration = request.run(registering.register, description=description, proof=proof)
    response.status_code = 201 if registration.is_new else 200
    return RegisteredAuthorizer.of(registration)
