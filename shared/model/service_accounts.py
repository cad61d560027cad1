"""Service accounts: the programs that API keys belong to (ACCOUNT-1)."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from shared.model.items import Address, Partition, Table
from shared.model.records import Record

API_KEYS_MAX: Final = 50

NAME_PATTERN: Final = "[a-z0-9-]{1,63}"
_NAME: Final = re.compile(NAME_PATTERN)


class Status(StrEnum):
    """Whether the API keys of the account are accepted."""

    ACTIVE = "active"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class ServiceAccount(Record):
    """An account. `api_key_count` counts the keys it owns, revoked ones too, until deleted."""

    id: str
    tenant_id: str
    name: str
    email: str
    description: str | None
    status: Status
    created_at: datetime
    api_key_count: int = 0
    version: int = 1

    @property
    def address(self) -> Address:
        """Where the account is stored."""
        return accounts(self.tenant_id).address(self.id)


def name(value: str) -> str:
    """`value` itself. Raises ValueError where it cannot be an account's name."""
    if not _NAME.fullmatch(value):
        raise ValueError("must be 1 to 63 lower-case letters, digits or '-'")
    return value


def name_address(tenant_id: str, name_: str) -> Address:
    """What keeps a name with one account, also after its deletion; holds its identifier."""
    return Address(Table.KEYS, tenant_id, f"service-account-name#{name_}")


def count_address(tenant_id: str) -> Address:
    """The number of a tenant's accounts, in the attribute `count`."""
    return Address(Table.KEYS, tenant_id, "counts#service-accounts")


def accounts(tenant_id: str) -> Partition:
    """A tenant's service accounts, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#service-accounts")
