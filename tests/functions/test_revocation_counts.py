"""Revocations per day over HTTP, and how they are counted (REVOKE-31)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from functions.transparency_log import head as head_model
from functions.transparency_log import log, sealing, signers
from shared.errors import DataCorrupt
from shared.operations.base import audit
from shared.ports import Ports
from shared.ports.store import Put, VersionIs
from tests.functions.batches.calls import BATCH, OTHER, done, revoke
from tests.kit import faults
from tests.kit.api import Tenant
from tests.kit.worlds import Clock

PATH = "/v1/revocations/counts"

Numbers = tuple[int | None, int | None]


def counts(tenant: Tenant, **query: str) -> dict[str, Any]:
    answer = tenant.admin.get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def numbers(tenant: Tenant, **query: str) -> dict[str, Numbers]:
    """What was created and removed, by day."""
    days = counts(tenant, **query)["days"]
    return {each["date"]: (each["created"], each["deleted"]) for each in days}


def test_each_change_is_counted_on_its_day(tenant: Tenant, clock: Clock) -> None:
    """REVOKE-31, F441a: Each revocation is counted on the day of its change, and each deletion.

    A batch counts each of its warrants; what changes nothing counts for nothing.
    """
    first = tenant.revoke("svc_wrt_a")
    clock.advance(days=1)
    for batch in (BATCH, BATCH):
        revoke(tenant, *(f"svc_wrt_{number}" for number in range(30)), batch_id=batch)
    assert tenant.admin.delete(f"/v1/revocations/{first}").status_code == 204
    sealing.extend(tenant.ports, tenant.id)
    clock.advance(days=10)
    body = {"action": "unrevoke", "warrant_ids": ["svc_wrt_1", "svc_wrt_2", "svc_wrt_x"]}
    done(tenant, **body, batch_id=OTHER)
    body = {"warrant_id": "svc_wrt_3", "reason": "again"}
    assert tenant.admin.post("/v1/revocations", json=body).status_code == 200
    for _ in range(2):
        sealing.extend(tenant.ports, tenant.id)
    found = numbers(tenant, **{"from": "2026-11-20", "to": "2026-12-02"})
    assert list(found)[:3] == ["2026-11-20", "2026-11-21", "2026-11-22"]
    assert {day: each for day, each in found.items() if each != (0, 0)} == {
        "2026-11-20": (None, None),
        "2026-11-21": (1, 0),
        "2026-11-22": (30, 1),
        "2026-12-02": (0, 2),
    }
    assert counts(tenant)["counted_since"] == "2026-11-21"


_NUMBERS = ("created", "deleted", "by_key")


def test_hours_and_keys_are_counted(tenant: Tenant, clock: Clock) -> None:
    """REVOKE-31, F1476a: `interval=hour` counts hours; `by_key` what a revoked key had signed."""
    admin = tenant.admin
    key = admin.post("/v1/keys", json={"type": "root", "name": "r"}).json()["id"]
    for number in range(3):
        body = {"payload": "cGF5", "warrant_id": f"svc_wrt_signed-{number}"}
        assert admin.post(f"/v1/keys/{key}/sign", json=body).status_code == 201
    tenant.revoke("svc_wrt_a")
    clock.advance(hours=2)
    revoke(tenant, *(f"svc_wrt_{number}" for number in range(30)), batch_id=BATCH)
    answer = admin.post(f"/v1/keys/{key}/revoke", json={"reason": "stolen"})
    assert answer.status_code == 200, answer.text
    sealing.extend(tenant.ports, tenant.id)
    clock.advance(days=1)
    answer = counts(tenant, **{"from": "2026-11-20", "to": "2026-11-22", "interval": "hour"})
    assert (answer["counted_since"], answer["days"], len(answer["hours"])) == ("2026-11-21", [], 72)
    hours = {each["start"]: tuple(each[name] for name in _NUMBERS) for each in answer["hours"]}
    assert hours["2026-11-20T23:00:00Z"] == (None, None, None)
    assert {hour: each for hour, each in hours.items() if any(each)} == {
        "2026-11-21T12:00:00Z": (1, 0, 0),
        "2026-11-21T14:00:00Z": (30, 0, 3),
    }
    day = counts(tenant, **{"from": "2026-11-21", "to": "2026-11-21"})["days"]
    assert day == [{"date": "2026-11-21", "created": 31, "deleted": 0, "by_key": 3}]
    refused = admin.get(PATH, params={"from": "2026-10-20", "to": "2026-11-20", "interval": "hour"})
    assert refused.status_code == 400


def test_nothing_is_known_before_the_first_pass(tenant: Tenant) -> None:
    """REVOKE-31: Without a query the last 14 days are asked for; none is known at first."""
    tenant.revoke("svc_wrt_a")
    answer = counts(tenant)
    assert answer["counted_since"] is None
    assert len(answer["days"]) == 14
    assert answer["days"][-1] == {"date": "2026-11-21"} | dict.fromkeys(_NUMBERS)


@pytest.mark.slow
def test_each_change_is_counted_once_whatever_fails(tenant: Tenant, ports: Ports) -> None:
    """REVOKE-31, F441b: A change is counted once, wherever a pass is killed or meets another."""
    number = 0
    while True:
        tenant.revoke(f"svc_wrt_{number}")
        meanwhile: Callable[[], object] = faults.raises(faults.Crash())
        if number % 2:
            meanwhile = lambda: sealing.extend(ports, tenant.id)  # noqa: E731
        script = faults.Script(before={number // 2: meanwhile})
        try:
            sealing.extend(faults.scripted(ports, script), tenant.id)
        except faults.Crash:
            assert number % 2 == 0
        number += 1
        if number // 2 > len(script.calls):
            break
    assert number > 20
    sealing.extend(ports, tenant.id)
    assert numbers(tenant)["2026-11-21"] == (number, 0)


def test_a_log_without_the_start_of_its_counts_is_corrupt(tenant: Tenant) -> None:
    """REVOKE-31, F442a: A log with entries is not sealed while the start of its counts is lost."""
    tenant.revoke("svc_wrt_a")
    sealing.extend(tenant.ports, tenant.id)
    head = log.head(tenant.ports, tenant.id)
    assert head is not None
    lost = {name: each for name, each in head.to_item().items() if name != "counted_from"}
    place = head_model.address(tenant.id)
    tenant.ports.store.write(
        Put(place, lost | {"version": head.version + 1}, VersionIs(head.version))
    )
    assert counts(tenant)["counted_since"] is None
    tenant.revoke("svc_wrt_b")
    with pytest.raises(DataCorrupt, match="start of its counts"):
        sealing.extend(tenant.ports, tenant.id)


@pytest.mark.parametrize("is_restored", [False, True])
def test_a_log_that_begins_counts_what_is_retained(
    tenant: Tenant, clock: Clock, *, is_restored: bool
) -> None:
    """REVOKE-31, F442b: The first pass of a log, also after a restore, counts 28 days back.

    It counts nothing twice, and no day of which entries may have expired.
    """
    for number in range(4):
        tenant.revoke(f"svc_wrt_{number}")
        if is_restored:
            sealing.extend(tenant.ports, tenant.id)
        clock.advance(days=20)

    def entry(*named: Any, **details: Any) -> Put:
        return audit.entry(tenant.ports, tenant.operator, *named, **details)

    if is_restored:
        signers.begin(tenant.ports, tenant.id, entry)
    clock.advance(minutes=1)
    sealing.extend(tenant.ports, tenant.id)
    today = clock().date()
    found = counts(tenant, **{"from": "2026-11-21"})
    assert found["counted_since"] == str(today - timedelta(days=28))
    known = {each["date"]: each["created"] for each in found["days"] if each["created"]}
    assert known == {str(today - timedelta(days=20)): 1}
    assert numbers(tenant, **{"from": "2026-11-21"})["2026-11-21"] == (None, None)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        *(({"from": each, "to": "2026-11-21"}, "from") for each in ("2026-11-22", "2026-08-21")),
        *(({"from": each}, "from") for each in ("2026-11-22", "20261121", "2026-W47-6")),
        *(({"to": each}, "to") for each in ("2026-02-30", "1999-12-31", "1795262400", "")),
        ({"to": "2026-11-21T12:00:00Z"}, "to"),
    ],
)
def test_which_days_may_be_asked_for(standing: Tenant, query: dict[str, str], names: str) -> None:
    """REVOKE-31: At most 92 days are asked for, as dates, and not backwards."""
    answer = standing.admin.get(PATH, params=query)
    assert answer.status_code == 400, answer.text
    assert names in answer.json()["error"]["message"]
    assert len(counts(standing, **{"from": "2026-08-22", "to": "2026-11-21"})["days"]) == 92
    assert counts(standing, to="2000-01-01")["days"][0]["date"] == "1999-12-19"
    assert counts(standing, **{"from": "9999-12-31", "to": "9999-12-31"})["days"]
