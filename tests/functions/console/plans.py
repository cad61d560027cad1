"""What is seeded: a new tenant, one with two weeks behind it, and two with very much."""

import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from functions.authorizers import registrations
from functions.authorizers.records import Authorizer, AuthorizerDescription
from shared.model.identifiers import AUTHORIZER, SIGNING_KEY
from shared.model.signing_keys import SigningKey
from shared.operations.changes import feed as feed_api
from shared.operations.changes import signing_keys
from shared.ports.store import Expect, Put
from tests.functions.console import fleet
from tests.functions.console.seeds import DAYS, OPENED, Making, make, warrant
from tests.kit.feeds import publish_feed

# Names as people and other programs give them.
MARKUP: Final = '<b>Lost</b> & "found"'
RTL: Final = "مفتاح التوقيع الاحتياطي"
WIDE: Final = "W" * 255

REASONS: Final = (
    "card reported stolen",
    "employee left",
    MARKUP,
    "duplicate of an older warrant",
    "fraud case 2026-1187, see the file of the desk in Lyon",
    RTL,
    WIDE,
)
# Revocations on each day, oldest first. The days begin at noon.
A_DAY: Final = (6, 9, 4, 0, 11, 8, 14, 7, 5, 17, 9, 3, 12, 8)
# Recorded after the last list, so not in it.
WAITING: Final = 7
# From this many minutes before the end on, the feed has no new entry either.
_FEED_STOPS: Final = 5

_TTL: Final = timedelta(hours=4)
_TICK: Final = timedelta(hours=1)
_TICKS_A_DAY: Final = 24
# From this time of the seed on, the schedule did not run for as long: no list was valid at the end.
GAP: Final = (timedelta(days=9, hours=15), timedelta(hours=6))
# Authorizers: how long ago each last reported (None: never), and what is special about it.
_FLEET: Final[dict[str, tuple[timedelta | None, dict[str, Any]]]] = {
    "checkout-eu-1": (timedelta(minutes=1), {}),
    "checkout-eu-2": (timedelta(minutes=3), {}),
    "checkout-us-1": (timedelta(minutes=15), {"max_staleness": 30}),
    "checkout-us-2": (timedelta(hours=5), {"refused": {"signature": 2}}),
    "warehouse-door": (timedelta(days=2), {"fail_open": True}),
    RTL: (timedelta(days=8), {"max_staleness": 60}),
    MARKUP: (None, {}),
}


def nothing(_making: Making) -> None:
    """A tenant of which nothing is known yet."""


def usual(making: Making) -> None:
    """Two weeks: all states of keys, authorizers and revocations, names of all kinds, a gap."""
    seconds = int(_TTL.total_seconds())
    making.call("PATCH", "tenant/settings", name="Acme payments", srl_ttl_seconds=seconds)
    _accounts(making)
    _tree(making)
    for name in _FLEET:
        made = fleet.register(making, making.called(name), type="rescind", version="0.3.0")
        making.seed.ids[_authorizer(name)] = made
    start, revoked = making.clock(), 0
    for step in range(1, DAYS * _TICKS_A_DAY):
        day, of_day = divmod(step - 1, _TICKS_A_DAY)
        since = step * _TICK
        making.clock.moment = start + since
        # One at each tick, until it is enough for the day.
        if revoked < min(sum(A_DAY[: day + 1]), sum(A_DAY[:day]) + of_day):
            _revoke(making, revoked)
            revoked += 1
        if not timedelta() <= since - GAP[0] < GAP[1]:
            making.tick()
        _report(making, _TICK)
    _later_changes(making)
    for left in range(19, -1, -1):
        making.clock.moment = OPENED - timedelta(minutes=left)
        if left in range(4, 4 + WAITING):
            _revoke(making, revoked)
            revoked += 1
        if left > _FEED_STOPS:
            publish_feed(making.tenant.ports, making.tenant.id)
        _report(making, timedelta(minutes=1))


