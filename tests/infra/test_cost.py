"""What infra/cost.csv and docs/cost.md say of calls is what is counted here, on the wire."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from infra import cost
from shared.adapters import dynamodb, kms, s3
from shared.adapters.dynamodb import DynamoStore
from shared.adapters.dynamodb_buckets import DynamoBuckets
from shared.adapters.dynamodb_usage import DynamoUsage
from shared.adapters.kms import KmsKeys
from shared.adapters.s3 import S3Blobs
from shared.operations import srl_publication, srl_schedule
from shared.ports import Ports
from shared.wiring import identifiers
from tests.api import Tenant, serve
from tests.aws import aws
from tests.calls import Calls, Recorder
from tests.infra.templates import GLOBALS, LAMBDAS
from tests.processes import ROOT
from tests.web.endpoints import ENDPOINTS, call
from tests.worlds import Clock


@dataclass(frozen=True)
class Watched:
    """Ports on AWS, with all that they call watched."""

    recorder: Recorder
    ports: Ports

    def tenant(self) -> Tenant:
        """A tenant that did nothing yet."""
        return Tenant(self.ports, serve(self.ports), handle=uuid4().hex)


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with ExitStack() as stack:
        account = stack.enter_context(aws())
        clients = [stack.enter_context(closing(each.connect())) for each in (dynamodb, s3, kms)]
        tables, objects, keys = clients
        recorder = Recorder(*clients)
        clock = Clock(datetime(2026, 11, 21, tzinfo=UTC))
        ports = Ports(
            store=DynamoStore(tables, table_prefix=account.table_prefix),
            buckets=DynamoBuckets(tables, table_prefix=account.table_prefix),
            usage=DynamoUsage(tables, table_prefix=account.table_prefix),
            blobs=S3Blobs(lambda: objects, bucket=account.bucket),
            keys=KmsKeys(lambda: keys, key_id=account.key_id),
            now=clock,
            new_id=identifiers(clock),
            together=recorder.together,
        )
        yield Watched(recorder, ports)


@pytest.mark.parametrize("key", ENDPOINTS, ids=" ".join)
def test_an_endpoint_costs_what_is_documented(watched: Watched, key: tuple[str, str]) -> None:
    """Trips, capacity and calls of every endpoint, beside what requests share."""
    tenant = watched.tenant()
    target = ENDPOINTS[key].target(tenant)
    with watched.recorder.counting() as calls:
        answer = call(key, tenant.admin, target)
    assert answer.status_code == ENDPOINTS[key].status, answer.text
    assert _documented()[" ".join(key)] == _figures(calls), calls


def test_a_list_that_the_caller_has_costs_two_reads(watched: Watched) -> None:
    """A 304 reads the key and the head, and no blob."""
    tenant = watched.tenant()
    path = "/v1/revocations/srl"
    etag = tenant.authorizer.get(path).headers["ETag"]
    with watched.recorder.counting() as calls:
        answer = tenant.authorizer.get(path, headers={"If-None-Match": etag})
    assert answer.status_code == 304
    assert calls.requests == ["dynamodb.GetItem"] * 2
    assert _documented()["GET /v1/revocations/srl (304)"] == _figures(calls)


def test_a_batch_of_a_thousand_reads_a_thousand_items(watched: Watched) -> None:
    """Authentication, and requests of a hundred items, which are made at once."""
    tenant = watched.tenant()
    body = {"warrant_ids": [f"svc_wrt_{number}" for number in range(1000)]}
    with watched.recorder.counting() as calls:
        answer = tenant.authorizer.post("/v1/revocations/check-batch", json=body)
    assert len(answer.json()["results"]) == 1000
    # One item more: which keys are revoked.
    assert calls.requests == ["dynamodb.GetItem", *["dynamodb.BatchGetItem"] * 11]


def test_trips_are_few() -> None:
    """Authentication is one read; a check is one trip more, and so is a page of a list."""
    documented = _documented()
    for endpoint in (
        *["GET /v1/revocations/check", "POST /v1/revocations/check-batch"],
        *["GET /v1/revocations", "GET /v1/api-keys", "GET /v1/keys", "GET /v1/service-accounts"],
    ):
        assert documented[endpoint].trips == 2, endpoint


def test_the_schedule_costs_what_is_documented(watched: Watched) -> None:
    """A tick that finds nothing, and the publication of a tenant with one change."""
    ports, tenant = watched.ports, watched.tenant()
    srl_publication.publish_due(ports)
    with watched.recorder.counting() as calls:
        assert srl_schedule.due(ports).tenant_ids == []
    assert _documented()["a tick of the schedule"] == _figures(calls)
    tenant.revoke("svc_wrt_one")
    with watched.recorder.counting() as calls:
        assert srl_publication.publish_if_due(ports, tenant.id)
    assert _documented()["publication of a short list"] == _figures(calls)


def test_the_document_shows_what_the_command_prints() -> None:
    """The tables of docs/cost.md are those of `python -m infra.cost` at its own prices."""
    assert cost.table(cost.Prices()) in (ROOT / "docs" / "cost.md").read_text()


def test_the_document_says_what_snapshots_cost() -> None:
    """F107: a month of the snapshots that are kept, by the memory of their functions."""
    memory = [
        int(each.get("MemorySize", GLOBALS["MemorySize"]))
        for each in LAMBDAS.values()
        if "SnapStart" in each
    ]
    gigabytes = sum(memory) / 1024
    dollars = gigabytes * 0.0000015046 * 30 * 24 * 3600
    (told,) = re.findall(
        r"^[|] Snapshots .+ [(]([0-9.]+) GB .+ [|] ([0-9.]+) [|]$",
        (ROOT / "docs" / "cost.md").read_text(),
        re.MULTILINE,
    )
    assert told == (f"{gigabytes:.1f}", f"{dollars:.2f}")


def test_prices_are_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    """Twice the price of a read makes a check dearer by what its reads cost, and no more."""
    (check,) = [each for each in cost.counted() if each.what == "GET /v1/revocations/check"]
    once, twice = cost.Prices(read_unit=1), cost.Prices(read_unit=2)
    assert check.dollars(twice) - check.dollars(once) == pytest.approx(check.read_units)
    assert cost.main(["--read-unit", "2"]) == 0
    assert cost.table(cost.Prices(read_unit=2)) in capsys.readouterr().out


def _figures(calls: Calls) -> cost.Counted:
    return cost.Counted(
        "",
        calls.trips,
        calls.read_units,
        calls.write_units,
        calls.count("kms."),
        calls.count("s3.GetObject"),
        calls.count("s3.PutObject"),
    )


def _documented() -> dict[str, cost.Counted]:
    return {each.what: replace(each, what="") for each in cost.counted()}
