"""What docs/cost.md says of calls is what is counted here, on the wire."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from shared.authorizer.relay import reports as relay_reports
from tests import costs, prices
from tests.infra.templates import ALARMS, events, of_kind
from tests.kit.aws import FUNCTIONS, template


@pytest.fixture(scope="module")
def counted() -> list[prices.Counted]:
    with costs.watched() as here:
        return list(costs.measured(here))


@pytest.mark.slow
def test_calls_cost_what_is_documented(counted: list[prices.Counted]) -> None:
    """Requests, capacity and bytes; the length of a line of the log is not always the same."""
    assert [each.what for each in counted] == [each.what for each in prices.counted()]
    for found, recorded in zip(counted, prices.counted(), strict=True):
        assert asdict(found) == pytest.approx(asdict(recorded), abs=20), found.what
        exact = ("read_units", "write_units", "requests", "kms", "s3_gets", "s3_puts")
        assert [getattr(found, name) for name in exact] == [
            getattr(recorded, name) for name in exact
        ]


def test_the_document_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """The tables of docs/cost.md are those of `python -m tests.prices` at its own prices."""
    assert prices.main([]) == 0
    for table in capsys.readouterr().out.strip().split("\n\n"):
        assert table in costs.PAGE.read_text()


def test_what_is_deployed_is_what_is_priced() -> None:
    """F107: the memory of functions, the snapshots and the alarms are those of the templates."""
    written = template(FUNCTIONS)
    functions = {
        name: written["Globals"]["Function"] | each["Properties"]
        for name, each in written["Resources"].items()
        if each["Type"] == "AWS::Serverless::Function"
    }
    for name, memory in prices.MEMORY.items():
        assert functions[name]["MemorySize"] == memory
    assert [name for name, each in functions.items() if "SnapStart" in each] == [*prices.SNAPSHOTS]
    watched = [
        metric
        for alarm in of_kind("AWS::CloudWatch::Alarm", ALARMS).values()
        for metric in alarm.get("Metrics", [{"MetricStat": alarm}])
        if "MetricStat" in metric
    ]
    assert len(watched) == prices.ALARM_METRICS
    (marks,) = events("FeedPublication", "DynamoDB")
    _, _, lanes = marks["ParallelizationFactor"]["Fn::If"]
    assert 4 * lanes == prices.LANES


def test_a_fleet_is_priced_as_it_polls_and_reports() -> None:
    """F295b: The price of a fleet is that of the pauses which service, client and relay keep."""
    price = prices.Prices()
    polls, reports = prices.direct(10_000, price)
    row = {each.what: each.dollars(price) / 1_000_000 for each in prices.counted()}
    # A poll every 11.25 seconds and a report every 337.5 seconds on average, and 48 entries a day.
    month, entries = 30 * 86_400, 48 * 30
    assert reports == pytest.approx(10_000 * (month / 337.5 + entries) * row[prices.REPORT])
    idle, news = row[prices.NOTHING_NEW], row[prices.NEWS]
    assert polls == pytest.approx(10_000 * ((month / 11.25 - entries) * idle + entries * news))
    assert prices.BATCH_SECONDS == relay_reports._PAUSE
    assert prices.BATCH_MAX == relay_reports.BATCH_MAX
    # Twenty relays poll each second, so for a twentieth of the price of 10,000 that do not.
    assert prices.relayed(10_000, price)[0] < polls / 20
    assert sum(prices.relayed(10_000, price)) < (polls + reports) / 10
