"""Batches of revocations, and manifests of revocations to unrevoke, as a capability."""

from typing import final

from shared.capabilities import RoutesOnly, RouteTable


@final
class Batches(RoutesOnly):
    """Batches of revocations, and manifests of revocations to unrevoke."""

    name = "batches"

    def routers(self, function: str) -> tuple[RouteTable, ...]:
        """Return the routes for the function of revocations."""
        if function != "revocations":
            return ()
        from functions.batches import routes

        return (routes.routes,)
