"""The schedule: whom it queues, what it says of it, and what stops it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from functions.authorizers import propagation
from functions.authorizers.propagation import FleetSurvey
from functions.authorizers.propagation import survey as survey_authorizers
from functions.srl_publication.handler import handler as publish
from functions.srl_schedule.handler import handler
from infra import data_folder
from shared import wiring
from shared.adapters.aws import sqs
from shared.errors import DataCorrupt, InvalidSettings, Unavailable
from shared.model.callers import Scope
from shared.model.lists.schedule import OutboxMark, PublicationDeadline, warrant_mark_address
from shared.model.signing_keys import SigningKeyType
from shared.operations.access import api_keys
from shared.operations.changes import signing_keys
from shared.operations.lists import expiring, in_force, publication
from shared.operations.lists import marks as srl_marks
from shared.operations.lists import schedule as srl_schedule
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.aws import Account, aws
from tests.kit.faults import Script, raises, scripted
from tests.kit.lambda_events import load, queued
from tests.kit.log_lines import lines, metrics
from tests.kit.processes import ROOT, run
from tests.kit.tenants import Tenant
from tests.operations.fleets import Fleet

if TYPE_CHECKING:
    from pathlib import Path

_WEB = {"fastapi", "starlette", "pydantic", "mangum"}
_AWS = {"boto3", "botocore"}
_HANDLERS = sorted((ROOT / "functions").glob("*/*handler.py"))
_SCHEDULED = ["feed_publication", "srl_schedule", "srl_publication"]

Received = Callable[[], list[list[str]]]


@pytest.fixture
def account() -> Iterator[Account]:
    with aws() as account:
        yield account


@pytest.fixture
def ports(from_environment: Ports, account: Account, monkeypatch: pytest.MonkeyPatch) -> Ports:
    """A folder on this machine, and a queue on AWS."""
    _name_queue(account, monkeypatch)
    return from_environment


def _name_queue(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESCIND_QUEUE", f"sqs:{account.queue_url}")
    wiring.queue_from_environment.cache_clear()


@pytest.fixture
def received(account: Account) -> Iterator[Received]:
    """Take from the queue all that is in it, ten at a time."""
    client = sqs.connect()

    def received() -> list[list[str]]:
        batches = []
        while messages := client.receive_message(
            QueueUrl=account.queue_url, MaxNumberOfMessages=10
        ).get("Messages"):
            batches.append([message["Body"] for message in messages])
        return batches

    yield received
    client.close()
    wiring.queue_from_environment.cache_clear()


def tick() -> dict[str, int]:
    return handler(load("schedule"), None)


def test_it_queues_those_that_are_due_and_no_others(ports: Ports, received: Received) -> None:
    """A tenant whose revocations changed is queued, by its identifier; another one is not."""
    changed = Tenant.create(ports, "acme")
    Tenant.create(ports, "globex")
    changed.revoke(ports, "svc_wrt_a")
    assert tick() == {"queued": 1, "late": 0}
    assert received() == [[changed.id]]
    assert in_force.read_srl_head(ports, changed.id).version == 1


def test_what_was_not_published_is_queued_again(ports: Ports, received: Received) -> None:
    """F08: each tick names who is still due, until a worker has published."""
    tenant = Tenant.create(ports)
    tenant.revoke(ports, "svc_wrt_a")
    assert (tick(), tick()) == ({"queued": 1, "late": 0},) * 2
    (bodies,) = received()
    assert bodies == [tenant.id] * 2
    assert publish(queued(*bodies), None) == {"published": 1, "not due": 1, "failed": 0}
    assert tenant.published(ports).version == 2
    assert tick() == {"queued": 0, "late": 0}


def test_it_announces_keys_that_expire_soon(
    ports: Ports, received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    """APIKEY-11: The schedule announces keys that expire soon, once an hour for each tenant."""
    tenant = Tenant.create(ports)
    long_ago = replace(ports, now=lambda: datetime.now(UTC) - timedelta(days=60))
    end = datetime.now(UTC) + timedelta(days=5)
    signing_keys.create(
        long_ago, tenant.operator, type_=SigningKeyType.ROOT, name="root", expires_at=end
    )
    monkeypatch.setattr(expiring, "is_due", lambda _now: False)
    tick()
    assert "key.expiring" not in tenant.actions(ports)
    monkeypatch.setattr(expiring, "is_due", lambda _now: True)
    monkeypatch.setattr(expiring, "is_tenant_due", lambda tenant_id, _now: tenant_id == tenant.id)
    tick()
    tick()
    assert tenant.actions(ports).count("key.expiring") == 1


def test_it_counts_keys_that_expire_soon(
    ports: Ports, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F520a: The schedule logs how many keys expire soon, each once, by kind and days left.

    Without such keys there is no metric, because each combination of values is billed.
    """
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(expiring, "is_due", lambda _now: True)
    monkeypatch.setattr(expiring, "is_tenant_due", lambda _tenant_id, _now: True)
    tenant, now = Tenant.create(ports), datetime.now(UTC)
    tick()
    assert lines(caplog, "expiring") == []
    long_ago = replace(ports, now=lambda: now - timedelta(days=60))
    for days in (0.5, 5, 6, 40):
        end = now + timedelta(days=days)
        signing_keys.create(
            long_ago, tenant.operator, type_=SigningKeyType.ROOT, name="a", expires_at=end
        )
    scopes, end = (Scope.SIGNER,), now + timedelta(days=20)
    other = Tenant.create(ports, "globex").operator
    api_keys.create(long_ago, other, name="ci", scopes=scopes, expires_at=end)
    tick()
    found = lines(caplog, "expiring")
    assert {
        (each["Kind"], each["Within"], *metrics(each)["CredentialsExpiring"]) for each in found
    } == {("key", "1d", 1, "Count"), ("key", "7d", 2, "Count"), ("api_key", "30d", 1, "Count")}


