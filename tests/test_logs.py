"""The log: one JSON object a line whatever is in it, metrics that CloudWatch reads, no secrets."""

import json
import logging
import logging.config
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import logs
from shared.errors import DataCorrupt, InvalidSettings, Unavailable
from tests.kit.log_lines import Line, formatted, lines, metrics, read, set_up_anew

SECRET = "svc_" + "s3cret" * 7


def record(message: str = "m", *args: Any, **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("shared.some", logging.INFO, __file__, 1, message, args, None)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def line(**values: Any) -> Line:
    """The line of a record with these fields."""
    return read(formatted(record(**logs.fields(**values))))


def failure(error: BaseException) -> Line:
    """The line of a record with this error."""
    try:
        raise error
    except BaseException:  # noqa: BLE001 (whatever it is)
        return read(formatted(record(exc_info=sys.exc_info())))


# --- a line ---


def test_a_line_says_when_where_and_what() -> None:
    """Time in UTC to the millisecond, level, logger and message, and nothing else unasked."""
    made = record("found %d", 3)
    made.created, made.msecs = 1_795_262_400.0071, 7.1
    assert read(formatted(made)) == {
        "time": "2026-11-21T12:00:00.007Z",
        "level": "INFO",
        "logger": "shared.some",
        "message": "found 3",
    }


def test_the_time_is_in_utc_wherever_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own time zone changes nothing."""
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    logged = datetime.fromisoformat(read(formatted(record()))["time"])
    monkeypatch.undo()
    time.tzset()
    assert abs((datetime.now(UTC) - logged).total_seconds()) < 60


def test_values_stand_beside_the_message() -> None:
    """What was passed as `extra` is found by its name, as JSON has it."""
    logged = line(tenant_id="svc_tnt_a", status=200, none=None, parts=[1, {"a": "b"}])
    assert (logged["tenant_id"], logged["status"], logged["none"]) == ("svc_tnt_a", 200, None)
    assert logged["parts"] == [1, {"a": "b"}]
    assert "_aws" not in logged


AWKWARD = [
    "two\nlines\r\n",
    "\u2028\u2029\x85\x0b\x0c\x1c",
    "\ud800",
    '"}{',
    "\x00\x1b[31m",
    object(),
    b"bytes",
    {1, 2},
    datetime.now(UTC),
    ValueError("x"),
    {1: "a", None: "b", ("t",): "c"},
    float("nan"),
    float("inf"),
]


@pytest.mark.parametrize("value", AWKWARD, ids=lambda value: type(value).__name__)
def test_whatever_is_in_it_a_line_is_one_json_object(value: Any) -> None:
    """Line breaks of any kind, lone surrogates, objects, numbers that JSON does not have."""
    assert "value" in line(value=value, inner=[value])
    assert read(formatted(record("%s", value)))["message"] == str(value)


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_any_text_comes_back(message: str, value: str) -> None:
    """A message and a value are told as they are."""
    logged = read(formatted(record(message.replace("%", ""), **logs.fields(value=value))))
    assert (logged["message"], logged["value"]) == (message.replace("%", ""), value)


def test_lines_of_others_are_lines_too() -> None:
    """A library that knows nothing of our fields logs JSON as well, whatever attributes it sets."""
    assert read(formatted(record("Found credentials")))["message"] == "Found credentials"
    assert read(formatted(record(fields=["theirs"])))["message"] == "m"


# --- metrics ---


def test_metrics_are_in_the_embedded_format() -> None:
    """Namespace, one dimension, a unit for each, its value beside it, the time in milliseconds."""
    figures = {"Published": 1, "PublicationSeconds": 0.25, "SrlsOverdue": 0}
    logged = line(metrics=figures, tenant_id="t")
    assert metrics(logged) == {
        "Published": (1, "Count"),
        "PublicationSeconds": (0.25, "Seconds"),
        "SrlsOverdue": (0, "Count"),
    }
    assert logged["tenant_id"] == "t"


def test_the_time_of_a_metric_is_that_of_its_line() -> None:
    """Both tell one moment."""
    logged = line(metrics={"Published": 1})
    moment = datetime.fromisoformat(logged["time"])
    assert logged["_aws"]["Timestamp"] == round(moment.timestamp() * 1000)


@pytest.mark.parametrize("given_", [None, {}])
def test_no_metrics_are_no_directive(given_: Any) -> None:
    """An empty directive would be an error to CloudWatch."""
    assert "_aws" not in line(metrics=given_)


# --- errors ---


def test_frequent_requests_are_sampled_on_one_machine() -> None:
    """F1690a, OPS-6: Of successful polls and reports, one machine logs a line a minute.

    It has their number. Failures, refusals and other requests have a line each, and at the level
    `debug` each request has one.
    """
    (sampled,) = logs.for_one_machine("info")["filters"].values()
    passes = sampled["()"]()

    def of_request(at: float, operation: str = "poll_feed", outcome: str = "ok") -> Any:
        made = record(**logs.fields(operation=operation, outcome=outcome))
        made.created = at
        return made

    polls = [of_request(1000.0 + each) for each in range(0, 130, 10)]
    assert [at for at, each in enumerate(polls) if passes.filter(each)] == [0, 6, 12]
    assert [read(formatted(polls[each]))["lines"] for each in (0, 6, 12)] == [1, 6, 6]
    # Each operation has its own line, and a clock that was set back silences none.
    assert passes.filter(of_request(1121.0, "send_reports"))
    assert passes.filter(of_request(10.0))
    for each in (of_request(11.0, outcome="unavailable"), of_request(11.0, "sign_warrant")):
        assert passes.filter(each)
        assert "lines" not in read(formatted(each))
    assert passes.filter(record("anything else"))
    for level, filters in (("info", ["sampled"]), ("debug", [])):
        assert logs.for_one_machine(level)["handlers"]["stderr"]["filters"] == filters


def test_requests_are_gathered_in_one_line() -> None:
    """F602a: Of many successful requests one line is logged, with the metrics of all of them.

    A refusal and a failure have a line each.
    """
    gathered = logs.SampledFilter(3)

    def of_request(seconds: float, outcome: str = "ok") -> logging.LogRecord:
        figures = {"RequestSeconds": seconds}
        return record(**logs.fields(metrics=figures, operation="poll_feed", outcome=outcome))

    requests = [of_request(each / 10) for each in range(7)]
    assert [gathered.filter(each) for each in requests] == [False, False, True] * 2 + [False]
    assert read(formatted(requests[2]))["RequestSeconds"] == [0.0, 0.1, 0.2]
    assert read(formatted(requests[5]))["RequestSeconds"] == [0.3, 0.4, 0.5]
    assert gathered.filter(of_request(1.0, "unavailable"))
    assert gathered.filter(record("anything else"))
    # What is not gathered is logged as it is.
    assert logs.SampledFilter(1).filter(requests[6])
    assert read(formatted(of_request(0.7)))["RequestSeconds"] == 0.7


def test_the_words_of_foreign_errors_stay_out() -> None:
    """F17: of an error not our own, its type and frames are told; its text may hold a secret."""
    error = RuntimeError(SECRET)
    error.__cause__ = KeyError(SECRET)
    error.add_note(SECRET)
    logged = failure(error)
    assert SECRET not in json.dumps(logged)
    assert "RuntimeError" in logged["error"]
    assert "KeyError" in logged["error"]
    assert "test_logs.py" in logged["error"]
    assert "in failure" in logged["error"]


@pytest.mark.parametrize(
    "error",
    [DataCorrupt("no head"), Unavailable("down"), InvalidSettings("RESCIND_STORE is not set")],
)
def test_the_text_of_our_own_errors_is_logged(error: Exception) -> None:
    """They were written for whoever reads them."""
    assert failure(error)["error"].endswith(f"{type(error).__name__}: {error}")


def test_causes_come_first() -> None:
    """What led to an error stands before it, also where one came while another was handled."""
    error = DataCorrupt("malformed")
    error.__context__ = KeyError(SECRET)
    logged = failure(error)["error"]
    assert logged.index("KeyError") < logged.index("DataCorrupt: malformed")
    assert SECRET not in logged


def test_a_suppressed_cause_is_not_logged() -> None:
    """`from None` holds in the log too."""
    error = DataCorrupt("malformed")
    error.__context__ = KeyError(SECRET)
    error.__suppress_context__ = True
    assert "KeyError" not in failure(error)["error"]


def test_errors_that_cause_each_other_end() -> None:
    """A circle of causes is told once."""
    first, second = RuntimeError("a"), KeyError("b")
    first.__cause__, second.__cause__ = second, first
    assert failure(first)["error"].count("RuntimeError") == 1


def test_no_error_at_hand() -> None:
    """`exc_info` without an exception is an empty text."""
    assert read(formatted(record(exc_info=(None, None, None))))["error"] == ""


# --- where it goes ---


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    with set_up_anew() as root:
        yield root


def test_lambda_logs_json_to_standard_output(
    root: logging.Logger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In place of the runtime's own handler, from INFO up, under the stage, and only once."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "rescind-test-srl")
    monkeypatch.setenv("RESCIND_STAGE", "test")
    root.addHandler(logging.StreamHandler(sys.stderr))
    for _ in range(2):
        logs.configure_standard_output()
    log = logging.getLogger("shared.some")
    log.debug("not this")
    log.info("this", extra=logs.fields(metrics={"Published": 1}))
    printed = capsys.readouterr()
    (logged,) = map(read, printed.out.splitlines())
    assert metrics(logged) == {"Published": (1, "Count")}
    assert printed.err == ""


def test_of_libraries_lambda_logs_warnings_alone(
    root: logging.Logger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What they tell of each request may hold what a caller wrote, such as the path."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "rescind-test-srl")
    logs.configure_standard_output()
    logging.getLogger("mangum.http").info("GET /v1/keys/%s 404", SECRET)
    logging.getLogger("botocore.credentials").warning("expired")
    logging.getLogger("functions.some").info("this")
    logged = [read(line)["message"] for line in capsys.readouterr().out.splitlines()]
    assert logged == ["expired", "this"]


def test_elsewhere_the_log_is_whose_process_it_is(
    root: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one machine nothing is set up."""
    monkeypatch.delenv("AWS_LAMBDA_FUNCTION_NAME", raising=False)
    before = root.handlers[:], root.level
    logs.configure_standard_output()
    assert (root.handlers[:], root.level) == before


@pytest.mark.parametrize(("level", "logged"), [("info", ["a", "b"]), ("warning", ["b"])])
def test_one_machine_logs_json_to_standard_error(
    root: logging.Logger, capsys: pytest.CaptureFixture[str], level: str, logged: list[str]
) -> None:
    """F72: lines have their time, metrics are plain numbers; the level holds for our own lines."""
    logging.config.dictConfig(logs.for_one_machine(level))
    logging.getLogger("shared.some").info("a", extra=logs.fields(metrics={"Rejected401": 1}))
    logging.getLogger("functions.some").warning("b")
    logging.getLogger("uvicorn.error").info("c")
    printed = capsys.readouterr()
    found = [read(line) for line in printed.err.splitlines()]
    assert printed.out == ""
    assert [line["message"] for line in found] == logged
    assert all(datetime.fromisoformat(line["time"]).tzinfo for line in found)
    assert "_aws" not in found[0]
    if level == "info":
        assert found[0]["Rejected401"] == 1


def test_what_pytest_captured_is_read_alike(caplog: pytest.LogCaptureFixture) -> None:
    """The tests of other rooms read lines as this one does."""
    caplog.set_level(logging.INFO)
    logging.getLogger("shared.some").info("a", extra=logs.fields(value=1))
    assert [each["value"] for each in lines(caplog, "a")] == [1]
