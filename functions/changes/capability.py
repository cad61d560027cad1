"""The list of changes across revocations, as a capability."""

from typing import final

from shared.capabilities import RoutesOnly, RouteTable


@final
class Changes(RoutesOnly):
    """Changes of any kind, and the authorizers that do not enforce them yet."""

    name = "changes"

    def routers(self, function: str) -> tuple[RouteTable, ...]:
        """Return the routes for the function of revocations."""
        if function != "revocations":
            return ()
        from functions.changes import routes

        return (routes.routes,)
