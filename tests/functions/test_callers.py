"""Who calls: `GET /v1/whoami` (AUTH-13)."""

from datetime import timedelta

from shared.model.callers import Scope
from shared.operations.access import api_keys
from tests.kit.api import Client, Tenant, serve
from tests.kit.faults import Script, scripted
from tests.kit.worlds import Clock

PATH = "/v1/whoami"


def test_a_caller_learns_who_it_is(tenant: Tenant, clock: Clock) -> None:
    """AUTH-13: A key of any scope learns its tenant, its identity, its scopes and its end."""
    tenant.admin.request("PATCH", "/v1/tenant/settings", json={"name": "Acme Inc"})
    signer = tenant.client(Scope.SIGNER, expires_at=clock() + timedelta(hours=1))
    assert signer.get(PATH).json() == {
        "tenant_id": tenant.id,
        "tenant_name": "Acme Inc",
        "identity": f"{signer.key_id}@acme.svc",
        "api_key_id": signer.key_id,
        "api_key_name": "k",
        "scopes": ["signer"],
        "expires_at": "2026-11-21T13:00:00Z",
        "can_create_until": "2026-11-21T13:00:00Z",
        "name": "k",
        **dict.fromkeys(("role", "person_id", "session_id", "authenticated_at")),
    }
    of_account = tenant.admin.get(PATH).json()
    assert (of_account["identity"], of_account["expires_at"]) == ("admin@acme.svc", None)
    assert of_account["can_create_until"] is None


def test_a_key_that_was_deleted_meanwhile_is_nobody(tenant: Tenant) -> None:
    """AUTH-2: A key that is deleted after its authentication gets the answer of a deleted key."""
    spare = tenant.client(Scope.ADMIN)

    def delete() -> None:
        api_keys.delete(tenant.ports, tenant.operator, key_id=spare.key_id)

    script = Script(before={1: delete})
    answer = Client(serve(scripted(tenant.ports, script)), spare.secret).get(PATH)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
