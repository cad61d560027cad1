"""`infra/alarms.yaml`: each alarm is about something, tells somebody, and says what to do."""

import json
import re
from typing import Final

import pytest

from tests.aws import STAGE
from tests.infra.templates import ALARMS, LAMBDAS, of_kind
from tests.processes import ROOT

ALARMED: Final = of_kind("AWS::CloudWatch::Alarm", ALARMS)


@pytest.mark.parametrize("name", ALARMED)
def test_an_alarm_tells_somebody_what_to_do(name: str) -> None:
    """An alarm goes to the topic, both ways, and names its section of the runbook."""
    alarm = ALARMED[name]
    anchor = re.sub(r"(?<!^)([A-Z])", r"-\1", name).lower()
    assert alarm["AlarmName"] == f"rescind-{STAGE}-{anchor}"
    assert alarm["AlarmDescription"].endswith(f" docs/runbook.md#{anchor}")
    assert (alarm["AlarmActions"], alarm["OKActions"]) == (["Topic"], ["Topic"])
    missing = "breaching" if name == "LateLists" else "notBreaching"
    assert alarm["TreatMissingData"] == missing


def test_the_runbook_has_a_section_for_each_alarm() -> None:
    """Under "Alarms" there is a section for every alarm, and for nothing else."""
    runbook = (ROOT / "docs" / "runbook.md").read_text()
    alarms = runbook.split("\n## Alarms\n")[1].split("\n## ")[0]
    sections = [line.removeprefix("### ") for line in alarms.splitlines() if line[:4] == "### "]
    named = [alarm["AlarmDescription"].rpartition("#")[2] for alarm in ALARMED.values()]
    assert sorted(each.lower().replace(" ", "-") for each in sections) == sorted(named)


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


def test_what_is_watched_is_told() -> None:
    """Every metric of ours that an alarm or the dashboard shows is one that the code tells."""
    code = "".join(
        each.read_text() for room in ("functions", "shared") for each in (ROOT / room).rglob("*.py")
    )
    watched = {
        each["MetricName"] for each in ALARMED.values() if each.get("Namespace") == "Rescind"
    }
    assert [metric for metric in watched | shown() if f'"{metric}"' not in code] == []


@pytest.mark.parametrize(
    ("alarm", "named"),
    [
        ("Throttles", [function["FunctionName"] for function in LAMBDAS.values()]),
        ("PublisherErrors", [f"rescind-{STAGE}-srl-schedule", f"rescind-{STAGE}-srl-publication"]),
        (
            "DeadLetters",
            [f"rescind-{STAGE}-publication-dead-letters", f"rescind-{STAGE}-schedule-dead-letters"],
        ),
    ],
)
def test_a_sum_leaves_nothing_out(alarm: str, named: list[str]) -> None:
    """An alarm over several functions or queues looks at every one of them."""
    total, *parts = ALARMED[alarm]["Metrics"]
    assert total["Expression"] == "SUM(METRICS())"
    dimensions = [part["MetricStat"]["Metric"]["Dimensions"] for part in parts]
    assert sorted(dimension["Value"] for (dimension,) in dimensions) == sorted(named)
