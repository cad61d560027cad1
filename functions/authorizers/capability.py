"""The registry of authorizers as a capability: its additions to the core."""

from collections.abc import Sequence
from typing import final

from shared.capabilities import Capability, FailoverStep, RouteTable, ScheduleStep, nothing
from shared.capabilities.finding import DoctorCheck
from shared.ports import Ports


@final
class Authorizers(Capability):
    """Registrations and heartbeats of authorizers, and the propagation of revocations."""

    name = "authorizers"
    # A count is corrected once a day.
    recovery_steps = restore_checks = consistency_checks = nothing
    wrapped_kinds = trusted_signers = protected_effects = nothing

    def doctor_checks(self) -> Sequence[DoctorCheck]:
        """Return the check for authorizers that may admit a revoked warrant."""
        from functions.authorizers import doctor

        return (doctor.check_authorizers,)

    def failover_steps(self) -> Sequence[FailoverStep]:
        """Return the step that counts the registrations that have arrived."""
        from functions.authorizers import registrations

        return (registrations.recount_now,)

    def schedule_steps(self) -> Sequence[ScheduleStep]:
        """Return the step that counts and announces unknown authorizers (FLEET-15, FLEET-18)."""
        from functions.authorizers import stale

        return (stale.count_and_announce,)

    def poll_seconds(self, ports: Ports, tenant_id: str) -> int:
        """Return the pause that the number of polling authorizers requires (FLEET-8)."""
        from functions.authorizers import registrations

        return registrations.read_counts(ports, tenant_id).poll_seconds

    def prepare_snapshot(self) -> None:
        """Import what a poll needs."""
        import functions.authorizers.registrations  # noqa: F401

    def routers(self, function: str) -> tuple[RouteTable, ...]:
        """Return the proof of propagation, which the function of revocations serves."""
        if function != "revocations":
            return ()
        from functions.authorizers import propagation_routes

        return (propagation_routes.routes,)
