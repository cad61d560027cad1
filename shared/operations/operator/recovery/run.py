"""One run of a recovery: what each of its steps needs, and how it reports what it did."""

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
    """A tenant that is recovered by an operator from the tombstones beside a version of its list.

    `report` takes each line for the operator, when the step that it is about is done.
    """

    ports: Ports
    operator: Caller
    settings: TenantSettings
    version: int
    report: Callable[[str], None]

    @property
    def tenant_id(self) -> str:
        """The tenant."""
        return self.settings.tenant_id

    @property
    def reason(self) -> str:
        """What is said of a revocation whose own reason is lost."""
        return f"restored from version {self.version} of the list"

    def entry(self, action: Action, resource_id: str, **details: Value) -> Put:
        """The change that records one step in the audit log."""
        return audit.entry(
            self.ports,
            self.operator,
            action,
            resource_id,
            settings=self.settings,
            restored_from=self.version,
            **details,
        )
