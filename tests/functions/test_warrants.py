"""Signing warrants over HTTP, and what their keys' fate does to them (WARRANT-1 to WARRANT-8)."""

import base64
from datetime import timedelta
from typing import Any

import cbor2
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from shared.authorizer.formats import warrants as verifier
from shared.authorizer.formats.warrants import Claims
from shared.model import revocations, times
from shared.model import warrants as warrant_model
from shared.ports.store import Delete, Expect, Put
from tests.functions import signing
from tests.functions.bodies import variants
from tests.functions.signing import (
    child,
    create,
    get,
    is_revoked,
    move,
    moved,
    next_list,
    refusal,
    sign,
    signed,
)
from tests.kit.api import Tenant
from tests.kit.reserved import FORGED_LIST, RESERVED
from tests.kit.worlds import Clock

SIGNED = [
    *("warrant_id", "key_id", "key_version", "algorithm", "public_key"),
    *("warrant", "signed_at", "expires_at"),
]
WARRANT = {"warrant_id", "key_version", "signed_at", "expires_at"}
KIB_64 = 64 * 1024


def encode(payload: bytes) -> str:
    return base64.b64encode(payload).decode()


def verify(answer: dict[str, Any], payload: bytes) -> None:
    """Verify a raw signature as a verifier would. Raises `InvalidSignature`."""
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(answer["public_key"]))
    public.verify(base64.b64decode(answer["signature"], validate=True), payload)


def claims(tenant: Tenant, answer: dict[str, Any], public_key: str = "") -> Claims:
    """What a warrant says to a verifier that knows the tenant and the key."""
    return verifier.verify(
        base64.b64decode(answer["warrant"], validate=True),
        public_keys=[base64.b64decode(public_key or answer["public_key"])],
        tenant_id=tenant.id,
        now=tenant.ports.now(),
    )


def warrants(tenant: Tenant, key_id: str, query: str = "") -> dict[str, Any]:
    answer = tenant.read_only.get(f"/v1/keys/{key_id}/warrants{query}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def ids(page: dict[str, Any]) -> list[str]:
    return [each["warrant_id"] for each in page["warrants"]]


def check(tenant: Tenant, warrant_id: str) -> dict[str, Any]:
    answer = tenant.authorizer.get(f"/v1/revocations/check?warrant_id={warrant_id}")
    assert answer.status_code == 200
    return dict(answer.json())


# --- signing ---


def test_a_warrant(tenant: Tenant) -> None:
    """WARRANT-1, F42: A warrant is a COSE_Sign1 message whose claims say what was requested."""
    key = create(tenant)
    expiry = "2027-01-01T00:00:00Z"
    answer = sign(tenant, key["id"], encode(b"grant"), expires_at=expiry)
    assert answer.status_code == 201
    body = answer.json()
    said = claims(tenant, body, key["public_key"])
    assert said == Claims(
        tenant_id=tenant.id,
        warrant_id=body["warrant_id"],
        issued_at=tenant.ports.now(),
        expires_at=times.parse(expiry),
        payload=b"grant",
    )
    assert list(body) == list(SIGNED)
    assert len(base64.b64decode(body.pop("warrant"))) > 64
    assert body.pop("warrant_id").startswith("svc_wrt_")
    assert body == {
        "key_id": key["id"],
        "key_version": 1,
        "algorithm": "Ed25519",
        "public_key": key["public_key"],
        "signed_at": "2026-11-21T12:00:00Z",
        "expires_at": expiry,
    }


def test_one_payload_under_two_identifiers(tenant: Tenant) -> None:
    """F42a: Two warrants with the same payload cannot pass under each other's identifier."""
    key_id = create(tenant)["id"]
    names = ["svc_wrt_a", "svc_wrt_b"]
    made = [sign(tenant, key_id, warrant_id=each).json() for each in names]
    assert [claims(tenant, each).warrant_id for each in made] == names
    assert made[0]["warrant"] != made[1]["warrant"]
    tenant.revoke("svc_wrt_a")
    result = [is_revoked(tenant, claims(tenant, each).warrant_id) for each in made]
    assert result == [True, False]


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"\x00", bytes(range(256)), b"x" * KIB_64, b"\x81" * KIB_64, FORGED_LIST),
        # It begins with bytes, as a COSE message does.
        cbor2.dumps([b"a", b"b"]),
        # Decoders that make big numbers of these would never end.
        *(bytes.fromhex(each) for each in ("c5821a7fffffff01", "c4821b7fffffffffffffff01")),
    ],
    ids=lambda payload: payload[:12].hex(),
)
def test_payloads_that_are_signed(tenant: Tenant, payload: bytes) -> None:
    """Any bytes are signed as they are, in either format, except reserved ones as raw bytes."""
    key_id = create(tenant)["id"]
    answer = sign(tenant, key_id, encode(payload))
    assert answer.status_code == 201
    assert claims(tenant, answer.json()).payload == payload
    is_reserved = payload == FORGED_LIST
    if is_reserved:
        payload = verifier.parse(base64.b64decode(answer.json()["warrant"])).signed_bytes
    raw = sign(tenant, key_id, encode(payload), format="raw", warrant_id="svc_wrt_raw")
    if is_reserved:
        assert refusal(raw) == (400, "invalid_request")
    else:
        assert raw.status_code == 201
        verify(raw.json(), payload)


