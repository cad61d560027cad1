"""Witnesses of sealed logs for tests: ours, in this process, with its real memory."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from functions.transparency_log import log, signers
from infra import witness as service
from infra.witness import NotCosigned, WitnessStore
from shared.model.audit.witness_policy import NoteKey, Witness, WitnessPolicy
from shared.ports import Ports
from shared.ports.outside import WitnessAnswer

Answer = Callable[[bytes], WitnessAnswer]


@dataclass
class Witnessed:
    """Witnesses by address, as a `WitnessClient`; `asked` are the addresses of all requests."""

    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def ask(self, asked: Sequence[tuple[str, bytes]]) -> list[WitnessAnswer]:
        """What each of them answers."""
        self.asked += [url for url, _ in asked]
        return [self.answers[url.removesuffix("/add-checkpoint")](body) for url, body in asked]


def made(folder: Path, name: str) -> WitnessStore:
    """A new witness."""
    return WitnessStore.open(folder / name, f"{name}.example/w")


def answering(memory: WitnessStore) -> Answer:
    """What the service of this witness answers."""

    def answer(body: bytes) -> WitnessAnswer:
        try:
            return WitnessAnswer(200, service.sign(memory, body).encode())
        except NotCosigned as refused:
            return WitnessAnswer(refused.status, str(refused).encode())

    return answer


def know(memory: WitnessStore, ports: Ports, tenant_id: str) -> None:
    """Let a witness know the log of a tenant, as it is now."""
    head = log.head(ports, tenant_id)
    generation = head.generation if head else 1
    for each in signers.all_of(ports, tenant_id):
        key = NoteKey(f"rescind/{tenant_id}/{generation}", base64.b64decode(each.public_key))
        memory.add(key)


def policy(quorum: int, *memories: WitnessStore) -> WitnessPolicy:
    """The policy that asks these witnesses, each at the address of its name."""
    return WitnessPolicy(quorum, tuple(Witness(each.identity.key, url(each)) for each in memories))


def url(memory: WitnessStore) -> str:
    """The address of a witness."""
    return f"http://{memory.identity.name}"
