"""Revocations over HTTP (REVOKE-1 to REVOKE-7, CHECK-1 to CHECK-5)."""

from typing import Any

import pytest

from functions.transparency_log import sealing
from shared.adapters.local.sqlite import SqliteStore
from shared.model.callers import Scope
from shared.model.identifiers import WARRANT
from shared.operations.lists import publication
from tests.functions.signing import create as create_key
from tests.functions.signing import next_list, refusal, signed
from tests.kit.api import Tenant
from tests.kit.worlds import Clock

PATH = "/v1/revocations"
BATCH = f"{PATH}/check-batch"


def create(tenant: Tenant, warrant_id: str = "svc_wrt_a", reason: str = "stolen") -> Any:
    return tenant.admin.post(PATH, json={"warrant_id": warrant_id, "reason": reason})


def check(tenant: Tenant, warrant_id: str = "svc_wrt_a") -> Any:
    answer = tenant.authorizer.get(f"{PATH}/check?warrant_id={warrant_id}")
    assert answer.status_code == 200
    return answer.json()


def check_batch(tenant: Tenant, *warrant_ids: str) -> Any:
    answer = tenant.authorizer.post(BATCH, json={"warrant_ids": warrant_ids})
    assert answer.status_code == 200
    assert set(answer.json()) == {"results"}
    return answer.json()["results"]


# --- tokens of others ---

_TOKEN = {"kind": "jwt", "issuer": "https://as.example", "value": "bad-1"}
_TOKEN_ID = "svc_wrt_jwt-Z591NNxgO_rGCEeX0rJ88TyihObU_zJQgZph8tqu5Io"


def test_a_token_stands_for_its_identifier(tenant: Tenant) -> None:
    """F1391a, TOKEN-2: A token is revoked, checked and signed in place of its identifier."""
    answer = tenant.admin.post(PATH, json={"token": _TOKEN, "reason": "stolen"})
    assert (answer.status_code, answer.json()["warrant_id"]) == (201, _TOKEN_ID)
    query = "&".join(f"token_{name}={value}" for name, value in _TOKEN.items())
    found = tenant.authorizer.get(f"{PATH}/check?{query}").json()
    assert (found["warrant_id"], found["revoked"]) == (_TOKEN_ID, True)
    assert check(tenant, _TOKEN_ID) == found
    key = create_key(tenant, "root")["id"]
    order = {"payload": "eyJ9", "format": "raw", "token": {**_TOKEN, "value": "good-2"}}
    made = tenant.admin.post(f"/v1/keys/{key}/sign", json=order)
    assert made.json()["warrant_id"].startswith("svc_wrt_jwt-")
    tenant.admin.post(f"/v1/keys/{key}/revoke", json={"reason": "lost"})
    assert check(tenant, made.json()["warrant_id"])["revoked"]


_BOTH = {"warrant_id": "svc_wrt_a", "token": _TOKEN}


