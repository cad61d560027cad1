"""A flipped bit in the SQLite file: no revoked warrant is ever answered "not revoked"."""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from shared.errors import DataCorrupt, InvalidSettings, Unavailable
from shared.model.warrants import warrant_address
from shared.operations.lists import records
from shared.operations.lists.verdicts import read_statuses
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.tenants import Tenant, item_at
from tests.kit.worlds import Clock, close, embedded

_REVOKED = 180
_SIGNED = 20
_SEED = 20261122


@dataclass(frozen=True)
class Image:
    """A database file with revoked warrants, most by records of their own and some by their key."""

    folder: Path
    content: bytes
    tenant_id: str
    revoked: list[str]
    signers: tuple[str, ...]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("image")
    ports = embedded(folder, Clock(), store=str(folder / "svc.db"))
    tenant = Tenant.create(ports)
    key = tenant.key(ports)
    revoked = [tenant.sign(ports, key, f"svc_wrt_signed-{n:02}") for n in range(_SIGNED)]
    tenant.revoke_key(ports, key)
    for number in range(_REVOKED):
        tenant.revoke(ports, f"svc_wrt_{number:03}")
        revoked.append(f"svc_wrt_{number:03}")
    signers = records.read_revoked_signers(ports, tenant.id)
    close(ports)
    content = (folder / "svc.db").read_bytes()
    return Image(folder, content, tenant.id, sorted(revoked), signers)


def flipped(image: Image, bit: int, at: Path) -> Ports:
    """Ports on a copy in which one bit is another one."""
    for name in ("svc.db", "svc.db-wal", "svc.db-shm"):
        (at / name).unlink(missing_ok=True)
    content = bytearray(image.content)
    content[bit // 8] ^= 1 << bit % 8
    (at / "svc.db").write_bytes(content)
    return embedded(image.folder, Clock(), store=str(at / "svc.db"))


def outcomes(image: Image, bit: int, at: Path) -> Counter[str]:
    """What came of a check of each revoked warrant, and of a rebuilt list."""
    try:
        ports = flipped(image, bit, at)
    except (Unavailable, InvalidSettings):
        return Counter(["not opened"])
    try:
        found = Counter(_check(ports, image, each) for each in image.revoked)
        return found + Counter([_rebuild(ports, image)])
    finally:
        close(ports)


def _check(ports: Ports, image: Image, warrant_id: str) -> str:
    try:
        verdict = read_statuses(ports, image.tenant_id, [warrant_id])[warrant_id]
    except Unavailable:
        return "unavailable"
    return "right" if verdict.revoked else "wrong"


def _rebuild(ports: Ports, image: Image) -> str:
    try:
        found = records.scan_revoked(ports, image.tenant_id, image.signers)
        listed = found.content.revoked_ids
    except Unavailable:
        return "no list"
    return "right list" if listed == image.revoked else "wrong list"


def trials(image: Image, at: Path, bits: Iterable[int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for bit in bits:
        here = outcomes(image, bit, at)
        assert not here["wrong"] + here["wrong list"], (bit // 8, bit % 8, here)
        found += here
    return found


def anywhere(image: Image, number: int) -> list[int]:
    chance = random.Random(_SEED)
    return [chance.randrange(len(image.content) * 8) for _ in range(number)]


@pytest.mark.slow
def test_no_flipped_bit_is_read_as_not_revoked(image: Image, tmp_path: Path) -> None:
    """F54a, S6: If any bit of `svc.db` is flipped, each answer is right or is an error."""
    found = trials(image, tmp_path, anywhere(image, 120))
    assert found["right"]
    assert found["unavailable"]
    assert found["no list"]


@pytest.mark.parametrize(
    "number",
    [pytest.param(800, marks=pytest.mark.slow), pytest.param(20_000, marks=pytest.mark.long)],
)
def test_many_flipped_bits(image: Image, tmp_path: Path, number: int) -> None:
    """F54: the same for more bits, and for each bit of the header, which says how it is read."""
    header = range(100 * 8)
    assert trials(image, tmp_path, [*header, *anywhere(image, number)])["not opened"]


@pytest.mark.parametrize("lost", ["revocation_id", "revoked_at"])
def test_half_a_revocation_is_no_answer(ports: Ports, tenant: Tenant, lost: str) -> None:
    """S6: A record that lacks a part of its revocation is a fault, and never "not revoked"."""
    tenant.revoke(ports, "svc_wrt_half")
    address = warrant_address(tenant.id, "svc_wrt_half")
    item = item_at(ports, address)
    ports.store.write(Put(address, {**item, lost: None}, Expect.PRESENT))
    with pytest.raises(DataCorrupt, match="revocation"):
        read_statuses(ports, tenant.id, ["svc_wrt_half"])
