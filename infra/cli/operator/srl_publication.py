"""`rescind srl publish-due`, for operators."""

from infra.cli.commands import format_error
from infra.cli.operator.operators import Operator, operator_command
from infra.cli.srl import app
from shared.errors import RescindError
from shared.operations.base import tenants
from shared.operations.lists import in_force, publication


class PublicationFailed(RescindError):
    """A due SRL could not be published."""


@operator_command(app, "publish-due", example="rescind srl publish-due --data .data")
def publish_due(operator: Operator) -> None:
    """For operators: publish every due SRL, as the scheduler does."""
    handles = {each.tenant_id: each.handle for each in tenants.directory(operator.ports)}
    tick = publication.publish_due(operator.ports)
    for tenant_id in tick.published:
        head = in_force.read_srl_head(operator.ports, tenant_id)
        handle = handles.get(tenant_id, tenant_id)
        operator.out.print_message(
            f"{handle}: published version {head.version} with {head.count} warrants."
        )
    for tenant_id, error in tick.failed.items():
        handle = handles.get(tenant_id, tenant_id)
        operator.out.print_message(f"{handle}: not published: {format_error(error)}")
    if tick.failed:
        raise PublicationFailed(f"{len(tick.failed)} SRL(s) could not be published")
    operator.out.print_message(f"Published {len(tick.published)} SRL(s). No other SRL was due.")
