"""The export of the audit log (LOG-20 to LOG-23)."""

import csv
import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from functions.audit_log.export import NEXT_CURSOR
from functions.transparency_log import log, sealing
from functions.transparency_log.checkpoint import Checkpoint
from shared.model.audit.audit_log import AuditAction
from shared.model.items import Value
from shared.operations.audit import audit_log
from shared.operations.base import audit, tenants
from shared.web import costs
from tests.bench.publication import Watched
from tests.functions.logs import walk
from tests.functions.signing import refusal
from tests.kit.api import Client, Tenant, serve
from tests.kit.endpoints import audit_entries, audited
from tests.kit.faults import Script, scripted
from tests.kit.worlds import Clock

PATH = "/v1/audit-logs/export"


def parts(client: Client, between: Callable[[], object] = int, /, **query: Any) -> list[str]:
    """The bodies of all parts, with something done between each and the next."""
    bodies = []
    while True:
        answer = client.get(PATH, params=query)
        assert answer.status_code == 200, answer.text
        bodies.append(answer.text)
        if NEXT_CURSOR not in answer.headers:
            return bodies
        query["cursor"] = answer.headers[NEXT_CURSOR]
        between()


def entries(bodies: list[str]) -> list[dict[str, Any]]:
    lines = [json.loads(line) for body in bodies for line in body.splitlines()]
    return [line["entry"] for line in lines if "entry" in line]


def at(tenant: Tenant, clock: Clock, *moments: str) -> None:
    for moment in moments:
        clock.moment = datetime.fromisoformat(moment)
        tenant.revoke(tenant.ports.new_id("wrt"))


