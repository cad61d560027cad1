"""Verification over HTTP of a log that is stored, and tampered with in its store (LOG-24)."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from functions.transparency_log import head, log, sealing
from infra.audit_verification.source import Report
from infra.audit_verification.verification import verify
from infra.cli.audit_log import ServedLog
from infra.cli.audit_log import records as listed
from infra.cli.client import ApiClient
from infra.cli.errors import ApiError
from shared.authorizer.http1 import Response
from shared.model.audit import audit_log, records
from shared.model.audit.audit_log import AuditAction
from shared.model.revocations import record_address
from shared.operations.base import audit, tenants
from shared.ports.store import Expect, Put
from tests.kit.api import Client, Tenant, serve
from tests.kit.tenants import item_at
from tests.kit.worlds import Clock, embedded

ENTRIES = 300


@dataclass(frozen=True)
class Served:
    """The API of the service in this process, as the command line calls it."""

    client: Client

    def send(self, method: str, path: str, *, params: Any = None) -> Any:
        query = {name: value for name, value in (params or {}).items() if value is not None}
        answer = self.client.request(method, path, params=query)
        if not answer.is_success:
            raise ApiError(answer.status_code, "code", answer.text, None)
        return Response(answer.status_code, {}, answer.content)

    def get(self, path: str, params: Any = None) -> Any:
        return json.loads(self.send("GET", path, params=params).body)

    pages = ApiClient.pages


@pytest.fixture
def tenant(tmp_path: Path, clock: Clock) -> Tenant:
    """A tenant with entries of some minutes, all sealed, in files."""
    ports = embedded(tmp_path, clock)
    tenant = Tenant(ports, serve(ports), handle="acme")
    settings = tenants.settings(ports, tenant.id)
    for start in range(0, ENTRIES, 50):
        clock.advance(seconds=10)
        ports.store.write(
            *(
                audit.entry(
                    ports,
                    tenant.operator,
                    AuditAction.KEY_SIGN,
                    "svc_key_a",
                    settings=settings,
                    number=start + number,
                )
                for number in range(50)
            )
        )
    sealing.extend(ports, tenant.id)
    clock.advance(hours=1)
    return tenant


def check(tenant: Tenant) -> Report:
    api: Any = Served(tenant.admin)
    report, _ = verify(
        ServedLog(api), tenant.id, pins=[], now=tenant.ports.now, records=listed(api)
    )
    return report


def place(tenant: Tenant, entry_id: str) -> Any:
    return audit_log.address(tenant.id, entry_id, records.moment(entry_id))


@pytest.mark.slow
def test_what_is_stored_and_served_is_whole(tenant: Tenant) -> None:
    """LOG-24, LOG-25, F347a: A log that nobody touched is whole as it is served."""
    report = check(tenant)
    assert report.findings == []
    sealed = ENTRIES + 3
    assert (report.size, report.checked) == (sealed, sealed)
    tenant.revoke("svc_wrt_a")
    assert (check(tenant).size, len(check(tenant).pending)) == (sealed, 1)
    sealing.extend(tenant.ports, tenant.id)
    assert (check(tenant).size, check(tenant).findings) == (sealed + 1, [])


def change(tenant: Tenant) -> str:
    (record,) = log.records(tenant.ports, tenant.id, 77, 78)
    address = audit_log.address(tenant.id, record.id, records.moment(record.id))
    item = item_at(tenant.ports, address)
    tenant.ports.store.write(Put(address, {**item, "actor": "nobody"}, Expect.PRESENT))
    return f"{record.id} (leaf 77): changed"


def replace_a_tile(tenant: Tenant) -> str:
    folder: Path = vars(tenant.ports.blobs)["_root"]
    (path,) = (each for each in folder.rglob("*") if str(each).endswith("tile/0/000"))
    data = bytearray(path.read_bytes())
    data[32 * 5] ^= 1
    path.chmod(0o600)
    path.write_bytes(bytes(data))
    return "tile 0/0 (leaves 0..255) differs from the level above"


def forge_the_head(tenant: Tenant) -> str:
    address = head.address(tenant.id)
    item = item_at(tenant.ports, address)
    note = str(item["checkpoint"]).replace(f"\n{ENTRIES + 3}\n", f"\n{ENTRIES}\n")
    tenant.ports.store.write(Put(address, {**item, "checkpoint": note}, Expect.PRESENT))
    return "signature: no audit signer of the tenant signed the checkpoint"


@pytest.mark.parametrize("tamper", [change, replace_a_tile, forge_the_head])
def test_tampering_with_the_store_is_found(tenant: Tenant, tamper: Callable[[Tenant], str]) -> None:
    """LOG-24, F347b: Tampering with the table or the blobs is found by the entry, leaf or tile."""
    found = tamper(tenant)
    assert found in check(tenant).findings


def test_a_record_that_no_entry_created_is_found(tenant: Tenant) -> None:
    """LOG-28, F350a: A record that was put into the store has no entry that created it."""
    key = tenant.admin.post("/v1/keys", json={"type": "root", "name": "r"}).json()["id"]
    assert tenant.admin.post(f"/v1/keys/{key}/rotate").status_code == 200
    body = {"name": "k", "scopes": ["read-only"]}
    assert tenant.admin.post("/v1/api-keys", json=body).status_code == 201
    assert tenant.admin.post("/v1/service-accounts", json={"name": "a"}).status_code == 201
    many = {"action": "revoke", "reason": "lost", "warrant_ids": ["svc_wrt_b", "svc_wrt_c"]}
    assert tenant.admin.post("/v1/revocations/batch", json=many).status_code == 200
    made = tenant.revoke("svc_wrt_a")
    report = check(tenant)
    assert (report.findings, report.records >= 8) == ([], True)
    address = record_address(tenant.id, made)
    item = item_at(tenant.ports, address)
    forged = tenant.ports.new_id("rev")
    copied = {**item, "id": forged, "warrant_id": "svc_wrt_forged"}
    tenant.ports.store.write(Put(record_address(tenant.id, forged), copied, Expect.ABSENT))
    assert check(tenant).findings == [f"{forged}: no entry of the audit log created it"]
