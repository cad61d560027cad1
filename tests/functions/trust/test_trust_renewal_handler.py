"""The function that renews trust documents: by the stream of changed keys, and by the schedule."""

import logging
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from functions.trust import documents
from functions.trust.records import head_address
from functions.trust.trust_renewal_handler import NotRenewedError, handler
from shared import wiring
from shared.errors import Unavailable
from shared.model.items import Address
from shared.model.lists import schedule
from shared.operations.changes import list_signers
from shared.ports import Ports
from shared.ports.outside import RootSigner
from shared.ports.store import Expect, Put
from tests.infra.templates import LAMBDAS, events
from tests.kit.lambda_events import streamed
from tests.kit.log_lines import lines, metrics
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock

_TIME = SimpleNamespace(get_remaining_time_in_millis=lambda: 300_000)


@pytest.fixture
def ports(from_environment: Ports) -> Ports:
    return from_environment


@pytest.fixture
def root(ports: Ports) -> RootSigner:
    assert ports.root is not None
    return ports.root


def _run(ports: Ports, event: dict[str, Any] | None = None) -> dict[str, int]:
    """Call the function on these ports; without an event, as the schedule does."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wiring, "from_environment", lambda: ports)
        return handler(event or {}, _TIME)


def _version(ports: Ports, tenant: Tenant) -> int:
    head = documents.read_head(ports, tenant.id)
    return head.version if head else 0


def _mark(tenant: Tenant) -> Address:
    return schedule.trust_mark_address(tenant.id)


def test_the_schedule_makes_and_renews_all_documents(ports: Ports) -> None:
    """TRUST-16, F714a: The schedule has the documents of all tenants made, and renewed in time."""
    acme, globex = (Tenant.create(ports, each) for each in ("acme", "globex"))
    assert _run(ports) == {"published": 2}
    assert _run(ports) == {"kept": 2}
    later = ports.now() + timedelta(days=1, seconds=1)
    assert _run(replace(ports, now=lambda: later)) == {"published": 2}
    assert [_version(ports, each) for each in (acme, globex)] == [2, 2]
    (daily,) = events("TrustRenewal", "ScheduleV2")
    assert daily["ScheduleExpression"] == "rate(6 hours)"


def test_a_change_of_keys_has_the_document_made_anew(ports: Ports) -> None:
    """TRUST-16, F714b: When signers change, the stream has the next document made at once."""
    acme, globex = (Tenant.create(ports, each) for each in ("acme", "globex"))
    _run(ports)
    list_signers.rotate(ports, acme.operator, compromised=True)
    other = schedule.mark_address(globex.id, "svc_wrt_a")
    assert handler(streamed(other), None) == {}
    made = handler(streamed(_mark(acme), _mark(acme)), None)
    assert sum(made.values()) == 1
    assert _version(ports, acme) > _version(ports, globex)
    (marks,) = events("TrustRenewal", "DynamoDB")
    pattern = marks["FilterCriteria"]["Filters"][0]["Pattern"]
    for each in (_mark(acme), schedule.keys_mark_address(acme.id)):
        assert schedule.concerns_trust(each.sk)
        assert f'{{"suffix": "#{each.sk.partition("#")[2]}"}}' in pattern


class _AwayRoot:
    """A root that is away."""

    def __init__(self, root: RootSigner) -> None:
        self.public_key = root.public_key

    def sign(self, _: bytes) -> bytes:
        raise Unavailable


def test_a_failure_is_counted_and_tried_again(
    ports: Ports,
    root: RootSigner,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """F714c: If the root does not sign, the run fails, is counted, and may be repeated."""
    acme = Tenant.create(ports, "acme")
    with pytest.raises(NotRenewedError, match="1 of 1"):
        _run(replace(ports, root=_AwayRoot(root)))
    assert metrics(lines(caplog, "trust")[0]) == {"TrustRenewalFailed": (1, "Count")}
    assert _run(ports, streamed(_mark(acme))) == {"published": 1}


def test_one_tenant_stops_no_other(ports: Ports) -> None:
    """F714d: A tenant whose records are damaged has no other tenant wait."""
    acme, globex = (Tenant.create(ports, each) for each in ("acme", "globex"))
    _run(ports)
    head = documents.read_head(ports, acme.id)
    assert head is not None
    damaged = replace(head, turns=("7",))
    ports.store.write(Put(head_address(acme.id), damaged.to_item(), Expect.PRESENT))
    list_signers.rotate(ports, globex.operator, compromised=True)
    with pytest.raises(NotRenewedError, match="1 of 2"):
        _run(ports)
    assert _version(ports, globex) > 1


def test_documents_that_expire_are_counted(ports: Ports, caplog: pytest.LogCaptureFixture) -> None:
    """F714e: A document in the last third of its life is counted, and an alarm fires."""
    caplog.set_level(logging.INFO)
    acme = Tenant.create(ports, "acme")
    _run(ports)
    head = documents.read_head(ports, acme.id)
    assert head is not None
    for early, expiring in ((timedelta(seconds=1), 0), (timedelta(0), 1)):
        done = _run(replace(ports, root=None, now=Clock(head.warns_at - early)))
        assert done.get("expiring", 0) == expiring
        assert metrics(lines(caplog, "trust")[-1]) == {"TrustRenewalOverdue": (expiring, "Count")}


def test_a_run_ends_before_its_time(ports: Ports) -> None:
    """F714f: A run that has little time left begins with no further tenant."""
    acme = Tenant.create(ports, "acme")
    late = SimpleNamespace(get_remaining_time_in_millis=lambda: 29_999)
    assert handler({}, late) == {"left": 1}
    assert _version(ports, acme) == 0
    assert LAMBDAS["TrustRenewal"]["Timeout"] * 1000 > 2 * 30_000


def test_a_read_only_service_makes_no_document(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-14, F714g: While the service is read-only, no document is made."""
    acme = Tenant.create(ports, "acme")
    monkeypatch.setenv("RESCIND_MODE", "read-only")
    assert _run(ports) == {}
    assert _version(ports, acme) == 0
