"""Batches of revocations over HTTP."""

from typing import Any

from tests.kit.api import Client, Tenant
from tests.kit.endpoints import audit_entries
from tests.kit.tenants import Tenant as Inside

PATH = "/v1/revocations/batch"
BATCH = "svc_bat_01kbm4xt3rfz8c5w7y2q9n6d1e"
OTHER = "svc_bat_01kbm4xt3rfz8c5w7y2q9n6d1f"
MANY = [f"svc_wrt_{number:03}" for number in range(120)]


def send(client: Client, **body: Any) -> Any:
    """The answer to a batch, which has a reason if none is given."""
    return client.post(PATH, json={"reason": "r"} | body)


def done(tenant: Tenant, **body: Any) -> dict[str, Any]:
    """The answer to a batch of the administrator that is accepted."""
    answer = send(tenant.admin, **body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def revoke(tenant: Tenant, *warrant_ids: str, **body: Any) -> dict[str, Any]:
    """Revoke these warrants in one batch."""
    return done(tenant, action="revoke", warrant_ids=warrant_ids, **body)


def revoked(tenant: Tenant, *warrant_ids: str) -> set[str]:
    """Those of the warrants that a check finds revoked."""
    answer = tenant.authorizer.post(
        "/v1/revocations/check-batch", json={"warrant_ids": warrant_ids}
    )
    return {name for name, each in answer.json()["results"].items() if each["revoked"]}


def check_totals(tenant: Tenant) -> None:
    Inside(tenant.id, tenant.operator).check_totals(tenant.ports)


def entries(tenant: Tenant, action: str) -> list[dict[str, Any]]:
    return [dict(each) for each in audit_entries(tenant) if each["action"] == action]


def named(tenant: Tenant, action: str) -> list[dict[str, Any]]:
    """The revocations that the entries of this action name."""
    return [each for entry in entries(tenant, action) for each in entry["details"]["revocations"]]