# --- bytes of the caller's own format ---


def test_a_raw_signature(tenant: Tenant) -> None:
    """WARRANT-2: With format raw, the service signs the bytes of the payload alone."""
    key = create(tenant)
    answer = sign(tenant, key["id"], encode(b"svc_wrt_a"), format="raw", warrant_id="svc_wrt_a")
    assert answer.status_code == 201
    body = answer.json()
    assert list(body) == ["signature" if name == "warrant" else name for name in SIGNED]
    verify(body, b"svc_wrt_a")
    with pytest.raises(InvalidSignature):
        verify(body, b"svc_wrt_b")
    with pytest.raises(InvalidSignature):
        verify(body | {"public_key": create(tenant)["public_key"]}, b"svc_wrt_a")
    assert (body["warrant_id"], body["expires_at"]) == ("svc_wrt_a", None)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "warrant_id"),
        ({"warrant_id": None}, "warrant_id"),
        ({"warrant_id": "svc_wrt_a", "expires_at": "2027-01-01T00:00:00Z"}, "expires_at"),
        ({"warrant_id": "svc_wrt_a", "format": "RAW"}, "format"),
        ({"warrant_id": "svc_wrt_a", "format": None}, "format"),
    ],
    ids=str,
)
def test_what_raw_needs(tenant: Tenant, fields: dict[str, Any], named: str) -> None:
    """WARRANT-2, F42: Format raw requires `warrant_id` and refuses `expires_at`."""
    key_id = create(tenant)["id"]
    answer = sign(tenant, key_id, **({"format": "raw"} | fields))
    assert refusal(answer) == (400, "invalid_request")
    assert answer.json()["error"]["message"].startswith(named)
    assert warrants(tenant, key_id)["total"] == 0


@pytest.mark.parametrize("payload", RESERVED, ids=lambda payload: payload[:12].hex())
def test_raw_bytes_that_mean_something_else(tenant: Tenant, payload: bytes) -> None:
    """WARRANT-3, F42b, S4: With raw, no bytes that could pass for a list or COSE are signed."""
    key_id = create(tenant)["id"]
    answer = sign(tenant, key_id, encode(payload), format="raw", warrant_id="svc_wrt_a")
    assert refusal(answer) == (400, "invalid_request")
    assert answer.json()["error"]["message"].startswith("payload")
    assert warrants(tenant, key_id)["total"] == 0


@pytest.mark.parametrize(
    "payload",
    [
        encode(b"x" * (KIB_64 + 1)),
        *["YQ", "YQ=", "YQ===", "YWJj=", "YR==", "YQ==\n", " YQ==", "YQ==YQ==", "-_-_", "grant!"],
        *["é===", "====", 5, None, ["YQ=="]],
    ],
    ids=lambda value: str(value)[:8],
)
def test_payloads_that_are_refused(tenant: Tenant, payload: Any) -> None:
    """WARRANT-4: The service refuses a payload over 64 KiB or one that is not canonical base64."""
    key_id = create(tenant)["id"]
    answer = sign(tenant, key_id, payload)
    assert refusal(answer) == (400, "invalid_request")
    assert "payload" in answer.json()["error"]["message"]
    assert warrants(tenant, key_id)["total"] == 0


