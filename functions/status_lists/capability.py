"""Status lists as a capability: their additions to the core."""

from collections.abc import Sequence
from functools import partial
from typing import final

from shared.authorizer.formats.trust import KeyUse
from shared.capabilities import (
    Capability,
    ProtectedEffect,
    RecoverySteps,
    TrustedSigner,
    WrappedFields,
    nothing,
    wrapped_seed,
)
from shared.model.identities.approvals import ProtectedAction
from shared.model.items import Item


@final
class StatusLists(Capability):
    """Token Status Lists, a projection of the SRL for verifiers of credentials."""

    name = "status_lists"
    # A list has no counters.
    consistency_checks = nothing
    restore_checks = doctor_checks = failover_steps = schedule_steps = nothing

    def recovery_steps(self) -> RecoverySteps:
        """Return the step that closes each list, so that no entry is allocated twice (TOKEN-6)."""
        from functions.status_lists import recovery

        return (("restored", recovery.close_lists),)

    def wrapped_kinds(self) -> Sequence[tuple[str, WrappedFields]]:
        """Return the kind of the status signer."""
        from functions.status_lists.records import StatusSigner

        return (("status-signer", partial(wrapped_seed, StatusSigner.from_item)),)

    def trusted_signers(self) -> Sequence[TrustedSigner]:
        """Return the signer of all lists of a tenant."""
        from functions.status_lists.records import StatusSigner, signer_address

        return (TrustedSigner(signer_address, StatusSigner.from_item, KeyUse.STATUS),)

    def protected_effects(self) -> Sequence[ProtectedEffect]:
        """Return the replacement of the signer."""
        from functions.status_lists.records import signer_address

        return (
            ProtectedEffect(signer_address, ProtectedAction.ROTATE_STATUS_SIGNER, _is_replaced),
        )


def _is_replaced(old: Item | None, new: Item) -> bool:
    return old is not None and old["id"] != new["id"]
