"""Batches of revocations, and manifests of revocations to unrevoke, as a capability."""

from typing import final

from shared.capabilities import Capability, RouteTable, nothing


@final
class Batches(Capability):
    """Batches of revocations, and manifests of revocations to unrevoke."""

    name = "batches"
    recovery_steps = restore_checks = consistency_checks = nothing
    wrapped_kinds = trusted_signers = protected_effects = nothing
    doctor_checks = schedule_steps = nothing

    def routers(self, function: str) -> tuple[RouteTable, ...]:
        """Return the routes for the function of revocations."""
        if function != "revocations":
            return ()
        from functions.batches import routes

        return (routes.routes,)
