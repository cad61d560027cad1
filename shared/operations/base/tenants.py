"""Tenants: their settings, and the directory of all tenants."""

from collections.abc import Iterator

from shared.errors import DataCorrupt, NotFound
from shared.model import tenants as model
from shared.model.tenants import DirectoryEntry, TenantSettings
from shared.ports import Ports


def settings(ports: Ports, tenant_id: str) -> TenantSettings:
    """Read the settings of a tenant. Raises `DataCorrupt` if there are none."""
    item = ports.store.get(model.settings_address(tenant_id))
    if item is None:
        raise DataCorrupt("a tenant has no settings")
    return TenantSettings.from_item(item)


def directory(ports: Ports) -> Iterator[DirectoryEntry]:
    """Read the directory, oldest tenant first."""
    return (DirectoryEntry.from_item(entry.item) for entry in ports.store.query(model.DIRECTORY))


def identifiers(ports: Ports) -> Iterator[str]:
    """Read the identifiers of all tenants, oldest first.

    An unreadable directory entry hides neither its tenant nor the others.
    """
    return (entry.sk for entry in ports.store.query(model.DIRECTORY))


def find(ports: Ports, handle: str) -> TenantSettings:
    """Read the settings of the tenant with this handle. Raises `NotFound`."""
    return settings(ports, identifier(ports, handle))


def identifier(ports: Ports, handle: str) -> str:
    """Return the identifier of the tenant with this handle, even if its handle item is missing.

    Raises `NotFound` if the directory does not contain the handle either.
    """
    item = ports.store.get(model.handle_address(handle))
    if item is not None:
        return str(item["tenant_id"])
    for each in directory(ports):
        if each.handle == handle:
            return each.tenant_id
    raise NotFound("There is no tenant with this name; list the names with `rescind tenant list`.")
