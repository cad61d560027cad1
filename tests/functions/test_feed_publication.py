"""The feed as the stream wakes it: which records reach the function, and what it publishes."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import boto3
import pytest
from moto.events.models import EventPattern

import functions.feed_publication.handler as feed_publication
from functions.feed_publication.handler import handler
from functions.trust import publishing
from shared import wiring
from shared.errors import Unavailable
from shared.model.callers import Scope
from shared.model.items import Address, Table
from shared.model.lists import schedule
from shared.model.tenants import settings_address
from shared.operations.access import api_keys
from shared.operations.base import operation
from shared.operations.lists import in_force, journal, marks, publication
from shared.ports import Ports
from shared.ports.store import Delete, Expect
from tests.infra.templates import events, variables
from tests.kit.aws import REGION, Account, aws, stack
from tests.kit.intercepted import Call, Intercepted
from tests.kit.lambda_events import Event, load, streamed
from tests.kit.log_lines import lines, metrics
from tests.kit.tenants import Tenant, break_off
from tests.kit.waiting import soon

(MAPPING,) = events("FeedPublication", "DynamoDB")
(FILTER,) = MAPPING["FilterCriteria"]["Filters"]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "PACING", operation.RetryPacing(pause=0, in_flight=0.01))


@pytest.fixture
def ports(from_environment: Ports) -> Ports:
    return from_environment


def outcome(*, published: int = 0, nothing: int = 0, left: int = 0, failed: int = 0) -> Any:
    return {"published": published, "nothing new": nothing, "left": left, "failed": failed}


def changed(ports: Ports, *handles: str) -> list[Tenant]:
    """Tenants of whom each revoked a warrant."""
    tenants = [Tenant.create(ports, handle) for handle in handles]
    for tenant in tenants:
        tenant.revoke(ports, "svc_wrt_a")
    return tenants


def wake(ports: Ports) -> dict[str, int]:
    """Deliver a record for each mark that stands."""
    return handler(streamed(*marks.read_versions(ports)), None)


def sequences(ports: Ports, *tenants: Tenant) -> list[int]:
    heads = [in_force.read_feed_head(ports, each.id) for each in tenants]
    return [head.sequence for head in heads if head is not None]


def test_a_mark_wakes_the_feed(ports: Ports) -> None:
    """F223a: The function publishes the feed of each tenant with a mark in the batch, once."""
    first, second = changed(ports, "acme", "globex")
    other = Tenant.create(ports, "initech")
    first.revoke_key(ports, first.key(ports))
    # Of each change one, and one of the new key.
    assert len(marks.read_versions(ports)) == 4
    assert wake(ports) == outcome(published=2)
    assert sequences(ports, first, second, other) == [1, 1, 0]


def test_an_event_as_aws_sends_it() -> None:
    """The event of one record is understood; its address is one that a mark has."""
    (record,) = load("stream")["Records"]
    keys = record["dynamodb"]["Keys"]
    address = Address(Table.KEYS, keys["pk"]["S"], keys["sk"]["S"])
    tenant_id = schedule.tenant_of_mark(address.sk)
    places = {schedule.mark_address(tenant_id, f"svc_wrt_{number}") for number in range(5000)}
    assert address in places


def test_a_tenant_that_fails_stops_no_other(ports: Ports, caplog: pytest.LogCaptureFixture) -> None:
    """F223b: A tenant whose feed fails is logged and counted, and stops no other tenant."""
    tenants = changed(ports, "acme", "globex", "initech")
    ports.store.write(Delete(settings_address(tenants[1].id), Expect.PRESENT))
    assert wake(ports) == outcome(published=2, failed=1)
    assert sequences(ports, *tenants) == [1, 0, 1]
    (failed,) = [line for line in lines(caplog, "feed") if "error" in line]
    assert failed["tenant_id"] == tenants[1].id
    assert metrics(failed) == {"FeedWoken": (1, "Count"), "FeedPublicationFailed": (1, "Count")}


@pytest.mark.parametrize("is_silent", [False, True])
def test_blobs_that_are_away_delay_no_feed(
    ports: Ports,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_silent: bool,
) -> None:
    """F1680d: Blobs that fail or do not answer delay no feed, also for a revoked key.

    Both failures are logged, and the marks on the key stay for the schedule. An invocation does not
    wait for blobs that do not answer.
    """
    (tenant,) = changed(ports, "acme")
    publishing.keep(ports, tenant.id)
    tenant.revoke_key(ports, tenant.key(ports))
    answers = threading.Event()

    def run(call: Call) -> Any:
        if answers.is_set() or (is_silent and answers.wait(60)):
            return call()
        raise Unavailable

    away = replace(ports, blobs=Intercepted(ports.blobs, run))
    with monkeypatch.context() as patched:
        patched.setattr(wiring, "from_environment", lambda: away)
        patched.setattr(feed_publication, "_STORING_SECONDS", 0.1 if is_silent else 60)
        assert wake(ports) == outcome(published=1)
    assert sequences(ports, tenant) == [1]
    assert marks.read_signer_marks(ports, tenant.id, limit=9)
    answers.set()
    if is_silent:
        soon(lambda: not marks.read_signer_marks(ports, tenant.id, limit=9))
        soon(lambda: [*journal.list_blobs(ports, tenant.id)])
    else:
        failed = [line["message"] for line in lines(caplog) if "error" in line]
        assert failed == ["keys", "journal"]
        # The next tick, without a new change.
        publication.publish_if_due(ports, tenant.id)
        assert not marks.read_signer_marks(ports, tenant.id, limit=9)


def test_each_publication_is_counted(ports: Ports, caplog: pytest.LogCaptureFixture) -> None:
    """A line for each tenant; entries and seconds are metrics, and so is a look at nothing."""
    caplog.set_level(logging.INFO)
    (tenant,) = changed(ports, "acme")
    wake(ports)
    (published,) = lines(caplog, "feed")
    assert (published["tenant_id"], published["outcome"]) == (tenant.id, "published")
    seconds = (published["seconds"], "Seconds")
    assert metrics(published) == {
        **dict.fromkeys(("FeedWoken", "FeedPublished", "FeedEntries"), (1, "Count")),
        "FeedPublicationSeconds": seconds,
    }
    caplog.clear()
    wake(ports)
    (idle,) = lines(caplog, "feed")
    assert (idle["outcome"], metrics(idle)) == ("nothing new", {"FeedWoken": (1, "Count")})


# --- the stream ---


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """A pretended account whose table of keys has the stream of the template."""
    with aws() as account:
        for name, value in variables("FeedPublication").items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("RESCIND_QUEUE", f"sqs:{account.queue_url}")
        assert account.key_id
        view = stack()["KeysTable"]["Properties"]["StreamSpecification"]["StreamViewType"]
        account.dynamodb.update_table(
            TableName=f"{account.table_prefix}keys",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": view},
        )
        _forget()
        yield account
        _forget()


def _forget() -> None:
    wiring.from_environment.cache_clear()
    wiring.queue_from_environment.cache_clear()


def delivered(account: Account) -> tuple[Event, list[Mapping[str, Any]]]:
    """What the mapping hands to the function, and all records of the stream since its begin."""
    table = account.dynamodb.describe_table(TableName=f"{account.table_prefix}keys")["Table"]
    # Moto does not know the address that has the account in it.
    endpoint = f"https://streams.dynamodb.{REGION}.amazonaws.com"
    with closing(boto3.client("dynamodbstreams", endpoint_url=endpoint)) as client:
        arn = table["LatestStreamArn"]
        (shard,) = client.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
        begin = client.get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )
        answer = client.get_records(ShardIterator=begin["ShardIterator"], Limit=1000)
    records = json.loads(json.dumps(answer["Records"], default=lambda at: at.timestamp()))
    pattern = EventPattern.load(FILTER["Pattern"])
    return {"Records": [each for each in records if pattern.matches_event(each)]}, records


@pytest.mark.slow
def test_only_marks_that_were_set_wake_the_feed(account: Account) -> None:
    """F223c: The stream wakes the feed for each mark that is set, and for nothing else stored."""
    ports = wiring.from_environment()
    tenant = Tenant.create(ports)
    before, _ = delivered(account)
    key = tenant.key(ports)
    tenant.revoke(ports, "svc_wrt_a")
    tenant.revoke_key(ports, key)
    api_keys.create(ports, tenant.operator, name="k", scopes=(Scope.ADMIN,))
    event, records = delivered(account)
    marked = {address.sk for address in marks.read_versions(ports)}
    assert {each["dynamodb"]["Keys"]["sk"]["S"] for each in event["Records"]} == marked
    assert {each["dynamodb"]["Keys"]["pk"]["S"] for each in event["Records"]} <= {
        partition.pk for partition in schedule.mark_partitions()
    }
    # The first trust document is due: nobody here has the root.
    assert [each["dynamodb"]["Keys"]["sk"]["S"] for each in before["Records"]] == [
        schedule.trust_mark_address(tenant.id).sk
    ]
    assert len(records) > len(event["Records"]) + 5
    assert handler(event, None) == outcome(published=1)
    for address, mark in marks.read_tenant_marks(ports, tenant.id).items():
        ports.store.write(Delete(address, Expect.PRESENT))
        assert mark.seen_at is None
    again, _ = delivered(account)
    assert again == event


@pytest.mark.slow
def test_the_stream_holds_no_secret(account: Account) -> None:
    """F223d, S1: The stream has the keys of items, and not their contents."""
    ports = wiring.from_environment()
    tenant = Tenant.create(ports)
    tenant.key(ports)
    _, records = delivered(account)
    assert {name for each in records for name in each["dynamodb"]} == {
        "ApproximateCreationDateTime",
        "Keys",
        "SequenceNumber",
        "SizeBytes",
        "StreamViewType",
    }


@pytest.mark.slow
def test_a_list_that_cannot_wait_is_queued(account: Account) -> None:
    """F222d: A tenant whose feed is broken is handed to the publication of lists at once."""
    ports = wiring.from_environment()
    tenant = Tenant.create(ports)
    break_off(ports, tenant.id)
    tenant.revoke(ports, "svc_wrt_a")
    # On a slow machine the window of the feed has passed by now.
    assert wake(ports) in (outcome(left=1), outcome(published=1))
    with closing(boto3.client("sqs")) as client:
        (message,) = client.receive_message(QueueUrl=account.queue_url)["Messages"]
    assert message["Body"] == tenant.id
