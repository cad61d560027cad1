"""After the records were restored from a backup: go on from the lists that were published.

Verifiers refuse a version below one that they have seen, and a revocation that the backup lacks
would let a thief in. The blobs of the lists are not restored with the records, so they tell both
(docs/adr/0017).
"""

from contextlib import suppress
from dataclasses import dataclass

from shared.errors import Corrupt, InvalidSrl
from shared.model import srl
from shared.model.callers import Caller
from shared.model.srl import Head, Payload
from shared.model.srl_keys import SrlKey, signers
from shared.model.srl_schedule import ISSUES, TURNS, Turn, issue_key, tenant_of
from shared.model.srl_verification import verify
from shared.operations import consistency, publication, revocations, srl_blobs
from shared.operations.operation import settle
from shared.operations.verdicts import verdicts
from shared.ports import Ports
from shared.ports.store import At, Check, Delete, Expect


@dataclass(frozen=True, slots=True)
class Recovered:
    """The list that was published, and the warrants whose revocations the records lacked.

    `repaired` says what was only half there, a sentence each.
    """

    head: Head
    revoked_again: list[str]
    repaired: list[str]


def recover(ports: Ports, operator: Caller) -> Recovered:
    """Repair what is half there, revoke again what the newest list has, then publish above it.

    Repeating it does no harm.

    Raises `Unavailable`, `Corrupt` where that list cannot be read.
    """
    repaired = consistency.repair(ports, operator)
    version, listed = _newest(ports, operator.tenant_id)
    found = verdicts(ports, operator.tenant_id, listed)
    lost = [each for each in listed if not found[each].revoked]
    for warrant_id in lost:
        reason = f"restored from version {version} of the list"
        revocations.create(ports, operator, warrant_id=warrant_id, reason=reason)
    head = settle(lambda: publication.publish(ports, operator, above=version))
    settle(lambda: _remove_other_turns(ports, operator.tenant_id))
    return Recovered(head, lost, repaired)


def newest_version(ports: Ports, tenant_id: str) -> int:
    """The highest version that was ever stored, in force or not; 0 where there is none."""
    return _highest(_blobs(ports, tenant_id))


def _newest(ports: Ports, tenant_id: str) -> tuple[int, list[str]]:
    """The highest version, and what is revoked by any list that was made for it."""
    blobs = _blobs(ports, tenant_id)
    version = _highest(blobs)
    newest = [blob for blob in blobs if srl.version_of(blob) == version]
    listed = {each for blob in newest for each in _verified(ports, tenant_id, blob).revoked_ids}
    return version, sorted(listed)


def _verified(ports: Ports, tenant_id: str, blob: str) -> Payload:
    """The list in a blob: whoever may write there must not revoke, nor use up the versions."""
    body = srl_blobs.read(ports, blob)
    for entry in ports.store.query(signers(tenant_id)):
        public_key = SrlKey.from_item(entry.item).public_bytes
        with suppress(InvalidSrl):
            payload = verify(body, public_key=public_key, now=srl.issued_at(body))
            if payload.version == srl.version_of(blob):
                return payload
    raise Corrupt(
        "the newest stored list is signed by no key in the records; if its signer was rotated "
        "since the restored moment, restore the table of keys to a later one"
    )


def _blobs(ports: Ports, tenant_id: str) -> list[str]:
    return list(ports.blobs.names(srl.lists_folder(tenant_id)))


def _highest(blobs: list[str]) -> int:
    return max(map(srl.version_of, blobs), default=0)


def _remove_other_turns(ports: Ports, tenant_id: str) -> None:
    """Of a tenant whose turns and lists come from different moments, only one turn is right.

    So it is with the times of issue.
    """
    head = publication.current(ports, tenant_id)
    own = Turn.after(head, tenant_id).key, issue_key(head, tenant_id)
    # The schedule may publish meanwhile, and its turn is not to be taken for another moment's.
    in_force = Check(srl.head_key(tenant_id), At(head.version))
    for partition in (TURNS, ISSUES):
        for entry in ports.store.query(partition):
            key = partition.key(entry.sk)
            if key not in own and tenant_of(entry.sk) == tenant_id:
                ports.store.write(Delete(key, Expect.ANYTHING), in_force)
