"""Webhooks over HTTP (HOOK-1 to HOOK-5, HOOK-10, HOOK-11)."""

import base64
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.webhooks import deliveries
from functions.webhooks import records as webhooks
from functions.webhooks.deliveries import Delivery, DeliveryState
from functions.webhooks.records import Webhook
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Scope
from shared.model.outbound import DeliveryOutcome
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.functions.bodies import variants
from tests.functions.signing import refusal
from tests.kit.api import Tenant
from tests.kit.endpoints import audit_entries, audited
from tests.kit.worlds import Clock

HOOKS = "/v1/webhooks"
URL = "https://hooks.example.com/rescind?token=abc"


def create(tenant: Tenant, **fields: Any) -> dict[str, Any]:
    answer = tenant.admin.post(HOOKS, json={"url": URL} | fields)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def stored(tenant: Tenant, webhook_id: str) -> Webhook:
    item = tenant.ports.store.get(webhooks.webhooks(tenant.id).address(webhook_id))
    assert item is not None
    return Webhook.from_item(item)


def secrets_of(tenant: Tenant, webhook_id: str) -> list[str]:
    """The secrets that sign now, as the sender opens them."""
    contexts = stored(tenant, webhook_id).seal_contexts(tenant.ports.now())
    return [
        tenant.ports.sealer.unseal(sealed, context=context).decode() for sealed, context in contexts
    ]


def test_a_new_webhook(tenant: Tenant) -> None:
    """HOOK-2, HOOK-3, HOOK-4, F386a, F564a: Its secret is shown once, its address to admins alone.

    Keys that may only read see the host of the address, not what follows it.
    """
    auditor = tenant.client(Scope.AUDITOR)
    made = create(tenant, description="  gateway  ", events=["key.revoke"])
    secret = made.pop("secret")
    assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
    assert made.pop("id").startswith("svc_whk_")
    assert made == {
        "url": URL,
        "description": "gateway",
        "events": ["key.revoke"],
        "status": "enabled",
        "disabled_reason": None,
        "created_at": "2026-11-21T12:00:00Z",
        "next_index": 0,
        "failing_since": None,
        "next_attempt_at": None,
        "deferred_events": 0,
    }
    (listed,) = tenant.read_only.get(HOOKS).json()["webhooks"]
    for client in (tenant.read_only, auditor):
        assert client.get(HOOKS).json()["webhooks"] == [listed]
        assert client.get(f"{HOOKS}/{listed['id']}").json() == listed
    assert listed["url"] == "https://hooks.example.com/***"
    assert "token" not in str(listed)
    assert "rescind" not in str(listed)
    (whole,) = tenant.admin.get(HOOKS).json()["webhooks"]
    assert whole == made | {"id": listed["id"]}
    assert tenant.admin.get(f"{HOOKS}/{listed['id']}").json() == whole
    # The rest of the address may be the receiver's secret.
    assert audit_entries(tenant)[-1]["details"] == {
        "events": ["key.revoke"],
        "host": "hooks.example.com",
    }
    assert secrets_of(tenant, listed["id"]) == [secret]


def test_types_of_events(tenant: Tenant) -> None:
    """HOOK-1: Each action of the audit log is a type of event, two of them by another name."""
    renamed = {"srl.regenerate": "srl.published", "webhook.test": "rescind.test"}
    types = [renamed.get(action, str(action)) for action in AuditAction]
    assert [webhooks.type_of(each) for each in AuditAction] == types
    assert create(tenant, events=[each for each in types if each != "rescind.test"])["events"]
    # A test is sent whether or not it is asked for.
    body = {"url": URL, "events": ["rescind.test"]}
    assert refusal(tenant.admin.post(HOOKS, json=body))[0] == 400


def test_ten_webhooks_and_no_more(tenant: Tenant) -> None:
    """HOOK-2, F386b: A tenant has at most 10 webhooks; a deleted one makes room."""
    made = [create(tenant) for _ in range(10)]
    assert refusal(tenant.admin.post(HOOKS, json={"url": URL})) == (409, "conflict")
    assert tenant.admin.delete(f"{HOOKS}/{made[0]['id']}").status_code == 204
    assert refusal(tenant.admin.get(f"{HOOKS}/{made[0]['id']}")) == (404, "not_found")
    create(tenant)
    assert tenant.admin.get(f"{HOOKS}?limit=3").json()["total"] == 10


