"""The note of the store about its deployment (OPS-12, OPS-13)."""

from shared.model import deployment as model
from shared.model.deployment import SCHEMA, Deployment
from shared.operations.base import tenants
from shared.operations.base.operation import settle
from shared.ports import Ports
from shared.ports.store import Put, expect_version


def read_deployment(ports: Ports) -> Deployment:
    """Return what the store says of itself. Raises `DataCorrupt`, `Unavailable`."""
    return Deployment.of(ports.store.get(model.ADDRESS))


def write(ports: Ports, old: Deployment, new: Deployment) -> None:
    """Replace the record, if it is still `old`. Raises `PreconditionFailed`, `Unavailable`."""
    ports.store.write(Put(model.ADDRESS, new.to_item(), expect_version(old.version)))


def note_tables(ports: Ports) -> None:
    """Note that these tables are those that an operator saw, so that they count as not restored.

    Raises `DataCorrupt`, `Unavailable`.
    """

    def update() -> None:
        found, made_at = read_deployment(ports), ports.store.made_at()
        if found.version and made_at != found.tables_made_at:
            write(ports, found, found.next(tables_made_at=made_at))

    settle(update)


def put_in_charge(ports: Ports, region: str) -> None:
    """Let processes in this AWS region alone write to the copies of the store (OPS-24).

    Raises `DataCorrupt`, `Unavailable`.
    """

    def update() -> None:
        found = read_deployment(ports)
        if found.region != region:
            write(ports, found, found.next(region=region))

    settle(update)


def mark_schema(ports: Ports) -> None:
    """Note the schema of this release in the store, which earlier releases then refuse to use.

    Raises `DataCorrupt`, `Unavailable`.
    """

    def update() -> None:
        found = read_deployment(ports)
        if found.version == 0 or found.schema < SCHEMA:
            write(ports, found, found.next(schema=max(found.schema, SCHEMA)))

    settle(update)


def mark_if_new(ports: Ports) -> None:
    """Note the schema of this release in a store without tenants.

    That of any other is raised by `mark_schema` alone, since an earlier release may still work on
    it. Raises as `mark_schema` does.
    """
    if next(iter(tenants.directory(ports)), None) is None:
        mark_schema(ports)
