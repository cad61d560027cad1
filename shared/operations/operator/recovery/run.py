"""A run of a recovery: the values that its steps share."""

from collections.abc import Callable

from shared.capabilities import RecoveryContext
from shared.model.audit.audit_log import AuditAction
from shared.model.items import Value
from shared.operations.base import audit
from shared.operations.base.operation import settle
from shared.ports.store import Put


class RecoveryRun(RecoveryContext):
    """The recovery of a tenant."""

    __slots__ = ()

    @property
    def reason(self) -> str:
        """The reason of a revocation if the original reason is lost."""
        return f"restored from SRL version {self.version}"

    def settle(self, step: Callable[[], str | None]) -> None:
        """Run a step, and report the line that it returns. Raises `Unavailable`."""
        if line := settle(step):
            self.report(line)

    def entry(self, action: AuditAction, resource_id: str, **details: Value) -> Put:
        """Return the write that stores the audit entry of a step."""
        return audit.entry(
            self.ports,
            self.operator,
            action,
            resource_id,
            settings=self.settings,
            restored_from=self.version,
            **details,
        )
