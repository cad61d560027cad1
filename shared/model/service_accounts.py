"""Service accounts: the programs that own API keys (ACCOUNT-1)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from shared.model.items import Address, Partition, Table
from shared.model.records import Record

API_KEYS_MAX: Final = 50


class AccountStatus(StrEnum):
    """Whether the API keys of the account are accepted."""

    ACTIVE = "active"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class ServiceAccount(Record):
    """A service account. `api_key_count` includes revoked keys, but not deleted ones."""

    id: str
    tenant_id: str
    name: str
    email: str
    description: str | None
    status: AccountStatus
    created_at: datetime
    api_key_count: int = 0
    version: int = 1

    @property
    def address(self) -> Address:
        """The address of the account."""
        return accounts(self.tenant_id).address(self.id)


def name_address(tenant_id: str, name_: str) -> Address:
    """Return the address of the item that permanently reserves a name for an account id."""
    return Address(Table.KEYS, tenant_id, f"service-account-name#{name_}")


def count_address(tenant_id: str) -> Address:
    """Return the address of the number of a tenant's accounts, in the attribute `count`."""
    return Address(Table.KEYS, tenant_id, "counts#service-accounts")


def accounts(tenant_id: str) -> Partition:
    """Return the partition of a tenant's service accounts, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#service-accounts")
