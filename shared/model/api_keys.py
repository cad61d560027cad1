"""API keys, which authenticate callers (APIKEY-1, APIKEY-2)."""

import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv6Network, ip_network
from typing import Final

from shared.authorizer.formats.addresses import parse_address
from shared.model import times
from shared.model.callers import Scope
from shared.model.items import Address, Partition, Table
from shared.model.outbound import Network
from shared.model.records import Record

# A rotated key expires at most this many seconds later: seven days.
GRACE_SECONDS_MAX: Final = 604_800
NETWORKS_MAX: Final = 10
# The write that creates a key checks each person who may have seen an earlier secret of the chain.
PEOPLE_MAX: Final = 20

_SECRET_BYTES: Final = 32
_CIDR: Final = re.compile("[^/]+(/[0-9]{1,3})?")
_SECRET: Final = re.compile(r"svc_[A-Za-z0-9_-]{43}")


class ApiKeyStatus(StrEnum):
    """Whether an API key was revoked. Expiry does not change the status."""

    ACTIVE = "active"
    REVOKED = "revoked"


class MadeKeys(StrEnum):
    """Whether API keys created by a person are revoked when the person is disabled."""

    END = "end"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class ApiKey(Record):
    """An API key without its secret, which is not stored. `digest` finds its `Credential`.

    `successor_id` is the key that replaced a rotated key. A key with a `role` has only the scopes
    of the role.

    `created_by_id` is the person, account or key that created it, or None for an operator. The
    people in `people_ids` may have seen the secret: they created or rotated the key, or a key that
    did so. Rotations keep the `creator_ids` of the first key. The key is accepted only from
    addresses in `networks`, or from any address if `networks` is empty.
    """

    id: str
    tenant_id: str
    name: str
    scopes: tuple[Scope, ...]
    status: ApiKeyStatus
    digest: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    service_account_id: str | None = None
    version: int = 1
    successor_id: str | None = None
    role: str | None = None
    created_by_id: str | None = None
    people_ids: tuple[str, ...] = ()
    creator_ids: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()

    @property
    def address(self) -> Address:
        """The address of the record."""
        return records(self.tenant_id).address(self.id)

    @property
    def listings(self) -> list[Address]:
        """The addresses of this key in the partitions of its makers."""
        makers = dict.fromkeys((self.created_by_id, *self.people_ids))
        return [made_by(self.tenant_id, each).address(self.id) for each in makers if each]

    def is_live(self, now: datetime) -> bool:
        """Return whether this key is neither revoked nor expired at `now`."""
        is_active = self.status is ApiKeyStatus.ACTIVE
        return is_active and not times.has_passed(self.expires_at, now)

    def is_live_admin(self, now: datetime) -> bool:
        """Return whether this key can administer the tenant at `now`."""
        return Scope.ADMIN in self.scopes and self.is_live(now)


@dataclass(frozen=True, slots=True)
class Credential(Record):
    """The part of an API key that authentication reads. Revoked and deleted keys have none.

    `name` is the name of the key.
    """

    digest: str
    tenant_id: str
    key_id: str
    identity: str
    scopes: tuple[Scope, ...]
    name: str
    expires_at: datetime | None = None
    disabled: bool = False
    role: str | None = None
    networks: tuple[str, ...] = ()

    @property
    def address(self) -> Address:
        """The address of the credential."""
        return credential_address(self.digest)

    def refusal(self, now: datetime, source_ip: str | None) -> str | None:
        """Return why the key is not accepted at `now` from an address, or None if it is."""
        if times.has_passed(self.expires_at, now):
            return "The API key has expired."
        if self.disabled:
            return "The service account of the API key is disabled."
        if self.networks and not is_within(source_ip or "", self.networks):
            return f"The API key is not accepted from the address {source_ip or 'unknown'}."
        return None


@dataclass(frozen=True, slots=True)
class CredentialTombstone(Record):
    """Record of a revoked key's credential, kept until the key is deleted.

    It grants no access. With it, the service can report to the holder that the key was revoked
    (AUTH-2).
    """

    digest: str
    tenant_id: str
    revoked_at: datetime

    @property
    def address(self) -> Address:
        """The address of the record."""
        return revocation_note_address(self.digest)