def test_it_says_how_many_are_due_and_late(
    ports: Ports, received: Received, caplog: pytest.LogCaptureFixture
) -> None:
    """Three metrics a tick, zero among them: an alarm cannot tell missing from well."""
    caplog.set_level(logging.INFO)
    tick()
    _add_turns(ports, datetime.now(UTC) - timedelta(minutes=20), number=2)
    _add_turns(ports, datetime.now(UTC) - timedelta(minutes=10), number=1)
    tick()
    output = [metrics(line) for line in lines(caplog, "schedule")]
    assert output == [
        dict.fromkeys(("DueTenants", "SrlsOverdue", "SrlsExpired"), (0, "Count")),
        {"DueTenants": (3, "Count"), "SrlsOverdue": (2, "Count"), "SrlsExpired": (0, "Count")},
    ]


def test_it_reports_the_age_of_the_oldest_list(
    ports: Ports, caplog: pytest.LogCaptureFixture
) -> None:
    """F431a: Each tick logs the age of the oldest list in force; before the first, no age."""
    caplog.set_level(logging.INFO)
    tick()
    assert not lines(caplog, "age")
    Tenant.create(ports)
    tick()
    (line,) = lines(caplog, "age")
    age, unit = metrics(line)["SrlAgeSeconds"]
    assert 0 <= age < 60
    assert unit == "Seconds"


def _mark_of_a_minute_ago(ports: Ports, tenant: Tenant) -> None:
    mark = OutboxMark(1, set_at=datetime.now(UTC) - timedelta(minutes=1))
    address = warrant_mark_address(tenant.id, "svc_wrt_a")
    ports.store.write(
        Put(address, mark.to_item(), Expect.ABSENT), srl_marks.tenant_mark(tenant.id, "svc_wrt_a")
    )


