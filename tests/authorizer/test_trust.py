"""Warrants and their chain of keys, by a bundle of the real service (TRUST-4)."""

import base64
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.authorizer import trust
from shared.authorizer.formats.warrants import (
    CLOCK_TOLERANCE,
    Claims,
    InvalidWarrant,
    WarrantReason,
)
from shared.authorizer.trust import Bundle, BundleChanged, NoBundle, TrustReason
from shared.model import seeds, trust_bundle, warrant_format
from tests.authorizer.formats.peers import KEY, SEED, TENANT, peer
from tests.functions import signing
from tests.kit.api import Client, Tenant
from tests.kit.worlds import Clock


@dataclass(frozen=True)
class Answered:
    """What the client's transport returns."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Caller:
    """An authorizer that asks the service over HTTP."""

    client: Client
    asked: int = 0

    def __call__(self, path: str, *, limit: int, etag: str | None = None) -> Answered:
        self.asked += 1
        found = self.client.get(path, headers={"If-None-Match": etag} if etag else {})
        assert len(found.content) <= limit
        headers = {name.lower(): value for name, value in found.headers.items()}
        return Answered(found.status_code, headers, found.content)


def bundle(tenant: Tenant) -> Bundle:
    return trust.read(Caller(tenant.authorizer), held=None)


def signed(tenant: Tenant, key_id: str, **fields: Any) -> bytes:
    answer = signing.sign(tenant, key_id, **fields)
    assert answer.status_code == 201, answer.text
    return base64.b64decode(answer.json()["warrant"])


def refused(found: Bundle, warrant: bytes, *, now: datetime) -> str:
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


def test_a_poll_that_confirms(tenant: Tenant, clock: Clock) -> None:
    """TRUST-3: A client keeps its bundle if the service confirms it, and reads a changed one."""
    signing.create(tenant)
    caller = Caller(tenant.authorizer)
    held = trust.read(caller, held=None)
    clock.advance(minutes=7)
    settled = trust.read(caller, held=held)
    assert settled is not held
    assert trust.read(caller, held=settled) is settled
    signing.create(tenant)
    assert len(trust.read(caller, held=settled).keys) == 2


def test_pages_of_one_revision(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """TRUST-2: A client reads all pages, and begins again if the keys change between two."""
    monkeypatch.setattr(trust_bundle, "PAGE", 2)
    for _ in range(5):
        signing.create(tenant)
    caller = Caller(tenant.authorizer)
    found = trust.read(caller, held=None)
    assert (len(found.keys), len(found.signers), caller.asked) == (5, 1, 3)

    def changing(path: str, *, limit: int, etag: str | None = None) -> Answered:
        signing.create(tenant)
        return caller(path, limit=limit, etag=etag)

    with pytest.raises(BundleChanged):
        trust.read(changing, held=None)


# --- each check, by keys of our own ---

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ROOT_ID, ISSUER_ID = "svc_key_01m7yzmhg014scvmqfzcb3mfmr", "svc_key_01m7yzmhg014scvmqfzcb3mfms"
OURS = Claims(TENANT, "svc_wrt_a", START, None, b"pay")


def entry(key_id: str, seed: bytes, **members: Any) -> dict[str, Any]:
    return {
        "key_id": key_id,
        "key_version": 1,
        "type": "issuer",
        "status": "active",
        "parent_id": None,
        "public_key": seeds.public_key(seed),
        "created_at": "2026-11-21T11:00:00Z",
        "expires_at": None,
    } | members


def page(
    root: dict[str, Any] | None = None, issuer: dict[str, Any] | None = None
) -> dict[str, Any]:
    keys = [
        entry(ISSUER_ID, bytes(32), parent_id=ROOT_ID) | (issuer or {}),
        entry(ROOT_ID, bytes([1] * 32), type="root") | (root or {}),
    ]
    return {"tenant_id": TENANT, "revision": "r", "keys": keys, "list_signers": []}


def warrant(claims: Claims = OURS, *, version: int = 1, seed: bytes = bytes(32)) -> bytes:
    return warrant_format.sign(claims, key_id=ISSUER_ID, key_version=version, seed=seed).encode()


AT = "2026-11-21T11:30:00Z"
SUSPENDED = {"status": "suspended", "suspended_at": AT}
REVOKED = {"status": "revoked", "revoked_at": AT}


@pytest.mark.parametrize(
    ("root", "issuer", "reason"),
    [
        ({}, {}, None),
        ({}, {"key_version": 2}, "key"),
        ({}, {"public_key": seeds.public_key(SEED)}, "signature"),
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
        ({}, {"created_at": "2026-11-21T12:06:00Z"}, "signed_at"),
        (SUSPENDED, {}, "signed_at"),
        (REVOKED, {}, "signed_at"),
        ({"status": "revoked"}, {}, "signed_at"),
        ({"status": "invented"}, {}, "signed_at"),
        ({"expires_at": AT}, {}, "signed_at"),
    ],
)
def test_each_check(root: dict[str, Any], issuer: dict[str, Any], reason: str | None) -> None:
    """TRUST-4, F203c: A warrant is refused by the states, times and parents of its keys."""
    found = Bundle.of([page(root, issuer)])
    if reason is None:
        assert found.verify(warrant(), now=START).claims == OURS
        return
    assert refused(found, warrant(), now=START) == reason


@pytest.mark.parametrize("name", ["suspended_at", "expires_at", "revoked_at"])
def test_clocks_may_differ(name: str) -> None:
    """TRUST-4: The times of keys have a tolerance of five minutes, in favour of the warrant."""
    state = {"suspended_at": "suspended", "revoked_at": "revoked"}.get(name, "active")
    found = Bundle.of([page({name: AT, "status": state})])
    last = datetime.fromisoformat(AT) + CLOCK_TOLERANCE
    found.verify(warrant(replace(OURS, issued_at=last)), now=START)
    late = warrant(replace(OURS, issued_at=last + timedelta(seconds=1)))
    assert refused(found, late, now=START) == "signed_at"


def test_a_superseded_version() -> None:
    """F203: its warrants stay valid, until the key as a whole is revoked; it signs no more."""
    old = entry(ISSUER_ID, SEED, parent_id=ROOT_ID, status="rotated", rotated_at=AT)
    present = {"key_version": 2}
    early = replace(OURS, issued_at=datetime.fromisoformat(AT))
    for state, reason in (({}, None), (REVOKED, "revoked"), (SUSPENDED, None)):
        whole = page(issuer=present | state)
        whole["keys"].append(old)
        found = Bundle.of([whole])
        if reason is None:
            assert found.verify(warrant(early, seed=SEED), now=START).keys[0].version == 1
            assert refused(found, warrant(seed=SEED), now=START) == "signed_at"
        else:
            assert refused(found, warrant(early, seed=SEED), now=START) == reason
    # A version whose key is not in the bundle.
    found = Bundle.of([page() | {"keys": [old, page()["keys"][1]]}])
    assert refused(found, warrant(early, seed=SEED), now=START) == "revoked"


def test_the_checks_of_a_warrant_come_first() -> None:
    """TRUST-4: The reasons of WARRANT-9 are given as without a bundle."""
    found = Bundle.of([page()])
    assert refused(found, b"", now=START) == WarrantReason.MALFORMED
    foreign = replace(OURS, tenant_id=f"{TENANT[:-1]}0")
    assert refused(found, warrant(foreign), now=START) == WarrantReason.ISSUER
    assert refused(found, warrant(), now=START - timedelta(hours=1)) == WarrantReason.FUTURE
    ending = replace(OURS, expires_at=START + timedelta(seconds=1))
    late = START + timedelta(seconds=1)
    assert refused(found, warrant(ending), now=late) == WarrantReason.EXPIRED


def test_a_stolen_list_signer_is_left_out(tenant: Tenant) -> None:
    """F203e: A bundle has the public keys of the list signers, but of no revoked one."""
    path = "/v1/revocations/srl/keys"
    (stolen,) = tenant.admin.get(path).json()["keys"]
    assert bundle(tenant).signers == (base64.b64decode(stolen["public_key"]),)
    assert tenant.admin.post(f"{path}/{stolen['key_id']}/revoke").status_code == 200
    successor = tenant.admin.get(path).json()["keys"][0]
    assert bundle(tenant).signers == (base64.b64decode(successor["public_key"]),)


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


# --- what is no bundle ---


@pytest.mark.parametrize(
    "change",
    [
        lambda each: each.pop("keys"),
        lambda each: each.pop("tenant_id"),
        lambda each: each.update(revision=1),
        lambda each: each.update(keys={"a": 1}),
        lambda each: each.update(list_signers=[{"public_key": "AA==", "status": "active"}]),
        lambda each: each["keys"][0].update(public_key=base64.b64encode(bytes(32)).decode()),
        lambda each: each["keys"][0].update(public_key="x"),
        lambda each: each["keys"][0].update(key_version="1"),
        lambda each: each["keys"][0].update(parent_id=1),
        lambda each: each["keys"][0].update(created_at="yesterday"),
        lambda each: each["keys"][0].update(suspended_at=5),
        lambda each: each["keys"][0].pop("status"),
    ],
)
def test_what_is_no_bundle(change: Callable[[dict[str, Any]], object]) -> None:
    """F204a: A client refuses a bundle that is malformed, as a whole."""
    altered = page()
    change(altered)
    with pytest.raises(ValueError, match=r".+"):
        Bundle.of([altered])


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (304, b""),
        (404, b"{}"),
        (200, b"[]"),
        (200, b"\xff"),
        (200, b"[" * 100_000),
        (200, b"{}"),
        (200, json.dumps(page() | {"cursor": "c"}).encode()),
    ],
    ids=lambda value: str(value)[:20],
)
def test_no_answer_is_a_bundle_but_a_bundle(status: int, body: bytes) -> None:
    """F204b: Any other response, or pages without end, leave the client with the bundle it had."""

    def get(path: str, *, limit: int, etag: str | None = None) -> Answered:
        assert path.startswith(trust.PATH)
        assert (limit, etag) == (2 * 2**20, None)
        return Answered(status, {}, body)

    with pytest.raises(NoBundle):
        trust.read(get, held=None)


@settings(max_examples=30)
@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | inner))
def test_any_json_gets_a_verdict(value: Any) -> None:
    """No JSON in place of a key ends in another error."""
    for place in ("keys", "list_signers", "tenant_id", "revision"):
        altered = page() | {place: [value] if place in ("keys", "list_signers") else value}
        try:
            Bundle.of([altered])
        except (ValueError, BundleChanged):
            continue
        assert place in ("tenant_id", "revision")