@pytest.mark.parametrize(
    "body",
    [_BOTH, {}, {"token": {**_TOKEN, "kind": "saml"}}, {"token": {**_TOKEN, "value": "a\nb"}}],
)
def test_a_body_names_one_of_both(tenant: Tenant, body: dict[str, Any]) -> None:
    """F1391b, TOKEN-2: Both of warrant and token, neither, or no token of its kind is 400."""
    answer = tenant.admin.post(PATH, json={**body, "reason": "stolen"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
    assert "bad-1" not in answer.text
    assert tenant.admin.get(PATH).json()["total"] == 0


@pytest.mark.parametrize(
    "query",
    [
        "",
        "token_kind=jwt&token_issuer=a",
        "token_issuer=a&token_value=b",
        "token_kind=jwt&token_value=b",
        "token_kind=saml&token_value=b",
        "warrant_id=svc_wrt_a&token_issuer=a",
        "warrant_id=svc_wrt_a&token_kind=other&token_value=b",
    ],
)
def test_a_check_names_one_of_both(tenant: Tenant, query: str) -> None:
    """F1391c, TOKEN-2: A check of both a warrant and a token, of neither, or a part is 400."""
    answer = tenant.authorizer.get(f"{PATH}/check?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


# --- create ---


def test_a_revocation_is_a_few_statements(tenant: Tenant) -> None:
    """F590b: On one machine, a revocation over HTTP is twenty statements of SQL at most."""
    create(tenant, "svc_wrt_first")
    asked: list[str] = []
    store = tenant.ports.store
    assert isinstance(store, SqliteStore)
    store._database.connection.set_trace_callback(asked.append)
    assert create(tenant, "svc_wrt_second").status_code == 201
    assert len(asked) <= 20


@pytest.mark.slow
def test_a_revocation_takes_little_room(tenant: Tenant) -> None:
    """F590c: On one machine, a revocation takes 3 kB of the file at most, with its indexes."""
    store = tenant.ports.store
    assert isinstance(store, SqliteStore)

    def size_after(number: int) -> int:
        for _ in range(number):
            create(tenant, tenant.ports.new_id(WARRANT), "stolen laptop")
        publication.publish_feed(tenant.ports, tenant.id)
        sealing.extend(tenant.ports, tenant.id)
        (pages,) = store._database.connection.execute("PRAGMA page_count").fetchone()
        (unused,) = store._database.connection.execute("PRAGMA freelist_count").fetchone()
        return int(pages - unused) * 4096

    before = size_after(100)
    # Fewer would leave to chance how full the pages are.
    assert (size_after(500) - before) / 500 <= 3_000


def test_a_record_says_what_and_who(tenant: Tenant) -> None:
    """REVOKE-1: A new revocation returns 201 with the record and its creator's identity."""
    answer = create(tenant, "svc_wrt_a", " stolen laptop ")
    assert answer.status_code == 201
    record = answer.json()
    assert record.pop("id").startswith("svc_rev_")
    assert record == {
        "warrant_id": "svc_wrt_a",
        "reason": "stolen laptop",
        "created_at": "2026-11-21T12:00:00Z",
        "created_by": "admin@acme.svc",
        "created_by_name": "admin",
    }


def test_a_record_keeps_the_name_of_who_revoked(tenant: Tenant) -> None:
    """REVOKE-1, F567a: A revocation shows the name of a key that was deleted since.

    The rows of the list have the fields of the contract alone, unless `include` asks for the name.
    """
    body = {"name": "Anna's laptop", "scopes": ["admin"]}
    key = tenant.admin.post("/v1/api-keys", json=body).json()
    anna = tenant.holding(key["key"])
    one = anna.post(PATH, json={"warrant_id": "svc_wrt_a", "reason": "r"}).json()
    batch = {"action": "revoke", "warrant_ids": ["svc_wrt_b"], "reason": "r"}
    (many,) = anna.post(f"{PATH}/batch", json=batch).json()["results"]
    assert tenant.admin.delete(f"/v1/api-keys/{key['id']}").status_code == 204
    for revocation_id in (one["id"], many["revocation_id"]):
        record = tenant.admin.get(f"{PATH}/{revocation_id}").json()
        assert record["created_by_name"] == "Anna's laptop"
        assert record["created_by"] == f"{key['id']}@acme.svc"
    listed = tenant.admin.get(PATH, params={"include": "names"}).json()["revocations"]
    assert [each.pop("created_by_name") for each in listed] == ["Anna's laptop"] * 2
    assert tenant.admin.get(PATH).json()["revocations"] == listed
    assert tenant.admin.get(PATH, params={"include": "secrets"}).status_code == 400


@pytest.mark.parametrize(
    "end", ["2026-11-21T12:00:00Z", "2020-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "soon", 5]
)
def test_an_end_that_is_none(standing: Tenant, end: Any) -> None:
    """REVOKE-3, F568a: An end that is not in the future is 400, and nothing is revoked."""
    body = {"warrant_id": "svc_wrt_a", "reason": "r", "warrant_expires_at": end}
    answer = standing.admin.post(PATH, json=body)
    assert refusal(answer) == (400, "invalid_request")
    assert "warrant_expires_at" in answer.json()["error"]["message"]
    assert check(standing)["revoked"] is False


@pytest.mark.parametrize("signed_end", ["2027-01-01T00:00:00Z", None])
def test_an_end_against_the_signed_one(tenant: Tenant, signed_end: str | None) -> None:
    """REVOKE-3, F43b: The administrator cannot end a warrant before its signed expiry."""
    signed(tenant, create_key(tenant)["id"], warrant_id="svc_wrt_a", expires_at=signed_end)
    assert refusal(ending(tenant, "2026-11-30T00:00:00Z")) == (400, "invalid_request")
    assert check(tenant)["revoked"] is False
    if signed_end is not None:
        assert ending(tenant, signed_end).status_code == 201


def test_an_end_goes_with_its_revocation(tenant: Tenant, clock: Clock) -> None:
    """F43: taken back and revoked again without an end, a warrant stays on the list."""
    record = ending(tenant, "2026-11-30T00:00:00Z").json()
    next_list(tenant)
    tenant.admin.delete(f"{PATH}/{record['id']}")
    tenant.revoke("svc_wrt_a")
    clock.advance(days=30)
    assert next_list(tenant) == ["svc_wrt_a"]
    assert ending(tenant, "2027-01-01T00:00:00Z").status_code == 200
    assert next_list(tenant) == ["svc_wrt_a"]


def ending(tenant: Tenant, end: str | None, **headers: str) -> Any:
    body = {"warrant_id": "svc_wrt_a", "reason": "found again"}
    body |= {"warrant_expires_at": end} if end else {}
    return tenant.admin.post(PATH, json=body, headers=headers)


@pytest.mark.parametrize("days", [1, 100], ids=["left the list", "moved out of its shard"])
@pytest.mark.parametrize("later", ["2027-06-01T00:00:00Z", None])
def test_a_false_end_is_extended(
    tenant: Tenant, clock: Clock, days: int, later: str | None
) -> None:
    """REVOKE-2, F568b: A revocation with a later end, or none, lists a warrant that has left."""
    first = ending(tenant, "2026-11-21T12:01:00Z")
    clock.advance(days=days)
    assert next_list(tenant) == next_list(tenant) == []
    again = [ending(tenant, later, **{"Idempotency-Key": "again"}) for _ in range(2)]
    assert [(each.status_code, each.json()) for each in again] == [(200, first.json())] * 2
    assert check(tenant)["revoked"] is True
    assert next_list(tenant) == ["svc_wrt_a"]
    found = tenant.admin.get(f"{PATH}/{first.json()['id']}").json()
    assert found["feed_sequence"] is not None
    (entry,) = tenant.admin.get("/v1/audit-logs?action=revocation.extend").json()["audit_logs"]
    assert entry["resource_id"] == first.json()["id"]
    assert entry["details"] == {
        "warrant_id": "svc_wrt_a",
        "reason": "found again",
        "was": "2026-11-21T12:01:00Z",
        "warrant_expires_at": later,
    }
    clock.advance(days=400)
    assert next_list(tenant) == ([] if later else ["svc_wrt_a"])
    tenant.admin.delete(f"{PATH}/{first.json()['id']}")
    assert next_list(tenant) == []
    assert tenant.admin.get(PATH).json()["total"] == 0


def test_an_end_is_never_shortened(tenant: Tenant, clock: Clock) -> None:
    """REVOKE-2, F568c: An earlier end of a second revocation changes nothing."""
    ending(tenant, "2027-06-01T00:00:00Z")
    for end in ("2027-06-01T00:00:00Z", "2026-12-01T00:00:00Z"):
        assert ending(tenant, end).status_code == 200
    assert tenant.admin.get("/v1/audit-logs?action=revocation.extend").json()["total"] == 0
    clock.advance(days=150)
    assert next_list(tenant) == ["svc_wrt_a"]


def test_a_false_end_does_not_outdo_the_revocation_of_the_key(tenant: Tenant, clock: Clock) -> None:
    """SRL-9, F568d: A warrant of a revoked key stays listed, also with an end given for it."""
    key_id = create_key(tenant)["id"]
    signed(tenant, key_id, warrant_id="svc_wrt_a", format="raw")
    record = ending(tenant, "2026-11-21T12:01:00Z").json()
    clock.advance(days=1)
    assert next_list(tenant) == []
    assert tenant.admin.post(f"/v1/keys/{key_id}/revoke", json={"reason": "r"}).status_code == 200
    assert next_list(tenant) == ["svc_wrt_a"]
    assert tenant.admin.get(f"{PATH}/{record['id']}").json()["feed_sequence"] is not None
    clock.advance(days=100)
    assert next_list(tenant) == next_list(tenant) == ["svc_wrt_a"]


def test_a_second_revocation_answers_the_first(tenant: Tenant, clock: Clock) -> None:
    """REVOKE-2: A second revocation of a warrant returns the first record with 200."""
    first = create(tenant, reason="first")
    clock.advance(hours=1)
    other = tenant.client(Scope.ADMIN)
    second = other.post(PATH, json={"warrant_id": "svc_wrt_a", "reason": "second"})
    assert second.status_code == 200
    assert second.json() == first.json()
    assert check(tenant)["reason"] == "first"
    assert tenant.admin.get(f"{PATH}?include=names").json()["revocations"] == [first.json()]


# --- delete ---


def test_a_deletion_takes_the_revocation_back(tenant: Tenant) -> None:
    """REVOKE-4: Deleting a revocation makes the warrant valid; deleting it again is 404."""
    record_id = tenant.revoke("svc_wrt_a")
    deletion = tenant.admin.delete(f"{PATH}/{record_id}")
    assert (deletion.status_code, deletion.content) == (204, b"")
    assert check(tenant) == {"warrant_id": "svc_wrt_a", "revoked": False}
    assert refusal(tenant.admin.delete(f"{PATH}/{record_id}")) == (404, "not_found")
    assert tenant.admin.get(PATH).json() == {"revocations": [], "total": 0, "cursor": None}


# --- check ---


def test_a_revoked_warrant_says_when_and_why(tenant: Tenant, clock: Clock) -> None:
    """CHECK-1, CHECK-2: A revocation takes effect at once, and its check has its time and reason.

    No list has it yet.
    """
    clock.advance(seconds=90, microseconds=999_999)
    tenant.revoke("svc_wrt_a", "stolen")
    assert check(tenant) == {
        "warrant_id": "svc_wrt_a",
        "revoked": True,
        "revoked_at": "2026-11-21T12:01:30Z",
        "reason": "stolen",
    }
    assert tenant.admin.get(f"{PATH}/srl").json()["payload"]["RevokedIDs"] == []


@pytest.mark.parametrize("warrant_id", ["svc_wrt_never-seen", "svc_wrt_" + "x" * 64, "svc_wrt_A"])
def test_a_warrant_that_is_not_revoked(tenant: Tenant, warrant_id: str) -> None:
    """CHECK-3: The check of any other warrant, known or not, returns that it is not revoked."""
    tenant.revoke("svc_wrt_a")
    assert check(tenant, warrant_id) == {"warrant_id": warrant_id, "revoked": False}


# --- check-batch ---


def test_a_batch_answers_each_once(tenant: Tenant) -> None:
    """CHECK-4, F23: A batch gives every identifier a verdict and answers duplicates once."""
    tenant.revoke("svc_wrt_a")
    asked = ["svc_wrt_b", "svc_wrt_a", "svc_wrt_A"] + ["svc_wrt_a"] * 997
    assert check_batch(tenant, *asked) == {
        "svc_wrt_b": {"revoked": False},
        "svc_wrt_a": {"revoked": True, "revoked_at": "2026-11-21T12:00:00Z"},
        "svc_wrt_A": {"revoked": False},
    }


@pytest.mark.parametrize("count", [0, 1001, 9_000])
def test_no_more_and_not_none(refilled: None, standing: Tenant, count: int) -> None:
    """CHECK-4: The service refuses a batch of no identifiers, or of more than 1000, with 400.

    Duplicates count.
    """
    allowed = "must have at most 1000 entries" if count else "must have at least one entry"
    for warrant_ids in ([f"svc_wrt_{each}" for each in range(count)], ["svc_wrt_a"] * count):
        answer = standing.authorizer.post(BATCH, json={"warrant_ids": warrant_ids})
        assert refusal(answer) == (400, "invalid_request")
        assert answer.json()["error"]["message"] == f"warrant_ids: {allowed}."


# --- list ---


def test_the_list_has_every_record_newest_first(tenant: Tenant) -> None:
    """REVOKE-6: The list of revocations has every record, newest first, with an exact total.

    A cursor of it is valid with and without names.
    """
    records = [create(tenant, f"svc_wrt_{number}").json() for number in range(5)][::-1]
    listed = tenant.admin.get(f"{PATH}?include=names").json()
    assert listed == {"revocations": records, "total": 5, "cursor": None}
    cursor = tenant.admin.get(f"{PATH}?limit=1").json()["cursor"]
    rest = tenant.admin.get(f"{PATH}?include=names&cursor={cursor}").json()
    assert rest == {"revocations": records[1:], "total": 5, "cursor": None}