@dataclass(frozen=True, slots=True)
class Usage(Record):
    """How often a key was used. Stored separately from the data that authentication reads.

    `digest` finds the credential if the key's record was lost.
    """

    request_count: int = 0
    last_used_at: datetime | None = None
    digest: str | None = None


def new_secret() -> str:
    """Return a new key string: `svc_` and 43 base64url characters with 256 random bits."""
    return "svc_" + secrets.token_urlsafe(_SECRET_BYTES)


def is_well_formed(secret: str) -> bool:
    """Return whether a text has the form of a key string."""
    return _SECRET.fullmatch(secret) is not None


def normalize_networks(values: Iterable[str]) -> tuple[str, ...]:
    """Return networks in CIDR notation in their stored form.

    Raises `ValueError` for other values, repeated networks, or more than `NETWORKS_MAX`.
    IPv4-mapped networks are rejected, because mapped addresses are compared as IPv4.
    """
    given = list(values)
    if not all(_CIDR.fullmatch(each) for each in given):
        raise ValueError("must be addresses, or networks in CIDR notation such as 192.0.2.0/24")
    found = [ip_network(each) for each in given]
    if len(found) > NETWORKS_MAX or len({*found}) != len(found):
        raise ValueError(f"must be at most {NETWORKS_MAX} networks, each once")
    if any(isinstance(each, IPv6Network) and _is_other(each) for each in found):
        raise ValueError("must be networks of IPv4, or of IPv6 without a scope")
    return tuple(map(str, found))


def _is_other(network: IPv6Network) -> bool:
    address = network.network_address
    return address.ipv4_mapped is not None or address.scope_id is not None


# Most programs use a single address. Parsing it each time would cost a fifth of a request.
@lru_cache(maxsize=4096)
def is_within(address: str, networks: tuple[str, ...]) -> bool:
    """Return whether an address is in any of the networks. A malformed address never is."""
    found = parse_address(address)
    return found is not None and any(found in each for each in _parse_networks(networks))


@lru_cache(maxsize=1024)
def _parse_networks(networks: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(map(ip_network, networks))


def digest(secret: str) -> str:
    """Return the SHA-256 of a key string in hex, the only form that is stored.

    The hash covers the text, not the decoded bytes, because four texts decode to the same 32 bytes.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def records(tenant_id: str) -> Partition:
    """Return the partition of a tenant's API keys, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#api-keys")


def usage(tenant_id: str) -> Partition:
    """Return the partition of the usage of a tenant's API keys, by key identifier."""
    return Partition(Table.KEYS, f"{tenant_id}#usage")


def owned_by(tenant_id: str, account_id: str) -> Partition:
    """Return the partition of the identifiers of an account's keys, including revoked ones."""
    return Partition(Table.KEYS, f"{tenant_id}#api-keys-of#{account_id}")


def made_by(tenant_id: str, maker_id: str) -> Partition:
    """Return the partition of the identifiers of keys by maker.

    For a person, it includes keys made indirectly.
    """
    return Partition(Table.KEYS, f"{tenant_id}#made-by#{maker_id}")


def count_address(tenant_id: str) -> Address:
    """Return the address of the number of a tenant's API keys, in the attribute `count`."""
    return Address(Table.KEYS, tenant_id, "counts#api-keys")


_CREDENTIAL: Final = "api-key#"


def credential_address(digest_: str) -> Address:
    """Return the address of the credential of the key string with this digest."""
    return Address(Table.KEYS, f"{_CREDENTIAL}{digest_}")


def is_credential_at(address: Address) -> bool:
    """Return whether the item at this address is a credential."""
    return address == credential_address(address.pk.removeprefix(_CREDENTIAL))


def revocation_note_address(digest_: str) -> Address:
    """Return the address of the revocation record of the key string with this digest."""
    return Address(Table.KEYS, f"{_CREDENTIAL}{digest_}", "revoked")
