"""What callers see while the store, the blobs or the key service are down (F22 to F26)."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from shared.errors import Unavailable
from shared.model import api_keys, warrants
from shared.model.items import Address, Item
from shared.model.lists.head import head_address
from shared.operations.changes import srl
from shared.ports import Ports
from shared.ports.store import Expect, Put
from shared.web import costs, freshness
from tests.kit.api import Client, Tenant, serve
from tests.kit.endpoints import ENDPOINTS, as_caller, audited, call, shape
from tests.kit.faults import Script, raises, scripted
from tests.web.outages import breaking, down, on_authentication

EACH = pytest.mark.parametrize("key", ENDPOINTS, ids=" ".join)
CHECK = "/v1/revocations/check?warrant_id=svc_wrt_a"
BATCH = "/v1/revocations/check-batch"
SRL = "/v1/revocations/srl"
THROTTLED = Unavailable("throttled")


def at(ports: Ports, tenant: Tenant) -> Client:
    """The tenant's admin, at an instance on these ports."""
    return Client(serve(ports), tenant.admin.secret)


def unavailable(answer: Any) -> None:
    assert answer.status_code == 503, answer.text
    assert shape(answer.json()) == {"error": {"code": ..., "message": ...}}
    assert answer.json()["error"]["code"] == "unavailable"
    assert int(answer.headers["retry-after"]) >= 1


# --- the store ---


@EACH
def test_nobody_is_let_in_without_a_read_key(standing: Tenant, key: tuple[str, str]) -> None:
    """AUTH-3, F22a, S6: If API keys cannot be read, every endpoint answers 503 and does nothing."""
    target = ENDPOINTS[key].target(standing)
    before = audited(standing)
    store = breaking(standing.ports.store, THROTTLED, on_authentication)
    unavailable(call(key, at(replace(standing.ports, store=store), standing), target))
    assert audited(standing) == before


