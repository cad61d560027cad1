"""The Signed Revocation List: read what is in force, regenerate."""

from pathlib import Path

from shared.model.callers import Caller, Scope
from shared.model.srl.blobs import sha256_of
from shared.model.srl.head import Form, Head
from shared.operations.rules.operation import operation
from shared.operations.srl import in_force, publication
from shared.ports import Ports

# How long an address of the stored list may be used.
URL_TTL_SECONDS = 300


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def head(ports: Ports, caller: Caller) -> Head:
    """Which list of the tenant is in force."""
    return in_force.head(ports, caller.tenant_id)


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def body(ports: Ports, _caller: Caller, *, of: Form) -> bytes:
    """A stored response body, checked against its name. Raises `Corrupt`, `Unavailable`."""
    return in_force.read(ports, of.blob)


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def file(ports: Ports, _caller: Caller, *, of: Form) -> Path | None:
    """The file of a stored response body, checked likewise; None if the store keeps no files.

    Raises `Corrupt`, `Unavailable`.
    """
    return ports.blobs.file(of.blob, sha256=sha256_of(of.blob))


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def address(ports: Ports, _caller: Caller, *, of: Form) -> str:
    """A short-lived address of the stored response body, for a list too long to answer with."""
    return ports.blobs.url(of.blob, ttl_seconds=URL_TTL_SECONDS)


@operation(Scope.ADMIN)
def regenerate(ports: Ports, caller: Caller) -> Head:
    """Publish the next version from the revocations of now (SRL-13)."""
    return publication.publish(ports, caller)
