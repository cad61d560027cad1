"""Search across warrants, keys, accounts and the audit log, as a capability."""

from typing import final

from shared.capabilities import RoutesOnly, RouteTable


@final
class Search(RoutesOnly):
    """Search across warrants, keys, accounts and the audit log."""

    name = "search"

    def routers(self, function: str) -> tuple[RouteTable, ...]:
        """Return the routes for the function of revocations."""
        if function != "revocations":
            return ()
        from functions.search import routes

        return (routes.routes,)
