"""Signing keys over HTTP (KEY-1 to KEY-13)."""

import base64
import itertools
import re
from typing import Any

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from httpx2 import URL

from shared.model import signing_keys as model
from shared.ports.store import Table
from tests.functions import signing
from tests.functions.bodies import variants
from tests.functions.signing import STATES, child, create, get, move, moved, refusal, versions
from tests.kit.api import Tenant
from tests.kit.worlds import Clock

# A signing key, and what each answer adds to it or leaves out (API-7).
KEY = {"id", "type", "name", "status", "parent_id", "public_key", "created_at", "expires_at"}
SUPERSEDED = {"rotated_at", "version", "successor_id"}
ROTATED = KEY - {"parent_id", "created_at", "expires_at"} | {"rotated_at"}
VERSION = {"key_id", "version", "status", "public_key", "created_at", "rotated_at"}

UNKNOWN = "svc_key_01m7yzmhg0ynzqw1fmh6whgvm5"
NOW = "2026-11-21T12:00:00Z"


def list_keys(tenant: Tenant, **filters: Any) -> Any:
    query = "&".join(f"{name}={value}" for name, value in filters.items())
    return tenant.read_only.get(f"/v1/keys?{query}")


def walk(tenant: Tenant, **filters: Any) -> list[dict[str, Any]]:
    """All pages; each says the same total, which is the number of keys on all of them."""
    keys: list[dict[str, Any]] = []
    totals, cursor = set(), dict[str, str]()
    while True:
        page = list_keys(tenant, **filters, **cursor).json()
        assert set(page) == {"keys", "total", "cursor"}
        keys += page["keys"]
        totals.add(page["total"])
        if page["cursor"] is None:
            assert totals == {len(keys)}
            return keys
        cursor = {"cursor": page["cursor"]}


# --- fields ---


def test_a_new_key(tenant: Tenant) -> None:
    """KEY-1: A new root key is active and has a 32-byte Ed25519 public key and no parent."""
    key = create(tenant, name="  My root ")
    assert set(key) == KEY
    assert len(base64.b64decode(key.pop("public_key"), validate=True)) == 32
    assert re.fullmatch("svc_key_[0-9a-hjkmnp-tv-z]{26}", key.pop("id"))
    assert key == {
        "type": "root",
        "name": "My root",
        "status": "active",
        "parent_id": None,
        "created_at": NOW,
        "expires_at": None,
    }


@pytest.mark.parametrize("type_", ["issuer", "notary"])
def test_a_new_child(tenant: Tenant, type_: str) -> None:
    """An issuer or notary names its parent, in the answer to its creation and when read."""
    root = create(tenant)
    key = child(tenant, root, type_)
    assert (key["type"], key["parent_id"]) == (type_, root["id"])
    assert get(tenant, key["id"]) == list_keys(tenant).json()["keys"][0] == key
    # What is superseded has more fields.
    for state in STATES:
        read = get(tenant, signing.in_state(tenant, state))
        assert set(read) == KEY | (SUPERSEDED if state == "rotated" else set())
        assert read["status"] == state
        assert read in list_keys(tenant).json()["keys"]


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("suspend", KEY | {"suspended_at"}),
        ("rotate", ROTATED),
        ("revoke", KEY | {"revoked_at", "reason"}),
    ],
)
def test_the_answer_to_an_action(tenant: Tenant, clock: Clock, action: str, fields: Any) -> None:
    """KEY-6, API-13: An action returns the key with the fields of the contract, also repeated.

    Then it has the time and the reason of the first.
    """
    root = create(tenant)
    key = child(tenant, root)
    clock.advance(hours=1)
    answer = moved(tenant, key["id"], action)
    assert set(answer) == fields
    (time,) = fields & {"suspended_at", "rotated_at", "revoked_at"}
    assert answer[time] == "2026-11-21T13:00:00Z"
    assert answer.get("reason") == ("lost" if action == "revoke" else None)
    unchanged = KEY & fields - {"status", "public_key"}
    assert {name: answer[name] for name in unchanged} == {name: key[name] for name in unchanged}
    if action != "rotate":
        clock.advance(days=1)
        again = {"reason": "again"} if action == "revoke" else {}
        assert moved(tenant, key["id"], action, **again) == answer


