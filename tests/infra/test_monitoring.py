"""Names, alerts and panels of the metrics: each is of a metric, fires, and is explained."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from infra.server.metric_names import METRICS
from tests.infra.prometheus import ALERTS, RULES
from tests.kit.processes import ROOT

_needs_promtool: Final = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool: `apt-get install prometheus`"
)
_DASHBOARD: Final = json.loads((ROOT / "infra" / "dashboard.json").read_text())
_DRAWN: Final = [target["expr"] for panel in _DASHBOARD["panels"] for target in panel["targets"]]
# What is wrong begins in this minute of a test.
_WRONG_AT: Final = 40


def _named(*expressions: str) -> set[str]:
    found = {name for each in expressions for name in re.findall(r"rescind_\w+", each)}
    return {each.removesuffix("_bucket") for each in found}


def test_the_page_explains_each_metric() -> None:
    """F1340a: The page explains kind, labels and help of each metric, and no help has links."""
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `(rescind_\w+)` \| (\w+) \|(.*?)\| (.*) \|$", page, re.MULTILINE)
    link = r" \(\[[^]]*\]\([^)]*\)\)|\[([^]]*)\]\([^)]*\)"
    explained = {
        name: (kind, tuple(re.findall(r"`(\w+)`", labels)), re.sub(link, r"\1", text))
        for name, kind, labels, text in rows
    }
    assert explained == {
        name: (each.kind, each.labels, each.help) for name, each in METRICS.items()
    }


def test_each_metric_is_drawn() -> None:
    """F1340b: The dashboard has every metric, and alerts and panels name no other one."""
    assert _named(*_DRAWN) == set(METRICS)
    assert _named(*(alert["expr"] for alert in ALERTS)) <= set(METRICS)


def test_an_alert_names_its_section() -> None:
    """F1340c: An alert has the section of the runbook that alarms on AWS name for it, too."""
    for alert in ALERTS:
        anchor = re.sub(r"(?<!^)([A-Z])", r"-\1", alert["alert"]).lower()
        assert alert["annotations"]["runbook"] == f"docs/runbook.md#{anchor}"


def _promtool(*arguments: str | Path, good: bool = True) -> str:
    ran = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    said = ran.stdout + ran.stderr
    assert (ran.returncode == 0) is good, said
    return said


@pytest.mark.slow
@_needs_promtool
def test_promtool_reads_rules_and_panels(tmp_path: Path) -> None:
    """F1341a: Prometheus reads each alert, and each expression of the dashboard."""
    assert f"{len(ALERTS)} rules found" in _promtool("check", "rules", RULES)
    rules = [{"record": f"panel:{n}", "expr": each} for n, each in enumerate(_DRAWN)]
    drawn = tmp_path / "drawn.yaml"
    drawn.write_text(yaml.safe_dump({"groups": [{"name": "drawn", "rules": rules}]}))
    assert f"{len(_DRAWN)} rules found" in _promtool("check", "rules", drawn)


def _turns(good: float, bad: float) -> str:
    """A series that is right, and then wrong for an hour and a half."""
    return f"{good}x{_WRONG_AT - 1} {bad}x90"


def _slow(operation: str, first: int, then: int) -> dict[str, str]:
    """Hundred requests a minute; so many of them take at most 2.5 seconds, first and then."""
    name = f'rescind_request_seconds_bucket{{operation="{operation}",le='
    fast = f"0+{first}x{_WRONG_AT - 1} {first * _WRONG_AT}+{then}x90"
    whole = "0+100x130"
    return {f'{name}"2.5"}}': fast, f'{name}"10"}}': whole, f'{name}"+Inf"}}': whole}


# For each alert the series of a test. Up to their thresholds, none fires.
_SERIES: Final[dict[str, dict[str, str]]] = {
    "TargetDown": {"rescind_build_info": f"1x{_WRONG_AT - 1} stale"},
    "NotReady": {"rescind_ready": _turns(1, 0)},
    "ProcessDown": {'rescind_process_up{process="publisher"}': _turns(1, 0)},
    "NoLeader": {"rescind_leader_last_seen_seconds": _turns(60, 61)},
    "SchedulerStalled": {"rescind_scheduler_last_run_age_seconds": _turns(180, 181)},
    "FeedsLagging": {"rescind_feeds_lagging": _turns(0, 1)},
    "ChangesWait": {"rescind_feed_backlog_age_seconds": _turns(5, 6)},
    "SrlsOverdue": {"rescind_srls_overdue": _turns(0, 1)},
    "SrlsExpired": {"rescind_srl_expires_in_seconds": _turns(0, -1)},
    "TrustDocumentsExpiring": {
        "rescind_trust_documents_expiring": _turns(0, 1),
        "rescind_trust_documents_expired": "0x130",
    },
    "AuditLogLag": {"rescind_audit_log_append_lag_seconds": _turns(300, 301)},
    "AuthorizersUnknown": {
        'rescind_authorizers{state="unknown"}': _turns(0, 1),
        'rescind_authorizers{state="fail_closed"}': "9x130",
    },
    "WebhookFailing": {
        'rescind_webhook_endpoints{state="failing"}': _turns(0, 1),
        'rescind_webhook_endpoints{state="enabled"}': "9x130",
    },
    "WebhookDisabled": {'rescind_webhook_endpoints{state="disabled"}': _turns(1, 2)},
    "MassUnrevocation": {"rescind_unrevoked_total": f"0+10x{_WRONG_AT - 1} 400+30x90"},
    "ApprovalsOverridden": {"rescind_approvals_overridden_total": _turns(1, 2)},
    "KeyLeaked": {"rescind_keys_leaked_total": _turns(1, 2)},
    "ApproversTooFew": {"rescind_approvers_too_few_total": _turns(1, 2)},
    "TrustAnchorChanged": {"rescind_trust_anchor_changed_total": _turns(1, 2)},
    "EquivocationReported": {"rescind_equivocation_reported_total": _turns(1, 2)},
    "ClockSkew": {"rescind_clock_skew_total": _turns(1, 2)},
    # A poll waits for changes, and is not slow.
    "HighLatency": {**_slow("sign_warrant", 100, 98), **_slow("poll_feed", 0, 0)},
    "InternalErrors": {"rescind_requests_failed_total": _turns(1, 2)},
    "RequestsUnavailable": {"rescind_requests_unavailable_total": f"0x{_WRONG_AT - 1} 0+2x90"},
    "RateLimitBypassed": {"rescind_rate_limit_bypassed_total": _turns(1, 2)},
    "UnauthorizedRequests": {
        'rescind_requests_rejected_total{reason="unauthorized"}': (
            f"0+100x{_WRONG_AT - 1} 4000+300x90"
        ),
        'rescind_requests_rejected_total{reason="rate"}': "0+1000x130",
    },
}


def _test_of(alert: dict[str, Any], series: dict[str, str] | None = None) -> dict[str, Any]:
    """A test of promtool: nothing fires, then this alert alone, after its time."""
    series = {"rescind_build_info": "1x130"} | (series or _SERIES[alert["alert"]])
    lasts = int(alert["for"].removesuffix("m"))
    # A mean over some minutes takes as long to rise.
    settles = max(map(int, re.findall(r"\[(\d+)m\]", alert["expr"])), default=0)
    firing = 'count by (alertname, severity) (ALERTS{alertstate="firing"})'
    severity = alert["labels"]["severity"]
    name = alert["alert"]
    labels = f'{{alertname="{name}", severity="{severity}"}}'
    moments = {_WRONG_AT - 1: False, _WRONG_AT + lasts - 1: False, _WRONG_AT + lasts + 1: True}
    if settles:
        moments = {_WRONG_AT - 1: False, _WRONG_AT + lasts + settles - 1: True}
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": each} for name, each in series.items()],
        "promql_expr_test": [
            {
                "expr": firing,
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": labels, "value": 1}] if fires else [],
            }
            for minute, fires in moments.items()
        ],
    }


@pytest.mark.slow
@_needs_promtool
def test_each_alert_fires(tmp_path: Path) -> None:
    """F1341b: Each alert fires when what it watches is wrong for its time; before that none does.

    A test of an alert that stays quiet fails.
    """
    assert list(_SERIES) == [alert["alert"] for alert in ALERTS]
    shutil.copy(RULES, tmp_path / "alerts.yaml")
    tests = [_test_of(each) for each in ALERTS]
    (waits,) = (each for each in ALERTS if each["alert"] == "ChangesWait")
    # Hundred changes a minute; at last 90 of them are in the feed after at most 5 seconds.
    bucket = "rescind_change_published_seconds_bucket"
    all_ = dict.fromkeys((f'{bucket}{{le="10"}}', f'{bucket}{{le="+Inf"}}'), "0+100x130")
    fast = f"0+100x{_WRONG_AT - 1} {100 * _WRONG_AT}+90x90"
    tests.append(_test_of(waits, {f'{bucket}{{le="5"}}': fast} | all_))
    document = {"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": tests}
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump(document))
    _promtool("test", "rules", file)
    tests[1]["input_series"] = [{"series": "rescind_ready", "values": "1x130"}]
    file.write_text(yaml.safe_dump(document))
    assert "NotReady" in _promtool("test", "rules", file, good=False)
