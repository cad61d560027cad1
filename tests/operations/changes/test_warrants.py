"""Signing in races: one identifier one warrant, and nothing signed outlives its key."""

import pytest

from shared.errors import Conflict, DataCorrupt, InvalidState
from shared.model.revocations import SignerRevocation, marker_address, marker_count_address
from shared.model.signing_keys import SigningKey, WarrantSigner
from shared.model.warrants import COUNTERS
from shared.operations.changes import revocations, signing_keys, warrants
from shared.operations.changes.warrants import SignedWarrant, SignRequest
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.kit.faults import Script, scripted
from tests.kit.reads import reading
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.races import races

pytestmark = pytest.mark.usefixtures("at_once")

WARRANT = "svc_wrt_contested"

Line = tuple[Tenant, list[SigningKey]]


def line(ports: Ports) -> Line:
    """A root, an issuer below it, and one below that."""
    tenant = Tenant.another(ports)
    root = tenant.key(ports)
    issuer = tenant.key(ports, root)
    return tenant, [root, issuer, tenant.key(ports, issuer)]


def sign(ports: Ports, world: Line) -> SignedWarrant:
    tenant, keys = world
    order = SignRequest(b"grant", warrant_id=WARRANT)
    return warrants.sign(ports, tenant.operator, key_id=keys[-1].id, order=order)


def listed(ports: Ports, world: Line) -> int:
    """How many warrants the last key signed, as the list and its total say."""
    tenant, keys = world
    page = warrants.page(ports, tenant.operator, key_id=keys[-1].id, before=None, limit=100)
    assert len(page.entries) == page.total
    return page.total


def change(ports: Ports, world: Line, action: str, level: int) -> SigningKey:
    tenant, keys = world
    if action == "suspend":
        return tenant.suspend(ports, keys[level])
    return tenant.revoke_key(ports, keys[level], cascade=action == "cascade")


def test_two_signatures_with_one_identifier(ports: Ports) -> None:
    """F30a: Of two signatures under one identifier at once, one is refused and leaves nothing."""
    for race in races(ports, line, sign, sign):
        tenant, _ = race.world
        assert {type(race.first), type(race.second)} == {SignedWarrant, Conflict}
        assert listed(ports, race.world) == 1
        assert tenant.actions(ports).count("key.sign") == 1
        tenant.check_totals(ports)


