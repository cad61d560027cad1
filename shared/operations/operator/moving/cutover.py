"""The beginning and the end of a move: which store is in charge (OPS-13, OPS-16)."""

import secrets

from shared.errors import InvalidState
from shared.model.deployment import FENCED_SECONDS, SCHEMA, Deployment, DeploymentPart
from shared.operations.base import operation, tenants
from shared.operations.base.operation import settle
from shared.operations.lists import publication
from shared.operations.operator import backup, deployment, onboarding
from shared.operations.operator.moving import copying
from shared.ports import Ports


def begin(source: Ports, target: Ports) -> None:
    """Take the target out of use until the move has ended. Repeat it to resume a move.

    The target must be empty, or have been begun before, or be the store from which the source's
    data came. Raises `InvalidState`, also if the source is of an earlier release; `InvalidSettings`
    if a newer one wrote to one of them; `Unavailable`.
    """
    ours, theirs = deployment.read(source), deployment.read(target)
    for each in (ours, theirs):
        each.check_schema()
    if ours.part is DeploymentPart.MOVED and ours.moved_to == theirs.receipt is not None:
        return  # Only the end is missing.
    ours.check_in_charge()
    came_from = theirs.part is DeploymentPart.MOVED and theirs.moved_to == ours.receipt is not None
    if ours.schema < SCHEMA or ours.version == 0:
        # To raise it here would stop processes of that release, which may still serve it.
        raise InvalidState("The source is of an earlier release: update it, and run upgrade on it.")
    if theirs.part is DeploymentPart.RECEIVING:
        deployment.mark_schema(target)
        return
    if not came_from and not copying.is_empty(target):
        raise InvalidState("The target has data of its own; name an empty store.")
    receipt = secrets.token_hex(16)
    receiving = theirs.next(
        schema=SCHEMA, part=DeploymentPart.RECEIVING, receipt=receipt, moved_to=None
    )
    deployment.write(target, theirs, receiving)


def finish(source: Ports, target: Ports, *, user: str | None = None) -> list[tuple[str, int]]:
    """Put the target in charge, after a last pass; the source must be read-only (OPS-14).

    Publishes a list of each tenant; returns their handles and the versions of these lists. Raises
    `InvalidState` if the source still changes or the two differ, and the source stays in charge;
    `Corrupt`, `Unavailable`.
    """
    ours, theirs = deployment.read(source), deployment.read(target)
    has_moved = ours.part is DeploymentPart.MOVED
    if theirs.receipt is None or (has_moved and ours.moved_to != theirs.receipt):
        raise InvalidState("No move from this store to that one has begun.")
    if theirs.part is DeploymentPart.RECEIVING:
        copying.copy(source, target)
        _check(source, target)
        _hand_over(source, target, ours, theirs)
    elif not has_moved:
        raise InvalidState("No move from this store to that one has begun.")
    return [
        (each.handle, _publish(target, each.handle, user)) for each in tenants.directory(target)
    ]


def _hand_over(source: Ports, target: Ports, ours: Deployment, theirs: Deployment) -> None:
    """Take the source out of charge; put the target in charge once nobody uses the source."""
    moved = ours
    if ours.part is not DeploymentPart.MOVED:
        moved = ours.next(part=DeploymentPart.MOVED, moved_to=theirs.receipt)
        deployment.write(source, ours, moved)
    # Before the comparison, which finds what was written until then.
    operation.PACING.sleep(FENCED_SECONDS)
    changed = next(copying.differences(source, target), None)
    if changed is not None:
        # Nobody reads the target yet, so the source may go on.
        back = moved.next(part=DeploymentPart.SERVING, moved_to=ours.moved_to)
        deployment.write(source, moved, back)
        raise InvalidState("The source still changes: restart all of it with SVC_MODE=read-only.")
    serving = theirs.next(part=DeploymentPart.SERVING)
    deployment.write(target, theirs, serving)


def _check(source: Ports, target: Ports) -> None:
    """Raise `InvalidState` unless both stores say the same, and the target's lists are whole."""
    for address in copying.differences(source, target):
        raise InvalidState(f"The target differs from the source in {address.pk} {address.sk}.")
    for problem in backup.problems(target):
        raise InvalidState(f"The target is not whole: {problem}.")


def _publish(target: Ports, handle: str, user: str | None) -> int:
    operator = onboarding.operator(target, handle=handle, user=user)
    return settle(lambda: publication.publish(target, operator)).version
