"""Warrants and their chain of keys, by a bundle of the real service (TRUST-4)."""

import base64
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.authorizer.formats.signing_keys import PublishedKey, PublishedKeys
from shared.authorizer.formats.warrants import (
    CLOCK_TOLERANCE,
    Claims,
    InvalidWarrant,
    WarrantReason,
)
from shared.authorizer.trust import KeyBundle, TrustReason
from shared.model import seeds, warrant_format
from tests.authorizer.bundles import ISSUER_ID, ROOT_ID, bundled, published
from tests.authorizer.formats.peers import KEY, SEED, TENANT, peer
from tests.functions import signing
from tests.kit.api import Tenant
from tests.kit.worlds import Clock


def bundle(tenant: Tenant) -> KeyBundle:
    return bundled(published(tenant))


def signed(tenant: Tenant, key_id: str, **fields: Any) -> bytes:
    answer = signing.sign(tenant, key_id, **fields)
    assert answer.status_code == 201, answer.text
    return base64.b64decode(answer.json()["warrant"])


def refused(found: KeyBundle, warrant: bytes, *, now: datetime) -> str:
    with pytest.raises(InvalidWarrant) as caught:
        found.verify(warrant, now=now)
    return str(caught.value.reason)


# --- the real service ---


def test_a_chain_to_the_root(tenant: Tenant, clock: Clock) -> None:
    """TRUST-4, F203a: A warrant is accepted with its keys, from the one that signed to the root."""
    root = signing.create(tenant)
    issuer = signing.child(tenant, root)
    notary = signing.child(tenant, issuer, "notary")
    signing.moved(tenant, notary["id"], "rotate")
    warrant = signed(tenant, notary["id"], warrant_id="svc_wrt_a")
    found = bundle(tenant)
    verified = found.verify(warrant, now=clock())
    assert verified.id == "svc_wrt_a"
    assert verified.claims.payload == b"pay"
    kids = [each.kid.decode() for each in verified.keys]
    assert kids == [f"{notary['id']}#2", f"{issuer['id']}#1", f"{root['id']}#1"]
    other = signed(tenant, root["id"], warrant_id="svc_wrt_b")
    chain = found.verify_chain([other, warrant], now=clock())
    assert [each.id for each in chain] == ["svc_wrt_b", "svc_wrt_a"]


_ACTIONS = ["create", *["sign"] * 4, "rotate", "suspend", "enable", "enable", "revoke"]


@pytest.mark.slow
def test_a_bundle_agrees_with_checks(tenant: Tenant, clock: Clock) -> None:
    """F203b: After any changes of keys, a bundle refuses exactly the warrants of revoked keys."""
    chance = random.Random(2)
    keys = [str(signing.create(tenant)["id"])]
    made: dict[str, bytes] = {}
    for step in range(120):
        clock.advance(minutes=chance.choice([0, 1, 20]))
        key_id = chance.choice(keys)
        match chance.choice(_ACTIONS):
            case "create":
                body = {"type": "issuer", "name": "k", "parent_id": key_id}
                answer = tenant.admin.post("/v1/keys", json=body)
                keys += [answer.json()["id"]] if answer.status_code == 201 else []
            case "sign":
                answer = signing.sign(tenant, key_id, warrant_id=f"svc_wrt_{step}")
                if answer.status_code == 201:
                    made[f"svc_wrt_{step}"] = base64.b64decode(answer.json()["warrant"])
            case "revoke" if chance.random() < 0.4:
                version = chance.choice(signing.versions(tenant, key_id))["key_id"]
                signing.moved(tenant, version, "revoke", cascade=chance.random() < 0.2)
            case "revoke":
                keys.append(str(signing.create(tenant)["id"]))
            case action:
                signing.move(tenant, key_id, action)
    found = bundle(tenant)
    verdicts = []
    for warrant_id, warrant in made.items():
        verdicts.append(signing.is_revoked(tenant, warrant_id))
        if verdicts[-1]:
            assert refused(found, warrant, now=clock()) == TrustReason.REVOKED
        else:
            assert found.verify(warrant, now=clock()).id == warrant_id
    assert len(verdicts) > 20
    assert 5 < sum(verdicts) < len(verdicts) - 5


# --- each check, by keys of our own ---

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
MADE = START - timedelta(hours=1)
OURS = Claims(TENANT, "svc_wrt_a", START, None, b"pay")


def entry(key_id: str, seed: bytes, **members: Any) -> PublishedKey:
    public_key = base64.b64decode(seeds.public_key(seed))
    made = PublishedKey(key_id, 1, "issuer", "active", public_key, MADE)
    return made._replace(**members)


def keys(
    root: dict[str, Any] | None = None, issuer: dict[str, Any] | None = None, *more: PublishedKey
) -> KeyBundle:
    made = [
        entry(ISSUER_ID, bytes(32), parent_id=ROOT_ID)._replace(**(issuer or {})),
        entry(ROOT_ID, bytes([1] * 32), type="root")._replace(**(root or {})),
        *more,
    ]
    made.sort(key=lambda each: (each.key_id, each.version))
    return bundled(PublishedKeys(TENANT, tuple(made)))


