"""Searching the revocations over HTTP (REVOKE-30)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.model import times
from shared.model.callers import Scope
from shared.model.revocations import shard_of
from shared.operations.changes import revocation_search, revocations
from shared.operations.lists import records, wake
from shared.wiring import identifiers
from tests.functions.batches.calls import BATCH, MANY, OTHER, done, revoke
from tests.functions.bodies import variants
from tests.kit.api import Client, Tenant, serve
from tests.kit.intercepted import Call, Intercepted
from tests.kit.reads import reading
from tests.kit.worlds import Clock

PATH = "/v1/revocations"


def walk(client: Client, **query: Any) -> list[str]:
    """The warrants of all pages, in order; every page has a null total."""
    found, cursor = list[str](), dict[str, str]()
    while True:
        answer = client.get(PATH, params={**query, **cursor})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert page["total"] is None
        assert len(page["revocations"]) <= int(query.get("limit", 50))
        found += [each["warrant_id"] for each in page["revocations"]]
        if page["cursor"] is None:
            return found
        cursor = {"cursor": page["cursor"]}


@pytest.fixture
def hours(tenant: Tenant, clock: Clock) -> list[str]:
    """Revocations of ten hours, those of odd hours by another key of another identity."""
    other = tenant.client(Scope.REVOKER)
    for hour in range(10):
        body = {"warrant_id": f"svc_wrt_{hour}", "reason": f"Laptop {hour} stolen"}
        caller = other if hour % 2 else tenant.admin
        assert caller.post(PATH, json=body).status_code == 201
        clock.advance(hours=1)
    return [f"svc_wrt_{hour}" for hour in range(10)][::-1]


def test_each_filter(tenant: Tenant, clock: Clock, hours: list[str]) -> None:
    """REVOKE-30, F356a: The list has exactly the revocations that match all filters."""
    admin, begin = tenant.admin, clock() - timedelta(hours=10)
    moment = {hour: times.format_utc(begin + timedelta(hours=hour)) for hour in range(10)}
    for limit in (1, 3, 100):
        assert walk(admin, limit=limit, created_by="admin@acme.svc") == hours[1::2]
        assert walk(admin, limit=limit, actor_key_id=admin.key_id) == hours[1::2]
        assert walk(admin, limit=limit, reason="LAPTOP") == hours
        assert walk(admin, limit=limit, reason="7 st") == ["svc_wrt_7"]
        assert walk(admin, limit=limit, **{"from": moment[3]}) == hours[:7]
        assert walk(admin, limit=limit, to=moment[3]) == hours[6:]
        window = {"from": moment[2], "to": moment[5]}
        assert walk(admin, limit=limit, **window) == hours[4:8]
        assert walk(admin, limit=limit, **window, actor_key_id=admin.key_id) == [
            *("svc_wrt_4", "svc_wrt_2")
        ]
        assert walk(admin, limit=limit, warrant_id="svc_wrt_4") == ["svc_wrt_4"]
        assert walk(admin, limit=limit, warrant_id="svc_wrt_4", reason="other") == []
        assert walk(admin, limit=limit, warrant_id="svc_wrt_none") == []
    assert walk(admin, **{"from": "0001-01-01T00:00:00Z", "to": "9999-12-31T23:59:59Z"}) == hours


def test_the_window_is_exact(tenant: Tenant, clock: Clock) -> None:
    """REVOKE-30, F356d: The window is that of the records' times, and not of their identifiers."""
    moments = []
    for number in range(5):
        # An identifier is made before the time of the record is taken.
        early = identifiers(lambda: clock() - timedelta(milliseconds=100))
        revocations.create(
            replace(tenant.ports, new_id=early),
            tenant.operator,
            warrant_id=f"svc_wrt_{number}",
            reason="r",
        )
        moments.append(times.format_utc(clock()))
        clock.advance(seconds=20)
    window = {"from": moments[1], "to": moments[3]}
    assert walk(tenant.admin, **window) == ["svc_wrt_3", "svc_wrt_2", "svc_wrt_1"]


def test_the_revocations_of_a_batch(tenant: Tenant) -> None:
    """REVOKE-30, F356b: The filter by batch has each revocation of the batch that still holds."""
    tenant.revoke("svc_wrt_alone")
    first = revoke(tenant, *MANY[:70], batch_id=BATCH)
    revoke(tenant, *MANY[60:], batch_id=BATCH)
    revoke(tenant, "svc_wrt_other", batch_id=OTHER)
    back = [each["revocation_id"] for each in first["results"]][:5]
    done(tenant, action="unrevoke", revocation_ids=back, batch_id=BATCH)
    for limit in (7, 100):
        assert sorted(walk(tenant.admin, limit=limit, batch_id=BATCH)) == MANY[5:]
    assert walk(tenant.admin, batch_id="svc_bat_none") == []
    assert walk(tenant.admin, batch_id=BATCH, reason="other") == []