@pytest.mark.parametrize(
    "url",
    [
        *["", "http://hooks.example.com/", "//hooks.example.com", "https:///path"],
        *["https://hooks.example.com:8443/", "https://hooks.example.com:x/"],
        *["https://user@hooks.example.com/", "https://@hooks.example.com/"],
        *["https://hooks.example.com/#part", "https://hooks.example.com/#"],
        *["https://localhost/", "https://127.0.0.1/", "https://127.1/", "https://0x7f.1/"],
        *["https://2130706433/", "https://1.2.3.0x4/", "https://[::1]/"],
        *["https://[2606:4700::1111]/", "https://hooks.example.com\\@127.0.0.1/"],
        *["https://hooks.example.com/a b", "https://hooks.example.com/\n"],
        *["https://hööks.example.com/", "https://hooks..example.com/"],
        "https://hooks.example.com/" + "a" * 2048,
    ],
)
def test_addresses_that_are_refused(standing: Tenant, url: str) -> None:
    """HOOK-3, F387a: A webhook's address is https at port 443 of a DNS name, and nothing else."""
    answer = standing.admin.post(HOOKS, json={"url": url})
    assert refusal(answer) == (400, "invalid_request")
    assert "url" in answer.json()["error"]["message"]
    assert not url or url not in answer.text


@pytest.mark.parametrize(
    "body",
    [
        *variants({}, "events", [], ["revocation.made"], ["key.revoke", "key.revoke"], "*"),
        *({"description": " "}, {"secret": "whsec_abc"}),
    ],
)
def test_bodies_that_are_refused(standing: Tenant, body: dict[str, Any]) -> None:
    """HOOK-2: An unknown type of event, or one that is given twice, is refused."""
    assert refusal(standing.admin.post(HOOKS, json={"url": URL} | body))[0] == 400


def test_a_webhook_is_changed(tenant: Tenant) -> None:
    """HOOK-2: A change keeps what is omitted; if nothing differs, nothing is written."""
    path = f"{HOOKS}/{create(tenant, description='old')['id']}"
    changed = tenant.admin.request("PATCH", path, json={"events": ["key.sign"]}).json()
    assert (changed["url"], changed["description"], changed["events"]) == (URL, "old", ["key.sign"])
    entries = audited(tenant)
    assert tenant.admin.request("PATCH", path, json={"url": URL}).json() == changed
    assert audited(tenant) == entries
    new = tenant.admin.request("PATCH", path, json={"url": "https://a.example/", "events": None})
    assert (new.json()["url"], new.json()["events"]) == ("https://a.example/", ["key.sign"])


def test_two_secrets_sign_during_a_rotation(tenant: Tenant, clock: Clock) -> None:
    """HOOK-5, F386c: After a rotation both secrets sign, and only the new one after the grace."""
    made = create(tenant)
    path = f"{HOOKS}/{made['id']}/rotate-secret"
    second = tenant.admin.post(path, json={"grace_seconds": 3600}).json()["secret"]
    assert secrets_of(tenant, made["id"]) == [second, made["secret"]]
    clock.advance(hours=1)
    assert secrets_of(tenant, made["id"]) == [second]
    third = tenant.admin.post(path).json()["secret"]
    assert secrets_of(tenant, made["id"]) == [third, second]
    fourth = tenant.admin.post(path, json={"grace_seconds": 0}).json()["secret"]
    assert secrets_of(tenant, made["id"]) == [fourth]
    for seconds in (-1, 604_801, "60", True):
        assert refusal(tenant.admin.post(path, json={"grace_seconds": seconds}))[0] == 400
    assert len({made["secret"], second, third, fourth}) == 4


def test_a_webhook_is_switched(tenant: Tenant) -> None:
    """HOOK-11: A disabled webhook is not tested, and each switch twice changes it once."""
    path = f"{HOOKS}/{create(tenant)['id']}"
    assert tenant.admin.post(f"{path}/test").status_code == 202
    disabled = [tenant.admin.post(f"{path}/disable").json() for _ in range(2)]
    assert disabled[0] == disabled[1]
    assert (disabled[0]["status"], disabled[0]["disabled_reason"]) == ("disabled", "requested")
    assert refusal(tenant.admin.post(f"{path}/test")) == (409, "invalid_state")
    enabled = [tenant.admin.post(f"{path}/enable").json() for _ in range(2)]
    assert enabled[0] == enabled[1]
    assert (enabled[0]["status"], enabled[0]["disabled_reason"]) == ("enabled", None)
    actions = [entry["action"] for entry in audit_entries(tenant)][-4:]
    assert actions == [f"webhook.{each}" for each in ("create", "test", "disable", "enable")]


def test_a_replay_begins_at_an_index(tenant: Tenant, ports: Ports) -> None:
    """HOOK-10: A replay goes back to an index that was sent, and not beyond the next one."""
    webhook = stored(tenant, create(tenant)["id"])
    path = f"{HOOKS}/{webhook.id}/replay"
    sent = Put(webhook.address, webhook.to_item() | {"next_index": 7}, Expect.PRESENT)
    ports.store.write(sent)
    assert refusal(tenant.admin.post(path, json={"from_index": 8})) == (400, "invalid_request")
    assert refusal(tenant.admin.post(path, json={"from_index": -1}))[0] == 400
    assert tenant.admin.post(path, json={"from_index": 3}).json()["next_index"] == 3
    assert stored(tenant, webhook.id).begins_at.year == 1970


