"""The audit log over HTTP (AUDIT-1 to AUDIT-6)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.adapters.local import sqlite, sqlite_schema
from shared.model.audit.audit_log import SHARDS, AuditAction, EntryFilters
from shared.model.callers import Scope
from shared.operations.audit import audit_log
from shared.operations.base import audit, tenants
from shared.operations.changes import revocations
from shared.operations.operator import onboarding
from shared.ports import Ports
from shared.wiring import identifiers
from tests.bench.publication import Watched
from tests.functions import signing
from tests.functions.logs import PATH, read, walk
from tests.functions.signing import refusal
from tests.kit.api import Client, Tenant, serve
from tests.kit.endpoints import audit_entries, audited
from tests.kit.faults import Script, scripted
from tests.kit.identities import bound, signed_in
from tests.kit.worlds import Clock


def resources(page: dict[str, Any]) -> list[str]:
    return [entry["resource_id"] for entry in page["audit_logs"]]


def at(tenant: Tenant, clock: Clock, *moments: str) -> list[str]:
    """Revoke a warrant at each moment; the records, in that order."""
    made = []
    for moment in moments:
        clock.moment = datetime.fromisoformat(moment)
        made.append(tenant.revoke(tenant.ports.new_id("wrt")))
    return made


# --- entries ---


def test_an_entry(tenant: Tenant) -> None:
    """AUDIT-2: An audit entry has exactly the fields of the contract."""
    body = {"warrant_id": "svc_wrt_a", "reason": "stolen"}
    answer = tenant.admin.post("/v1/revocations", json=body)
    (entry,) = read(tenant, action="revocation.create")["audit_logs"]
    assert entry.pop("id").startswith("svc_evt_")
    assert entry == {
        "timestamp": "2026-11-21T12:00:00Z",
        "actor": "admin@acme.svc",
        "actor_key_id": tenant.admin.key_id,
        "actor_name": "admin",
        "actor_id": None,
        "action": "revocation.create",
        "resource_id": answer.json()["id"],
        "result": "success",
        "source_ip": "203.0.113.1",
        "request_id": answer.headers["x-request-id"],
        "details": {"warrant_id": "svc_wrt_a", "reason": "stolen"},
    }


def test_the_details_of_signing_keys(tenant: Tenant) -> None:
    """What the operations on keys leave: who signed what, and why a key was revoked."""
    key_id = signing.create(tenant)["id"]
    warrant_id = signing.signed(tenant, key_id)
    superseded = signing.superseded(tenant, key_id)
    for action in ("suspend", "enable", "revoke"):
        signing.moved(tenant, key_id, action)
    signed = {"warrant_id": warrant_id, "key_version": 1, "format": "cose", "expires_at": None}
    entries = read(tenant, resource_id=key_id)["audit_logs"]
    assert [(entry["action"], entry["details"]) for entry in entries[::-1]] == [
        ("key.create", {"type": "root", "name": "k", "parent_id": None, "expires_at": None}),
        ("key.sign", signed),
        ("key.rotate", {"superseded_id": superseded, "key_version": 2}),
        ("key.suspend", {}),
        ("key.enable", {}),
        ("key.revoke", {"reason": "lost", "cascade": False, "warrants": 1}),
    ]


def test_an_entry_names_the_session(tenant: Tenant) -> None:
    """AUDIT-2, F2702c: An entry names the session of its caller, and no session of a key."""
    provider = bound(tenant.ports, tenant.operator)
    first, second = (signed_in(tenant.ports, provider) for _ in range(2))
    callers = {first.session.id: first.secret, second.session.id: second.secret}
    for number, secret in enumerate([*callers.values(), tenant.admin.secret]):
        body = {"warrant_id": f"svc_wrt_{number}", "reason": "r"}
        assert tenant.holding(str(secret)).post("/v1/revocations", json=body).is_success
    entries = read(tenant, action="revocation.create")["audit_logs"]
    assert [each["details"].get("session_id") for each in entries[::-1]] == [*callers, None]


def test_a_borrowed_identity_is_recognised(tenant: Tenant, clock: Clock) -> None:
    """AUDIT-2, F67a, S7: The audit log names a deleted or borrowed key in each of its changes."""
    made = tenant.admin.post("/v1/service-accounts", json={"name": "alice"}).json()
    body = {
        "name": "night job",
        "scopes": ["admin"],
        "service_account_id": made["id"],
        "expires_at": "2026-11-22T00:00:00+01:00",
    }
    created = tenant.admin.post("/v1/api-keys", json=body).json()
    borrowed = tenant.holding(created["key"])
    revoked = {"warrant_id": "svc_wrt_framed", "reason": "r"}
    record = borrowed.post("/v1/revocations", json=revoked).json()["id"]
    assert tenant.admin.delete(f"/v1/api-keys/{created['id']}").status_code == 204
    entries = read(tenant, resource_id=created["id"])["audit_logs"]
    assert [entry["actor_name"] for entry in entries] == ["admin", "admin"]
    made = {"name": "night job", "scopes": ["admin"], "service_account_id": made["id"]}
    made |= {"created_by_id": tenant.admin.key_id}
    made |= {"expires_at": "2026-11-21T23:00:00Z", "status": "active"}
    gone = {name: {"old": value, "new": None} for name, value in made.items()}
    begun = {name: {"old": None, "new": value} for name, value in made.items()}
    assert [(entry["action"], entry["actor_key_id"], entry["details"]) for entry in entries] == [
        ("api_key.delete", tenant.admin.key_id, {"name": "night job", "changes": gone}),
        ("api_key.create", tenant.admin.key_id, {"name": "night job", "changes": begun}),
    ]
    (acted,) = read(tenant, actor_key_id=created["id"])["audit_logs"]
    assert (acted["actor"], acted["resource_id"]) == ("alice@acme.svc", record)
    assert acted["actor_name"] == "night job"
    for format_ in ("ndjson", "csv"):
        query = {"actor_key_id": created["id"], "format": format_}
        assert "night job" in tenant.read_only.get(f"{PATH}/export", params=query).text


def test_the_reason_of_what_was_unrevoked(tenant: Tenant, clock: Clock) -> None:
    """REVOKE-5, F69a: The audit log keeps the reason of a revocation that was deleted."""
    record = tenant.revoke("svc_wrt_a", "laptop stolen")
    clock.advance(hours=1)
    other = tenant.client(Scope.ADMIN)
    assert other.delete(f"/v1/revocations/{record}").status_code == 204
    unrevoked, created = read(tenant, warrant_id="svc_wrt_a")["audit_logs"]
    assert created["details"] == {"warrant_id": "svc_wrt_a", "reason": "laptop stolen"}
    assert (unrevoked["action"], unrevoked["actor_key_id"]) == ("revocation.delete", other.key_id)
    assert unrevoked["details"] == created["details"] | {
        "created_at": "2026-11-21T12:00:00Z",
        "created_by": "admin@acme.svc",
    }


def test_the_operator_is_named(ports: Ports) -> None:
    """What an operator does has no key; the entry names the user of the machine instead."""
    onboarding.create_tenant(ports, handle="acme", user="alice")
    created = onboarding.mint_admin_key(ports, handle="acme", user="bob")
    tenant = serve(ports)
    headers = {"Authorization": f"Bearer {created.secret}"}
    entries = tenant.get(PATH, headers=headers).json()["audit_logs"]
    named = [(each["action"], each["details"]["operator"]) for each in entries]
    assert named == [("api_key.create", "bob"), ("tenant.create", "alice")]
    assert {entry["actor"] for entry in entries} == {"system+operator@acme.svc"}


# --- filters ---


def test_each_filter_and_all_of_them(tenant: Tenant) -> None:
    """AUDIT-4: The audit log returns exactly the entries that match all filters."""
    account = tenant.admin.post("/v1/service-accounts", json={"name": "ci"}).json()["id"]
    record_id = tenant.revoke("svc_wrt_a")
    tenant.admin.delete(f"/v1/revocations/{record_id}")
    everything = read(tenant, limit=100)["audit_logs"]
    choices: list[dict[str, str]] = [
        {"action": "revocation.delete"},
        {"actor": "admin@acme.svc"},
        {"actor": "system+operator@acme.svc"},
        {"resource_id": record_id},
        {"resource_id": account, "actor": "admin@acme.svc"},
        {"resource_id": account, "actor": "system+operator@acme.svc"},
        {"action": "revocation.create", "actor": "admin@acme.svc", "resource_id": record_id},
        {"actor_key_id": tenant.admin.key_id},
        {"actor_key_id": tenant.admin.key_id, "action": "service_account.create"},
        {"actor_key_id": tenant.read_only.key_id},
        {"actor": "nobody"},
        {"resource_id": record_id[:-1]},
        {"actor": ""},
    ]
    for wanted in choices:
        expected = [entry for entry in everything if wanted.items() <= entry.items()]
        page = read(tenant, **wanted)
        assert page == {"audit_logs": expected, "total": len(expected), "cursor": None}
    assert len(everything) == audited(tenant) == 6


def test_words_are_found_in_all_values(tenant: Tenant) -> None:
    """AUDIT-4, F1471b: Entries with all words are found; a page reads 1,000 and goes on after."""
    for number in range(3):
        tenant.revoke(f"svc_wrt_{number}", reason=f"Laptop STOLEN in Ürümqi, case {number}")
    for query, found in (
        ("stolen laptop", ["svc_wrt_2", "svc_wrt_1", "svc_wrt_0"]),
        ("ÜRÜMQI WRT_1", ["svc_wrt_1"]),
        ("stolen borrowed", []),
    ):
        page = read(tenant, q=query)
        assert [each["details"]["warrant_id"] for each in page["audit_logs"]] == found
        assert (page["total"], page["cursor"]) == (None, None)
    assert len(walk(tenant, q="stolen", limit=1)) == 3
    assert read(tenant, q="stolen", warrant_id="svc_wrt_1")["total"] == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit_log, "_ROUND", 2)
        page = read(tenant, q="wrt_0")
        assert page["audit_logs"] == []
        assert [each["details"]["warrant_id"] for each in walk(tenant, q="wrt_0")] == ["svc_wrt_0"]
    exported = tenant.admin.get(f"{PATH}/export?q=wrt_1+case").text.splitlines()
    assert len(exported) == 2


def test_the_actions_are_those_of_the_contract() -> None:
    """AUDIT-3: The audit log knows exactly the actions of the contract."""
    kinds = {
        "api_key": "create rotate revoke delete expiring leaked",
        "key": "create rotate revoke suspend enable sign expiring",
        "revocation": "create extend delete create_batch extend_batch delete_batch batch repair",
        "recovery": "complete_review",
        "srl": "regenerate rotate_key create_key activate_key revoke_key",
        "service_account": "create disable enable delete",
        "trust": "publish replace_root",
        "tenant": "create update_settings rename delete cancel_delete update_protected_actions",
        "authorizer": "register remove remove_batch stale",
        "native_signer": "create",
        "status_list": "create allocate rotate_key",
        "identity_provider": "create update delete",
        "person": "disable enable sign_out",
        "session": "create delete",
        "role": "put delete",
        "approval": "request approve reject consume override",
        "audit_log": "rotate_key start_generation statement",
        "webhook": "create update rotate_secret enable disable replay test delete",
    }
    named = {f"{kind}.{verb}" for kind, verbs in kinds.items() for verb in verbs.split()}
    assert {str(action) for action in AuditAction} == named


@pytest.mark.parametrize(
    "query",
    [
        *("action=key.delete", "action=", "action=KEY.CREATE", "result=success"),
        *("warrant_id=", "warrant_id=svc_key_a", "q=", f"q={'w' * 201}"),
        *("from=2026-11-21", "from=2026-11-21T12:00:00", "from=1790000000", "from="),
        *("to=now", "to=2026-11-21 12:00:00Z", "to=2026-11-21T12:00:60Z"),
        # A window that ends before it begins, and times that no calendar has in UTC.
        "from=2026-11-21T12:00:01Z&to=2026-11-21T12:00:00Z",
        *("from=2026-11-21T12:00:01Z", "from=9999-12-31T23:59:59Z"),
        *(f"{name}=0001-01-01T00:00:00%2B01:00" for name in ("from", "to")),
        *(f"{name}=9999-12-31T23:59:59-01:00" for name in ("from", "to")),
        *("from_=2026-11-21T12:00:00Z", "since=2026-11-21T12:00:00Z"),
    ],
)
def test_a_malformed_query(standing: Tenant, query: str) -> None:
    """Another action, time or parameter, or a window that ends before it begins, is 400."""
    assert refusal(standing.admin.get(f"{PATH}?{query}")) == (400, "invalid_request")


# --- times ---


def test_the_last_seven_days_are_the_default(tenant: Tenant, clock: Clock) -> None:
    """AUDIT-4: Without times, the audit log shows the last seven days."""
    made = at(tenant, clock, "2026-12-01T11:59:59Z", "2026-12-01T12:00:00Z", "2026-12-08T12:00:00Z")
    old, week, new = made
    assert resources(read(tenant)) == [new, week]
    assert resources(read(tenant, from_="2026-12-01T00:00:00Z")) == [new, week, old]
    assert resources(read(tenant, to="2026-12-08T11:59:59Z")) == [week, old]


@pytest.mark.parametrize("limit", [1, 2])
def test_a_clock_ahead_at_the_end_of_a_month(tenant: Tenant, clock: Clock, limit: int) -> None:
    """F09: an identifier from the next month hides no entry of the last."""
    clock.moment = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC)
    ahead = replace(tenant.ports, new_id=identifiers(lambda: clock.moment + timedelta(minutes=5)))
    for number in range(3):
        revocations.create(ahead, tenant.operator, warrant_id=f"svc_wrt_{number}", reason="r")
    clock.advance(seconds=2)
    for number in range(3, 6):
        tenant.revoke(f"svc_wrt_{number}")
    entries = walk(tenant, limit=limit, action="revocation.create")
    assert sorted(entry["details"]["warrant_id"][-1] for entry in entries) == list("012345")


_BEGIN, _END = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        *(({"from": _BEGIN} | more, True) for more in ({}, {"to": _END})),
        ({"from": "2026-11-21T00:00:00Z", "to": _END}, True),
        *(({"from": each, "to": each}, False) for each in (_BEGIN, _END)),
        *(({"to": each}, False) for each in (_BEGIN, "0001-01-07T00:00:00Z", _END)),
        ({"to": "1999-12-31T23:59:59Z"}, False),
    ],
    ids=str,
)
def test_extreme_times(tenant: Tenant, query: dict[str, str], found: bool) -> None:
    """The ends of the calendar are times like any other."""
    answer = tenant.admin.get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    assert answer.json()["total"] == (3 if found else 0)


def test_the_whole_calendar_is_not_walked(tenant: Tenant) -> None:
    """However wide the window, only the months that can hold an entry are read."""
    script = Script()
    window = EntryFilters(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    page = audit_log.page(
        scripted(tenant.ports, script), tenant.operator, filters=window, before=None, limit=10
    )
    assert page.total == 3
    assert len(script.calls) <= 2 * SHARDS * (12 * 10 + 2)


# --- pages ---


@pytest.mark.parametrize("query", [{}, {"warrant_id": "svc_wrt_long"}], ids=["all", "warrant"])
def test_long_entries_are_on_more_pages(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
) -> None:
    """AUDIT-5, F545a: A page ends before it is longer than Lambda answers; no entry is left out."""
    monkeypatch.setattr(audit_log, "BYTES_MAX", 5_000)
    for _ in range(4):
        made = tenant.revoke("svc_wrt_long", reason="語" * 700)
        assert tenant.admin.delete(f"/v1/revocations/{made}").status_code == 204
    everything = [str(each["id"]) for each in reversed(audit_entries(tenant))]
    shown = everything[:8] if query else everything
    first = read(tenant, **query, limit=100)
    assert [each["id"] for each in first["audit_logs"]] == shown[:2]
    assert [each["id"] for each in walk(tenant, **query, limit=100)] == shown
    monkeypatch.setattr(audit_log, "BYTES_MAX", 1)
    assert [each["id"] for each in walk(tenant, **query, limit=100)] == shown


# --- what a page costs ---


class Counted:
    """A tenant with many entries over many hours; what the store reads of its file is counted."""

    ENTRIES = 600

    def __init__(self, tenant: Tenant, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        self.watched = Watched(tenant.ports.store)
        self._decoded = 0
        ports = tenant.ports
        for number in range(self.ENTRIES):
            clock.advance(minutes=10)
            caller = replace(tenant.operator, key_id=f"svc_ak_{number % 3}")
            settings = tenants.settings(ports, tenant.id)
            change = audit.entry(
                ports,
                caller,
                [AuditAction.KEY_SIGN, AuditAction.KEY_CREATE][number % 50 == 7],
                f"svc_key_{number % 2}",
                settings=settings,
                warrant_id=f"svc_wrt_{number}",
            )
            ports.store.write(change)
        self.client = Client(serve(replace(ports, store=self.watched)), tenant.admin.secret)
        decode = sqlite_schema.from_row

        def counting(*row: Any) -> dict[str, Any]:
            self._decoded += 1
            return decode(*row)

        monkeypatch.setattr(sqlite, "from_row", counting)

    def read(self, **query: Any) -> tuple[dict[str, Any], int]:
        """A page, and how many items were read of the file for it."""
        names = {"from_": "from"}
        parameters = {names.get(name, name): value for name, value in query.items()}
        before = self._decoded
        answer = self.client.get(PATH, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json(), self._decoded - before


@pytest.fixture
def counted(tenant: Tenant, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(tenant, clock, monkeypatch)


# The caller's key and its usage, the entry of the page that follows, and the blocks of 17.5 minutes
# that a window cuts or that hold one entry that is shown.
# A partition that has more than its share is read once more.
BESIDE = 10 + 8 * SHARDS


# How many entries match each query.
TOTALS: list[tuple[dict[str, str], int]] = [
    ({}, 603),
    ({"actor_key_id": "svc_ak_1"}, 200),
    ({"action": "key.create"}, 12),
    ({"actor_key_id": "svc_ak_1", "action": "key.create"}, 4),
    ({"resource_id": "svc_key_1"}, 300),
    ({"warrant_id": "svc_wrt_3"}, 1),
    ({"actor": "nobody"}, 0),
    ({"from_": "2026-11-24T12:00:00Z", "to": "2026-11-24T12:00:00Z"}, 1),
    ({"from_": "2026-11-24T12:00:00Z", "to": "2026-11-24T12:59:59Z"}, 6),
]


def test_a_page_costs_what_it_shows(counted: Counted) -> None:
    """AUDIT-5, F70a, S6: A page of the audit log reads little more than what it shows."""
    for query, total in TOTALS:
        for limit in (1, 20):
            page, read_ = counted.read(**query, limit=limit)
            assert page["total"] == total, query
            assert len(page["audit_logs"]) == min(limit, total)
            assert read_ <= 2 * min(limit, total) + BESIDE, query


def test_a_later_page_counts_nothing_again(counted: Counted) -> None:
    """F70b: Later pages of the audit log return the first page's total without a new count."""
    page, first = counted.read(limit=100)
    while page["cursor"]:
        counts = counted.watched.counts
        page, read_ = counted.read(limit=100, cursor=page["cursor"])
        assert (page["total"], counted.watched.counts) == (603, counts)
        assert read_ <= 2 * first


