"""A run of a recovery: the values that its steps share."""

from collections.abc import Callable
from dataclasses import dataclass

from shared.model.audit_log import Action
from shared.model.callers import Caller
from shared.model.items import Value
from shared.model.tenants import TenantSettings
from shared.operations.rules import audit
from shared.ports import Ports
from shared.ports.store import Put


@dataclass(frozen=True, slots=True)
class Run:
    """The recovery of a tenant; `version` is that of its newest list.

    `report` is called with a line for the operator after each step.
    """

    ports: Ports
    operator: Caller
    settings: TenantSettings
    version: int
    report: Callable[[str], None]

    @property
    def tenant_id(self) -> str:
        """The tenant that is recovered."""
        return self.settings.tenant_id

    @property
    def reason(self) -> str:
        """The reason of a revocation whose own reason is lost."""
        return f"restored from version {self.version} of the list"

    def entry(self, action: Action, resource_id: str, **details: Value) -> Put:
        """Return the change that stores the audit entry of a step."""
        return audit.entry(
            self.ports,
            self.operator,
            action,
            resource_id,
            settings=self.settings,
            restored_from=self.version,
            **details,
        )