@pytest.mark.parametrize("most", [1, 900, 10**6])
def test_each_entry_is_exported_once(
    tenant: Tenant, clock: Clock, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """LOG-20, F336a: All parts of an export together have each entry once, oldest first."""
    at(tenant, clock, "2026-11-30T23:59:59Z", "2026-12-01T00:00:00Z", "2027-02-01T00:00:00Z")
    monkeypatch.setattr(audit_log, "BYTES_MAX", most)
    monkeypatch.setattr(audit_log, "_ROUND", 2)
    window = {"from_": "2026-01-01T00:00:00Z", "to": "2027-02-01T00:00:00Z"}
    listed = [each["id"] for each in walk(tenant, **window)][::-1]

    def revoke_later() -> None:
        clock.advance(seconds=1)
        tenant.revoke(tenant.ports.new_id("wrt"))

    found = parts(tenant.read_only, revoke_later)
    assert [each["id"] for each in entries(found)] == listed
    assert (len(found) > 2) is (most < 1000)


def test_an_entry_is_exported_as_it_is_stored(tenant: Tenant) -> None:
    """LOG-21: A line of an export has the stored entry as JSON, sorted and without spaces."""
    tenant.revoke("svc_wrt_a", 'stolen “laptop"\n')
    (body,) = parts(tenant.read_only)
    *lines, last = body.splitlines()
    stored = [
        json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        for entry in audit_entries(tenant)
    ]
    assert lines == [f'{{"entry":{each}}}' for each in stored]
    assert "checkpoint" in json.loads(last)


def test_an_export_ends_with_the_newest_checkpoint(tenant: Tenant) -> None:
    """LOG-22, F336c: The last line of an export is the newest checkpoint of the sealed log."""
    tenant.revoke("svc_wrt_a")
    assert json.loads(parts(tenant.read_only)[0].splitlines()[-1]) == {"checkpoint": None}
    sealing.extend(tenant.ports, tenant.id)
    *lines, last = parts(tenant.read_only)[0].splitlines()
    checkpoint = Checkpoint.parse(json.loads(last)["checkpoint"])
    digests = [hashlib.sha256(line[len('{"entry":') : -1].encode()).digest() for line in lines]
    sealed = log.records(tenant.ports, tenant.id, 0, checkpoint.size)
    assert [each.digest for each in sealed] == digests


def test_a_part_says_that_it_is_not_the_end(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOG-22, F336b: Only the last part of an export ends with a checkpoint, others name a next."""
    monkeypatch.setattr(audit_log, "BYTES_MAX", 1)
    lasts = [json.loads(body.splitlines()[-1]) for body in parts(tenant.read_only)]
    assert [[*each] for each in lasts] == [["next"]] * (len(lasts) - 1) + [["checkpoint"]]
    assert len(lasts) == audited(tenant)


def noted(tenant: Tenant, action: AuditAction, resource_id: str, **details: Any) -> str:
    """Leave an entry of the operator's; its identifier."""
    settings = tenants.settings(tenant.ports, tenant.id)
    entry = audit.entry(
        tenant.ports, tenant.operator, action, resource_id, settings=settings, **details
    )
    tenant.ports.store.write(entry)
    return entry.address.sk


def test_a_table_for_people(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """LOG-23, F337a: An export as CSV has the columns once, and no cell that is a formula."""
    for number, name in enumerate(("=1+1", "plain, with comma")):
        noted(tenant, AuditAction.KEY_CREATE, name, n=number)
    monkeypatch.setattr(audit_log, "BYTES_MAX", 900)
    rows = list(csv.DictReader(io.StringIO("".join(parts(tenant.read_only, format="csv")))))
    stored = audit_entries(tenant)
    assert [row["id"] for row in rows] == [entry["id"] for entry in stored]
    assert [json.loads(row["details"]) for row in rows] == [entry["details"] for entry in stored]
    assert [row["resource_id"] for row in rows[-2:]] == ["'=1+1", "plain, with comma"]
    assert rows[-1]["source_ip"] == ""


def test_filters_of_an_export(tenant: Tenant, clock: Clock) -> None:
    """LOG-20: An export has exactly the entries that match all filters of the list."""
    at(tenant, clock, "2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z", "2026-12-20T00:00:00Z")
    everything = entries(parts(tenant.read_only))
    query: dict[str, Any] = {"action": "revocation.create", "from": "2026-12-02T00:00:00Z"}
    assert entries(parts(tenant.read_only, **query)) == everything[-2:]
    query["to"] = "2026-12-02T00:00:00Z"
    assert entries(parts(tenant.read_only, **query)) == everything[-2:-1]
    assert entries(parts(tenant.read_only, to="2020-01-01T00:00:00Z")) == []


@pytest.mark.parametrize(
    "query", ["format=xml", "cursor=x", "limit=1", "action=x", "from=2027-01-01T00:00:00Z", "to=x"]
)
def test_a_malformed_query(tenant: Tenant, query: str) -> None:
    """An unknown format, cursor, parameter or value is 400."""
    assert refusal(tenant.admin.get(f"{PATH}?{query}")) == (400, "invalid_request")


@pytest.mark.slow
def test_an_export_reads_each_entry_about_once(
    tenant: Tenant, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOG-20, F338a: An export reads as many pages for each entry, however many there are."""
    monkeypatch.setattr(audit_log, "BYTES_MAX", 4_000)
    monkeypatch.setattr(audit_log, "_ROUND", 8)
    # So small parts would be too many for the rate limit.
    monkeypatch.setattr(costs, "COST_MAX", 0)
    script = Script()
    client = Client(serve(scripted(tenant.ports, script)), tenant.read_only.secret)
    calls = []
    for _ in range(3):
        for _ in range(40):
            clock.advance(seconds=30)
            tenant.revoke(tenant.ports.new_id("wrt"))
        before = len(script.calls)
        assert len(entries(parts(client))) == audited(tenant)
        calls.append(len(script.calls) - before)
    assert calls[1] < 2.2 * calls[0]
    assert calls[2] < 1.7 * calls[1]


def test_the_entries_of_a_batch(tenant: Tenant) -> None:
    """AUDIT-4, F339a: The audit log and its export are filtered by the batch of the change."""
    for batch_id in ("svc_bat_a", "svc_bat_b", "svc_bat_a"):
        noted(tenant, AuditAction.REVOCATION_CREATE, "svc_rev_x", batch_id=batch_id)
    query: dict[str, Any] = {"batch_id": "svc_bat_a"}
    page = tenant.read_only.get("/v1/audit-logs", params=query).json()
    assert (page["total"], len(page["audit_logs"])) == (2, 2)
    assert len(entries(parts(tenant.read_only, **query))) == 2


def batch(tenant: Tenant, *warrant_ids: str) -> str:
    """Leave the entry of a batch that takes these revocations back; its identifier."""
    named: list[Value] = [{"id": "svc_rev_x", "warrant_id": each} for each in warrant_ids]
    return noted(tenant, AuditAction.REVOCATION_DELETE_BATCH, "svc_bat_a", revocations=named)


@pytest.mark.parametrize("sealed", [0, 1, 3])
def test_what_happened_to_a_warrant(tenant: Tenant, clock: Clock, sealed: int) -> None:
    """LOG-26, F345a: The filter by warrant finds changes of one and of several, sealed or not."""
    made = batch(tenant, "svc_wrt_b", "svc_wrt_a")
    for number in range(3):
        batch(tenant, "svc_wrt_b")
        revocation = tenant.revoke("svc_wrt_a")
        tenant.revoke(tenant.ports.new_id("wrt"))
        if number < sealed:
            sealing.extend(tenant.ports, tenant.id)
        tenant.admin.delete(f"/v1/revocations/{revocation}")
        clock.advance(days=1)
    listed = walk(tenant, warrant_id="svc_wrt_a", limit=2)
    actions = [each["action"].removeprefix("revocation.") for each in listed]
    assert actions == ["delete", "create"] * 3 + ["delete_batch"]
    assert listed[-1]["id"] == made
    exported = entries(parts(tenant.read_only, warrant_id="svc_wrt_a"))
    assert [each["id"] for each in exported] == [each["id"] for each in listed[::-1]]
    query = {"warrant_id": "svc_wrt_a", "action": "revocation.delete_batch"}
    page = tenant.read_only.get("/v1/audit-logs", params=query).json()
    assert [page["total"], page["audit_logs"][-1]["id"]] == [1, made]


def test_one_warrant_costs_what_happened_to_it(tenant: Tenant, clock: Clock) -> None:
    """LOG-26, F345b: Entries about other warrants are not read once they are sealed."""
    tenant.revoke("svc_wrt_a")
    found = []
    for _ in range(2):
        for _ in range(50):
            clock.advance(minutes=1)
            batch(tenant, tenant.ports.new_id("wrt"))
        clock.advance(hours=1)
        sealing.extend(tenant.ports, tenant.id)
        watched = Watched(tenant.ports.store)
        client = Client(serve(replace(tenant.ports, store=watched)), tenant.read_only.secret)
        query = {"warrant_id": "svc_wrt_a", "from": "2026-01-01T00:00:00Z"}
        page = client.get("/v1/audit-logs", params=query).json()
        assert page["total"] == 1
        found.append(watched.read)
    assert found[1] <= found[0] + 1
