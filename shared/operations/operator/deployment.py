"""The note of the store about its deployment (OPS-12, OPS-13)."""

from shared.model import deployment as model
from shared.model.deployment import SCHEMA, Deployment
from shared.operations.base import tenants
from shared.operations.base.operation import settle
from shared.ports import Ports
from shared.ports.store import Put, expect_version


def read(ports: Ports) -> Deployment:
    """Return what the store says of itself. Raises `Corrupt`, `Unavailable`."""
    return Deployment.of(ports.store.get(model.ADDRESS))


def write(ports: Ports, before: Deployment, after: Deployment) -> None:
    """Replace the record, if it is still `before`. Raises `ExpectationLost`, `Unavailable`."""
    ports.store.write(Put(model.ADDRESS, after.to_item(), expect_version(before.version)))


def note_tables(ports: Ports) -> None:
    """Note that these tables are those that an operator saw, so that they count as not restored.

    Raises `Corrupt`, `Unavailable`.
    """

    def attempt() -> None:
        found, made_at = read(ports), ports.store.made_at()
        if found.version and made_at != found.tables_made_at:
            write(ports, found, found.next(tables_made_at=made_at))

    settle(attempt)


def put_in_charge(ports: Ports, region: str) -> None:
    """Let processes in this AWS region alone write to the copies of the store (OPS-24).

    Raises `Corrupt`, `Unavailable`.
    """

    def attempt() -> None:
        found = read(ports)
        if found.region != region:
            write(ports, found, found.next(region=region))

    settle(attempt)


def mark_schema(ports: Ports) -> None:
    """Note the schema of this release in the store, which earlier releases then refuse to use.

    Raises `Corrupt`, `Unavailable`.
    """

    def attempt() -> None:
        found = read(ports)
        if found.version == 0 or found.schema < SCHEMA:
            write(ports, found, found.next(schema=max(found.schema, SCHEMA)))

    settle(attempt)


def mark_if_new(ports: Ports) -> None:
    """Note the schema of this release in a store without tenants.

    That of any other is raised by `mark_schema` alone, since an earlier release may still work on
    it. Raises as `mark_schema` does.
    """
    if next(iter(tenants.directory(ports)), None) is None:
        mark_schema(ports)
