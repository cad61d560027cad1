"""Signing in every schedule beside a revocation of the key: what is handed out does not escape.

`tests/world/explore.py` says what a schedule is. Nobody waits for a second look here: what was
handed out is on the next list.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from shared.errors import InvalidState
from shared.model import revocations as revocation_model
from shared.model.signing_keys import SigningKey
from shared.operations.base import operation
from shared.operations.changes import key_revocation, srl, warrants
from shared.operations.changes.warrants import Order, SignedWarrant
from shared.operations.lists import publication
from shared.ports import Ports
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.world.explore import Actor, Run, Start, explore, in_memory, rest

SIGNED, LATE = "svc_wrt_signed", "svc_wrt_late"


@dataclass
class Scene:
    """A root and an issuer below it, which has signed a warrant."""

    world: Start
    tenant: Tenant
    root: SigningKey
    key: SigningKey


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(operation, "PACING", operation.Pacing(3600, 0, 1, sleep=_pause))
    # So that a cascade over two keys takes two writes.
    monkeypatch.setattr(key_revocation, "_KEYS_A_WRITE", 1)
    monkeypatch.setattr(revocation_model, "SHARDS", 5)
    ports = in_memory(tmp_path, Clock())
    tenant = Tenant.create(ports)
    root = tenant.key(ports)
    key = tenant.key(ports, root)
    tenant.sign(ports, key, SIGNED)
    assert publication.publish_if_due(ports, tenant.id) is False
    return Scene(Start(ports), tenant, root, key)


def _pause(seconds: float) -> None:
    if seconds:
        rest()


def _signer(scene: Scene, ports: Ports) -> object:
    order = Order(b"grant", warrant_id=LATE)
    try:
        return warrants.sign(ports, scene.tenant.operator, key_id=scene.key.id, order=order)
    except InvalidState:
        return None


def _revoker(scene: Scene, ports: Ports) -> object:
    return scene.tenant.revoke_key(ports, scene.key)


def _cascade(scene: Scene, ports: Ports) -> object:
    return scene.tenant.revoke_key(ports, scene.root, cascade=True)


def _publisher(scene: Scene, ports: Ports) -> object:
    return srl.regenerate(ports, scene.tenant.operator)


def _rebuilder(scene: Scene, ports: Ports) -> object:
    operator = scene.tenant.operator
    return operation.settle(lambda: publication.publish(ports, operator, anew=True))


_ACTORS: dict[str, Callable[[Scene, Ports], object]] = {
    "signer": _signer,
    "revoker": _revoker,
    "cascade": _cascade,
    "publisher": _publisher,
    "rebuilder": _rebuilder,
}


def cast(scene: Scene, names: str) -> dict[str, Actor]:
    return {name: partial(_ACTORS[name], scene) for name in names.split(", ")}


def _prove(scene: Scene, run: Run) -> bool:
    """Whether the late warrant was handed out; if so, the revocation has it, as it has the other.

    Nothing that is due later is waited for, and no clock goes on.
    """
    ports, tenant = scene.world.ports, scene.tenant
    handed_out = isinstance(run.outcomes["signer"], SignedWarrant)
    assert handed_out or run.outcomes["signer"] is None, run.outcomes["signer"]
    expected = {SIGNED, LATE} if handed_out else {SIGNED}
    assert {each for each in expected if tenant.is_revoked(ports, each)} == expected
    publication.publish_due(ports)
    assert set(tenant.published(ports).revoked_ids) - {LATE} == {SIGNED}
    if handed_out:
        assert LATE in tenant.published(ports).revoked_ids
    tenant.check_totals(ports)
    return handed_out


@contextmanager
def _reporting(run: Run) -> Iterator[None]:
    try:
        yield
    except AssertionError as error:
        error.add_note(f"in this schedule:\n{run}")
        raise


def prove(scene: Scene, names: str, torn: str = "") -> None:
    """What holds after every schedule; in some, the warrant is handed out, in others it is not."""
    outcomes = list[bool]()
    mutable = [each for each in torn.split(", ") if each]
    for run in explore(scene.world, cast(scene, names), torn=mutable):
        with _reporting(run):
            outcomes.append(_prove(scene, run))
    print(f"{names}: {len(outcomes)} schedules, handed out in {sum(outcomes)}")
    assert set(outcomes) == {True, False}


@pytest.mark.parametrize(
    ("names", "torn"),
    [
        ("signer, revoker", ""),
        ("signer, cascade", ""),
        ("signer, revoker, publisher", ""),
        ("signer, revoker", "signer, revoker"),
        pytest.param("signer, cascade, publisher", "", marks=pytest.mark.slow),
        pytest.param("signer, revoker, publisher", "revoker", marks=pytest.mark.slow),
        pytest.param("signer, revoker, rebuilder", "revoker", marks=pytest.mark.long),
    ],
)
def test_no_warrant_escapes_the_revocation_of_its_key(scene: Scene, names: str, torn: str) -> None:
    """F135a: A warrant that a key signs while it is revoked is listed or never handed out."""
    prove(scene, names, torn)