@pytest.mark.parametrize(
    "fields",
    [
        *variants(
            {}, "warrant_id", "", "svc_wrt_", "svc_wrt_" + "a" * 65, "svc_wrt_a b", "wrt_a", 5
        ),
        *variants(
            {}, "expires_at", "2026-11-21T12:00:00Z", "2026-11-21T11:59:59Z", "2026-11-22", 5
        ),
        {"algorithm": "Ed25519"},
    ],
)
def test_fields_that_are_refused(tenant: Tenant, fields: dict[str, Any]) -> None:
    """A malformed identifier, an expiry that has passed or an unknown field is 400."""
    key_id = create(tenant)["id"]
    assert refusal(sign(tenant, key_id, **fields)) == (400, "invalid_request")
    assert warrants(tenant, key_id)["total"] == 0


@pytest.mark.parametrize("warrant_id", ["svc_wrt_a", "svc_wrt_" + "Z_-9" * 16])
def test_a_warrant_id_of_the_callers(tenant: Tenant, warrant_id: str) -> None:
    """An identifier that is given is used, also after a revocation that was taken back."""
    key_id = create(tenant)["id"]
    tenant.admin.delete(f"/v1/revocations/{tenant.revoke(warrant_id)}")
    assert signed(tenant, key_id, warrant_id=warrant_id) == warrant_id
    assert signed(tenant, key_id, warrant_id=None) != warrant_id


@pytest.mark.parametrize("taken", ["signed", "signed by another key", "revoked", "key revoked"])
def test_a_warrant_id_that_is_taken(tenant: Tenant, taken: str) -> None:
    """WARRANT-5, F30: The service refuses to sign under an identifier that was used before."""
    key_id = create(tenant)["id"]
    by = key_id if taken == "signed" else create(tenant)["id"]
    if taken == "revoked":
        tenant.revoke("svc_wrt_a")
    else:
        signed(tenant, by, warrant_id="svc_wrt_a")
    if taken == "key revoked":
        moved(tenant, by, "revoke")
    before = warrants(tenant, key_id)
    assert refusal(sign(tenant, key_id, warrant_id="svc_wrt_a")) == (409, "conflict")
    assert warrants(tenant, key_id) == before


@pytest.mark.parametrize("state", ["suspended", "rotated", "revoked"])
def test_a_key_that_is_not_active_signs_nothing(tenant: Tenant, state: str) -> None:
    """WARRANT-6: A signing key that is not active signs nothing."""
    key_id = signing.in_state(tenant, state)
    assert refusal(sign(tenant, key_id)) == (409, "invalid_state")
    assert warrants(tenant, key_id)["total"] == 0


def test_a_key_that_has_expired_signs_nothing(tenant: Tenant, clock: Clock) -> None:
    """WARRANT-6: A signing key signs nothing from the moment of its `expires_at` on."""
    key_id = create(tenant, expires_at="2026-11-21T12:00:01Z")["id"]
    signed(tenant, key_id)
    clock.advance(seconds=1)
    assert refusal(sign(tenant, key_id)) == (409, "invalid_state")
    assert warrants(tenant, key_id)["total"] == 1


@pytest.mark.parametrize("action", ["suspend", "revoke"])
@pytest.mark.parametrize("level", range(3))
def test_only_below_active_ancestors(tenant: Tenant, action: str, level: int) -> None:
    """WARRANT-6, F29, S3: A signing key signs only if all of its ancestors are active."""
    line = [create(tenant)]
    for _ in range(3):
        line.append(child(tenant, line[-1]))
    moved(tenant, line[level]["id"], action)
    assert refusal(sign(tenant, line[3]["id"])) == (409, "invalid_state")
    assert get(tenant, line[3]["id"])["status"] == "active"
    if action == "suspend":
        moved(tenant, line[level]["id"], "enable")
        assert sign(tenant, line[3]["id"]).status_code == 201


# --- what a key signed ---


def test_the_warrants_of_a_key(tenant: Tenant, clock: Clock) -> None:
    """WARRANT-8: The warrants that a key signed are listed newest first, with exact totals."""
    key_id = create(tenant)["id"]
    expiry = "2027-01-01T00:00:00Z"
    made = [signed(tenant, key_id, warrant_id="svc_wrt_z", expires_at=expiry)]
    clock.advance(hours=1)
    made += [signed(tenant, key_id) for _ in range(2)]
    page = warrants(tenant, key_id)
    assert ids(page) == made[::-1]
    assert (page["total"], page["cursor"]) == (3, None)
    assert all(set(each) == WARRANT for each in page["warrants"])
    assert page["warrants"][-1] == {
        "warrant_id": "svc_wrt_z",
        "key_version": 1,
        "signed_at": "2026-11-21T12:00:00Z",
        "expires_at": expiry,
    }
    first = warrants(tenant, key_id, "?limit=2")
    second = warrants(tenant, key_id, f"?limit=2&cursor={first['cursor']}")
    assert ids(first) + ids(second) == made[::-1]
    assert (first["total"], second["total"], second["cursor"]) == (3, 3, None)


