"""The doctor's check of authorizers."""

from collections.abc import Iterator
from typing import Final

from functions.authorizers import propagation, unregistered
from functions.authorizers.enforcement import EnforcementState
from functions.authorizers.propagation import SettledEntry
from functions.authorizers.records import Authorizer
from shared.capabilities.finding import Finding
from shared.model import times
from shared.model.lists.head import SrlHead
from shared.model.tenants import DirectoryEntry
from shared.ports import Ports

# How many lagging authorizers of a tenant are named.
_LAGGING_SHOWN: Final = 10
_FLEET: Final = "docs/authorizers.md#lagging-authorizers"


def check_authorizers(ports: Ports, tenant: DirectoryEntry, _head: SrlHead) -> Iterator[Finding]:
    """Find authorizers that may admit a warrant that was revoked minutes ago."""
    newest = propagation.of_feed(ports, tenant.tenant_id)
    if newest is not None:
        yield from _check_entry(tenant, newest)
    registered = propagation.registrations(ports, tenant.tenant_id)
    for client in unregistered.read(ports, tenant.tenant_id, registered):
        problem = (
            f"the client {client.name} of {client.owner} is not registered and counts in no "
            f"propagation: at {times.format_utc(client.last_seen_at)} its registration was "
            f"rejected ({client.code})"
        )
        yield Finding(tenant.handle, problem, f"see {_FLEET}; its log has the cause")


def _check_entry(tenant: DirectoryEntry, newest: SettledEntry) -> Iterator[Finding]:
    """Yield a finding for each authorizer without an entry that it should have by now."""
    entry, among = newest
    unknown = [
        each.authorizer
        for each in among.lagging_authorizers
        if each.enforcement is EnforcementState.UNKNOWN
    ]
    for each in unknown[:_LAGGING_SHOWN]:
        remedy = f"see {_FLEET}; if it is gone: rescind authorizers remove {each.id}"
        yield Finding(tenant.handle, _describe(each, entry.sequence), remedy)
    if among.unknown > _LAGGING_SHOWN:
        problem = f"the same is true of {among.unknown - _LAGGING_SHOWN} more of its authorizers"
        yield Finding(tenant.handle, problem, f"see {_FLEET}")


def _describe(authorizer: Authorizer, expected: int) -> str:
    name = f"its authorizer {authorizer.name} ({authorizer.id})"
    if authorizer.equivocation:
        return f"{name} reported feed entries that this service did not publish"
    newest = "none" if authorizer.sequence is None else f"entry {authorizer.sequence}"
    report = f"at {times.format_utc(authorizer.last_seen_at)} it reported {newest}"
    return f"{name} has not proved that it has feed entry {expected}: {report}"
