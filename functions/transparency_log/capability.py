"""The transparency log as a capability: its additions to the core."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, final

from shared.capabilities import (
    Capability,
    LogFunctions,
    RecoverySteps,
    RouteTable,
    WrappedFields,
    nothing,
    wrapped_seed,
)
from shared.capabilities.finding import DoctorCheck, LongDoctorCheck
from shared.ports import Ports


@final
class TransparencyLog(Capability):
    """A Merkle tree over the audit entries, its signed checkpoints, and their witnesses."""

    name = "transparency_log"
    restore_checks = failover_steps = consistency_checks = nothing
    trusted_signers = protected_effects = schedule_steps = nothing

    @property
    def logs(self) -> tuple[LogFunctions, ...]:
        """The log, for the core."""
        from functions.transparency_log import log, signers

        return (LogFunctions(log.head, log.anchor, signers.all_of),)

    def recovery_steps(self) -> RecoverySteps:
        """Return the steps that begin a new generation of a log that lost entries, and append."""
        from functions.transparency_log import recovery

        return (
            ("started", recovery.begin),
            ("published", recovery.append_entries),
            ("recorded", recovery.append_entries),
        )

    def wrapped_kinds(self) -> Sequence[tuple[str, WrappedFields]]:
        """Return the kind of an audit signer."""
        from functions.transparency_log.checkpoint import AuditSigner

        return (("audit-keys", partial(wrapped_seed, AuditSigner.from_item)),)

    def doctor_checks(self) -> Sequence[DoctorCheck]:
        """Return the checks of the log and its witnesses."""
        from functions.transparency_log import verification

        return verification.CHECKS

    def long_doctor_checks(self) -> Sequence[LongDoctorCheck]:
        """Return the verification of the whole log."""
        from functions.transparency_log import verification

        return (verification.check_log,)

    def list_state_members(self, ports: Ports, tenant_id: str, /) -> dict[str, Any]:
        """Return the newest checkpoint, if the log is not empty."""
        from functions.transparency_log import log

        newest = log.newest_checkpoint(ports, tenant_id)
        return {} if newest is None else {"Log": newest.members()}

    def check_state_members(self, members: Mapping[str, Any], /) -> None:
        """Check the checkpoint of an SRL state."""
        from functions.transparency_log.checkpoint import PinnedCheckpoint

        PinnedCheckpoint.list_in_states([members])

    def prepare_snapshot(self) -> None:
        """Import the functions for the core."""
        _ = self.logs

    def routers(self, function: str) -> tuple[RouteTable, ...]:
        """Return the routes for the function of the audit log."""
        if function != "audit_log":
            return ()
        from functions.transparency_log import routes

        return (routes.routes,)
