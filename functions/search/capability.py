"""Search across warrants, keys, accounts and the audit log, as a capability."""

from typing import final

from shared.capabilities import Capability, RouteTable, nothing


@final
class Search(Capability):
    """Search across warrants, keys, accounts and the audit log."""

    name = "search"
    recovery_steps = restore_checks = consistency_checks = nothing
    wrapped_kinds = trusted_signers = protected_effects = nothing
    doctor_checks = schedule_steps = nothing

    def routers(self, function: str) -> tuple[RouteTable, ...]:
        """Return the routes for the function of revocations."""
        if function != "revocations":
            return ()
        from functions.search import routes

        return (routes.routes,)
