"""The Signed Revocation List: read what is in force, regenerate, publish what is due."""

import logging
from dataclasses import dataclass

from shared.model import tenants
from shared.model.callers import Caller, Scope
from shared.model.srl import Head
from shared.model.tenants import Listing
from shared.operations import publication
from shared.operations.operation import operation, settle
from shared.ports import Ports

_log = logging.getLogger(__name__)

# How long an address of the stored list may be used.
URL_TTL_SECONDS = 300


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def head(ports: Ports, caller: Caller) -> Head:
    """Which list of the tenant is in force."""
    return publication.current(ports, caller.tenant_id)


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def body(ports: Ports, _caller: Caller, *, of: Head) -> bytes:
    """The response body of the list, checked against its head. Raises `Corrupt`."""
    return publication.read(ports, of)


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def address(ports: Ports, _caller: Caller, *, of: Head) -> str:
    """A short-lived address of the stored response body, for a list too long to answer with."""
    return ports.blobs.url(of.blob, ttl_seconds=URL_TTL_SECONDS)


@operation(Scope.ADMIN)
def regenerate(ports: Ports, caller: Caller) -> Head:
    """Publish the next version from the revocations of now (service.md 3 and 4.3)."""
    return publication.publish(ports, caller)


@dataclass(frozen=True, slots=True)
class Tick:
    """What one run of the schedule did, as tenant identifiers."""

    published: list[str]
    failed: list[str]


def publish_due(ports: Ports) -> Tick:
    """Publish for every tenant that is due; a tenant that fails holds back no other.

    Due is a tenant where something changed since its list was made, or half of whose list's
    lifetime has passed. Running it twice, or twice at once, is harmless.
    """
    tick = Tick([], [])
    for entry in ports.store.query(tenants.DIRECTORY):
        try:
            if _publish_if_due(ports, Listing.from_item(entry.item)):
                tick.published.append(entry.sk)
        except Exception:  # noqa: BLE001 (what stops one tenant must not stop the rest)
            _log.exception("the list of tenant %s could not be published", entry.sk)
            tick.failed.append(entry.sk)
    return tick


def _publish_if_due(ports: Ports, listing: Listing) -> bool:
    caller = Caller.inside(listing.tenant_id, name="schedule", handle=listing.handle)

    def attempt() -> bool:
        if not _is_due(ports, listing):
            return False
        publication.publish(ports, caller)
        return True

    return settle(attempt)


def _is_due(ports: Ports, listing: Listing) -> bool:
    # Of the head, not the listing: another run may have published since that was read.
    head = publication.current(ports, listing.tenant_id)
    if publication.due_at(head) <= ports.now():
        return True
    return publication.count_changes(ports, listing.tenant_id) != head.changes
