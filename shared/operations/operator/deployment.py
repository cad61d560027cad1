"""The store's record of its deployment (OPS-12, OPS-13)."""

from shared.model import deployment as model
from shared.model.deployment import SCHEMA, Deployment
from shared.operations.base import tenants
from shared.operations.base.operation import settle
from shared.ports import Ports
from shared.ports.store import Put, expect_version


def read_deployment(ports: Ports) -> Deployment:
    """Return the deployment record of the store. Raises `DataCorrupt`, `Unavailable`."""
    return Deployment.of(ports.store.get(model.ADDRESS))


def write(ports: Ports, old: Deployment, new: Deployment) -> None:
    """Replace the record, if it is still `old`. Raises `PreconditionFailed`, `Unavailable`."""
    ports.store.write(Put(model.ADDRESS, new.to_item(), expect_version(old.version)))


def note_tables(ports: Ports) -> None:
    """Record these tables as known to the operator, so that they do not count as restored.

    Raises `DataCorrupt`, `Unavailable`.
    """

    def update() -> None:
        current, made_at = read_deployment(ports), ports.store.made_at()
        if current.version and made_at != current.tables_made_at:
            write(ports, current, current.next(tables_made_at=made_at))

    settle(update)


def put_in_charge(ports: Ports, region: str) -> None:
    """Allow only processes in this AWS region to write to the store and its copies (OPS-24).

    Raises `DataCorrupt`, `Unavailable`.
    """

    def update() -> None:
        current = read_deployment(ports)
        if current.region != region:
            write(ports, current, current.next(region=region))

    settle(update)


def mark_schema(ports: Ports) -> None:
    """Record the schema of this release. Earlier releases then refuse to use the store.

    Raises `DataCorrupt`, `Unavailable`.
    """

    def update() -> None:
        current = read_deployment(ports)
        if current.version == 0 or current.schema < SCHEMA:
            write(ports, current, current.next(schema=max(current.schema, SCHEMA)))

    settle(update)


def mark_if_new(ports: Ports) -> None:
    """Record the schema of this release in a store without tenants.

    In any other store, only `mark_schema` raises the schema, because an earlier release may still
    use the store. Raises the same errors as `mark_schema`.
    """
    if next(iter(tenants.directory(ports)), None) is None:
        mark_schema(ports)
