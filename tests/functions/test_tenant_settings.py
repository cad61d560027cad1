"""Tenant settings over HTTP (TENANT-2)."""

from typing import Any

import pytest

from tests.functions.bodies import variants
from tests.functions.signing import refusal
from tests.kit.api import Tenant
from tests.kit.endpoints import audit_entries
from tests.kit.worlds import Clock

PATH = "/v1/tenant/settings"


def settings(tenant: Tenant) -> dict[str, Any]:
    answer = tenant.read_only.get(PATH)
    assert answer.status_code == 200
    return dict(answer.json())


def patch(tenant: Tenant, body: Any) -> Any:
    return tenant.admin.request("PATCH", PATH, json=body)


def lifetime(tenant: Tenant) -> tuple[str, str]:
    payload = tenant.authorizer.get("/v1/revocations/srl").json()["payload"]
    return payload["IssuedAt"], payload["ExpiresAt"]


def test_the_settings_of_a_new_tenant(tenant: Tenant) -> None:
    """TENANT-2: The settings of a new tenant have the defaults of the contract."""
    assert settings(tenant) == {
        "tenant_id": tenant.id,
        "name": "acme",
        "srl_ttl_seconds": 3600,
        "audit_retention_days": 400,
        "rotation_grace_seconds": 3600,
        "feed_window_ms": 500,
        "srl_publication": "scheduled",
        "max_authorizers": 200,
        "unrevoke_policy": "own",
        "person_key_max_days": 365,
        "unused_key_days": 0,
        "rate_limit_per_second": 1000,
        "rate_limit_burst": 2000,
        "created_at": "2026-11-21T12:00:00Z",
        "delete_after": None,
    }


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("name", "Acme & Söhne", "Acme & Söhne"),
        ("name", "  x  ", "x"),
        ("name", "x" * 255, "x" * 255),
        ("srl_ttl_seconds", 300, 300),
        ("srl_ttl_seconds", 604_800, 604_800),
        ("audit_retention_days", 30, 30),
        ("audit_retention_days", 3650, 3650),
        ("rotation_grace_seconds", 0, 0),
        ("rotation_grace_seconds", 604_800, 604_800),
        ("feed_window_ms", 0, 0),
        ("feed_window_ms", 60_000, 60_000),
        ("srl_publication", "immediate", "immediate"),
        ("max_authorizers", 1, 1),
        ("max_authorizers", 20_000, 20_000),
        ("unrevoke_policy", "any", "any"),
        ("person_key_max_days", 1, 1),
        ("person_key_max_days", 3650, 3650),
        ("unused_key_days", 7, 7),
        ("unused_key_days", 3650, 3650),
    ],
)
def test_changing_a_setting(tenant: Tenant, name: str, given: Any, kept: Any) -> None:
    """TENANT-2: PATCH changes each writable setting and leaves an entry that says what changed."""
    before, entries = settings(tenant), audit_entries(tenant)
    answer = patch(tenant, {name: given})
    # The grace is one lifetime of a list until it is set itself.
    follows = {"rotation_grace_seconds": kept} if name == "srl_ttl_seconds" else {}
    assert (answer.status_code, answer.json()) == (200, before | {name: kept} | follows)
    assert settings(tenant) == answer.json()
    *earlier, entry = audit_entries(tenant)
    assert earlier == entries
    assert (entry["action"], entry["resource_id"]) == ("tenant.update_settings", tenant.id)
    # Identities are made of the handle, which never changes.
    assert entry["actor"] == "admin@acme.svc"
    old = None if name == "rotation_grace_seconds" else before[name]
    assert entry["details"]["changes"] == {name: {"old": old, "new": kept}}


def test_changing_all_of_them(tenant: Tenant) -> None:
    """Several at once are one change with one entry, which holds only what changed."""
    body = {"name": "acme", "srl_ttl_seconds": 300, "audit_retention_days": 30}
    entries = audit_entries(tenant)
    assert patch(tenant, body).json() == settings(tenant)
    assert settings(tenant).items() >= body.items()
    *earlier, entry = audit_entries(tenant)
    assert earlier == entries
    assert entry["details"]["changes"] == {
        "srl_ttl_seconds": {"old": 3600, "new": 300},
        "audit_retention_days": {"old": 400, "new": 30},
    }


@pytest.mark.parametrize(
    "body",
    [
        *variants({}, "srl_ttl_seconds", 299, 604_801, 0, -300, 10**30, "300", 300.0, True, None),
        *variants({}, "audit_retention_days", 29, 3651, "30", 30.0, None, [30]),
        *variants({}, "rotation_grace_seconds", -1, 604_801, "0", 0.0, False, None),
        *variants({}, "feed_window_ms", -1, 60_001, "0", 0.5, True, None),
        *variants({}, "max_authorizers", 0, 20_001, -1, "200", 1.5, None),
        *variants({}, "unrevoke_policy", "", "Own", 1, None),
        *variants({}, "srl_publication", "", "Immediate", "never", 1, None, ["immediate"]),
        *variants({}, "name", "", " ", "x" * 256, "a\x07b", 5, None),
        *({name: 1} for name in ("rate_limit_per_second", "rate_limit_burst", "ttl", "version")),
        {"tenant_id": "svc_tnt_01m7yzmhg0ynzqw1fmh6whgvm5"},
        *({"created_at": "2026-11-21T12:00:00Z"}, {"handle": "globex"}),
        *({"name": "new", "srl_ttl_seconds": 1}, [], "name", None),
    ],
    ids=str,
)
def test_a_malformed_change(standing: Tenant, body: Any) -> None:
    """TENANT-2, F18e: The service refuses settings out of bounds, of other types or unknown."""
    before, entries = settings(standing), audit_entries(standing)
    assert refusal(patch(standing, body)) == (400, "invalid_request")
    assert settings(standing) == before
    assert audit_entries(standing) == entries


def test_the_lifetime_holds_for_the_next_list(tenant: Tenant, clock: Clock) -> None:
    """SRL-4, TENANT-3: A new `srl_ttl_seconds` applies to the next list."""
    before = lifetime(tenant)
    clock.advance(minutes=1)
    patch(tenant, {"srl_ttl_seconds": 300})
    assert lifetime(tenant) == before == ("2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z")
    tenant.admin.post("/v1/revocations/srl/regenerate")
    assert lifetime(tenant) == ("2026-11-21T12:01:00Z", "2026-11-21T12:06:00Z")


def test_the_retention_holds_for_the_entries_after_it(tenant: Tenant, clock: Clock) -> None:
    """TENANT-3: A new `audit_retention_days` applies to the entries that follow it."""
    patch(tenant, {"audit_retention_days": 30})
    record = tenant.revoke("svc_wrt_a")
    clock.advance(days=30)
    answer = tenant.admin.get("/v1/audit-logs?from=2026-11-01T00:00:00Z").json()
    resources = {entry["resource_id"] for entry in answer["audit_logs"]}
    assert record not in resources
    assert tenant.id in resources


def test_a_shorter_retention_is_remembered(tenant: Tenant, clock: Clock) -> None:
    """TENANT-3, F68a: The entry of a shortened retention is kept for the old, longer retention."""
    patch(tenant, {"audit_retention_days": 30})
    patch(tenant, {"audit_retention_days": 400})
    clock.advance(days=399)
    query = "from=2026-11-01T00:00:00Z&action=tenant.update_settings"
    answer = tenant.admin.get(f"/v1/audit-logs?{query}").json()
    assert [
        entry["details"]["changes"]["audit_retention_days"]["new"] for entry in answer["audit_logs"]
    ] == [
        400,
        30,
    ]
