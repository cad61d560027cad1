"""Differences between the newest state and the records. Reports them and changes nothing."""

from collections.abc import Iterator

from shared.model.lists.signers import ENDED
from shared.model.lists.state import ListState
from shared.model.lists.tombstones import Tombstones, TombstoneStatus
from shared.model.signing_keys import KeyStatus, SigningKey
from shared.operations.base import counters
from shared.operations.lists import records, signers
from shared.operations.operator.recovery import newest as srl_newest
from shared.operations.operator.recovery import unknown
from shared.ports import Ports


def examine(ports: Ports, tenant_id: str) -> Iterator[str]:
    """Yield keys, accounts and signers that ended by the newest valid state, not by the records.

    Also yields states that are not valid. Raises `Corrupt`, `Unavailable`.
    """
    newest = srl_newest.beside(ports, tenant_id)
    yield from (f"not trusted: {doubt}" for doubt in newest.doubts)
    yield from newest.journal.gaps
    if not newest.states:
        return
    is_behind = unknown.behind(ports, tenant_id, newest).keys
    # If there is no turn at all, `consistency` reports that.
    if is_behind and unknown.scheduled(ports, tenant_id):
        yield "its table of keys is older than its newest list"
    counted = counters.counted(ports, tenant_id).tombstones
    now = records.tombstones(ports, tenant_id, changes=counted)
    for found in newest.tombstones:
        yield from _access(found, now, is_behind=is_behind)
        yield from _keys(found, now, is_behind=is_behind)
    for state in newest.states:
        yield from _signers(ports, tenant_id, state)


def _access(recorded: Tombstones, now: Tombstones, *, is_behind: bool) -> Iterator[str]:
    ended = {each.id for each in (*now.api_keys, *now.accounts)}
    for each in recorded.api_keys:
        if each.id not in ended:
            yield f"the API key {each.id} was {each.status}, and is not"
    for each in recorded.accounts:
        if each.id not in ended and (is_behind or each.status is TombstoneStatus.DELETED):
            yield f"the service account {each.id} was {each.status}, and is not"


def _keys(recorded: Tombstones, now: Tombstones, *, is_behind: bool) -> Iterator[str]:
    found = {key.id: key for key in now.keys}
    for key in recorded.keys:
        if _has_returned(key, found.get(key.id), is_behind=is_behind):
            was = f"{key.status} in version {key.key_version}"
            yield f"the signing key {key.id} was {was}, and is not"


def _has_returned(recorded: SigningKey, now: SigningKey | None, *, is_behind: bool) -> bool:
    if now is None:
        # A key that was suspended and never rotated has no tombstone after it is enabled.
        was_enabled = recorded.status is KeyStatus.SUSPENDED and recorded.key_version == 1
        return is_behind or not was_enabled
    if recorded.status is KeyStatus.REVOKED and now.status is not KeyStatus.REVOKED:
        return True
    if is_behind and recorded.status is KeyStatus.SUSPENDED and now.status is KeyStatus.ACTIVE:
        return True
    return now.key_version < recorded.key_version


def _signers(ports: Ports, tenant_id: str, state: ListState) -> Iterator[str]:
    recorded = {each.id: each for each in state.list_signers if each.status in ENDED}
    found = signers.find(ports, tenant_id, recorded)
    for each in recorded.values():
        if each.id not in found or found[each.id].status not in ENDED:
            yield f"the list signer {each.id} was {each.status}, and is not"
    for each in signers.missing(signers.all_of(ports, tenant_id), state.list_signers):
        yield f"the list signer {each.id} was archived, and is {each.status}"
