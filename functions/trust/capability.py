"""Trust documents as a capability: their additions to the core."""

from collections.abc import Callable, Iterable, Sequence
from typing import final

from shared import capabilities
from shared.capabilities import Capability, RecoverySteps, nothing
from shared.capabilities.finding import DoctorCheck
from shared.ports import Ports


@final
class Trust(Capability):
    """Trust documents, which name the keys of the service, and the keys that they cover."""

    name = "trust"
    # A document or a bundle has no secrets, and no records that could contradict each other.
    failover_steps = consistency_checks = wrapped_kinds = nothing
    trusted_signers = protected_effects = nothing

    def recovery_steps(self) -> RecoverySteps:
        """Return the steps that adopt the newest document, and publish a far higher version."""
        from functions.trust import recovery

        return (("publishing", recovery.apply_newest), ("published", recovery.publish))

    def recovery_signers(self) -> Sequence[Callable[[Ports, str], Iterable[bytes]]]:
        """Return the reader of the signers that the newest document names."""
        from functions.trust import recovery

        return (recovery.list_keys,)

    def restore_checks(self) -> Sequence[Callable[[Ports, str], None]]:
        """Return the check for a document that is newer than the records."""
        from functions.trust import recovery

        return (recovery.check_not_ahead,)

    def signer_filters(self) -> Sequence[capabilities.SignerFilter]:
        """Return the filter of the signers that the newest document names."""
        from functions.trust import publishing

        return (publishing.find_named,)

    def feed_references(self) -> Sequence[capabilities.FeedReference]:
        """Return the function that names the newest document and the key bundle."""
        from functions.trust import published_keys

        return (published_keys.publish_key_reference,)

    def anchor_sources(self) -> Sequence[capabilities.AnchorSource]:
        """Return the documents, which contain log anchors."""
        from functions.trust import documents

        return (documents.ANCHORS,)

    def doctor_checks(self) -> Sequence[DoctorCheck]:
        """Return the check of a tenant's documents."""
        from functions.trust import state

        return (state.check_documents,)

    def schedule_steps(self) -> Sequence[capabilities.ScheduleStep]:
        """Return the step that logs the numbers of expiring and expired documents."""
        from functions.trust import state

        return (state.log_survey,)

    def routers(self, function: str) -> Sequence[capabilities.RouteTable]:
        """Return the route of the trust bundle for the function of signing keys."""
        if function != "signing_keys":
            return ()
        from functions.trust import bundle_routes

        return (bundle_routes.routes,)
