"""Logs as JSON, one object per line, and metrics in CloudWatch's embedded metric format.

`extra=fields(tenant_id=…)` adds fields to a line. `extra=fields(metrics={"SrlsOverdue": 0})` emits
metrics in the namespace `Rescind`. Their unit is seconds if the name ends in `Seconds`, else count.
`by` splits them further. On one machine, a handler counts the same lines for Prometheus.
"""

import json
import logging
import os
import sys
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from types import MappingProxyType, TracebackType
from typing import Any, Final, NamedTuple

from shared.errors import RescindError

_NAMESPACE: Final = "Rescind"
_FIELDS: Final = "rescind_fields"
# The maximum number of values of a metric that CloudWatch reads from a line.
_VALUES_MAX: Final = 100
# Requests that authorizers make every few seconds, and publications caused by revocations.
_FREQUENT: Final = frozenset({"poll_feed", "send_heartbeat", "send_reports", "changes"})
_SAMPLED_SECONDS: Final = 60.0
_OURS: Final = ("functions", "shared")
_ENCODER: Final = json.JSONEncoder(default=str, allow_nan=False)
_Failure = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class LogFields(NamedTuple):
    """The fields of a logging call with `fields`."""

    metrics: Mapping[str, float]
    by: Mapping[str, str]
    values: Mapping[str, object]
    # Several values of a metric, for example from several requests.
    gathered: Mapping[str, Sequence[float]] = MappingProxyType({})


def fields(
    *,
    metrics: Mapping[str, float] | None = None,
    by: Mapping[str, str] | None = None,
    samples: Mapping[str, Sequence[float]] | None = None,
    **values: object,
) -> dict[str, Any]:
    """Return the `extra` of a logging call: fields with these names, and metrics.

    The metrics also count per value of `by`. Keep these values few, because CloudWatch bills each.
    `samples` has all values of a metric with more than one.
    """
    return {_FIELDS: LogFields(metrics or {}, by or {}, values, samples or {})}


def logged_fields(record: logging.LogRecord) -> LogFields:
    """Return the fields of the call that created the record."""
    found: LogFields = getattr(record, _FIELDS, LogFields({}, {}, {}))
    return found


def for_one_machine(level: str, *, counted_by: str | None = None) -> dict[str, Any]:
    """Return the `logging.config` of the processes of a server on one machine.

    It writes JSON lines to standard error: lines of the service from `level` up, and warnings of
    libraries. `INFO` has a line for each request, except for frequent requests (see
    `SamplingFilter`); `DEBUG` has all lines. `counted_by` names a handler class that gets all lines
    of the service from `INFO` up, at any `level`.
    """
    handlers: dict[str, Any] = {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "json",
            "level": level.upper(),
            "filters": [] if level.upper() == "DEBUG" else ["sampled"],
        }
    }
    ours: dict[str, Any] = {"level": level.upper()}
    if counted_by is not None:
        handlers["counted"] = {"class": counted_by, "level": "INFO"}
        lowest = min(logging.INFO, logging.getLevelNamesMapping()[level.upper()])
        ours = {"level": lowest, "handlers": ["counted"]}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonFormatter, "stage": None}},
        "filters": {"sampled": {"()": SamplingFilter}},
        "handlers": handlers,
        "root": {"level": "WARNING", "handlers": ["stderr"]},
        "loggers": dict.fromkeys((*_OURS, "rescind"), ours),
    }


@cache
def configure_standard_output() -> None:
    """Configure JSON logs on standard output, once, if this process runs on Lambda.

    Libraries log only warnings, because Mangum would log the path of each request, which is text of
    a caller.
    """
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        output = logging.StreamHandler(sys.stdout)
        splits = os.environ.get("RESCIND_OPERATION_METRICS", "on") == "on"
        formatter = JsonFormatter(stage=os.environ.get("RESCIND_STAGE", "none"), splits=splits)
        output.setFormatter(formatter)
        output.addFilter(SampledFilter(int(os.environ.get("RESCIND_REQUESTS_PER_LOG_LINE", "1"))))
        logging.basicConfig(level=logging.WARNING, handlers=[output], force=True)
        for name in _OURS:
            logging.getLogger(name).setLevel(logging.INFO)