def test_the_warrants_of_each_version(tenant: Tenant) -> None:
    """A key lists what all its versions signed; a superseded version what it signed itself."""
    key_id = create(tenant)["id"]
    made, records = [], []
    for number in range(3):
        made.append([signed(tenant, key_id) for _ in range(number + 1)])
        records.append(signing.superseded(tenant, key_id))
    everything = warrants(tenant, key_id, "?limit=100")
    assert ids(everything) == [each for version in made for each in version][::-1]
    assert everything["total"] == 6
    assert [each["key_version"] for each in everything["warrants"]] == [3, 3, 3, 2, 2, 1]
    for version, record_id in zip(made, records, strict=True):
        page = warrants(tenant, record_id)
        assert (ids(page), page["total"]) == (version[::-1], len(version))
    page = warrants(tenant, records[2], "?limit=1")
    assert page["total"] == 3
    assert ids(warrants(tenant, records[2], f"?cursor={page['cursor']}")) == made[2][1::-1]


# --- the reach of a revocation ---


def test_revoking_a_key_revokes_what_it_signed(tenant: Tenant, clock: Clock) -> None:
    """KEY-9, S3: Revoking a signing key revokes every warrant that it signed.

    Suspending or rotating it leaves them valid.
    """
    key_id, other = create(tenant)["id"], create(tenant)["id"]
    made = [signed(tenant, key_id) for _ in range(3)]
    moved(tenant, key_id, "rotate")
    made.append(signed(tenant, key_id))
    kept = signed(tenant, other)
    for action in ("suspend", "enable"):
        moved(tenant, key_id, action)
        assert not any(is_revoked(tenant, each) for each in [*made, kept])
        assert next_list(tenant) == []
    clock.advance(hours=1)
    moved(tenant, key_id, "revoke", reason="stolen")
    assert all(is_revoked(tenant, each) for each in made)
    assert not is_revoked(tenant, kept)
    assert check(tenant, made[0]) == {
        "warrant_id": made[0],
        "revoked": True,
        "revoked_at": "2026-11-21T13:00:00Z",
        "reason": "stolen",
    }
    assert check(tenant, kept) == {"warrant_id": kept, "revoked": False}
    assert next_list(tenant) == sorted(made)


def test_revoking_a_version_revokes_just_what_it_signed(tenant: Tenant) -> None:
    """KEY-9: Revoking a superseded version revokes only the warrants that this version signed."""
    key_id = create(tenant)["id"]
    first = signed(tenant, key_id)
    signing.superseded(tenant, key_id)
    second = signed(tenant, key_id)
    superseded = signing.superseded(tenant, key_id)
    third = signed(tenant, key_id)
    moved(tenant, superseded, "revoke", reason="leaked")
    assert [is_revoked(tenant, each) for each in (first, second, third)] == [False, True, False]
    assert check(tenant, second)["reason"] == "leaked"
    assert next_list(tenant) == [second]
    assert get(tenant, key_id)["status"] == "active"
    states = [each["status"] for each in signing.versions(tenant, key_id)]
    assert states == ["active", "revoked", "rotated"]
    signed(tenant, key_id)


@pytest.mark.parametrize("first", ["key", "version"])
def test_the_first_revocation_says_when_and_why(tenant: Tenant, clock: Clock, first: str) -> None:
    """A warrant revoked by version and key stays revoked since the first, for its reason."""
    key_id = create(tenant)["id"]
    warrant_id = signed(tenant, key_id)
    both = {"version": signing.superseded(tenant, key_id), "key": key_id}
    moved(tenant, both.pop(first), "revoke", reason="first")
    said = check(tenant, warrant_id)
    clock.advance(hours=1)
    ((_, last),) = both.items()
    moved(tenant, last, "revoke", reason="second")
    assert check(tenant, warrant_id) == said
    assert said["reason"] == "first"
    assert next_list(tenant) == [warrant_id]


