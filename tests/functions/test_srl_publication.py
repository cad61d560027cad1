"""The worker: whose list it publishes, what it hands back, and what stops it."""

import logging

import pytest

from functions.srl_publication.handler import handler
from shared.model.lists.signers import signers_partition
from shared.operations.lists import in_force
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.lambda_events import load, queued
from tests.kit.log_lines import lines, metrics, printed_on_lambda
from tests.kit.tenants import Tenant

UNKNOWN = "svc_tnt_01k6x3v9e8h2m4q7r5t1w0z3yb"


@pytest.fixture
def ports(from_environment: Ports) -> Ports:
    return from_environment


def work(*tenants: Tenant | str) -> dict[str, int]:
    """Deliver a message for each; how many were published, were not due, failed."""
    bodies = [each if isinstance(each, str) else each.id for each in tenants]
    return handler(queued(*bodies), None)


def outcome(*, published: int = 0, not_due: int = 0, failed: int = 0) -> dict[str, int]:
    return {"published": published, "not due": not_due, "failed": failed}


def changed(ports: Ports, *handles: str) -> list[Tenant]:
    """Tenants of whom each revoked a warrant since its list was made."""
    tenants = [Tenant.create(ports, handle) for handle in handles]
    for tenant in tenants:
        tenant.revoke(ports, "svc_wrt_a")
    return tenants


def versions(ports: Ports, *tenants: Tenant) -> list[int]:
    return [in_force.read_srl_head(ports, each.id).version for each in tenants]


def test_an_event_as_aws_sends_it(ports: Ports) -> None:
    """The event of one record is understood; its tenant is unknown here."""
    assert handler(load("queue"), None) == outcome(failed=1)


def test_a_message_delivered_twice_is_one_publication(ports: Ports) -> None:
    """OPS-7, F08b: A queue message that is delivered twice leads to one publication."""
    (tenant,) = changed(ports, "acme")
    assert work(tenant, tenant) == outcome(published=1, not_due=1)
    assert work(tenant) == outcome(not_due=1)
    assert versions(ports, tenant) == [2]
    tenant.revoke(ports, "svc_wrt_b")
    assert work(tenant) == outcome(published=1)
    assert versions(ports, tenant) == [3]


@pytest.mark.parametrize("body", [UNKNOWN, "", " ", "{}", "a\nb", "é", "x" * 3000])
def test_a_message_that_names_nobody_fails_alone(ports: Ports, body: str) -> None:
    """It is counted as a failure; all around it are published."""
    first, second = changed(ports, "acme", "globex")
    assert work(first, body, second) == outcome(published=2, failed=1)
    assert versions(ports, first, second) == [2, 2]


def test_a_tenant_that_fails_holds_back_no_other(
    ports: Ports, caplog: pytest.LogCaptureFixture
) -> None:
    """F10: a malformed record stops its tenant alone, loudly; mended, the next message succeeds."""
    tenants = changed(ports, "acme", "globex", "initech")
    broken = tenants[1]
    mended = _break_signer(ports, broken)
    assert work(*tenants) == outcome(published=2, failed=1)
    assert versions(ports, *tenants) == [2, 1, 2]
    (failed,) = [line for line in lines(caplog, "publication") if "error" in line]
    assert failed["tenant_id"] == broken.id
    assert "stored field SrlSigner.public_key is malformed" in failed["error"]
    ports.store.write(mended)
    assert work(broken) == outcome(published=1)
    assert broken.published(ports).revoked_ids == ["svc_wrt_a"]


def test_each_publication_is_counted(ports: Ports, caplog: pytest.LogCaptureFixture) -> None:
    """A line a message; a publication and its seconds are metrics, a failure is one too."""
    caplog.set_level(logging.INFO)
    (tenant,) = changed(ports, "acme")
    work(tenant, tenant, UNKNOWN)
    published, not_due, failed = lines(caplog, "publication")
    assert (published["tenant_id"], published["outcome"]) == (tenant.id, "published")
    assert metrics(published)["Published"] == (1, "Count")
    assert metrics(published)["PublicationSeconds"] == (published["seconds"], "Seconds")
    assert (not_due["tenant_id"], not_due["outcome"]) == (tenant.id, "not due")
    assert metrics(not_due) == {}
    assert (failed["tenant_id"], failed["level"]) == (UNKNOWN, "ERROR")
    assert metrics(failed) == {"PublicationFailed": (1, "Count")}


def test_a_failure_reaches_the_log_that_alarms_read(
    ports: Ports, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F94a: A failed publication on Lambda is logged as JSON with the metric of its alarm."""
    logged = printed_on_lambda(lambda: work(UNKNOWN), monkeypatch, capsys)
    assert [metrics(line) for line in logged] == [{"PublicationFailed": (1, "Count")}]


def _break_signer(ports: Ports, tenant: Tenant) -> Put:
    """Make the tenant's signer unreadable; the write that mends it."""
    (entry,) = ports.store.query(signers_partition(tenant.id))
    key = signers_partition(tenant.id).address(entry.sk)
    ports.store.write(Put(key, {**entry.item, "public_key": 1}, Expect.PRESENT))
    return Put(key, entry.item, Expect.PRESENT)