@pytest.mark.parametrize("batch_id", ["", "svc_bat_none", BATCH + "\n", "x" * 3000])
def test_no_batch_has_another_identifier(tenant: Tenant, batch_id: str) -> None:
    """REVOKE-30, F485a: A malformed batch finds nothing, also if it could not name a partition.

    The store is not asked: DynamoDB refuses a partition key of more than 2048 bytes.
    """
    seen: list[str] = []

    def note(call: Call) -> Any:
        seen.append(call.verb)
        return call()

    watched = replace(tenant.ports, store=Intercepted(tenant.ports.store, note))
    assert walk(Client(serve(watched), tenant.admin.secret), batch_id=batch_id) == []
    assert seen
    assert "query" not in seen


@pytest.fixture
def named(tenant: Tenant, clock: Clock) -> list[str]:
    """Revocations of names that begin alike, in order; some warrants have ended long ago."""
    names = [f"svc_wrt_{name}" for name in ("-", "a", "a-1", "a-2", "aa", "a_", "b", "B", "z")]
    gone = ["svc_wrt_a-0", "svc_wrt_gone", "svc_wrt_a-9"]
    for age, name in enumerate([*reversed(names), *gone]):
        if name in gone:
            tenant.revoke_ended(name, clock() - timedelta(days=90 + age), f"r {name}")
        else:
            tenant.revoke(name, f"r {name}")
    wake.publish_within_window(tenant.ports, tenant.id)
    records.move_ended(tenant.ports, tenant.id, gone, since=clock())
    assert sum(1 for _ in records.read_ended(tenant.ports, shard_of(tenant.id, gone[0])))
    return [*sorted(names), *reversed(gone)]


def test_the_beginning_of_a_name(tenant: Tenant, named: list[str]) -> None:
    """REVOKE-30, F443a: The filter by prefix has each record of such a name once, in order.

    Records of warrants that ended long ago come last, and other filters apply as well.
    """
    admin = tenant.admin
    for limit in (1, 2, 4, 100):
        for prefix in (f"svc_wrt_{each}" for each in ("", "a", "a-", "a-2", "-", "g")):
            found = [name for name in named if name.startswith(prefix)]
            assert walk(admin, limit=limit, warrant_prefix=prefix) == found
            reason = walk(admin, limit=limit, warrant_prefix=prefix, reason="R SVC_WRT_A")
            assert reason == [name for name in found if name.startswith("svc_wrt_a")]
    assert walk(admin, warrant_prefix="svc_wrt_a", warrant_id="svc_wrt_a-1") == ["svc_wrt_a-1"]
    assert walk(admin, warrant_prefix="svc_wrt_b", warrant_id="svc_wrt_a-1") == []


def test_a_name_is_found_at_a_bounded_cost(
    tenant: Tenant, named: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """REVOKE-30, F443b: A search by prefix reads no record of another name.

    Of warrants that ended long ago, a page looks at a bounded number.
    """
    assert named
    revoke(tenant, *MANY, batch_id=BATCH)
    with reading(tenant.ports) as (ports, reads):
        client = Client(serve(ports), tenant.admin.secret)
        found = client.get(PATH, params={"warrant_prefix": "svc_wrt_a-1"}).json()
    assert len(found["revocations"]) == 1
    assert reads.items < 20
    monkeypatch.setattr(revocation_search, "_READ_MOST", 1)
    page = tenant.admin.get(PATH, params={"warrant_prefix": "svc_wrt_g"}).json()
    assert (page["revocations"], page["cursor"] is None) == ([], False)
    assert walk(tenant.admin, warrant_prefix="svc_wrt_g") == ["svc_wrt_gone"]


def test_a_page_reads_a_bounded_number(
    tenant: Tenant, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REVOKE-30, F356c: A page of a search reads a bounded number of records, and has a cursor."""
    monkeypatch.setattr(revocation_search, "_READ_MOST", 20)
    clock.advance(minutes=1)
    revoke(tenant, *MANY, batch_id=BATCH)
    clock.advance(minutes=1)
    for query in ({"reason": "none"}, {"reason": "none", "batch_id": BATCH}):
        with reading(tenant.ports) as (ports, reads):
            page = Client(serve(ports), tenant.admin.secret).get(PATH, params=query).json()
        assert reads.items < len(MANY)
        assert page["revocations"] == []
        assert page["cursor"] is not None
        assert walk(tenant.admin, **query) == []
    assert sorted(walk(tenant.admin, reason="R", limit=3)) == MANY


@pytest.mark.parametrize(
    "query",
    [
        {"from": "2026-11-02T00:00:00Z", "to": "2026-11-01T00:00:00Z"},
        *({"from": "yesterday"}, {"warrant_id": "no"}, {"created-by": "admin"}),
        *variants({}, "reason", "", "x" * 257),
        *variants({}, "warrant_prefix", "", "laptop", "svc_wrt_a~", "svc_wrt_" + "x" * 65),
    ],
)
def test_filters_that_say_nothing(standing: Tenant, query: dict[str, str]) -> None:
    """REVOKE-30: A malformed filter, or a window that ends before it begins, is 400."""
    answer = standing.admin.get(PATH, params=query)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
