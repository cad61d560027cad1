"""Which lists were published, by the audit log, which keeps each."""

from datetime import UTC, datetime

from shared.model.audit.audit_log import AuditAction, month
from shared.ports import Ports


def published_versions(ports: Ports, tenant_id: str) -> list[int]:
    """The versions after the first that were published in the present month, as often as it was."""
    partitions = month(tenant_id, datetime.now(UTC))
    entries = (entry for each in partitions for entry in ports.store.query(each))
    regenerated = (e.item for e in entries if e.item["action"] == AuditAction.SRL_REGENERATE.value)
    return sorted(int(str(item["resource_id"]).removeprefix("srl/")) for item in regenerated)