@pytest.mark.parametrize(
    "body",
    [
        *variants({}, "reason", None, "", "  ", "x" * 1025, 5, "a\x00b"),
        *({"cascade": True}, {"reason": "r", "cascade": 1}, {"reson": "r"}),
    ],
    ids=str,
)
def test_a_revocation_needs_a_reason(tenant: Tenant, body: Any) -> None:
    """KEY-9: The service refuses to revoke a signing key without a reason."""
    for state in STATES:
        key_id = signing.in_state(tenant, state)
        answer = tenant.admin.post(f"/v1/keys/{key_id}/revoke", json=body)
        assert refusal(answer) == (400, "invalid_request")
        assert get(tenant, key_id)["status"] == state


# --- creation: body, parent, expiry ---


@pytest.mark.parametrize(
    "body",
    [
        *({}, {"type": "root"}, {"name": "k"}),
        *variants({"name": "k"}, "type", "Root", None),
        *variants({"type": "root"}, "name", " ", "x" * 256, 5),
        *variants({"type": "root", "name": "k"}, "expires_at", 1800000000, "2027-01-01", NOW),
        {"type": "root", "name": "k", "expires_at": "2026-11-21T11:59:59Z"},
        {"type": "root", "name": "k", "expires": "2027-01-01T00:00:00Z"},
        *variants({"name": "k"}, "type", "issuer", "notary"),
        *variants({"type": "issuer", "name": "k"}, "parent_id", None, UNKNOWN, "", "svc_key_x"),
        *variants({"type": "notary", "name": "k"}, "parent_id", 5, f"svc_ak{UNKNOWN[7:]}"),
    ],
)
def test_a_malformed_creation(standing: Tenant, body: Any) -> None:
    """KEY-3: A malformed creation, an unknown parent and a malformed one are refused with 400."""
    assert refusal(standing.admin.post("/v1/keys", json=body)) == (400, "invalid_request")
    assert walk(standing) == []


@pytest.mark.parametrize("parent", ["root", "issuer", "notary"])
@pytest.mark.parametrize("type_", ["root", "issuer", "notary"])
def test_the_type_of_a_parent(tenant: Tenant, parent: str, type_: str) -> None:
    """KEY-3: The parent of an issuer or notary is a root or an issuer; a root has none."""
    above = create(tenant)
    if parent != "root":
        above = child(tenant, above, parent)
    body = {"type": type_, "name": "k", "parent_id": above["id"]}
    answer = tenant.admin.post("/v1/keys", json=body)
    if type_ == "root" or parent == "notary":
        assert refusal(answer) == (400, "invalid_request")
    else:
        assert answer.status_code == 201


@pytest.mark.parametrize("state", ["suspended", "revoked", "rotated", "expired"])
def test_a_parent_in_another_state(tenant: Tenant, clock: Clock, state: str) -> None:
    """KEY-3: The service refuses a parent that is not active or has expired with 409."""
    if state == "expired":
        parent_id = create(tenant, expires_at="2026-11-21T12:00:01Z")["id"]
        clock.advance(seconds=1)
    else:
        parent_id = signing.in_state(tenant, state)
    before = signing.stored(tenant)
    body = {"type": "issuer", "name": "k", "parent_id": parent_id}
    assert refusal(tenant.admin.post("/v1/keys", json=body)) == (409, "invalid_state")
    assert signing.stored(tenant) == before


