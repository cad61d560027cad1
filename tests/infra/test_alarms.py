"""`infra/alarms.yaml`: each alarm is about something, tells somebody, and says what to do."""

import json
import re
from typing import Any, Final

import pytest
from moto.events.models import EventPattern

from tests.infra.prometheus import ALERTS
from tests.infra.templates import ALARMS, LAMBDAS, of_kind
from tests.kit.aws import STAGE, STATEFUL
from tests.kit.processes import ROOT

ALARMED: Final = of_kind("AWS::CloudWatch::Alarm", ALARMS)
RULES: Final = of_kind("AWS::Events::Rule", ALARMS)


def test_an_alarm_says_what_to_do() -> None:
    """An alarm goes to the topic, both ways, and names its section of the runbook."""
    for name in ALARMED:
        alarm = ALARMED[name]
        anchor = re.sub(r"(?<!^)([A-Z])", r"-\1", name).lower()
        assert alarm["AlarmName"] == f"rescind-{STAGE}-{anchor}", name
        assert alarm["AlarmDescription"].endswith(f" docs/runbook.md#{anchor}"), name
        assert (alarm["AlarmActions"], alarm["OKActions"]) == (["Topic"], ["Topic"]), name
        missing = "breaching" if name in {"SrlsOverdue", "TrustRenewalOverdue"} else "notBreaching"
        assert alarm["TreatMissingData"] == missing, name


def test_the_runbook_has_a_section_for_each_alarm() -> None:
    """Under "Alarms" there is a section for every alarm, event and alert, and for nothing else."""
    runbook = (ROOT / "docs" / "runbook.md").read_text()
    alarms = runbook.split("\n## Alarms\n")[1].split("\n## ")[0]
    sections = [line.removeprefix("### ") for line in alarms.splitlines() if line[:4] == "### "]
    named = [alarm["AlarmDescription"].rpartition("#")[2] for alarm in ALARMED.values()]
    named += [rule["Description"].rpartition("#")[2] for rule in RULES.values()]
    named += {alert["annotations"]["runbook"].rpartition("#")[2] for alert in ALERTS} - {*named}
    assert sorted(each.lower().replace(" ", "-") for each in sections) == sorted(named)


TABLES: Final = [table["TableName"] for table in of_kind("AWS::DynamoDB::Table", STATEFUL).values()]
_KEY: Final = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def _call_of_kms(name: str, key: str = _KEY) -> Any:
    """An event of CloudTrail, in the form that the documentation of KMS shows.

    `resources` is a list of one there. EventBridge looks into lists of objects; moto does not.
    """
    detail = {
        "eventVersion": "1.08",
        "userIdentity": {"type": "IAMUser", "arn": "arn:aws:iam::123456789012:user/Alice"},
        "eventSource": "kms.amazonaws.com",
        "eventName": name,
        "requestParameters": {"keyId": key.rpartition("/")[2]},
        "readOnly": False,
        "resources": {"accountId": "123456789012", "type": "AWS::KMS::Key", "ARN": key},
    }
    kind = "AWS API Call via CloudTrail"
    return {"source": "aws.kms", "detail-type": kind, "account": "123456789012", "detail": detail}


def test_an_alarm_fires_when_the_key_is_disabled() -> None:
    """F110b: An alarm fires if a key in KMS is disabled or its deletion is scheduled."""
    (rule,) = RULES.values()
    root = _KEY[:-1] + "d"
    written = json.dumps(rule["EventPattern"]).replace(f"rescind-{STAGE}-key-arn-root", root)
    pattern = EventPattern.load(written.replace(f"rescind-{STAGE}-key-arn", _KEY))
    for call in ("DisableKey", "ScheduleKeyDeletion"):
        assert pattern.matches_event(_call_of_kms(call))
        assert pattern.matches_event(_call_of_kms(call, root))
        assert not pattern.matches_event(_call_of_kms(call, _KEY[:-1] + "c"))
    for call in ("Decrypt", "EnableKey", "CancelKeyDeletion"):
        assert not pattern.matches_event(_call_of_kms(call))


