"""Request cosignatures for the newest checkpoint of a tenant's log (LOG-31).

This runs separately from the append passes, and no operation waits for it. The responses are stored
next to the log head.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from http import HTTPStatus
from typing import Final

from functions.transparency_log import checkpoint, log
from functions.transparency_log import witnesses as model
from functions.transparency_log.head import LogHead
from functions.transparency_log.witnesses import AddCheckpointRequest, WitnessState
from shared.errors import PreconditionFailed
from shared.model.audit import witness_policy
from shared.model.audit.witness_policy import Witness, WitnessPolicy
from shared.ports import Ports
from shared.ports.outside import WitnessAnswer, WitnessClient
from shared.ports.store import Put, expect_version

# How far the clock of a witness may be ahead.
_AHEAD: Final = timedelta(seconds=60)
# After the first attempt, a witness has reported how many leaves it has signed.
_TRIES: Final = 2

_NO_ANSWER: Final = "it does not answer"
_UNKNOWN: Final = (
    "it does not accept the log; give its operator the verifier keys of GET /v1/audit-logs/keys"
)
_OTHER: Final = "it has signed another history; the log was rewritten, or the witness is wrong"
_PROBLEMS: Final = {
    0: _NO_ANSWER,
    HTTPStatus.FORBIDDEN: _UNKNOWN,
    HTTPStatus.NOT_FOUND: _UNKNOWN,
    HTTPStatus.UNPROCESSABLE_ENTITY: _OTHER,
}

_log = logging.getLogger(__name__)


def read_state(ports: Ports, tenant_id: str) -> WitnessState:
    """Return the witness state of a tenant's log. Raises `DataCorrupt`, `Unavailable`."""
    item = ports.store.get(model.address(tenant_id))
    return WitnessState() if item is None else WitnessState.from_item(item)


def quorum_checkpoint(ports: Ports, tenant_id: str) -> str | None:
    """Return the newest checkpoint with a quorum, including cosignatures, or None.

    Raises `DataCorrupt`, `Unavailable`.
    """
    return read_state(ports, tenant_id).agreed.signed_note or None


class WitnessRound:
    """One round over tenants. A witness that does not respond is skipped for the rest of it."""

    def __init__(self, ports: Ports, client: WitnessClient, policy: WitnessPolicy) -> None:
        self._ports, self._client, self._policy = ports, client, policy
        self._away = set[Witness]()

    def cosign(self, tenant_id: str) -> WitnessState | None:
        """Request the missing cosignatures for the newest checkpoint of a tenant.

        Returns the new state, or None if no request was due. If another process stores a state at
        the same time, that state is kept. Raises `DataCorrupt`, `Unavailable`.
        """
        ports, before = self._ports, read_state(self._ports, tenant_id)
        head = log.head(ports, tenant_id)
        if head is None or not head.size:
            return None
        origin = checkpoint.origin(tenant_id, head.generation)
        state, now = before.with_request(origin, head.checkpoint), ports.now()
        due = [each for each in self._policy.witnesses if not state.newest.is_fresh(each.key, now)]
        if not due:
            return None
        after = self._request_cosignatures(tenant_id, head, state, due).settle(self._policy)
        _log_changes(tenant_id, before, after)
        item = {**after.to_item(), "version": before.version + 1}
        with suppress(PreconditionFailed):
            ports.store.write(Put(model.address(tenant_id), item, expect_version(before.version)))
        return after

    def _request_cosignatures(
        self, tenant_id: str, head: LogHead, state: WitnessState, due: list[Witness]
    ) -> WitnessState:
        tree = log.LogTree(self._ports, tenant_id, head)
        for _ in range(_TRIES):
            reachable = [each for each in due if each not in self._away]
            requests = list[tuple[str, bytes]]()
            for each in reachable:
                # A witness with a newer checkpoint reports its size, and gets no proof.
                old = min(state.known.get(str(each.key), 0), head.size)
                body = AddCheckpointRequest(old, tuple(tree.extends(old)), head.checkpoint).encode()
                requests.append((f"{each.url}/add-checkpoint", body))
            answers, again = self._client.ask(requests), list[Witness]()
            for each, answer in zip(reachable, answers, strict=True):
                before = state.known.get(str(each.key), 0)
                state = self._apply_response(state, each, answer, head)
                if answer.status == HTTPStatus.CONFLICT:
                    again += [each] if state.known.get(str(each.key), 0) != before else []
                elif not answer.status:
                    self._away.add(each)
            due = again
        for each in self._away:
            state = state.with_refusal(each, _NO_ANSWER)
        return state

    def _apply_response(
        self, state: WitnessState, witness: Witness, answer: WitnessAnswer, head: LogHead
    ) -> WitnessState:
        """Return the state after a response."""
        if answer.status == HTTPStatus.CONFLICT:
            return _apply_conflict(state, witness, answer.body, head.size)
        if answer.status != HTTPStatus.OK:
            problem = _PROBLEMS.get(answer.status, f"it responds with status {answer.status}")
            return state.with_refusal(witness, problem)
        note = head.checkpoint + answer.body.decode(errors="replace")
        at = model.cosigned_at(note, witness.key)
        if at is None:
            return state.with_refusal(witness, "its response has no signature by its key")
        if at > self._ports.now() + _AHEAD:
            return state.with_refusal(witness, "its clock is ahead")
        return state.with_cosignature(witness, model.lines_of(note, witness.key), head.size)


def _apply_conflict(state: WitnessState, witness: Witness, body: bytes, size: int) -> WitnessState:
    """Return the state after a witness reports the number of leaves that it has signed."""
    try:
        known = witness_policy.number(body.decode().removesuffix("\n"))
    except ValueError:
        return state.with_refusal(witness, "it does not report how many leaves it has signed")
    if known > size:
        problem = (
            f"it has signed {known} leaves, but the log has {size}; the log was truncated or "
            "restored"
        )
        return state.with_refusal(witness, problem)
    return state.knowing(witness, known).with_refusal(
        witness, f"it requires a proof from {known} leaves"
    )


def _log_changes(tenant_id: str, old: WitnessState, new: WitnessState) -> None:
    """Log the changes between two states."""
    for key in sorted({*old.problems, *new.problems}):
        was, is_now = old.problems.get(key), new.problems.get(key)
        name = key.partition("+")[0]
        if is_now is None:
            _log.warning("the witness %s signs the log of tenant %s again", name, tenant_id)
        elif is_now != was:
            _log.error(
                "the witness %s does not sign the log of tenant %s: %s", name, tenant_id, is_now
            )


def problems(ports: Ports, tenant_id: str) -> Iterator[tuple[str, bool]]:
    """Yield the reasons for missing cosignatures, and whether a witness only failed to respond.

    Raises `DataCorrupt`, `Unavailable`.
    """
    for key, why in sorted(read_state(ports, tenant_id).problems.items()):
        yield (
            f"the witness {key.partition('+')[0]} does not sign its transparency log: {why}",
            (why == _NO_ANSWER),
        )