def plain(making: Making) -> None:
    """What `usual` is, with names of one kind, as for the picture in the README."""
    making.names |= {MARKUP: "Night shift", RTL: "Backup", WIDE: "Partners"}
    usual(making)


def many_revocations(making: Making) -> None:
    """10,000 revocations, in the list."""
    making.clock.moment = OPENED - timedelta(hours=1)
    for start in range(0, 10_000, 1000):
        names = [f"svc_wrt_batch-{number:05}" for number in range(start, start + 1000)]
        making.post("revocations/batch", action="revoke", warrant_ids=names, reason="recalled")
    making.tick()


def large_fleet(making: Making) -> None:
    """300 authorizers of mixed names at the newest entry but 30, which are behind by as many."""
    _fleet(making, 300)


def huge_fleet(making: Making) -> None:
    """10,000 authorizers, likewise."""
    _fleet(making, 10_000)


def _fleet(making: Making, size: int) -> None:
    """Store authorizers: the API would register some of so many only, and take minutes for them."""
    making.api_key("edge", "authorizer")
    for number in range(40):
        making.clock.moment = OPENED - timedelta(minutes=50 - number)
        making.post("revocations", warrant_id=f"svc_wrt_fleet-{number}", reason="recalled")
        making.tick()
    making.clock.moment = OPENED - timedelta(minutes=1)
    ports, tenant_id = making.tenant.ports, making.tenant.id
    newest = feed_api.news(ports, making.tenant.operator).head.sequence
    for number in range(size):
        ports.store.write(*registrations.creation(tenant_id, _member(making, number, newest)))


def _member(making: Making, number: int, newest: int) -> Authorizer:
    names = ("edge-gw-eu-west-1-rack", "kiosk", RTL, "legacy-erp@warehouse", "W" * 240)
    described = AuthorizerDescription(f"{names[number % len(names)]}-{number}")
    ports = making.tenant.ports
    made = Authorizer.new(ports.new_id(AUTHORIZER), described, owner="edge", now=making.clock())
    # The one with the number 29 is the furthest behind.
    return replace(made, sequence=newest - min(number, 29) if number < 30 else newest)


def key_tree(making: Making) -> None:
    """The signing keys of `usual` and what people did to them, without the two weeks."""
    making.clock.moment = OPENED - timedelta(hours=2)
    making.api_key("reader", "read-only")
    _tree(making)
    _change_keys(making)


def many_keys(making: Making) -> None:
    """5,000 signing keys: 4 roots, 96 issuers, and about 50 notaries below each."""
    making.clock.moment = OPENED - timedelta(hours=1)
    for number in range(4):
        making.signing_key(f"Root {number}")
    for number in range(96):
        making.signing_key(f"Issuer {number}", f"Root {number % 4}", "issuer")
    _copy_notaries(making, 4900)


def _copy_notaries(making: Making, number: int) -> None:
    """Store notaries below the issuers. They cannot sign; to make them would take half a minute."""
    ports, tenant_id = making.tenant.ports, making.seed.tenant_id
    making.signing_key("Notary 0", "Issuer 0", "notary")
    first = signing_keys.find_key(ports, making.tenant.operator, making.seed.ids["Notary 0"])
    for start in range(1, number, 90):
        copies = [_copied(making, first, of) for of in range(start, min(start + 90, number))]
        ports.store.write(
            *(Put(each.address, each.to_item(), Expect.ABSENT) for each in copies),
            signing_keys.count_change(tenant_id, *((each, 1) for each in copies)),
        )


def _copied(making: Making, first: SigningKey, number: int) -> SigningKey:
    parent_id = making.seed.ids[f"Issuer {number % 96}"]
    root_id = making.seed.ids[f"Root {number % 96 % 4}"]
    key_id = making.tenant.ports.new_id(SIGNING_KEY)
    return replace(
        first,
        id=key_id,
        name=f"Notary {number}",
        parent_id=parent_id,
        ancestors=(parent_id, root_id),
    )


