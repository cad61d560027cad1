"""The sign-in providers of a tenant, and sessions for tokens and tickets (IDENTITY-7).

A schedule also calls it to refresh the endpoints of all providers.
"""

from typing import Any, Final

from shared import logs, wiring
from shared.operations.identities import issuers
from shared.web.app import create_public_app, lambda_handler
from shared.web.sign_in import SignIn

# No further document is fetched if less than this is left of the function's timeout.
_LEFT_MILLISECONDS: Final = 10_000

app = create_public_app(SignIn(wiring.from_environment))
_answer: Final = lambda_handler(app)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer a request, or refresh the endpoints for an event of the schedule.

    The schedule does nothing if another region is the writable one, or if the service is read-only
    (OPS-14).
    """
    if "requestContext" in event:
        return _answer(event, context)
    logs.configure_standard_output()
    ports = wiring.from_environment()
    if wiring.is_read_only() or not ports.is_in_charge():
        return {}
    failed = issuers.refresh_all(
        ports, lambda: context.get_remaining_time_in_millis() < _LEFT_MILLISECONDS
    )
    return {"failed": failed}
