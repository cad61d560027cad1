"""Stock authorizers as a capability: their additions to the core."""

from collections.abc import Sequence
from functools import partial
from typing import final

from shared.authorizer.formats.trust import KeyUse
from shared.capabilities import (
    Capability,
    RouteTable,
    TrustedSigner,
    WrappedFields,
    nothing,
    wrapped_seed,
)


@final
class StockAuthorizers(Capability):
    """Unmodified authorizers of one vendor, and their native list of revocations."""

    name = "stock_authorizers"
    recovery_steps = restore_checks = failover_steps = schedule_steps = nothing
    consistency_checks = doctor_checks = nothing
    # The signer is never replaced.
    protected_effects = nothing

    def wrapped_kinds(self) -> Sequence[tuple[str, WrappedFields]]:
        """Return the kind of the native signer."""
        from functions.stock_authorizers.records import NativeSigner

        return (("native-signer", partial(wrapped_seed, NativeSigner.from_item)),)

    def trusted_signers(self) -> Sequence[TrustedSigner]:
        """Return the signer of the native lists of a tenant."""
        from functions.stock_authorizers.records import NativeSigner, signer_address

        return (TrustedSigner(signer_address, NativeSigner.from_item, KeyUse.NATIVE),)

    def routers(self, function: str) -> tuple[RouteTable, ...]:
        """Return the routes for the function of authorizers."""
        if function != "authorizers":
            return ()
        from functions.stock_authorizers import routes

        return (routes.routes, routes.signer_routes)
