"""Two histories of one log, which begin alike."""

from typing import Final

from functions.transparency_log import merkle, witnesses
from functions.transparency_log.checkpoint import Checkpoint
from functions.transparency_log.witnesses import AddCheckpointRequest
from shared.model.audit import records
from shared.model.audit.witness_policy import NoteKey

SEED: Final = bytes(range(32))
ORIGIN: Final = "rescind/svc_tnt_a/1"
KEY: Final = NoteKey(ORIGIN, witnesses.cosigner("", seed=SEED).public_key)


class History:
    """The trees over as many leaves; another `branch` has other leaves from its fifth one on."""

    def __init__(self, branch: int = 0, size: int = 64) -> None:
        data = [bytes([each, branch if each >= 5 else 0]) for each in range(size)]
        self._leaves = [records.leaf(each) for each in data]

    def _subtree(self, level: int, number: int) -> bytes:
        return merkle.perfect(self._leaves[number << level : (number + 1) << level])

    def note(self, size: int) -> str:
        return Checkpoint(ORIGIN, size, merkle.root(size, self._subtree)).sign([SEED])

    def proof(self, old: int, size: int) -> list[bytes]:
        return merkle.consistency(old, size, self._subtree)

    def asked(self, old: int, size: int) -> bytes:
        return AddCheckpointRequest(old, tuple(self.proof(old, size)), self.note(size)).encode()


TRUE: Final = History()
OTHER: Final = History(branch=1)