@pytest.mark.parametrize(
    ("parents", "asked", "given"),
    [
        (None, None, None),
        (None, "2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("2027-01-01T00:00:00Z", None, "2027-01-01T00:00:00Z"),
        ("2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("2027-01-01T00:00:00Z", "2026-12-31T23:59:59Z", "2026-12-31T23:59:59Z"),
        ("2027-01-01T00:00:00Z", "2027-01-01T02:00:00+02:00", "2027-01-01T00:00:00Z"),
        ("2027-01-01T00:00:00Z", "2027-01-01T00:00:01Z", 400),
        (None, "9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    ],
)
def test_a_child_does_not_outlive_its_parent(
    tenant: Tenant, parents: str | None, asked: str | None, given: Any
) -> None:
    """KEY-5: A signing key does not outlive its parent and by default takes its expiry."""
    root = create(tenant, expires_at=parents)
    body = {"type": "notary", "name": "k", "parent_id": root["id"], "expires_at": asked}
    answer = tenant.admin.post("/v1/keys", json=body)
    if given == 400:
        assert refusal(answer) == (400, "invalid_request")
    else:
        assert (answer.status_code, answer.json()["expires_at"]) == (201, given)


def test_a_line_of_ancestors_has_an_end(tenant: Tenant) -> None:
    """KEY-4: A signing key has at most 32 ancestors, and one that has 32 still signs."""
    key = create(tenant)
    for _ in range(model.ANCESTORS_MAX):
        key = child(tenant, key)
    assert signing.sign(tenant, key["id"]).status_code == 201
    body = {"type": "issuer", "name": "k", "parent_id": key["id"]}
    assert refusal(tenant.admin.post("/v1/keys", json=body)) == (409, "conflict")


# --- transitions ---

SAME, REFUSED = "same", "refused"


# What each action makes of a key in each state, by hand (KEY-6).
_ACTIONS = ("rotate", "suspend", "enable", "revoke")
_TRANSITIONS = {
    "active": ("active", "suspended", SAME, "revoked"),
    "suspended": (REFUSED, SAME, "active", "revoked"),
    "rotated": (REFUSED, REFUSED, REFUSED, "revoked"),
    "revoked": (REFUSED, REFUSED, REFUSED, SAME),
}


@pytest.mark.parametrize("state", _TRANSITIONS)
@pytest.mark.parametrize("action", _ACTIONS)
def test_each_transition(tenant: Tenant, clock: Clock, state: str, action: str) -> None:
    """KEY-6: Signing keys change state only by the transitions of the contract; others are 409."""
    key_id = signing.in_state(tenant, state)
    before, key = signing.stored(tenant), get(tenant, key_id)
    clock.advance(hours=1)
    answer = move(tenant, key_id, action, **({"reason": "again"} if action == "revoke" else {}))
    expected = _TRANSITIONS[state][_ACTIONS.index(action)]
    if expected == REFUSED:
        assert refusal(answer) == (409, "invalid_state")
    else:
        assert answer.status_code == 200
    if expected in {SAME, REFUSED}:
        assert signing.stored(tenant) == before
        assert get(tenant, key_id) == key
    else:
        assert answer.json()["status"] == get(tenant, key_id)["status"] == expected


@pytest.mark.parametrize("state", ["active", "suspended"])
def test_reaching_the_expiry_changes_no_status(tenant: Tenant, clock: Clock, state: str) -> None:
    """KEY-5: A signing key that expires keeps its status, but cannot sign."""
    key_id = create(tenant, expires_at="2026-11-21T12:00:01Z")["id"]
    if state == "suspended":
        moved(tenant, key_id, "suspend")
    clock.advance(seconds=1)
    assert get(tenant, key_id)["status"] == state
    assert refusal(signing.sign(tenant, key_id)) == (409, "invalid_state")
    assert moved(tenant, key_id, "suspend")["status"] == "suspended"
    assert moved(tenant, key_id, "enable")["status"] == "active"
    assert refusal(signing.sign(tenant, key_id)) == (409, "invalid_state")
    assert moved(tenant, key_id, "revoke")["status"] == "revoked"


# --- rotation ---


def test_rotation_keeps_the_identifier(tenant: Tenant, clock: Clock) -> None:
    """KEY-7: Rotation gives a signing key a new public key under the same identifier.

    The superseded version is a record with its own identifier.
    """
    root = create(tenant, expires_at="2027-01-01T00:00:00Z")
    key = child(tenant, root, "notary")
    clock.advance(hours=1)
    rotated = moved(tenant, key["id"], "rotate")
    after = get(tenant, key["id"])
    assert rotated["public_key"] == after["public_key"] != key["public_key"]
    assert rotated["id"] == key["id"]
    assert after | {"public_key": ""} == key | {"public_key": ""}
    superseded = versions(tenant, key["id"])[1]["key_id"]
    assert superseded != key["id"]
    record = get(tenant, superseded)
    assert record == key | {
        "id": superseded,
        "status": "rotated",
        "rotated_at": "2026-11-21T13:00:00Z",
        "version": 1,
        "successor_id": key["id"],
    }
    assert walk(tenant, status="rotated") == walk(tenant, status="rotated", type="notary")
    assert walk(tenant, status="rotated") == [record]
    assert walk(tenant, status="rotated", type="root") == []


def test_which_key_a_version_belongs_to(tenant: Tenant) -> None:
    """KEY-14, F440a: Only a superseded version has its number and key; on demand, each has it.

    Active, suspended and revoked keys have the fields of the contract alone, after rotations too.
    """
    other, key_id = create(tenant)["id"], create(tenant)["id"]
    first, second = (signing.superseded(tenant, key_id) for _ in range(2))
    moved(tenant, other, "suspend")
    moved(tenant, first, "revoke")
    rows = {each["id"]: set(each) for each in walk(tenant)}
    assert rows == {key_id: KEY, other: KEY, first: KEY, second: KEY | SUPERSEDED}
    assert set(get(tenant, key_id)) == set(get(tenant, first)) == KEY
    listed = walk(tenant, include="version")
    shown = {each["id"]: (each.get("version"), each.get("successor_id")) for each in listed}
    assert shown == {
        key_id: (3, None),
        second: (2, key_id),
        first: (1, key_id),
        other: (None, None),
    }


def test_how_much_each_key_signed(tenant: Tenant) -> None:
    """KEY-15, F444a: On demand the list has the number of warrants of each key and version.

    The number of a key is that of all its versions, and what `dry_run` says of its revocation.
    """
    idle, key_id = create(tenant)["id"], create(tenant)["id"]
    old = []
    for number in (2, 1):
        for _ in range(number):
            signing.signed(tenant, key_id)
        old.append(signing.superseded(tenant, key_id))
    signing.signed(tenant, key_id)
    assert not any("warrant_count" in each for each in walk(tenant))
    shown = {each["id"]: each["warrant_count"] for each in walk(tenant, include="warrant_count")}
    assert shown == {idle: 0, key_id: 4, old[0]: 2, old[1]: 1}
    for each, signed in shown.items():
        assert moved(tenant, each, "revoke", dry_run=True)["warrants"] == signed
    page = list_keys(tenant, include="warrant_count", limit=1, status="active")
    assert [each["warrant_count"] for each in page.json()["keys"]] == [4]
    both = list_keys(tenant, include="version,warrant_count", limit=1, status="active")
    assert [(each["version"], each["warrant_count"]) for each in both.json()["keys"]] == [(3, 4)]
    for wrong in ("warrants", "", "version,", "version,version,version"):
        assert list_keys(tenant, include=wrong).status_code == 400
    assert list_keys(tenant, include="warrant_count", type="notary").json()["keys"] == []


def test_the_versions_of_a_key(tenant: Tenant, clock: Clock) -> None:
    """KEY-8: The versions of a signing key are listed newest first, by any of them."""
    key_id, public_keys, hours = create(tenant)["id"], list[str](), list[str]()
    for number in range(3):
        public_keys.insert(0, get(tenant, key_id)["public_key"])
        hours.insert(0, f"2026-11-21T{12 + number}:00:00Z")
        listed = versions(tenant, key_id)
        assert all(set(each) == VERSION for each in listed)
        assert [each["version"] for each in listed] == [*range(number + 1, 0, -1)]
        assert [each["status"] for each in listed] == ["active", *["rotated"] * number]
        assert [each["public_key"] for each in listed] == public_keys
        assert [each["created_at"] for each in listed] == hours
        assert [each["rotated_at"] for each in listed] == [None, *hours[:-1]]
        assert listed[0]["key_id"] == key_id
        for each in listed:
            assert get(tenant, each["key_id"])["public_key"] == each["public_key"]
            assert versions(tenant, each["key_id"]) == listed
        clock.advance(hours=1)
        moved(tenant, key_id, "rotate")


# --- the list ---


def test_totals_after_any_sequence(tenant: Tenant, other_tenant: Tenant) -> None:
    """KEY-13, F31: The `total` of the signing keys is exact for every filter."""
    create(other_tenant)
    root, issuer = create(tenant), None
    for state in STATES:
        signing.in_state(tenant, state)
        issuer = child(tenant, root)
        child(tenant, issuer, "notary")
    assert issuer is not None
    for action in ("rotate", "rotate", "suspend", "suspend", "enable", "rotate", "revoke"):
        moved(tenant, issuer["id"], action)
    move(tenant, issuer["id"], "enable")
    moved(tenant, root["id"], "revoke", cascade=True)
    everything = walk(tenant, limit=3)
    assert len(everything) == 17
    assert walk(tenant) == everything
    assert [key["id"] for key in everything] == sorted((k["id"] for k in everything), reverse=True)
    for type_, status in itertools.product([None, *model.SigningKeyType], [None, *STATES]):
        wanted: dict[str, str] = {"type": type_} if type_ else {}
        wanted |= {"status": status} if status else {}
        expected = [key for key in everything if wanted.items() <= key.items()]
        assert walk(tenant, limit=2, **wanted) == expected


@pytest.mark.parametrize(
    "lists",
    [
        ["keys", "keys?type=issuer", "keys?status=active", "keys?type=issuer&status=active"],
        ["audit-logs", "audit-logs?action=key.create", "audit-logs?from=2026-11-21T00:00:00Z"],
        ["revocations", "revocations?reason=stolen"],
        ["keys/{0}/warrants", "keys/{1}/warrants"],
    ],
    ids=["keys", "audit-logs", "revocations", "warrants"],
)
def test_a_cursor_is_bound_to_its_filters(tenant: Tenant, lists: list[str]) -> None:
    """API-20, F11c: A cursor continues only with the filters that it was made for."""
    root = create(tenant)
    keys = [child(tenant, root)["id"] for _ in range(2)]
    for key_id in 2 * keys:
        signing.signed(tenant, key_id)
        tenant.revoke(tenant.ports.new_id("wrt"), reason="stolen")
    addresses = ["/v1/" + each.format(*keys) for each in lists]
    for own in addresses:
        first = URL(own).copy_add_param("limit", "1")
        cursor = tenant.admin.get(str(first)).json()["cursor"]
        for each in addresses:
            answer = tenant.admin.get(str(URL(each).copy_add_param("cursor", cursor)))
            assert answer.status_code == (200 if each == own else 400)


# --- secrets ---


def seed_of(tenant: Tenant, key_id: str) -> bytes:
    item = tenant.ports.store.get(model.keys(tenant.id).address(key_id))
    assert item is not None
    key = model.SigningKey.from_item(item)
    assert key.sealed_seed is not None
    return tenant.ports.sealer.unseal(key.sealed_seed, context=key.seal_context)


def test_no_seed_is_ever_shown_or_stored(tenant: Tenant, caplog: pytest.LogCaptureFixture) -> None:
    """KEY-2, F17c, S3: No answer, log line or stored item contains an unsealed seed."""
    caplog.set_level("DEBUG")
    key_id, said = create(tenant)["id"], []
    secrets = [seed_of(tenant, key_id)]
    said.append(move(tenant, key_id, "rotate"))
    secrets.append(seed_of(tenant, key_id))
    said += [signing.sign(tenant, key_id), tenant.admin.get(f"/v1/keys/{key_id}/versions")]
    said += [move(tenant, key_id, each) for each in ("suspend", "enable", "revoke")]
    said += [tenant.admin.get(f"/v1/keys/{key_id}"), list_keys(tenant)]
    said += [tenant.admin.get("/v1/audit-logs"), tenant.admin.get(f"/v1/keys/{key_id}/warrants")]
    rows = [each for table in Table for each in tenant.ports.store.everything(table)]
    everything = repr(rows) + caplog.text + "".join(each.text + str(each.headers) for each in said)
    blobs = b"".join(cbor2.dumps(dict(item)) for _, item in rows)
    for seed in secrets:
        assert len(seed) == 32
        assert seed not in blobs
        assert not any(form in everything for form in forms(seed))


def forms(seed: bytes) -> list[str]:
    """A seed as text, in the ways that it could have slipped out."""
    encoded = [base64.b64encode(seed), base64.urlsafe_b64encode(seed)]
    return [*(each.decode().rstrip("=") for each in encoded), seed.hex(), repr(seed)[2:-1]]


def test_each_version_has_a_seed_of_its_own(tenant: Tenant) -> None:
    """F17, S3: Seeds differ, are sealed and fit their public keys; a superseded one is gone."""
    key = create(tenant)
    first = seed_of(tenant, key["id"])
    rotated = moved(tenant, key["id"], "rotate")
    second = seed_of(tenant, key["id"])
    assert first != second
    for seed, public_key in ((first, key["public_key"]), (second, rotated["public_key"])):
        private = Ed25519PrivateKey.from_private_bytes(seed)
        assert base64.b64encode(private.public_key().public_bytes_raw()).decode() == public_key
    items = {e.sk: e.item for e in tenant.ports.store.query(model.keys(tenant.id))}
    assert "sealed_seed" in items.pop(key["id"])
    (superseded,) = items.values()
    assert not [value for value in superseded.values() if isinstance(value, bytes)]
