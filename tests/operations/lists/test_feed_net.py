"""The schedule is the net below the stream: it publishes what the stream has lost."""

import logging

import pytest

from shared.operations.base import operation
from shared.operations.lists import publication, wake
from shared.ports import Ports
from tests.kit.log_lines import lines, metrics
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock

_TICK_SECONDS = 60


@pytest.fixture(autouse=True)
def _pauses_pass(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    pacing = operation.RetryPacing(pause=0, sleep=lambda seconds: clock.advance(seconds=seconds))
    monkeypatch.setattr(operation, "PACING", pacing)


def test_what_the_stream_brought_is_not_caught_up(
    ports: Ports, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """F225a, FEED-5: The schedule publishes, and counts, what no event of the stream published."""
    caplog.set_level(logging.INFO)
    tenant = Tenant.create(ports)
    tenant.revoke(ports, "svc_wrt_a")
    wake.publish_within_window(ports, tenant.id)
    clock.advance(seconds=_TICK_SECONDS)
    publication.publish_due(ports)
    assert lines(caplog, "feed") == []
    tenant.revoke(ports, "svc_wrt_b")
    publication.publish_due(ports)
    (line,) = lines(caplog, "feed")
    assert (line["tenant_id"], metrics(line)) == (
        tenant.id,
        {"FeedSchedulerPublications": (1, "Count")},
    )
