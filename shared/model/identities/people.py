"""People: human identities of identity providers (IDENTITY-4)."""

import hashlib
import re
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, Self

from shared.model.items import Address, Partition, Table
from shared.model.records import Record

_EMAIL: Final = re.compile("[A-Za-z0-9._%+'=~&-]{1,64}@(?:[a-z0-9-]{1,63}\\.)+[a-z0-9-]{2,63}")
_EMAIL_MAX: Final = 254


class PersonStatus(StrEnum):
    """Whether a person can sign in and use sessions."""

    ACTIVE = "active"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Person(Record):
    """A person: the subject of a provider. Sessions of an earlier `epoch` are not accepted.

    `issuer` is the issuer of that provider. A second provider of the same issuer creates other
    people, because its keys may belong to another party.
    """

    id: str
    tenant_id: str
    provider_id: str
    issuer: str
    subject: str
    email: str
    name: str
    role: str
    status: PersonStatus
    created_at: datetime
    epoch: int = 1
    version: int = 1

    @property
    def address(self) -> Address:
        """The address of the person."""
        return people(self.tenant_id).address(self.id)

    def disable(self) -> Self:
        """Return the disabled person. Sessions of this epoch remain invalid after enabling."""
        return replace(
            self, status=PersonStatus.DISABLED, epoch=self.epoch + 1, version=self.version + 1
        )

    @property
    def account(self) -> tuple[str, str]:
        """The account at the issuer. Its holder may sign in through any provider of the issuer."""
        return self.issuer, self.subject

    @property
    def is_active(self) -> bool:
        """Whether the person is not disabled."""
        return self.status is PersonStatus.ACTIVE


def email(value: str) -> str:
    """Return an e-mail address with its domain in lower case.

    Raises `ValueError` for malformed addresses, and for addresses reserved for service accounts.
    """
    local, _, domain = value.rpartition("@")
    address = f"{local}@{domain.lower()}"
    if len(address) > _EMAIL_MAX or not _EMAIL.fullmatch(address) or address.endswith(".svc"):
        raise ValueError("is not an e-mail address of a person")
    return address


def people(tenant_id: str) -> Partition:
    """Return the partition of a tenant's people, in order of their first sign-in."""
    return Partition(Table.KEYS, f"{tenant_id}#people")


def count_address(tenant_id: str) -> Address:
    """Return the address of the number of a tenant's people, in the attribute `count`."""
    return Address(Table.KEYS, tenant_id, "counts#people")


def subject_address(tenant_id: str, provider_id: str, subject: str) -> Address:
    """Return the address of the identifier of the person with this subject of a provider."""
    # The identifier of a provider contains no space.
    return Address(Table.KEYS, f"{tenant_id}#subject#{_digest(f'{provider_id} {subject}')}")


def email_address(tenant_id: str, email_: str) -> Address:
    """Return the address of the identifier of the active person with an e-mail, in any case."""
    return Address(Table.KEYS, f"{tenant_id}#email#{_digest(email_.lower())}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