def test_a_walk_keeps_its_window(tenant: Tenant, clock: Clock) -> None:
    """F70c: A walk over the audit log keeps the time window of its first page."""
    at(tenant, clock, "2026-12-01T12:00:00Z", "2026-12-02T12:00:00Z", "2026-12-08T12:00:00Z")
    walked = walk(tenant, lambda: clock.advance(minutes=1), limit=1)
    assert len(walked) == 3


# --- whose, and how long ---


def test_no_entry_of_another_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    """TENANT-5, F12: The audit log shows no entry of another tenant."""
    before = read(tenant)
    foreign = other_tenant.revoke("svc_wrt_a")
    assert read(tenant) == before
    assert read(tenant, resource_id=foreign)["total"] == 0
    assert read(tenant, actor="admin@globex.svc")["total"] == 0


def test_entries_go_when_their_time_is_over(tenant: Tenant, clock: Clock) -> None:
    """AUDIT-6: An audit entry disappears when its retention is over."""
    window = {"from_": "2026-11-01T00:00:00Z", "action": "tenant.create"}
    clock.advance(days=400, seconds=-1)
    assert read(tenant, **window)["total"] == 1
    clock.advance(seconds=1)
    assert read(tenant, **window) == {"audit_logs": [], "total": 0, "cursor": None}