def test_a_damaged_issue_stops_no_other(
    ports: Ports, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F553i: If the item of a list in force is damaged, a tick does the rest of its work."""

    def damaged(_ports: Ports) -> datetime:
        raise DataCorrupt

    monkeypatch.setattr(srl_schedule, "read_oldest_issue_time", damaged)
    _mark_of_a_minute_ago(ports, Tenant.create(ports))
    tick()
    assert lines(caplog, "unpublished")


def test_it_counts_feeds_that_are_late(ports: Ports, caplog: pytest.LogCaptureFixture) -> None:
    """F553h: A tick counts the tenants with a change that is not published, if there are any."""
    caplog.set_level(logging.INFO)
    tenant = Tenant.create(ports)
    tick()
    assert not lines(caplog, "unpublished")
    _mark_of_a_minute_ago(ports, tenant)
    tick()
    (line,) = lines(caplog, "unpublished")
    assert metrics(line) == {"FeedsLagging": (1, "Count")}


def test_it_counts_the_unknown_authorizers(
    ports: Ports,
    received: Received,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FLEET-15, FLEET-18, F266d: Each fifth minute a tick counts authorizers, and announces them.

    Tenants are queued first, so a fault in the counting delays no list.
    """
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(propagation, "SETTLED_AFTER", timedelta())
    hour = [datetime(2026, 1, 1, 0, minute, tzinfo=UTC) for minute in range(60)]
    assert [each.minute for each in hour if srl_schedule.is_survey_due(each)] == [*range(0, 60, 5)]
    monkeypatch.setattr(srl_schedule, "is_survey_due", lambda _: True)
    tenant = Tenant.create(ports)
    tick()
    assert lines(caplog, "authorizers") == []
    tenant.revoke(ports, "svc_wrt_a")
    publication.publish_feed(ports, tenant.id)
    fleet = Fleet(ports, tenant).add("north", "south")
    tick()
    fleet.report("north", "south")
    tick()
    monkeypatch.setattr(srl_schedule, "is_survey_due", lambda _: False)
    tick()
    counted = [metrics(line)["AuthorizersUnknown"] for line in lines(caplog, "authorizers")]
    assert counted == [(2, "Count"), (0, "Count")]
    assert tenant.actions(ports).count("authorizer.stale") == 2
    monkeypatch.setattr(srl_schedule, "is_survey_due", lambda _: True)
    script = Script(before=dict.fromkeys(range(99), raises(Unavailable("down"))))
    monkeypatch.setattr(propagation, "survey", partial(_survey, scripted(ports, script)))
    received()
    with pytest.raises(Unavailable):
        tick()
    assert received() == [[tenant.id]]


def _survey(broken: Ports, _ports: Ports) -> FleetSurvey | None:
    return survey_authorizers(broken)


def test_a_queue_that_fails_fails_the_tick(
    ports: Ports, account: Account, received: Received, caplog: pytest.LogCaptureFixture
) -> None:
    """Lists grow late where the queue is what fails: that is told first, then the tick fails."""
    caplog.set_level(logging.INFO)
    tenant = Tenant.create(ports)
    tenant.revoke(ports, "svc_wrt_a")
    client = sqs.connect()
    client.delete_queue(QueueUrl=account.queue_url)
    client.close()
    with pytest.raises(Unavailable):
        tick()
    (line,) = lines(caplog, "schedule")
    assert metrics(line)["DueTenants"] == (1, "Count")


@pytest.mark.parametrize("name", ["RESCIND_STORE", "RESCIND_QUEUE"])
def test_wrong_settings_fail_the_tick(
    ports: Ports, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A schedule that was set up wrongly fails, even where nobody is due."""
    monkeypatch.delenv(name)
    wiring.from_environment.cache_clear()
    wiring.queue_from_environment.cache_clear()
    with pytest.raises(InvalidSettings, match=name):
        tick()
    if wiring.from_environment.cache_info().currsize:
        wiring.from_environment().close()


@pytest.mark.slow
@pytest.mark.parametrize("group", _SCHEDULED)
def test_it_loads_no_web_framework(group: str) -> None:
    """A cold start of the schedule loads nothing that only HTTP needs, and no unused adapter."""
    loaded = _loaded_by(f"import functions.{group}.handler")
    assert not loaded & (_WEB | _AWS | {"sqlite3"})


@pytest.mark.slow
@pytest.mark.parametrize("module", [f"{each.parent.name}.{each.stem}" for each in _HANDLERS])
def test_a_function_loads_no_adapter_before_it_is_chosen(module: str) -> None:
    """A cold start of any function loads neither the SDK nor SQLite by itself."""
    loaded = _loaded_by(f"import functions.{module}")
    assert not loaded & (_AWS | {"sqlite3"})


@pytest.mark.slow
def test_one_machine_needs_no_sdk(tmp_path: Path) -> None:
    """On the adapters of one machine, requests and publications are served without the SDK."""
    data_folder.prepare(tmp_path)
    served = (
        "import functions.srl.handler as srl, functions.srl_publication.handler as publication\n"
        "from tests.kit.lambda_events import Request\n"
        "answer = srl.handler(Request('GET', '/v1/revocations/srl').http_api(), None)\n"
        "assert answer['statusCode'] == 401, answer\n"
        "assert publication.handler({'Records': []}, None)['failed'] == 0\n"
    )
    loaded = _loaded_by(served, settings=data_folder.environment(tmp_path))
    assert "sqlite3" in loaded
    assert not loaded & _AWS


def _turn(tenant_id: str, due_at: datetime) -> PublicationDeadline:
    return PublicationDeadline(tenant_id, 1, due_at, due_at + timedelta(minutes=30))


def _add_turns(ports: Ports, due_at: datetime, *, number: int) -> None:
    for each in range(number):
        turn = _turn(f"svc_tnt_{due_at.minute}-{each}", due_at)
        ports.store.write(Put(turn.address, turn.to_item(), Expect.ABSENT))


def _loaded_by(source: str, *, settings: dict[str, str] | None = None) -> set[str]:
    """The packages that a fresh process has loaded after running `source`."""
    # Measuring coverage would load modules of its own.
    alone = {"COVERAGE_PROCESS_CONFIG": "", "COVERAGE_PROCESS_START": ""} | (settings or {})
    output = run("-c", f"{source}\nimport sys\nprint(*sys.modules)", settings=alone)
    assert output.returncode == 0, output.stderr
    return {name.partition(".")[0] for name in output.stdout.split()}