def _accounts(making: Making) -> None:
    for name in ("fraud-desk", "build-farm", "night-shift"):
        making.named("service-accounts", name, description=f"{making.called(MARKUP)} of {name}")
    making.api_key("reader", "read-only")
    making.api_key("edge", "authorizer", days=90)
    making.api_key("desk", "revoker", days=DAYS + 5, account="fraud-desk")
    making.api_key("signer", "signer", account="build-farm")
    making.api_key("auditor", "auditor", days=DAYS + 1)
    making.api_key("ended", "admin", days=7)
    making.api_key("lost", "admin")
    making.api_key(MARKUP, "read-only", account="night-shift")
    making.api_key(RTL, "authorizer")
    making.api_key(WIDE, "authorizer")


def _tree(making: Making) -> None:
    making.signing_key("Head office")
    making.signing_key("Payments", "Head office", "issuer")
    making.signing_key("Cards", "Payments", "issuer")
    making.signing_key("Card desk", "Cards", "notary", warrants=14)
    making.signing_key("Card machines", "Cards", "notary", warrants=8)
    making.signing_key("Transfers", "Payments", "notary", warrants=5)
    making.signing_key("Build farm", "Head office", "issuer")
    making.signing_key("Releases", "Build farm", "notary", warrants=3)
    making.signing_key("Nightly", "Build farm", "notary", warrants=1)
    making.signing_key(MARKUP, "Head office", "notary", warrants=2)
    making.signing_key(RTL, "Head office", "notary")
    making.signing_key("Acquired company")
    making.signing_key(WIDE, "Acquired company", "issuer")
    making.signing_key("Old desk", WIDE, "notary", warrants=4)


def _change_keys(making: Making) -> None:
    ids = making.seed.ids
    making.clock.moment = OPENED - timedelta(hours=1)
    for name, times_ in (("Card desk", 3), ("Build farm", 1), ("Releases", 1)):
        for _ in range(times_):
            making.post(f"keys/{ids[name]}/rotate")
    making.sign("Card desk", 14)
    for name in ("Nightly", WIDE):
        making.post(f"keys/{ids[name]}/suspend")
    making.post(f"keys/{ids['Old desk']}/revoke", reason="desk closed")
    making.post(f"keys/{ids['Transfers']}/revoke", reason=making.called(MARKUP))


def _later_changes(making: Making) -> None:
    """What people did on the last day, before the last revocations."""
    ids = making.seed.ids
    _change_keys(making)
    making.post(f"api-keys/{ids['lost']}/revoke")
    making.post(f"service-accounts/{ids['night-shift']}/disable")
    making.post("revocations/srl/keys")
    making.clock.moment = OPENED - timedelta(minutes=20)
    making.tick()


def _revoke(making: Making, number: int) -> None:
    """Revoke the warrant of this number; every fourth was signed here, the desk revokes most."""
    key_id = making.seed.ids["Card desk"]
    signed = warrant(key_id, number // 4) if number % 4 == 0 and number < 4 * 14 else ""
    making.post(
        "revocations",
        "admin" if number % 5 == 0 else "desk",
        warrant_id=signed or f"svc_wrt_order-{number:04}",
        reason=making.called(REASONS[number % len(REASONS)]),
    )


def _report(making: Making, within: timedelta) -> None:
    """Let those authorizers report whose last report was within this time before now."""
    now = making.clock()
    for name, (ago, special) in _FLEET.items():
        if ago is None or not now - within < OPENED - ago <= now:
            continue
        held = feed_api.news(making.tenant.ports, making.tenant.operator).head.sequence
        fleet.beat(making, making.seed.ids[_authorizer(name)], sequence=held, **special)


def _authorizer(name: str) -> str:
    return f"authorizer {name}"


if __name__ == "__main__":
    make(globals()[sys.argv[1]], Path(sys.argv[2]))
