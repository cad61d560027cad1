"""Log lines as CloudWatch gets them, and what its embedded metric format asks of them."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from shared import logs
from shared.logs import JsonFormatter

Line = dict[str, Any]

STAGE: Final = "test"
# CloudWatch drops metrics of more than two weeks ago or two hours ahead: seconds would be 1970.
_FIRST_MILLISECOND: Final = 1_500_000_000_000
# CloudWatch bills each combination of values, so that there are few dimensions.
_SPLITS: Final = [
    ["Stage", "Operation", "Outcome"],
    ["Stage", "Action", "Outcome"],
    ["Stage", "Outcome"],
    ["Stage", "Kind", "Within"],
]


@contextmanager
def set_up_anew() -> Iterator[logging.Logger]:
    """A process that has not set up its log yet: the root logger. What it sets up goes again."""
    names = ("", "functions", "shared", "rescind")
    root, *_ = loggers = [logging.getLogger(name) for name in names]
    handlers, levels = root.handlers[:], [each.level for each in loggers]
    logs.configure_standard_output.cache_clear()
    yield root
    root.handlers[:] = handlers
    for each, level in zip(loggers, levels, strict=True):
        each.setLevel(level)
    logs.configure_standard_output.cache_clear()


def printed_on_lambda(
    call: Callable[[], object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[Line]:
    """What a call prints in a process on Lambda that has not set up its log yet."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "rescind-test")
    monkeypatch.setenv("RESCIND_STAGE", STAGE)
    with set_up_anew():
        call()
    return [read(line) for line in capsys.readouterr().out.splitlines()]


def lines(caplog: pytest.LogCaptureFixture, message: str | None = None) -> list[Line]:
    """What was logged, all of it or the lines of one message."""
    parsed = [read(formatted(record)) for record in caplog.records]
    return [line for line in parsed if message in (None, line["message"])]


def formatted(record: logging.LogRecord) -> str:
    return JsonFormatter(stage=STAGE).format(record)


def read(text: str) -> Line:
    """The JSON object that is on this one line; JSON as its standard has it."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    assert len(text.splitlines()) == 1
    text.encode("ascii")
    line = json.loads(text, parse_constant=refuse)
    assert isinstance(line, dict)
    return line


def metrics(line: Line) -> dict[str, tuple[float, str]]:
    """The metrics of a line, each with its unit; none where it has none.

    Checked against the embedded metric format: whatever breaks it is logged and never counted.
    """
    if "_aws" not in line:
        return {}
    metadata = line["_aws"]
    assert set(metadata) == {"Timestamp", "CloudWatchMetrics"}
    assert type(metadata["Timestamp"]) is int
    assert metadata["Timestamp"] > _FIRST_MILLISECOND
    (directive,) = metadata["CloudWatchMetrics"]
    assert set(directive) == {"Namespace", "Dimensions", "Metrics"}
    assert directive["Namespace"] == "Rescind"
    whole, *split = directive["Dimensions"]
    assert whole == ["Stage"]
    assert line["Stage"] == STAGE
    for dimensions in split:
        assert dimensions in _SPLITS
        # CloudWatch takes texts alone, and none that is empty.
        assert all(isinstance(line[each], str) and line[each] for each in dimensions)
    found = {}
    for metric in directive["Metrics"]:
        assert set(metric) == {"Name", "Unit"}
        value = line[metric["Name"]]
        assert type(value) in (int, float)
        found[metric["Name"]] = (value, metric["Unit"])
    return found
