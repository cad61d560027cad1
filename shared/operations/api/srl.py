"""The Signed Revocation List: read the one in force, and regenerate it."""

from pathlib import Path

from shared.model.callers import Caller, Scope
from shared.model.srl.blobs import sha256_of
from shared.model.srl.head import Form, Head
from shared.operations.rules.operation import operation
from shared.operations.srl import in_force, publication
from shared.ports import Ports

# How long a presigned URL of a stored list is valid.
URL_TTL_SECONDS = 300


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def head(ports: Ports, caller: Caller) -> Head:
    """Return the head, which names the tenant's list in force. Raises `Corrupt`, `Unavailable`."""
    return in_force.head(ports, caller.tenant_id)


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def body(ports: Ports, _caller: Caller, *, of: Form) -> bytes:
    """Read a stored response body; check its hash. Raises `Corrupt`, `Unavailable`."""
    return in_force.read(ports, of.blob)


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def file(ports: Ports, _caller: Caller, *, of: Form) -> Path | None:
    """Return the file of a response body, checked likewise; None if the store has no files.

    Raises `Corrupt`, `Unavailable`.
    """
    return ports.blobs.file(of.blob, sha256=sha256_of(of.blob))


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def address(ports: Ports, _caller: Caller, *, of: Form) -> str:
    """Return a presigned URL of a response body that is too long for a response of Lambda."""
    return ports.blobs.url(of.blob, ttl_seconds=URL_TTL_SECONDS)


@operation(Scope.ADMIN)
def regenerate(ports: Ports, caller: Caller) -> Head:
    """Publish the next version of the list (SRL-13). Raises `Corrupt`, `Unavailable`."""
    return publication.publish(ports, caller)