@pytest.mark.parametrize("cascade", [False, True])
def test_the_descendants_of_a_revoked_key(tenant: Tenant, cascade: bool) -> None:
    """KEY-10: With `cascade`, the descendants of a revoked key are revoked too."""
    root = create(tenant)
    issuer = child(tenant, root)
    notary = child(tenant, issuer, "notary")
    beside = child(tenant, create(tenant))
    made = [signed(tenant, each["id"]) for each in (root, issuer, notary)]
    kept = signed(tenant, beside["id"])
    moved(tenant, root["id"], "revoke", **({"cascade": True} if cascade else {}))
    assert [is_revoked(tenant, each) for each in made] == [True, cascade, cascade]
    expected = "revoked" if cascade else "active"
    assert [get(tenant, each["id"])["status"] for each in (issuer, notary)] == [expected] * 2
    assert not is_revoked(tenant, kept)
    assert next_list(tenant) == (sorted(made) if cascade else made[:1])
    assert refusal(sign(tenant, notary["id"])) == (409, "invalid_state")


def test_the_answer_says_what_stays(tenant: Tenant) -> None:
    """KEY-10, F47a: `descendants` counts the active or suspended keys that stay below."""
    root = create(tenant)
    issuer = child(tenant, root)
    suspended = child(tenant, issuer)
    moved(tenant, suspended["id"], "suspend")
    moved(tenant, child(tenant, root)["id"], "revoke")
    moved(tenant, issuer["id"], "rotate")
    assert moved(tenant, root["id"], "revoke")["descendants"] == 2
    assert moved(tenant, root["id"], "revoke")["descendants"] == 2
    assert "descendants" not in moved(tenant, suspended["id"], "revoke")
    assert "descendants" not in moved(tenant, root["id"], "revoke", cascade=True)
    assert "descendants" not in moved(tenant, root["id"], "revoke")


@pytest.mark.parametrize("cascade", [False, True])
def test_a_dry_run(tenant: Tenant, cascade: bool) -> None:
    """KEY-11, F47b: A dry run says how much a revocation would reach and changes nothing."""
    root = create(tenant)
    issuer = child(tenant, root)
    made = [signed(tenant, root["id"]), signed(tenant, issuer["id"])]
    moved(tenant, issuer["id"], "rotate")
    made.append(signed(tenant, issuer["id"]))
    before = signing.stored(tenant)
    result = moved(tenant, root["id"], "revoke", dry_run=True, cascade=cascade)
    # The issuer and its superseded version are a record each.
    expected = {"keys": 3, "warrants": 3} if cascade else {"keys": 1, "warrants": 1}
    stays = {} if cascade else {"descendants": 1}
    assert result == root | {"revoked_at": None, "reason": None} | stays | expected
    assert signing.stored(tenant) == before
    assert not any(is_revoked(tenant, each) for each in made)
    done = moved(tenant, root["id"], "revoke", cascade=cascade)
    assert sum(is_revoked(tenant, each) for each in made) == expected["warrants"]
    assert {name: done.get(name) for name in stays} == stays
    again = moved(tenant, root["id"], "revoke", dry_run=True, cascade=cascade)
    assert (again["keys"], again["warrants"]) == (0, 0)
    assert again["status"] == "revoked"


def test_a_cascade_after_the_key_was_revoked(tenant: Tenant, clock: Clock) -> None:
    """Repeated with cascade, the descendants follow; the key keeps its own time and reason."""
    root = create(tenant)
    issuer = child(tenant, root)
    first = moved(tenant, root["id"], "revoke", reason="first")
    assert first.pop("descendants") == 1
    clock.advance(hours=1)
    assert moved(tenant, root["id"], "revoke", reason="second", cascade=True) == first
    later = moved(tenant, issuer["id"], "revoke")
    assert (later["revoked_at"], later["reason"]) == ("2026-11-21T13:00:00Z", "second")


# --- both kinds of revocation ---


def test_taking_back_a_revocation_does_not_lift_the_keys(tenant: Tenant) -> None:
    """REVOKE-4: Deleting a revocation does not lift the revocation of the signing key."""
    key_id = create(tenant)["id"]
    warrant_id = signed(tenant, key_id)
    record_id = tenant.revoke(warrant_id, reason="own")
    moved(tenant, key_id, "revoke", reason="of the key")
    assert next_list(tenant) == [warrant_id]
    assert check(tenant, warrant_id)["reason"] == "own"
    assert tenant.admin.delete(f"/v1/revocations/{record_id}").status_code == 204
    assert is_revoked(tenant, warrant_id)
    assert check(tenant, warrant_id)["reason"] == "of the key"
    assert next_list(tenant) == [warrant_id]