@pytest.mark.slow_on("0", "suspend")
@pytest.mark.parametrize("action", ["suspend", "revoke", "cascade"])
@pytest.mark.parametrize("level", [0, pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("signs_first", [True, False])
def test_signing_while_the_line_is_cut(
    ports: Ports, action: str, level: int, signs_first: bool
) -> None:
    """F29b: No signature goes out if its key or an ancestor was suspended or revoked meanwhile.

    If the warrant was stored by then, it is what the change makes of it, as any other is.
    """

    def cut(through: Ports, world: Line) -> SigningKey:
        return change(through, world, action, level)

    stored, order = set[int](), (sign, cut) if signs_first else (cut, sign)
    for race in races(ports, line, *order):
        tenant, keys = race.world
        number = listed(ports, race.world)
        stored.add(number)
        if signs_first:
            assert isinstance(race.first, InvalidState)
        else:
            assert isinstance(race.first, SigningKey)
            assert isinstance(race.second, SignedWarrant if number else InvalidState)
        reached = action == "cascade" or (action == "revoke" and level == len(keys) - 1)
        revoked = bool(reached and number)
        assert tenant.is_revoked(ports, WARRANT) == revoked
        assert tenant.regenerate(ports).revoked_ids == ([WARRANT] if revoked else [])
        tenant.check_totals(ports)
    assert stored == {0, 1} or not signs_first


def test_signing_while_a_revocation_of_the_key_shows_in_part(ports: Ports) -> None:
    """S4: A warrant is not handed out if the marker of its key shows before the key's status."""
    world, rehearsal = line(ports), Script()
    sign(scripted(ports, rehearsal), world)
    tenant, keys = world = line(ports)
    marker = SignerRevocation(ports.now(), "stolen")
    change = Put(
        marker_address(tenant.id, WarrantSigner(keys[-1].id, None)),
        marker.to_item(),
        Expect.ABSENT,
    )
    stored = rehearsal.calls.index("write")
    script = Script(after={stored: lambda: ports.store.write(change)})
    with pytest.raises(InvalidState):
        sign(scripted(ports, script), world)


def test_signing_while_the_identifier_is_revoked(ports: Ports) -> None:
    """F30: an identifier that was revoked is signed no more; one that was signed is revoked."""
    for race in races(ports, line, sign, lambda p, w: w[0].revoke(p, WARRANT)):
        tenant, _ = race.world
        assert isinstance(race.first, SignedWarrant if listed(ports, race.world) else Conflict)
        assert tenant.is_revoked(ports, WARRANT)
        tenant.check_totals(ports)


def test_revoking_an_identifier_while_it_is_signed(ports: Ports) -> None:
    """F30: the revocation holds, whether the warrant was there when it began or not."""
    for race in races(ports, line, lambda p, w: w[0].revoke(p, WARRANT), sign):
        tenant, _ = race.world
        assert isinstance(race.second, SignedWarrant)
        assert tenant.is_revoked(ports, WARRANT)
        assert tenant.regenerate(ports).revoked_ids == [WARRANT]
        tenant.check_totals(ports)


def test_signing_while_the_key_is_rotated(ports: Ports) -> None:
    """The signature is of the version that the warrant names, whenever the rotation came."""

    def rotate(through: Ports, world: Line) -> SigningKey:
        return signing_keys.rotate(through, world[0].operator, key_id=world[1][-1].id)

    versions = set[int]()
    for race in races(ports, line, sign, rotate):
        tenant, keys = race.world
        assert isinstance(race.first, SignedWarrant)
        assert isinstance(race.second, SigningKey)
        new, old = tenant.versions(ports, keys[-1])
        signer = {2: new, 1: old}[race.first.warrant.key_version]
        versions.add(signer.key_version)
        assert race.first.public_key == signer.public_key
        tenant.revoke_key(ports, old)
        assert tenant.is_revoked(ports, WARRANT) == (signer == old)
        tenant.check_totals(ports)
    assert versions == {1, 2}


def test_an_ancestor_that_is_missing(ports: Ports) -> None:
    """F10: a key whose line cannot be read signs nothing; it is never taken for active."""
    tenant, keys = world = line(ports)
    ports.store.write(Delete(keys[0].address, Expect.PRESENT))
    with pytest.raises(DataCorrupt):
        sign(ports, world)
    assert listed(ports, (tenant, keys)) == 0


def test_a_seed_that_is_missing(ports: Ports) -> None:
    """F10: an active key without its seed is a broken record, and signs nothing."""
    _, keys = world = line(ports)
    item = dict(keys[-1].to_item())
    del item["sealed_seed"]
    ports.store.write(Put(keys[-1].address, item, Expect.PRESENT))
    with pytest.raises(DataCorrupt):
        sign(ports, world)


@pytest.mark.parametrize("damaged", ["marker", "count"])
def test_a_revoked_signer_that_cannot_be_read(ports: Ports, damaged: str) -> None:
    """F10: if it cannot be known whether and when a key was revoked, there is no verdict at all."""
    tenant, keys = world = line(ports)
    sign(ports, world)
    tenant.rotate(ports, keys[-1])
    old = tenant.versions(ports, keys[-1])[1]
    tenant.revoke_key(ports, old)
    addresses = {
        "marker": marker_address(tenant.id, old.signer),
        "count": marker_count_address(tenant.id),
    }
    ports.store.write(Put(addresses[damaged], {"version": 1}, Expect.PRESENT))
    with pytest.raises(DataCorrupt):
        tenant.is_revoked(ports, WARRANT)


def test_a_revoked_key_whose_record_is_lost(ports: Ports) -> None:
    """F10: when and why it was revoked is in its marker, so checks go on."""
    tenant, keys = world = line(ports)
    sign(ports, world)
    tenant.revoke_key(ports, keys[-1])
    ports.store.write(Delete(keys[-1].address, Expect.PRESENT))
    verdict = revocations.check(ports, tenant.operator, warrant_id=WARRANT)
    assert (verdict.revoked, verdict.reason) == (True, "lost")


def test_a_superseded_version_is_read_alone(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F129a: The warrants of a superseded version are listed without reading those of others."""
    key = tenant.key(ports)
    counts: dict[int, int] = {}
    for version, number in ((1, 60), (2, 10), (3, 60)):
        made = [tenant.sign(ports, key) for _ in range(number)]
        counts[version] = len(made)
        clock.advance(days=2)
        tenant.rotate(ports, key)
        clock.advance(days=2)
    versions = tenant.versions(ports, key)
    second = next(each for each in versions if each.key_version == 2)
    before = None
    for size in (6, 4):
        with reading(ports) as (watched, reads):
            page = warrants.page(watched, tenant.operator, key_id=second.id, before=before, limit=6)
        assert {each.key_version for each in page.entries} == {2}
        assert (len(page.entries), page.total) == (size, 10)
        assert reads.items <= 8 + COUNTERS
        assert reads.units <= 3
        before = page.next_before
    assert before is None


@pytest.mark.parametrize("hours", [1, 20, 80])
def test_a_version_has_what_it_signed_whatever_the_clock_was(
    ports: Ports, tenant: Tenant, clock: Clock, hours: int
) -> None:
    """F129b: A version lists what it signed although the clock moved before its rotation."""
    key = tenant.key(ports)
    signed = {}
    for version in (1, 2, 3):
        signed[version] = [tenant.sign(ports, key) for _ in range(2)]
        clock.advance(hours=hours if version % 2 == 0 else -hours)
        tenant.rotate(ports, key)
    for each in tenant.versions(ports, key)[1:]:
        page = warrants.page(ports, tenant.operator, key_id=each.id, before=None, limit=10)
        assert {w.warrant_id for w in page.entries} == set(signed[each.key_version])
