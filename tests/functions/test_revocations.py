"""Revocations over HTTP (service.md 4.3)."""

from tests.api import Tenant


def test_a_revoked_warrant_is_revoked_at_once(tenant: Tenant) -> None:
    """check reads live records, not the published list."""
    tenant.revoke("svc_wrt_a")
    answer = tenant.authorizer.get("/v1/revocations/check?warrant_id=svc_wrt_a")
    assert answer.status_code == 200
    assert answer.json()["revoked"] is True
