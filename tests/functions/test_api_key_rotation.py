"""Rotation of API keys over HTTP (APIKEY-10)."""

from datetime import timedelta
from typing import Any

import pytest

from shared.model import times
from shared.model.callers import Scope
from tests.functions.signing import refusal
from tests.kit.api import Client, Tenant
from tests.kit.worlds import Clock

PATH = "/v1/api-keys"
WHOAMI = "/v1/whoami"


def rotate(tenant: Tenant, key_id: str, grace_seconds: Any = 3600, **body: Any) -> Any:
    path = f"{PATH}/{key_id}/rotate"
    return tenant.admin.post(path, json={"grace_seconds": grace_seconds} | body)


def rotated(tenant: Tenant, key_id: str, grace_seconds: int = 3600, **body: Any) -> Any:
    answer = rotate(tenant, key_id, grace_seconds, **body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def opens(client: Client) -> bool:
    return bool(client.get(WHOAMI).status_code == 200)


def test_both_secrets_are_accepted_until_the_grace_ends(tenant: Tenant, clock: Clock) -> None:
    """APIKEY-10, F377a: A rotation gives a new secret at once, and the old one lives for a grace.

    The old secret is refused from the very second on that the answer named.
    """
    clock.advance(microseconds=987_654)
    old = tenant.client(Scope.REVOKER, Scope.SIGNER)
    answer = rotated(tenant, old.key_id, 60)
    new = tenant.holding(answer.pop("key"))
    assert answer == {
        "id": answer["id"],
        "name": "k",
        "scopes": ["revoker", "signer"],
        "status": "active",
        "created_at": "2026-11-21T12:00:00Z",
        "expires_at": None,
        "predecessor_id": old.key_id,
        "predecessor_accepted_until": "2026-11-21T12:01:00Z",
    }
    assert opens(old)
    assert opens(new)
    assert old.get(WHOAMI).json()["expires_at"] == "2026-11-21T12:01:00Z"
    clock.moment = clock().replace(second=59, microsecond=999_999)
    assert opens(old)
    clock.advance(microseconds=1)
    assert not opens(old)
    assert opens(new)


def test_no_grace_revokes_at_once(tenant: Tenant, clock: Clock) -> None:
    """APIKEY-10, F377b: With a grace of 0 the old key is revoked in the write of the rotation."""
    old = tenant.client(Scope.READ_ONLY)
    answer = rotated(tenant, old.key_id, 0)
    assert not opens(old)
    assert opens(tenant.holding(answer["key"]))
    assert answer["predecessor_accepted_until"] == "2026-11-21T12:00:00Z"
    assert tenant.admin.get(f"{PATH}/{old.key_id}").json()["status"] == "revoked"


def test_a_rotation_prolongs_no_secret(tenant: Tenant, clock: Clock) -> None:
    """APIKEY-10, F377c: A grace never prolongs the life of the old secret."""
    old = tenant.client(Scope.READ_ONLY, expires_at=clock() + timedelta(seconds=30))
    answer = rotated(tenant, old.key_id, 60)
    assert answer["predecessor_accepted_until"] == "2026-11-21T12:00:30Z"
    clock.advance(seconds=30)
    assert not opens(old)


def test_a_new_key_gets_the_lifetime_of_the_old_one(tenant: Tenant, clock: Clock) -> None:
    """APIKEY-10: A key of ten days is replaced by one of ten days, or by one with a given end."""
    old = tenant.client(Scope.READ_ONLY, expires_at=clock() + timedelta(days=10))
    clock.advance(days=7)
    first = rotated(tenant, old.key_id)
    assert first["expires_at"] == "2026-12-08T12:00:00Z"
    second = rotated(tenant, first["id"], expires_at="2027-01-01T00:00:00Z")
    assert second["expires_at"] == "2027-01-01T00:00:00Z"
    assert refusal(rotate(tenant, second["id"], expires_at="2026-11-01T00:00:00Z"))[0] == 400
    endless = tenant.client(Scope.READ_ONLY, expires_at=clock().replace(year=9999, month=12))
    clock.advance(days=99)
    assert rotated(tenant, endless.key_id)["expires_at"] == "9999-12-31T23:59:59Z"


def test_no_rotation_outlives_its_caller(tenant: Tenant, clock: Clock) -> None:
    """APIKEY-4: A key that expires cannot rotate a key into one that outlives it."""
    caller = tenant.client(Scope.ADMIN, expires_at=clock() + timedelta(hours=1))
    path = f"{PATH}/{tenant.read_only.key_id}/rotate"
    assert refusal(caller.post(path, json={"grace_seconds": 0})) == (400, "invalid_request")
    body = {"grace_seconds": 0, "expires_at": "2026-11-21T13:00:00Z"}
    assert caller.post(path, json=body).status_code == 201


def test_what_has_ended_is_not_rotated(tenant: Tenant, clock: Clock) -> None:
    """APIKEY-10: A key that is revoked, has expired or was rotated is refused with 409."""
    expiring = tenant.client(Scope.READ_ONLY, expires_at=clock() + timedelta(hours=1))
    successor = rotated(tenant, tenant.read_only.key_id)
    again = rotate(tenant, tenant.read_only.key_id)
    assert refusal(again) == (409, "invalid_state")
    assert successor["id"] in again.json()["error"]["message"]
    tenant.admin.post(f"{PATH}/{tenant.authorizer.key_id}/revoke")
    assert refusal(rotate(tenant, tenant.authorizer.key_id)) == (409, "invalid_state")
    clock.advance(hours=1)
    assert refusal(rotate(tenant, expiring.key_id)) == (409, "invalid_state")


@pytest.mark.parametrize("grace", [-1, 604_801, "60", 1.5, None, True], ids=repr)
def test_another_grace_is_refused(standing: Tenant, grace: Any) -> None:
    """APIKEY-10: A grace is a whole number of seconds, from 0 to seven days."""
    answer = rotate(standing, standing.read_only.key_id, grace)
    assert refusal(answer) == (400, "invalid_request")
    assert answer.json()["error"]["message"].startswith("grace_seconds: ")
    assert opens(standing.read_only)


def test_a_key_of_an_account_stays_with_it(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """APIKEY-10, ACCOUNT-3: The new key belongs to the account of the old one, within its quota."""
    (account,) = tenant.admin.get("/v1/service-accounts").json()["service_accounts"]
    old = tenant.client(Scope.READ_ONLY, service_account_id=account["id"])
    new = tenant.holding(rotated(tenant, old.key_id)["key"])
    assert new.get(WHOAMI).json()["identity"] == account["email"]
    path = f"/v1/service-accounts/{account['id']}"
    assert tenant.admin.get(f"{path}/api-keys").json()["total"] == 3
    monkeypatch.setattr("shared.model.service_accounts.API_KEYS_MAX", 3)
    assert refusal(rotate(tenant, tenant.admin.key_id)) == (409, "conflict")


def test_the_successor_is_the_last_admin_key(tenant: Tenant) -> None:
    """APIKEY-7, F377d: The last admin key can be rotated, and its successor is the last one then.

    A key in its time of grace does not stand in for another admin key.
    """
    first = rotated(tenant, tenant.admin.key_id, 3600)
    answer = tenant.admin.post(f"{PATH}/{first['id']}/revoke")
    assert refusal(answer) == (409, "conflict")
    path, body = f"{PATH}/{first['id']}/rotate", {"grace_seconds": 0}
    second = tenant.holding(first["key"]).post(path, json=body).json()
    holder = tenant.holding(second["key"])
    assert refusal(holder.delete(f"{PATH}/{second['id']}")) == (409, "conflict")


def test_a_rotation_leaves_an_admin_key(tenant: Tenant, clock: Clock) -> None:
    """APIKEY-7, F482a: A rotation after which no admin key is left in 24 hours is refused.

    A key that would have ended as soon may be rotated.
    """
    day, key_id = timedelta(days=1), tenant.admin.key_id
    soon, later = (times.format_utc(clock() + day + timedelta(seconds=each)) for each in (0, 1))
    for grace in (0, 86_400):
        assert refusal(rotate(tenant, key_id, grace, expires_at=soon)) == (409, "conflict")
    new = rotated(tenant, key_id, 0, expires_at=later)
    clock.advance(hours=1)
    body = {"grace_seconds": 0, "expires_at": later}
    answer = tenant.holding(new["key"]).post(f"{PATH}/{new['id']}/rotate", json=body)
    assert answer.status_code == 201


def test_an_admin_key_that_stays_allows_a_short_one(tenant: Tenant, clock: Clock) -> None:
    """APIKEY-7, F482b: If another admin key stays, a key is rotated to one that ends soon.

    The key that stays may belong to the same account, or be the old one in a long grace.
    """
    soon, key_id = times.format_utc(clock() + timedelta(minutes=1)), tenant.admin.key_id
    assert rotate(tenant, key_id, 86_401, expires_at=soon).status_code == 201
    (account,) = tenant.admin.get("/v1/service-accounts").json()["service_accounts"]
    other = tenant.client(Scope.ADMIN, service_account_id=account["id"])
    tenant.client(Scope.ADMIN, service_account_id=account["id"])
    assert rotate(tenant, other.key_id, 0, expires_at=soon).status_code == 201


def test_what_a_rotation_leaves(tenant: Tenant) -> None:
    """AUDIT-3: The entry of a rotation names both keys and the end of the old one, no secret."""
    answer = rotated(tenant, tenant.read_only.key_id, 60)
    (entry,) = tenant.admin.get("/v1/audit-logs?action=api_key.rotate").json()["audit_logs"]
    assert entry["resource_id"] == tenant.read_only.key_id
    assert entry["details"] == {
        "name": "k",
        "changes": {
            "name": {"old": None, "new": "k"},
            "scopes": {"old": None, "new": ["read-only"]},
            "status": {"old": None, "new": "active"},
        },
        "successor_id": answer["id"],
        "accepted_until": "2026-11-21T12:01:00Z",
    }