@pytest.mark.slow
@EACH
def test_every_call_may_fail(
    tenant: Tenant,
    other_tenant: Tenant,
    key: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """API-11, F22: If a store call fails, it is 503, nothing is half done, and a retry works.

    If `sign` fails after its write, the warrant is stored, and its signature is not handed out. A
    person is disabled before the keys of the person end.
    """
    # Each attempt takes from what a tenant may publish out of turn.
    monkeypatch.setattr(srl, "_LEAST", 1)
    # Nor do dear requests use up the rate limit.
    monkeypatch.setattr(costs, "COST_MAX", 0)
    script = Script()
    http = serve(scripted(tenant.ports, script))
    counting, failing = (Client(http, each.admin.secret) for each in (tenant, other_tenant))
    for client in (counting, failing):
        # The first request of a key also counts its use, which may fail unseen.
        client.get("/nowhere")
    # The advice on polls is read once a minute, and may fail unseen too.
    reads_advice = key == ("GET", "/v1/revocations/feed")
    of_counting = ENDPOINTS[key].target(tenant)
    counting = as_caller(key, counting)
    if reads_advice:
        call(key, counting, of_counting)
    start = len(script.calls)
    assert call(key, counting, of_counting).status_code == ENDPOINTS[key].status
    calls = script.calls[start:]
    target = ENDPOINTS[key].target(other_tenant)
    failing = as_caller(key, failing)
    if reads_advice:
        call(key, failing, target)
    first = entries = audited(other_tenant)
    for number in range(len(calls)):
        # Nothing is known from the attempt before.
        freshness.FRESHNESS.clear()
        fault = len(script.calls) + number
        script.before = {fault: raises(THROTTLED)}
        answer = call(key, failing, target)
        if len(script.calls) <= fault:
            # What an earlier attempt has written leaves less to do.
            assert answer.status_code == ENDPOINTS[key].status
            break
        unavailable(answer)
        entries += key[1].endswith("/sign") and "write" in calls[:number]
        if key[1] == "/v1/people/{id}/disable" and "write" in calls[:number]:
            # The person is disabled. The retry ends the keys that the person made.
            entries = first + 1
        assert audited(other_tenant) == entries
    script.before = {}
    assert call(key, failing, target).status_code == ENDPOINTS[key].status


LOST = {
    ("POST", "/v1/revocations"): 200,
    ("POST", "/v1/api-keys/{id}/revoke"): 200,
    ("DELETE", "/v1/api-keys/{id}"): 404,
    ("DELETE", "/v1/revocations/{id}"): 404,
}


@pytest.mark.parametrize("key", LOST, ids=" ".join)
def test_a_lost_answer_is_made_good_by_a_retry(tenant: Tenant, key: tuple[str, str]) -> None:
    """F22c: After a lost answer of the store, a retry finds the change done and does it once."""
    script = Script()
    client = at(scripted(tenant.ports, script), tenant)
    client.get("/nowhere")
    target = ENDPOINTS[key].target(tenant)
    before = audited(tenant)
    # All calls up to the write are reads, and fail nothing.
    script.after = {
        number: lambda: lose(script) for number in range(len(script.calls), len(script.calls) + 20)
    }
    unavailable(call(key, client, target))
    script.after = {}
    assert call(key, client, target).status_code == LOST[key]
    assert audited(tenant) == before + 1


def lose(script: Script) -> None:
    if script.calls[-1] == "write":
        raise THROTTLED


@pytest.mark.parametrize("verb", ["get", "get_many", "query"])
def test_a_fault_never_reads_as_not_revoked(tenant: Tenant, verb: str) -> None:
    """CHECK-5, F22b, S6: If revocations cannot be read, checks answer 503, never "not revoked"."""
    tenant.revoke("svc_wrt_a")

    def fails(each: str, pk: str) -> bool:
        return each == verb and pk.startswith(tenant.id)

    store = breaking(tenant.ports.store, THROTTLED, fails)
    client = at(replace(tenant.ports, store=store), tenant)
    for answer in (client.get(CHECK), client.post(BATCH, json={"warrant_ids": ["svc_wrt_a"]})):
        if answer.status_code != 200:
            unavailable(answer)
        else:
            assert '"revoked":true' in answer.text


# --- records that cannot be read ---


def stored(tenant: Tenant, address: Address, **changes: Any) -> None:
    """Change fields of a stored item, in a way that no operation would."""
    item: Item | None = tenant.ports.store.get(address)
    assert item is not None
    tenant.ports.store.write(Put(address, {**item, **changes}, Expect.PRESENT))


@pytest.mark.parametrize("value", [None, 1, "", "yesterday", "2026-11-21"])
def test_a_malformed_revocation_is_not_skipped(tenant: Tenant, value: Any) -> None:
    """OPS-4, F10b: If the record of a revoked warrant cannot be read, check answers 503."""
    tenant.revoke("svc_wrt_a")
    tenant.revoke("svc_wrt_b")
    stored(tenant, warrants.warrant_address(tenant.id, "svc_wrt_a"), revoked_at=value)
    unavailable(tenant.admin.get(CHECK))
    unavailable(tenant.admin.post(BATCH, json={"warrant_ids": ["svc_wrt_b", "svc_wrt_a"]}))


@pytest.mark.parametrize(
    "changes",
    [{"scopes": ["root"]}, {"scopes": "admin"}, {"tenant_id": None}, {"expires_at": 5},
     {"disabled": 0}],
    ids=str,
)  # fmt: skip
def test_a_malformed_credential_opens_nothing(tenant: Tenant, changes: dict[str, Any]) -> None:
    """F10: a key whose credential cannot be read is 503, and let in nowhere."""
    digest = api_keys.digest(str(tenant.admin.secret))
    stored(tenant, api_keys.credential_address(digest), **changes)
    unavailable(tenant.admin.get("/v1/api-keys"))


def test_a_malformed_record_fails_its_list(tenant: Tenant) -> None:
    """F10: a list with a record that cannot be read is 503, not a list without it."""
    stored(tenant, api_keys.records(tenant.id).address(tenant.admin.key_id), name=None)
    unavailable(tenant.admin.get("/v1/api-keys"))
    unavailable(tenant.admin.get(f"/v1/api-keys/{tenant.admin.key_id}"))


@pytest.mark.parametrize("changes", [{"version": "1"}, {"sha256": "0" * 64}, {"blob": "srl/none"}])
def test_a_malformed_head_serves_no_list(tenant: Tenant, changes: dict[str, Any]) -> None:
    """F10: a list that is not what its head says is 503; check goes on."""
    stored(tenant, head_address(tenant.id), **changes)
    unavailable(tenant.admin.get(SRL))
    assert tenant.admin.get(CHECK).status_code == 200


# --- blobs, the key service, the rate limit ---


# The ports without which a service of the cloud is down.
PORTS = {"blobs": "blobs", "keys": "sealer"}


def lacking(tenant: Tenant, need: str) -> Client:
    return at(replace(tenant.ports, **{PORTS[need]: down(THROTTLED)}), tenant)


@pytest.mark.slow_on("sealer")
@pytest.mark.parametrize("need", PORTS)
def test_what_needs_no_cloud_goes_on(tenant: Tenant, need: str) -> None:
    """F26c: While S3 or KMS is down, everything that does not need it works."""
    broken = lacking(tenant, need)
    for key, endpoint in ENDPOINTS.items():
        target = endpoint.target(tenant)
        if need not in endpoint.needs.split():
            assert (call(key, broken, target).status_code, key) == (endpoint.status, key)
            continue
        before = audited(tenant)
        version = tenant.admin.get(SRL).json()["payload"]["Version"]
        unavailable(call(key, broken, target))
        assert audited(tenant) == before
        assert tenant.admin.get(SRL).json()["payload"]["Version"] == version


def test_a_list_that_is_held_needs_no_blob(tenant: Tenant) -> None:
    """F26b: A caller that holds the current list gets 304 while the blob store is down."""
    etag = tenant.admin.get(SRL).headers["etag"]
    client = lacking(tenant, "blobs")
    assert client.get(SRL, headers={"If-None-Match": etag}).status_code == 304


def test_a_broken_rate_limit_lets_requests_in(
    tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    """AUTH-10, S6: If the store of the rate limit fails, requests are admitted and logged."""
    client = at(replace(tenant.ports, buckets=down(THROTTLED)), tenant)
    caplog.set_level(logging.WARNING)
    answer = client.get("/v1/api-keys")
    assert answer.status_code == 200
    assert answer.headers["x-ratelimit-limit"] == "1000"
    assert 0 <= int(answer.headers["x-ratelimit-remaining"]) <= 1000
    assert [record for record in caplog.records if "rate_limit" in record.name]