def _deliver(
    tenant: Tenant,
    webhook_id: str,
    index: int,
    entry_id: str,
    type_: str,
    ends: datetime | None = None,
) -> Delivery:
    """Store what became of an event."""
    now = tenant.ports.now()
    made = Delivery(
        entry_id,
        index=index,
        type=type_,
        state=DeliveryState.RETRYING,
        attempts=2,
        attempted_at=now,
        outcome=DeliveryOutcome.RESPONSE,
        status=500,
        duration_ms=9,
        response="no",
        expires=int((ends or now + timedelta(days=1)).timestamp()),
    )
    address = deliveries.address(tenant.id, webhook_id, made.id)
    tenant.ports.store.write(Put(address, made.to_item(), Expect.ABSENT))
    return made


def test_deliveries_are_listed(tenant: Tenant, ports: Ports) -> None:
    """HOOK-8: Deliveries are listed newest first, in pages, for 14 days."""
    webhook_id, now = create(tenant)["id"], ports.now()
    made = [
        _deliver(
            tenant,
            webhook_id,
            number,
            ports.new_id("evt"),
            "key.revoke",
            now + timedelta(seconds=number),
        )
        for number in range(4)
    ]
    path = f"{HOOKS}/{webhook_id}/deliveries"
    first = tenant.read_only.get(f"{path}?limit=2").json()
    assert [each["index"] for each in first["deliveries"]] == [3, 2]
    second = tenant.read_only.get(f"{path}?limit=2&cursor={first['cursor']}").json()
    # The one that has expired is not shown.
    assert [each["index"] for each in second["deliveries"]] == [1]
    assert second["cursor"] is None
    assert first["deliveries"][0] == {
        "id": made[3].id,
        "index": 3,
        "type": "key.revoke",
        "state": "retrying",
        "attempts": 2,
        "attempted_at": "2026-11-21T12:00:00Z",
        "outcome": "response",
        "status": 500,
        "duration_ms": 9,
        "response": "no",
    }
    assert refusal(tenant.admin.get(f"{HOOKS}/svc_whk_{'0' * 26}/deliveries"))[0] == 404


def test_deliveries_of_one_change(tenant: Tenant) -> None:
    """HOOK-8, F1475a: `change` lists what told of a warrant, a batch, a key or a list signer."""
    admin, webhook_id = tenant.admin, create(tenant)["id"]
    key = admin.post("/v1/keys", json={"type": "root", "name": "r"}).json()["id"]
    api_key = admin.post("/v1/api-keys", json={"name": "k", "scopes": ["read-only"]}).json()["id"]
    signer = admin.post("/v1/revocations/srl/keys").json()["key_id"]
    many = {"action": "revoke", "warrant_ids": [f"svc_wrt_{n}" for n in range(30)], "reason": "r"}
    changes = {
        "revocation.create": tenant.revoke("svc_wrt_a"),
        "key.revoke": key,
        "api_key.revoke": api_key,
        "srl.revoke_key": signer,
        "revocation.create_batch": admin.post("/v1/revocations/batch", json=many).json()[
            "batch_id"
        ],
    }
    for path, body in (
        (f"keys/{key}", {"reason": "r"}),
        (f"api-keys/{api_key}", None),
        (f"revocations/srl/keys/{signer}", None),
    ):
        answer = admin.post(f"/v1/{path}/revoke", json=body)
        assert answer.status_code == 200, answer.text
    entries = audit_entries(tenant)
    for number, entry in enumerate(entries):
        _deliver(tenant, webhook_id, number, str(entry["id"]), str(entry["action"]))
    path = f"{HOOKS}/{webhook_id}/deliveries"
    told: list[str] = []
    for action, change_id in changes.items():
        told = [str(each["id"]) for each in entries if each["action"] == action]
        found = admin.get(path, params={"change": change_id}).json()["deliveries"]
        assert [each["id"] for each in found] == sorted(told, reverse=True), action
    walked: list[str] = []
    query: dict[str, Any] = {"change": change_id, "limit": 1}
    while len(walked) < len(told):
        page = admin.get(path, params=query).json()
        walked += [each["id"] for each in page["deliveries"]]
        query["cursor"] = page["cursor"]
    assert query["cursor"] is None
    assert walked == sorted(told, reverse=True)
    assert len(walked) > 1
    for none in ("svc_rev_unknown", "x", f"svc_key_{'0' * 26}"):
        assert admin.get(path, params={"change": none}).json()["deliveries"] == []