def test_an_event_reaches_the_topic_and_says_what_to_do() -> None:
    """EventBridge may publish to the topic, and so may the alarms; the message names a section."""
    (rule,) = RULES.values()
    (target,) = rule["Targets"]
    assert target["Arn"] == "Topic"
    anchor = rule["Description"].rpartition(" ")[2]
    assert anchor in target["InputTransformer"]["InputTemplate"]
    (policy,) = of_kind("AWS::SNS::TopicPolicy", ALARMS).values()
    allowed = [each["Principal"]["Service"] for each in policy["PolicyDocument"]["Statement"]]
    assert allowed == ["cloudwatch.amazonaws.com", "events.amazonaws.com"]


def shown() -> set[str]:
    """The metrics of ours on the dashboard; a dot repeats what stands above it."""
    (dashboard,) = of_kind("AWS::CloudWatch::Dashboard", ALARMS).values()
    metrics: set[str] = set()
    for widget in json.loads(dashboard["DashboardBody"])["widgets"]:
        namespace = ""
        for first, name, *_ in widget["properties"]["metrics"]:
            namespace = namespace if first == "." else first
            metrics |= {name} if namespace == "Rescind" else set()
    return metrics


def test_what_is_watched_is_logged() -> None:
    """Each metric of ours that an alarm watches is on the dashboard, and the code emits each."""
    code = "".join(
        each.read_text() for room in ("functions", "shared") for each in (ROOT / room).rglob("*.py")
    )
    stats = [
        part["MetricStat"]["Metric"] if "MetricStat" in part else part
        for alarm in ALARMED.values()
        for part in alarm.get("Metrics", [alarm])
    ]
    watched = {each["MetricName"] for each in stats if each.get("Namespace") == "Rescind"}
    assert watched - shown() == set()
    assert [metric for metric in shown() if f'"{metric}"' not in code] == []


@pytest.mark.parametrize(
    ("caught_up", "woken", "fires"),
    [(None, None, False), (3, None, True), (3, 1, False), (None, 5, False)],
)
def test_a_stream_that_wakes_nothing_fires_an_alarm(
    caught_up: int | None, woken: int | None, fires: bool
) -> None:
    """F228a: An alarm fires if the schedule published changes and the stream woke nothing.

    A change of the last second, which the stream is about to bring, fires none.
    """
    alarm = ALARMED["FeedNotWoken"]
    functions = {
        "IF": lambda condition, yes, no: yes if condition else no,
        "FILL": lambda value, default: default if value is None else value,
    }
    values = {"caught_up": caught_up, "woken": woken}
    result = eval(alarm["Metrics"][0]["Expression"], functions | values)
    assert (result is not None and result >= alarm["Threshold"]) is fires
    names = {
        part["Id"]: part["MetricStat"]["Metric"]["MetricName"] for part in alarm["Metrics"][1:]
    }
    assert names == {"caught_up": "FeedSchedulerPublications", "woken": "FeedWoken"}


def test_a_stream_that_falls_behind_fires_an_alarm() -> None:
    """F228b: An alarm fires if marks wait in the stream for more than ten seconds."""
    alarm = ALARMED["FeedStreamBehind"]
    assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/Lambda", "IteratorAge")
    assert alarm["Dimensions"][0]["Value"] == LAMBDAS["FeedPublication"]["FunctionName"]
    # The age is in milliseconds.
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (10_000, "GreaterThanThreshold")


@pytest.mark.parametrize(
    ("alarm", "named"),
    [
        (
            "PublisherErrors",
            [
                f"rescind-{STAGE}-{each}"
                for each in ("feed-publication", "srl-publication", "srl-schedule")
            ],
        ),
        (
            "DeadLetters",
            [f"rescind-{STAGE}-publication-dead-letters", f"rescind-{STAGE}-schedule-dead-letters"],
        ),
        ("TableThrottles", TABLES * 2),
        # Nothing of the audit log is written twice.
        ("TransactionConflicts", [name for name in TABLES if not name.endswith("audit")]),
    ],
)
def test_a_sum_leaves_nothing_out(alarm: str, named: list[str]) -> None:
    """An alarm over several functions or queues looks at every one of them."""
    total, *parts = ALARMED[alarm]["Metrics"]
    assert total["Expression"] == "SUM(METRICS())"
    dimensions = [part["MetricStat"]["Metric"]["Dimensions"] for part in parts]
    assert sorted(dimension["Value"] for (dimension,) in dimensions) == sorted(named)
