"""The Signed Revocation List: read what is in force, regenerate."""

from shared.model.callers import Caller, Scope
from shared.model.srl import Head
from shared.operations import publication
from shared.operations.operation import operation
from shared.ports import Ports

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
