"""A rehearsal: list signers change under a fleet of verifiers that polls all the time.

Time is simulated. Each verifier fetches the list every 30 seconds and the keys every minute or more
seldom, and goes on from what it accepted before, as `rescind srl verify` does.
"""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from functions.srl.schemas import SrlKey, SrlKeyList
from infra.cli import srl_verification
from shared.errors import InvalidSrl
from shared.model import seeds
from shared.model.lists import content as srl
from shared.model.lists.signers import ServedSigners, SuccessionStatement
from shared.model.lists.verification import LastAcceptedSrl, VerifierPolicy, verify_next
from shared.operations.base import seals
from shared.operations.changes import list_signers
from shared.operations.lists import in_force, publication
from shared.ports import Ports
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock

pytestmark = pytest.mark.usefixtures("few_partitions")

_POLL = 30
_MINUTE, _HOUR = 60, 3600
_THIEFS_OWN = b"\x07" * 32


def _answer(ports: Ports, tenant: Tenant) -> Any:
    """What GET …/srl/keys answers."""
    listed = list_signers.page(ports, tenant.operator).entries
    body = SrlKeyList(keys=[SrlKey.of(each) for each in listed], cursor=None)
    return json.loads(body.model_dump_json())


def _raw(keys: list[Any]) -> list[bytes]:
    return [base64.b64decode(key["public_key"]) for key in keys if key["status"] != "revoked"]


@dataclass
class Verifier:
    """One of the fleet. It reads the keys every `refresh` seconds, `offset` seconds late."""

    refresh: int
    offset: int
    # What it makes of an answer about the keys.
    policy_of: Callable[[Any], VerifierPolicy]
    state: Path | None = None
    policy: VerifierPolicy = field(default_factory=lambda: VerifierPolicy([]))
    kept: LastAcceptedSrl | None = None

    def live(self, second: int, ports: Ports, tenant: Tenant) -> None:
        """What it does at this second of the rehearsal. Raises `InvalidSrl`."""
        if second % self.refresh == self.offset or second == 0:
            self.policy = self.policy_of(_answer(ports, tenant))
        self.accept(in_force.read_srl_body(ports, in_force.read_srl_head(ports, tenant.id)), ports)

    def accept(self, body: bytes, ports: Ports) -> None:
        """Believe a list from now on. Raises `InvalidSrl`."""
        seen = srl_verification.load(self.state) if self.state else self.kept
        _, self.kept = verify_next(body, self.policy, last_accepted=seen, now=ports.now())
        if self.state and self.kept != seen:
            srl_verification.save(self.state, self.kept)


def _believes_the_page(answer: Any) -> VerifierPolicy:
    """Whoever trusts the service's own word, over TLS."""
    return VerifierPolicy(_raw(answer["keys"]), ServedSigners.parse(json.dumps(answer).encode()))


def _pins(key: bytes) -> Callable[[Any], VerifierPolicy]:
    """Whoever was given one key once, and follows statements."""
    return lambda answer: VerifierPolicy([key], ServedSigners.parse(json.dumps(answer).encode()))


@dataclass
class Rehearsal:
    """A tenant, its fleet, and what happens to them second by second."""

    ports: Ports
    clock: Clock
    tenant: Tenant
    fleet: list[Verifier]
    second: int = 0

    def run(self, seconds: int) -> None:
        """Let time pass: revocations, the schedule, the fleet. Raises `InvalidSrl`."""
        for _ in range(0, seconds, _POLL):
            if self.second % (10 * _MINUTE) == 0:
                self.tenant.revoke(self.ports, f"svc_wrt_{self.second}")
            if self.second % _MINUTE == 0:
                publication.publish_due(self.ports)
            for verifier in self.fleet:
                verifier.live(self.second, self.ports, self.tenant)
            self.clock.advance(seconds=_POLL)
            self.second += _POLL

    def rotate(self) -> bytes:
        """In stages, with the default grace; the new key."""
        pending = list_signers.create(self.ports, self.tenant.operator)
        self.run(_HOUR)
        done = list_signers.activate(self.ports, self.tenant.operator, key_id=pending.record.id)
        return done.record.public_bytes

    @property
    def seed(self) -> bytes:
        """The seed of the key that signs now, as a thief would have it."""
        return seals.unwrap_seed(
            self.ports, in_force.read_active_signer(self.ports, self.tenant.id)
        )

    @property
    def version(self) -> int:
        return in_force.read_srl_head(self.ports, self.tenant.id).version


