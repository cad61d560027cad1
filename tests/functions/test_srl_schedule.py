"""The schedule: whose list it publishes, and what stops it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from functions.srl_schedule.handler import ScheduleFailed, handler
from infra import data_folder
from shared import wiring
from shared.adapters.sqlite import SqliteStore
from shared.model.srl import head_key
from shared.model.srl_keys import signers
from shared.operations import publication
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.lambda_events import load
from tests.operations.tenants import Tenant
from tests.processes import ROOT, run

_WEB = {"fastapi", "starlette", "pydantic", "mangum"}
_AWS = {"boto3", "botocore"}
_HANDLERS = sorted((ROOT / "functions").glob("*/handler.py"))


@pytest.fixture
def ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ports]:
    """What the handler works on: what the environment names."""
    data_folder.prepare(tmp_path)
    for name, value in data_folder.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    wiring.from_environment.cache_clear()
    ports = wiring.from_environment()
    yield ports
    wiring.from_environment.cache_clear()
    assert isinstance(ports.store, SqliteStore)
    ports.store.close()


def test_it_publishes_where_something_changed_and_nowhere_else(ports: Ports) -> None:
    """A tenant whose revocations changed is published; one whose did not is left alone."""
    changed, other = Tenant.create(ports, "acme"), Tenant.create(ports, "globex")
    changed.revoke(ports, "svc_wrt_a")
    assert _run() == {"published": [changed.id]}
    assert changed.published(ports).revoked_ids == ["svc_wrt_a"]
    assert other.published(ports).version == 1


def test_it_publishes_where_half_of_the_lifetime_has_passed(ports: Ports) -> None:
    """A list that is half run out is published anew, though nothing changed; a younger one not."""
    old, young = Tenant.create(ports, "acme"), Tenant.create(ports, "globex")
    _age(ports, old, minutes=30)
    _age(ports, young, minutes=29)
    assert _run() == {"published": [old.id]}
    assert old.published(ports).version == 2


def test_without_tenants_there_is_nothing_to_do(ports: Ports) -> None:
    """A run over no tenants succeeds."""
    assert _run() == {"published": []}


def test_an_event_delivered_twice_does_no_harm(ports: Ports) -> None:
    """F08: a second delivery publishes nothing new, and what is due later gets a higher version."""
    tenant = Tenant.create(ports)
    tenant.revoke(ports, "svc_wrt_a")
    assert _run() == {"published": [tenant.id]}
    assert _run() == {"published": []}
    assert tenant.published(ports).version == 2
    tenant.revoke(ports, "svc_wrt_b")
    assert _run() == {"published": [tenant.id]}
    assert tenant.published(ports).version == 3


def test_a_tenant_that_fails_holds_back_no_other(
    ports: Ports, caplog: pytest.LogCaptureFixture
) -> None:
    """F10: a tenant with a malformed record fails loudly and keeps its list; all others go on."""
    tenants = [Tenant.create(ports, handle) for handle in ("acme", "globex", "initech")]
    for tenant in tenants:
        tenant.revoke(ports, "svc_wrt_a")
    broken = tenants[1]
    mended = _break_signer(ports, broken)
    with pytest.raises(ScheduleFailed, match="1 tenants failed, 2 published"):
        _run()
    assert broken.id in caplog.text
    assert [publication.current(ports, each.id).version for each in tenants] == [2, 1, 2]
    ports.store.write(mended)
    assert _run() == {"published": [broken.id]}
    assert {tuple(each.published(ports).revoked_ids) for each in tenants} == {("svc_wrt_a",)}


def test_it_loads_no_web_framework() -> None:
    """A cold start of the schedule loads nothing that only HTTP needs, and no unused adapter."""
    loaded = _loaded_by("import functions.srl_schedule.handler")
    assert not loaded & (_WEB | _AWS | {"sqlite3"})


@pytest.mark.slow
@pytest.mark.parametrize("group", [handler.parent.name for handler in _HANDLERS])
def test_a_function_loads_no_adapter_before_it_is_chosen(group: str) -> None:
    """A cold start of any function loads neither the SDK nor SQLite by itself."""
    loaded = _loaded_by(f"import functions.{group}.handler")
    assert not loaded & (_AWS | {"sqlite3"})


def test_one_machine_needs_no_sdk(tmp_path: Path) -> None:
    """On the adapters of one machine, requests and runs are served without the SDK."""
    data_folder.prepare(tmp_path)
    served = (
        "import functions.srl.handler as srl, functions.srl_schedule.handler as schedule\n"
        "from tests.lambda_events import Request\n"
        "answer = srl.handler(Request('GET', '/v1/revocations/srl').http_api(), None)\n"
        "assert answer['statusCode'] == 401, answer\n"
        "assert schedule.handler({}, None) == {'published': []}\n"
    )
    loaded = _loaded_by(served, settings=data_folder.environment(tmp_path))
    assert "sqlite3" in loaded
    assert not loaded & _AWS


def _run() -> dict[str, list[str]]:
    return handler(load("schedule"), None)


def _age(ports: Ports, tenant: Tenant, *, minutes: float) -> None:
    """Let the tenant's list have been issued earlier, as time would have done."""
    head = publication.current(ports, tenant.id)
    earlier = timedelta(minutes=minutes)
    aged = replace(head, issued_at=head.issued_at - earlier, expires_at=head.expires_at - earlier)
    ports.store.write(Put(head_key(tenant.id), aged.to_item(), Expect.PRESENT))


def _break_signer(ports: Ports, tenant: Tenant) -> Put:
    """Make the tenant's signer unreadable; the write that mends it."""
    (entry,) = ports.store.query(signers(tenant.id))
    key = signers(tenant.id).key(entry.sk)
    ports.store.write(Put(key, {**entry.item, "public_key": 1}, Expect.PRESENT))
    return Put(key, entry.item, Expect.PRESENT)


def _loaded_by(source: str, *, settings: dict[str, str] | None = None) -> set[str]:
    """The packages that a fresh process has loaded after running `source`."""
    # Measuring coverage would load modules of its own.
    alone = {"COVERAGE_PROCESS_CONFIG": "", "COVERAGE_PROCESS_START": ""} | (settings or {})
    told = run("-c", f"{source}\nimport sys\nprint(*sys.modules)", settings=alone)
    assert told.returncode == 0, told.stderr
    return {name.partition(".")[0] for name in told.stdout.split()}
