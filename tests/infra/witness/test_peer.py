"""Another implementation of C2SP tlog-witness, `aics-witness`, with ours (LOG-31, LOG-33)."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from functions.transparency_log import operations as sealed_log
from functions.transparency_log import sealing, signers, witnessing
from functions.transparency_log.checkpoint import Checkpoint
from infra.witness import WitnessStore
from shared import wiring
from shared.adapters.https import HttpWitnesses
from shared.model.audit.witness_policy import COSIGNATURE, NoteKey, Witness, WitnessPolicy
from shared.ports import Ports
from tests.infra.witness.histories import KEY, OTHER, TRUE
from tests.kit.peers import asked
from tests.kit.processes import HOST, ROOT, environment, free_port
from tests.kit.sealed_log import head_of, many_sealed
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon
from tests.kit.witnesses import made
from tests.kit.worlds import Clock

PEER: Final = ROOT / ".tools/witness/bin/aics-witness"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PEER.exists() and sys.version_info < (3, 12), reason="aics-witness needs Python 3.12"
    ),
]


@pytest.fixture
def clock() -> Clock:
    return Clock(wiring.now())


@contextmanager
def peer(folder: Path, key: NoteKey) -> Iterator[Witness]:
    """A witness of theirs that knows a log."""
    port, config = free_port(), str(folder / "witness.json")

    def run(*arguments: str) -> str:
        made = subprocess.run(
            [PEER, *arguments, "--config", config], capture_output=True, text=True, check=True
        )
        return made.stdout

    said = run("init", "--name", "peer.example/w", "--listen", f"{HOST}:{port}")
    run("add-log", "--origin", key.name, "--vkey", str(key))
    (own,) = (each for each in said.split() if each.startswith("peer.example/w+"))
    with subprocess.Popen([PEER, "serve", "--config", config]) as process:
        try:
            found = Witness(NoteKey.parse(own, COSIGNATURE), f"http://{HOST}:{port}")
            soon(lambda: HttpWitnesses().ask([(f"{found.url}/x", b"")])[0].status, seconds=30)
            yield found
        finally:
            process.terminate()


def test_their_witness_signs_our_log(
    tmp_path: Path, ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """LOG-31, F813a: Their witness signs our log as it grows, and no other history of it."""
    sealing.extend(ports, tenant.id)
    (signer,) = signers.all_of(ports, tenant.id)
    with peer(tmp_path, signer.key(f"rescind/{tenant.id}/1")) as witness:
        policy = WitnessPolicy(1, (witness,))

        def sign() -> dict[str, str]:
            found = witnessing.WitnessRound(ports, HttpWitnesses(), policy).cosign(tenant.id)
            assert found
            return {**found.problems}

        for added in (0, 1, 2, 5, 248, 300, 700):
            many_sealed(ports, clock, tenant.id, added)
            assert sign() == {}
            note = sealed_log.checkpoint(ports, tenant.operator, with_cosignatures=True)
            assert Checkpoint.parse(note).size == head_of(ports, tenant.id).size


def test_their_client_is_signed_by_our_witness(tmp_path: Path) -> None:
    """LOG-33, F813b: Their client proves a log to our witness, and verifies what it signs."""
    memory = made(tmp_path, "w")
    memory.add(KEY)
    port = free_port()
    command = ["-m", "infra.cli", "witness", "--data", str(tmp_path / "w"), "--port", str(port)]
    sizes = [1, 2, 3, 4, 7, 8, 20, 33, 63, 64]
    pairs = [*zip([0, *sizes], sizes, strict=False)]
    submissions = [
        {
            "note": TRUE.note(size),
            "proofs": {old: [each.hex() for each in TRUE.proof(old, size)]},
        }
        for old, size in pairs
    ]
    submissions.append({"note": OTHER.note(64), "proofs": {64: []}})
    with subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment()) as process:
        try:
            url = f"http://{HOST}:{port}"
            soon(lambda: HttpWitnesses().ask([(f"{url}/x", b"")])[0].status, seconds=30)
            request = {"url": url, "key": str(memory.identity.key), "submissions": submissions}
            *signed, last = asked("witness", "witness_peer.py", request)
        finally:
            process.terminate()
    assert [each.split()[1] for each in signed] == ["w.example/w"] * len(sizes)
    assert last.startswith("WitnessRejected")
    log = hashlib.sha256(KEY.name.encode()).hexdigest()
    assert Checkpoint.parse(WitnessStore.open(tmp_path / "w", None).note(log) or "").size == 64