def _fleet(first: bytes, folder: Path) -> Iterator[Verifier]:
    for offset in (0, 30):
        yield Verifier(_MINUTE, offset, _believes_the_page)
        yield Verifier(_MINUTE, offset, _pins(first))
    # Offline but for a file that somebody brings once in a list's lifetime.
    yield Verifier(50 * _MINUTE, 0, _pins(first))
    yield Verifier(_MINUTE, 30, _pins(first), state=folder / "state")


@pytest.fixture
def rehearsal(ports: Ports, clock: Clock, tmp_path: Path) -> Rehearsal:
    tenant = Tenant.create(ports)
    first = in_force.read_active_signer(ports, tenant.id).public_bytes
    return Rehearsal(ports, clock, tenant, list(_fleet(first, tmp_path)))


@pytest.mark.parametrize("rotations", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_staged_rotations_lock_nobody_out(rehearsal: Rehearsal, rotations: int) -> None:
    """F65a, S5: Repeated staged rotations of the list signer lock no verifier out."""
    rehearsal.run(20 * _MINUTE)
    keys = set()
    for _ in range(rotations):
        keys.add(rehearsal.rotate())
        rehearsal.run(35 * _MINUTE)
    assert len(keys) == rotations
    assert rehearsal.version > 8 * rotations
    assert {verifier.kept.version for verifier in rehearsal.fleet if verifier.kept} == {
        rehearsal.version
    }


def test_a_rotation_without_grace_locks_out_who_did_not_refresh(rehearsal: Rehearsal) -> None:
    """What the stages are for: this rehearsal notices the lack of them."""
    rehearsal.run(20 * _MINUTE)
    list_signers.rotate(rehearsal.ports, rehearsal.tenant.operator)
    with pytest.raises(InvalidSrl, match="none of the given keys"):
        rehearsal.run(_HOUR)


@pytest.mark.slow
def test_a_refreshed_verifier_refuses_the_lists_of_a_stolen_key(rehearsal: Rehearsal) -> None:
    """F66a, S5: A verifier that has read a revocation refuses the revoked signer's lists."""
    rehearsal.run(20 * _MINUTE)
    rehearsal.rotate()
    rehearsal.run(_HOUR)
    stolen, signer = (
        rehearsal.seed,
        in_force.read_active_signer(rehearsal.ports, rehearsal.tenant.id),
    )
    list_signers.revoke(rehearsal.ports, rehearsal.tenant.operator, key_id=signer.id)
    answer = _answer(rehearsal.ports, rehearsal.tenant)
    true = in_force.read_srl_body(
        rehearsal.ports, in_force.read_srl_head(rehearsal.ports, rehearsal.tenant.id)
    )
    now = rehearsal.ports.now()
    forged = srl.Payload(rehearsal.version + 1, now, now + timedelta(hours=1), [])
    lies = _with_the_thiefs_own(answer, rehearsal.tenant, stolen)
    for verifier in rehearsal.fleet:
        trusts_the_service = verifier.policy_of is _believes_the_page
        verifier.policy = verifier.policy_of(answer if trusts_the_service else lies)
        for seed in (stolen, _THIEFS_OWN):
            with pytest.raises(InvalidSrl) as caught:
                verifier.accept(srl.sign(forged, seed=seed), rehearsal.ports)
            assert caught.value.reason == "signature"
        if not trusts_the_service:
            # No statement leads past the stolen key: the next one must be pinned.
            with pytest.raises(InvalidSrl):
                verifier.accept(true, rehearsal.ports)
            verifier.policy_of = _pins(_raw(answer["keys"])[0])
            verifier.policy = verifier.policy_of(answer)
        verifier.accept(true, rehearsal.ports)
    rehearsal.run(_HOUR)


def _with_the_thiefs_own(answer: Any, tenant: Tenant, stolen: bytes) -> Any:
    """The true answer, and in it a key of the thief's for which the stolen key vouches."""
    public_key, previous = map(seeds.public_key, (_THIEFS_OWN, stolen))
    statement = SuccessionStatement(
        tenant_id=tenant.id,
        number=9,
        key_id="svc_key_thief",
        public_key=base64.b64decode(public_key),
        previous=base64.b64decode(previous),
        issued_at=Clock()(),
    )
    form = statement.sign(seed=stolen)
    # Only statements are followed: whoever takes keys from the answer takes it from the service.
    return answer | {
        "keys": [*answer["keys"], {"status": "active", "public_key": public_key, "statement": form}]
    }