def warrant(claims: Claims = OURS, *, version: int = 1, seed: bytes = bytes(32)) -> bytes:
    return warrant_format.sign(claims, key_id=ISSUER_ID, key_version=version, seed=seed).encode()


AT = datetime(2026, 11, 21, 11, 30, tzinfo=UTC)
SUSPENDED = {"status": "suspended", "suspended_at": AT}
REVOKED = {"status": "revoked", "revoked_at": AT}


@pytest.mark.parametrize(
    ("root", "issuer", "reason"),
    [
        ({}, {}, None),
        ({}, {"version": 2}, "key"),
        ({}, {"public_key": base64.b64decode(seeds.public_key(SEED))}, "signature"),
        ({}, REVOKED, "revoked"),
        ({}, {"status": "revoked"}, "revoked"),
        ({}, {"status": "invented"}, "revoked"),
        ({}, {"rotated_at": AT, "status": "rotated"}, "revoked"),
        ({}, {"parent_id": None}, "chain"),
        ({}, {"parent_id": KEY}, "chain"),
        ({"type": "issuer"}, {}, "chain"),
        ({"parent_id": ISSUER_ID}, {}, "chain"),
        ({}, SUSPENDED, "signed_at"),
        ({}, {"expires_at": AT}, "signed_at"),
        ({}, {"created_at": START + timedelta(minutes=6)}, "signed_at"),
        (SUSPENDED, {}, "signed_at"),
        (REVOKED, {}, "signed_at"),
        ({"status": "revoked"}, {}, "signed_at"),
        ({"status": "invented"}, {}, "signed_at"),
        ({"expires_at": AT}, {}, "signed_at"),
    ],
)
def test_each_check(root: dict[str, Any], issuer: dict[str, Any], reason: str | None) -> None:
    """TRUST-4, F203c: A warrant is refused by the states, times and parents of its keys."""
    found = keys(root, issuer)
    if reason is None:
        assert found.verify(warrant(), now=START).claims == OURS
        return
    assert refused(found, warrant(), now=START) == reason


@pytest.mark.parametrize("name", ["suspended_at", "expires_at", "revoked_at"])
def test_clocks_may_differ(name: str) -> None:
    """TRUST-4: The times of keys have a tolerance of five minutes, in favour of the warrant."""
    state = {"suspended_at": "suspended", "revoked_at": "revoked"}.get(name, "active")
    found = keys({name: AT, "status": state})
    last = AT + CLOCK_TOLERANCE
    found.verify(warrant(replace(OURS, issued_at=last)), now=START)
    late = warrant(replace(OURS, issued_at=last + timedelta(seconds=1)))
    assert refused(found, late, now=START) == "signed_at"


def test_a_superseded_version() -> None:
    """F203: its warrants stay valid, until the key as a whole is revoked; it signs no more."""
    old = entry(ISSUER_ID, SEED, parent_id=ROOT_ID, status="rotated", rotated_at=AT)
    present: dict[str, Any] = {"version": 2}
    early = replace(OURS, issued_at=AT)
    for state, reason in (({}, None), (REVOKED, "revoked"), (SUSPENDED, None)):
        found = keys(None, present | state, old)
        if reason is None:
            assert found.verify(warrant(early, seed=SEED), now=START).keys[0].version == 1
            assert refused(found, warrant(seed=SEED), now=START) == "signed_at"
        else:
            assert refused(found, warrant(early, seed=SEED), now=START) == reason
    # A version whose key is not in the bundle.
    root = entry(ROOT_ID, bytes([1] * 32), type="root")
    found = bundled(PublishedKeys(TENANT, (root, old)))
    assert refused(found, warrant(early, seed=SEED), now=START) == "revoked"


def test_the_checks_of_a_warrant_come_first() -> None:
    """TRUST-4: The reasons of WARRANT-9 are given as without a bundle."""
    found = keys()
    assert refused(found, b"", now=START) == WarrantReason.MALFORMED
    foreign = replace(OURS, tenant_id=f"{TENANT[:-1]}0")
    assert refused(found, warrant(foreign), now=START) == WarrantReason.ISSUER
    assert refused(found, warrant(), now=START - timedelta(hours=1)) == WarrantReason.FUTURE
    ending = replace(OURS, expires_at=START + timedelta(seconds=1))
    late = START + timedelta(seconds=1)
    assert refused(found, warrant(ending), now=late) == WarrantReason.EXPIRED


# --- the witness ---


@pytest.mark.slow
def test_the_library_accepts_the_key_of_the_bundle(tenant: Tenant, clock: Clock) -> None:
    """F203d: An independent library verifies the service's warrants by the bundle's public keys."""
    key_id = str(signing.create(tenant)["id"])
    made = signed(tenant, key_id)
    key = bundle(tenant).verify(made, now=clock()).keys[0]
    material = {"public_key": key.public_key.hex(), "kid": key.kid.hex()}
    read = peer("read", warrant=made.hex(), **material)
    assert read["protected"]["4"] == {"bytes": key.kid.hex()}
    assert read["claims"]["1"] == tenant.id