class SampledFilter(logging.Filter):
    """Passes one in `size` lines of successful requests, for functions with high traffic.

    A line has the metrics of all of these requests, because CloudWatch reads up to 100 values of a
    metric from a line. Failures, rejections and all other lines pass. Lines that an instance has
    not logged yet are lost with it.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._seconds: dict[object, list[float]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is logged."""
        found = logged_fields(record)
        seconds = found.metrics.get("RequestSeconds")
        if seconds is None or found.values.get("outcome") != "ok":
            return True
        operation = found.values.get("operation")
        gathered = self._seconds.setdefault(operation, [])
        gathered.append(seconds)
        if len(gathered) < self._size:
            return False
        del self._seconds[operation]
        setattr(record, _FIELDS, found._replace(gathered={"RequestSeconds": gathered}))
        return True


class SamplingFilter(logging.Filter):
    """Passes one line a minute for each frequent operation that succeeds.

    The field `lines` has the number of lines that it represents. Failures, rejections and all other
    lines pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[object, float] = {}
        self._lines = Counter[object]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is logged."""
        found = logged_fields(record)
        name = found.values.get("operation", record.msg)
        if name not in _FREQUENT or found.values.get("outcome", "ok") != "ok":
            return True
        self._lines[name] += 1
        if abs(record.created - self._logged_at.get(name, 0.0)) < _SAMPLED_SECONDS:
            return False
        self._logged_at[name] = record.created
        values = {**found.values, "lines": self._lines.pop(name)}
        setattr(record, _FIELDS, found._replace(values=values))
        return True


class JsonFormatter(logging.Formatter):
    """Formats a log record as a JSON object.

    `stage` is a dimension of all metrics. If it is None, metrics are plain members of the object,
    because CloudWatch does not read them. Metrics with `by` have a second set of dimensions, unless
    `splits` is false.
    """

    def __init__(self, *, stage: str | None, splits: bool = True) -> None:
        super().__init__()
        self._stage = stage
        self._splits = splits

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        logged = logged_fields(record)
        moment = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds") + "Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **logged.values,
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        if logged.metrics and self._stage is None:
            line |= logged.metrics
        elif logged.metrics:
            by = logged.by if self._splits else {}
            definitions = [
                {"Name": name, "Unit": "Seconds" if name.endswith("Seconds") else "Count"}
                for name in logged.metrics
            ]
            dimensions = [["Stage"], ["Stage", *by]] if by else [["Stage"]]
            directive = {"Namespace": _NAMESPACE, "Dimensions": dimensions, "Metrics": definitions}
            metadata = {"Timestamp": int(record.created * 1000), "CloudWatchMetrics": [directive]}
            several = {
                name: each[:_VALUES_MAX] for name, each in logged.gathered.items() if each[1:]
            }
            line |= {"_aws": metadata, "Stage": self._stage, **by, **logged.metrics, **several}
        try:
            return _ENCODER.encode(line)
        except (TypeError, ValueError):
            # A key or number that JSON does not allow, or a cycle: log all values as text.
            return json.dumps({name: str(value) for name, value in line.items()})

    def formatException(self, ei: _Failure) -> str:  # noqa: N802 (the base class names it)
        """Return tracebacks and types, and texts of our errors only: others may hold a secret."""
        errors: list[BaseException] = []
        error = ei[1]
        while error is not None and error not in errors:
            errors.insert(0, error)
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        texts = []
        for each in errors:
            frames = "".join(traceback.format_tb(each.__traceback__))
            message = f": {each}" if isinstance(each, RescindError) else ""
            texts.append(f"{frames}{type(each).__name__}{message}")
        return "\n".join(texts)
