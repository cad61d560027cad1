"""The probe of IAM's conditions, on an account that judges transactions in one way or another."""

import json
from collections.abc import Iterator
from typing import Any, Final

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from moto import mock_aws

from infra import write_probe
from infra.write_probe import AllowedTransactions, ProbePacing, WriteConditions
from tests.adapters.answers import FakeTime, error
from tests.infra.iam import Judged, Request, Way, allowed, by_action, by_item, by_table, never
from tests.kit.aws import REGION, pretend_credentials

_ACTIONS: Final = {
    "ConditionCheck": "ConditionCheckItem",
    "Put": "PutItem",
    "Update": "UpdateItem",
}


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[boto3.Session]:
    pretend_credentials(monkeypatch)
    with mock_aws():
        yield boto3.Session(region_name=REGION)


def judging(session: boto3.Session, monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
    """Let IAM judge the transactions of the probe's role in this way."""

    def judge(request: AWSPreparedRequest, **_: object) -> AWSResponse | None:
        body: Any = request.body
        if b"TransactWriteItems" not in request.headers["X-Amz-Target"]:
            return None
        written = [next(iter(each.items())) for each in json.loads(body)["TransactItems"]]
        items = [
            (_ACTIONS[kind], [str((change.get("Item") or change["Key"])["pk"]["S"])])
            for kind, change in written
        ]
        table = str(written[0][1]["TableName"])
        if all(_is_allowed(session, table, *each) for each in way(items)):
            return None
        return error("AccessDeniedException").to(request)

    assumed = write_probe._assume_role

    def hooked(*given: Any) -> Any:
        client = assumed(*given)
        client.meta.events.register_first("before-send", judge)
        return client

    monkeypatch.setattr(write_probe, "_assume_role", hooked)


def _is_allowed(session: boto3.Session, table: str, action: str, partitions: list[str]) -> bool:
    policy = session.client("iam").get_role_policy(RoleName=table, PolicyName="probe")
    statements: Any = policy["PolicyDocument"]["Statement"]
    arn = session.client("dynamodb").describe_table(TableName=table)["Table"]["TableArn"]
    context = {"dynamodb:LeadingKeys": partitions}
    return allowed(statements, Request(f"dynamodb:{action}", arn, context))


@pytest.mark.slow_on("by_action", "never")
@pytest.mark.parametrize(
    ("way", "tried", "value"),
    [
        (
            by_item,
            AllowedTransactions(plain=True, mixed=True, foreign=False),
            WriteConditions.ITEMS,
        ),
        (
            by_action,
            AllowedTransactions(plain=True, mixed=True, foreign=False),
            WriteConditions.ITEMS,
        ),
        (
            by_table,
            AllowedTransactions(plain=True, mixed=False, foreign=False),
            WriteConditions.TABLES,
        ),
        (never, AllowedTransactions(plain=True, mixed=True, foreign=True), WriteConditions.TABLES),
    ],
)
def test_the_probe_tells_how_iam_judges(
    session: boto3.Session,
    monkeypatch: pytest.MonkeyPatch,
    way: Way,
    tried: AllowedTransactions,
    value: WriteConditions,
) -> None:
    """F600a: The probe names the conditions that work, however IAM judges a transaction.

    It leaves neither a table nor a role.
    """
    judging(session, monkeypatch, way)
    time = FakeTime()
    found = write_probe.probe(session, ProbePacing(time.sleep, lambda: time.seconds))
    assert (found, write_probe.choose_conditions(found)) == (tried, value)
    assert session.client("dynamodb").list_tables()["TableNames"] == []
    assert session.client("iam").list_roles()["Roles"] == []


@pytest.mark.slow
def test_a_new_role_is_waited_for(session: boto3.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """F600b: Calls that are denied in the first seconds of a role are tried again."""
    late = list(range(5))

    def later(items: Judged) -> Judged:
        return [("DeleteItem", ["none"])] if late and [late.pop()] else by_item(items)

    judging(session, monkeypatch, later)
    time = FakeTime()
    found = write_probe.probe(session, ProbePacing(time.sleep, lambda: time.seconds))
    assert write_probe.choose_conditions(found) is WriteConditions.ITEMS
    assert sum(time.slept) == 5