def test_a_batch_over_both_kinds(tenant: Tenant) -> None:
    """check-batch answers each warrant by its own record, its version, its key, or not at all."""
    key_id, good = create(tenant)["id"], create(tenant)["id"]
    by_key, by_both = signed(tenant, key_id), signed(tenant, key_id)
    kept, own = signed(tenant, good), signed(tenant, good)
    for each in (by_both, own):
        tenant.revoke(each)
    moved(tenant, key_id, "revoke")
    body = {"warrant_ids": [by_key, by_both, kept, own, "svc_wrt_unknown", by_key]}
    results = tenant.authorizer.post("/v1/revocations/check-batch", json=body).json()["results"]
    revoked = {"revoked": True, "revoked_at": "2026-11-21T12:00:00Z"}
    assert results == {
        by_key: revoked,
        by_both: revoked,
        kept: {"revoked": False},
        own: revoked,
        "svc_wrt_unknown": {"revoked": False},
    }


# --- what has expired ---


@pytest.mark.parametrize("how", ["by its key", "by itself", "by the administrator's word"])
@pytest.mark.parametrize(
    ("past", "listed"), [(-1, True), (0, True), (3600, True), (3601, False), (10**6, False)]
)
def test_a_warrant_that_expired_long_ago_leaves_the_list(
    tenant: Tenant, clock: Clock, how: str, past: int, listed: bool
) -> None:
    """SRL-9, REVOKE-3: A warrant leaves the list one lifetime after its end, signed or given.

    One without a known end, because it has none or was signed elsewhere, never leaves it.
    """
    key_id = create(tenant)["id"]
    expiry = (clock() + timedelta(days=30)).isoformat()
    warrant_id = signed(tenant, key_id, expires_at=expiry)
    stay = [
        signed(tenant, key_id, expires_at="9999-12-31T23:59:59Z"),
        signed(tenant, key_id),
        signed(tenant, key_id, format="raw", warrant_id="svc_wrt_raw"),
    ]
    if how == "by its key":
        move(tenant, key_id, "revoke")
    else:
        if how == "by the administrator's word":
            warrant_id = "svc_wrt_of-another-service"
        body = {"warrant_id": warrant_id, "reason": "r", "warrant_expires_at": expiry}
        assert tenant.admin.post("/v1/revocations", json=body).status_code == 201
        stay.append("svc_wrt_elsewhere")
        for other in stay:
            tenant.revoke(other)
    assert next_list(tenant) == sorted([warrant_id, *stay])
    clock.advance(days=30, seconds=past)
    assert next_list(tenant) == sorted([*stay, *([warrant_id] if listed else [])])
    assert is_revoked(tenant, warrant_id)


@pytest.mark.parametrize("by", ["key", "record"])
def test_an_expiry_that_nobody_signed_keeps_nothing_off_the_list(
    tenant: Tenant, clock: Clock, by: str
) -> None:
    """SRL-9, F43a, S4: An expiry that nobody signed removes no warrant from the list."""
    key_id = create(tenant)["id"]
    warrant_id = signed(tenant, key_id, expires_at="2027-01-01T00:00:00Z")
    _as_once_stored(tenant, key_id, warrant_id)
    if by == "key":
        moved(tenant, key_id, "revoke")
    else:
        tenant.revoke(warrant_id)
        _as_once_stored(tenant, key_id, warrant_id)
    clock.advance(days=4000)
    assert next_list(tenant) == [warrant_id]
    assert next_list(tenant) == [warrant_id]


def _as_once_stored(tenant: Tenant, key_id: str, warrant_id: str) -> None:
    """Store a warrant as it once was: its items had another attribute, and no order of ends."""
    store = tenant.ports.store
    shard = revocations.shard_of(tenant.id, warrant_id)
    order = warrant_model.by_end(tenant.id, key_id)
    by_end = [order.address(each.sk) for each in store.query(order)]
    for address in (*by_end, warrant_model.is_by_end_address(tenant.id)):
        store.write(Delete(address, Expect.ANYTHING))
    (entry,) = store.query(warrant_model.signed_by(tenant.id, key_id))
    signed_key = warrant_model.signed_by(tenant.id, key_id).address(entry.sk)
    addresses = [
        signed_key,
        warrant_model.warrant_address(tenant.id, warrant_id),
        shard.address(warrant_id),
    ]
    for address, item in store.get_many(addresses).items():
        old = {name: value for name, value in item.items() if name not in ("ends_at", "format")}
        store.write(Put(address, old | {"expires_at": "2027-01-01T00:00:00Z"}, Expect.PRESENT))
