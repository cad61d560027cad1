"""Repeated requests: the same answer again, and one change (API-30)."""

import json
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

import pytest

from infra.server.routers import ROUTERS
from shared.errors import Unavailable
from shared.model import times
from shared.model.callers import Scope
from shared.model.items import Table, Value
from shared.operations.base.idempotency import IdempotentOperation
from shared.operations.changes import key_revocation
from shared.ports.store import Change, Put
from shared.web.routes import ApiRoute
from tests.kit.api import Client, Tenant, serve
from tests.kit.asgi import bearer, send
from tests.kit.endpoints import ENDPOINTS, as_caller, audit_entries
from tests.kit.faults import Crash, Hook, Script, raises, scripted
from tests.kit.intercepted import Call, Intercepted
from tests.kit.log_lines import lines, metrics
from tests.kit.worlds import Clock

KEY: Final = "Idempotency-Key"
REPLAYED: Final = "idempotent-replayed"
KEPT: Final = {
    key for key, each in ENDPOINTS.items() if each.is_kept and key[0] in ("POST", "PATCH")
}
ACCOUNTS: Final = "/v1/service-accounts"


@dataclass(frozen=True)
class World:
    """A tenant whose writes are noted, and its administrator."""

    tenant: Tenant
    admin: Client
    writes: list[tuple[Change, ...]] = field(default_factory=list)

    def entries(self, action: str | None) -> int:
        return [each["action"] for each in audit_entries(self.tenant)].count(action)


@pytest.fixture(scope="module")
def world(standing: Tenant) -> World:
    writes: list[tuple[Change, ...]] = []

    def noted(call: Call) -> Any:
        if call.verb == "write":
            writes.append(call.arguments)
        return call()

    ports = replace(standing.ports, store=Intercepted(standing.ports.store, noted))
    return World(standing, replace(standing.admin, http=serve(ports)), writes)


def ask(client: Client, method: str, path: str, name: str, raw: bytes = b"") -> Any:
    headers = {KEY: name} | ({"Content-Type": "application/json"} if raw else {})
    return client.request(method, path, content=raw, headers=headers)


def create(client: Client, name: str, **body: Any) -> Any:
    """Create a service account of this name, under a key of the same name."""
    return ask(client, "POST", ACCOUNTS, name, json.dumps({"name": name} | body).encode())


def failing(tenant: Tenant, hooks: Mapping[int, Hook], *, late: bool = False) -> Client:
    """The administrator, on ports at whose calls of these numbers something happens."""
    script = Script(after=dict(hooks)) if late else Script(before=dict(hooks))
    return replace(tenant.admin, http=serve(scripted(tenant.ports, script)))


def refusal(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def made(tenant: Tenant, action: str = "service_account.create") -> int:
    return [each["action"] for each in audit_entries(tenant)].count(action)


def test_a_repetition_is_counted(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """F518a: A response that repeats an earlier one is counted, a first one or a refusal is not."""
    caplog.set_level(logging.INFO)
    name = "counted-once"
    create(world.admin, name)
    assert lines(caplog, "replay") == []
    create(world.admin, name)
    create(world.admin, name, description="other")
    assert [metrics(each) for each in lines(caplog, "replay")] == [
        {"IdempotentReplays": (1, "Count")}
    ]


def test_every_change_by_post_or_patch_can_be_repeated() -> None:
    """API-30, F366a: Every POST and PATCH that makes a change accepts an `Idempotency-Key`."""
    routes = [each for router in ROUTERS for each in router.routes]
    found = {
        (method, each.path): isinstance(each.serving.operation, IdempotentOperation)
        for each in routes
        if isinstance(each, ApiRoute)
        for method in each.methods or ()
    }
    assert {key for key, is_repeatable in found.items() if is_repeatable} == KEPT


@pytest.mark.parametrize("key", sorted(KEPT), ids=" ".join)
def test_a_repeated_request_changes_nothing(world: World, key: tuple[str, str]) -> None:
    """API-31, F366b: A repeated request has the same response, and leaves no second audit entry.

    With another body it is refused. The outcome is in the write that has the change.
    """
    endpoint, name = ENDPOINTS[key], world.tenant.ports.new_id("x")
    target, before = endpoint.target(world.tenant), world.entries(endpoint.action)
    body = b"" if endpoint.body is None else json.dumps(endpoint.body).encode()
    admin = as_caller(key, world.admin)
    world.writes.clear()
    first = ask(admin, key[0], target, name, body)
    assert (first.status_code, REPLAYED in first.headers) == (endpoint.status, False)
    changes = [
        each for each in world.writes if any(one.address.table is Table.AUDIT for one in each)
    ]
    assert [sum(map(is_outcome, each)) for each in changes] == [1]
    kept = [one.item for each in changes for one in each if isinstance(one, Put) if is_outcome(one)]
    assert [seals(dict(each)) for each in kept] == [[]]
    again = ask(admin, key[0], target, name, body)
    if endpoint.secret:
        # It is not kept.
        assert refusal(again) == (409, "conflict")
        assert first.json()["id"] in again.text
    else:
        assert (again.status_code, again.headers[REPLAYED]) == (first.status_code, "true")
        assert again.content == first.content
    # The same value in other bytes is another body.
    other = ask(admin, key[0], target, name, b" " + (body or b"{}"))
    assert refusal(other) == (409, "conflict")
    assert "another body" in other.text
    assert world.entries(endpoint.action) == before + 1


def is_outcome(change: Change) -> bool:
    return "#once#" in change.address.pk and isinstance(change, Put) and "outcome" in change.item


def seals(value: Value) -> list[bytes]:
    """The bytes in an item that are not empty: no record has any but proven keys and its seals."""
    if isinstance(value, dict):
        named = ((name, each) for name, each in value.items() if name != "verified_key")
        return [each for _, member in named for each in seals(member)]
    return [value] if isinstance(value, bytes) and value else []


@pytest.mark.parametrize("error", [Unavailable("down"), Crash()], ids=["fault", "crash"])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_request_whose_response_was_lost(
    tenant: Tenant, error: BaseException, late: bool
) -> None:
    """API-31, F367a: If a request fails at any call, its repetition makes the change if needed."""
    for number in range(20):
        client, name = failing(tenant, {number: raises(error)}, late=late), f"account-{number}"
        try:
            has_failed = create(client, name).status_code == 503
        except Crash:
            has_failed = True
        assert create(tenant.admin, name).status_code == 201
        if not has_failed:
            break
    assert number > 3
    assert made(tenant) == number + 1


@pytest.mark.parametrize(
    ("path", "action"), [(ACCOUNTS, "service_account.create"), ("/v1/keys", "key.create")]
)
def test_a_request_that_is_repeated_while_it_is_in_progress(
    tenant: Tenant, path: str, action: str
) -> None:
    """API-32, F368a: If two equal requests run at the same time, one change is made.

    Both have the same response, whether or not the change would be possible twice.
    """
    more = {"type": "root"} if path == "/v1/keys" else {}
    for number in range(20):
        name, first = f"name-{number}", list[Any]()
        call = partial(ask, method="POST", path=path, name=name)
        raw = json.dumps({"name": name} | more).encode()

        def overtake(call: Any = call, raw: bytes = raw, first: list[Any] = first) -> None:
            # A thread has an event loop of its own.
            with ThreadPoolExecutor(1) as other:
                first.append(other.submit(call, tenant.admin, raw=raw).result())

        second = call(failing(tenant, {number: overtake}), raw=raw)
        assert second.status_code == 201
        if not first:
            break
        assert first[0].content == second.content
    assert number > 3
    assert made(tenant, action) == number + 1


def test_a_secret_is_not_kept(world: World) -> None:
    """API-33, F369a: No stored record of a request has the secret of its response.

    Its repetition is refused with 409, and names what was created.
    """
    body, name = b'{"name": "k", "scopes": ["read-only"]}', "secret"
    world.writes.clear()
    answer = ask(world.admin, "POST", "/v1/api-keys", name, body).json()
    again = ask(world.admin, "POST", "/v1/api-keys", name, body)
    assert again.json()["error"]["message"] == (
        f"This request created the secret of {answer['id']}, which is shown once and not stored. "
        "Rotate the secret, or delete its resource."
    )
    assert answer["key"] not in repr(world.writes)
    assert answer["id"] in repr(world.writes)


@pytest.mark.parametrize("value", ["", " ", "a b", "x" * 256, "é", "a\x7f"])
def test_a_malformed_key_is_refused(standing: Tenant, value: str) -> None:
    """API-30, F370a: A malformed `Idempotency-Key` is refused with 400, and so are two of them."""
    before = made(standing)
    assert refusal(ask_raw(standing, (KEY, value))) == (400, "invalid_request")
    assert refusal(ask_raw(standing, (KEY, "a"), (KEY, "b"))) == (400, "invalid_request")
    assert made(standing) == before


def ask_raw(tenant: Tenant, *more: tuple[str, str]) -> Any:
    headers = bearer(tenant.admin.secret, ("Content-Type", "application/json"), *more)
    app = tenant.admin.http.app
    return send(app, "POST", ACCOUNTS, headers=headers, chunks=[b'{"name": "raw"}'])


def test_a_key_holds_for_a_day(tenant: Tenant, clock: Clock) -> None:
    """API-31, F371a: A response is repeated for 24 hours; then the key can be used anew."""
    first = ask(tenant.admin, "POST", ACCOUNTS, "k", b'{"name": "a"}').json()
    clock.advance(seconds=24 * 3600 - 1)
    assert ask(tenant.admin, "POST", ACCOUNTS, "k", b'{"name": "a"}').json() == first
    clock.advance(seconds=1)
    second = ask(tenant.admin, "POST", ACCOUNTS, "k", b'{"name": "b"}')
    assert (second.status_code, second.json()["name"]) == (201, "b")
    assert ask(tenant.admin, "POST", ACCOUNTS, "k", b'{"name": "b"}').json() == second.json()


def test_a_key_belongs_to_its_caller_and_its_path(tenant: Tenant, other_tenant: Tenant) -> None:
    """API-30, F372a: The same `Idempotency-Key` of another API key or path is another request."""
    callers = (tenant.admin, tenant.client(Scope.ADMIN), other_tenant.admin)
    answers = [ask(each, "POST", ACCOUNTS, "k", b'{"name": "a"}') for each in callers]
    assert [each.status_code for each in answers] == [201, 409, 201]
    assert "name" in answers[1].text
    elsewhere = ask(tenant.admin, "POST", "/v1/api-keys", "k", b'{"name":"a","scopes":["admin"]}')
    assert elsewhere.status_code == 201


def test_a_refused_request_is_not_kept(tenant: Tenant) -> None:
    """API-31, F373a: A request that failed is done anew when it is repeated."""
    assert create(tenant.admin, "a").status_code == 201
    body = b'{"name": "a"}'
    assert refusal(ask(tenant.admin, "POST", ACCOUNTS, "k", body)) == (409, "conflict")
    assert ask(tenant.admin, "POST", ACCOUNTS, "k", b'{"name": "b"}').status_code == 201


def test_what_is_kept_is_the_response(tenant: Tenant) -> None:
    """API-31, F366c: A repeated request has the same response, whatever happened since."""
    account = create(tenant.admin, "a").json()
    assert tenant.admin.delete(f"{ACCOUNTS}/{account['id']}").status_code == 204
    assert create(tenant.admin, "a").json() == account
    body = b'{"warrant_id": "svc_wrt_a", "reason": "mistake"}'
    revoked = [ask(tenant.admin, "POST", "/v1/revocations", name, body) for name in "ab"]
    assert [each.status_code for each in revoked] == [201, 200]
    assert tenant.admin.delete(f"/v1/revocations/{revoked[0].json()['id']}").status_code == 204
    # A late repetition does not revoke what was taken back, though its request changed nothing.
    again = [ask(tenant.admin, "POST", "/v1/revocations", name, body) for name in "ab"]
    assert [each.status_code for each in again] == [201, 200]
    assert tenant.admin.get("/v1/revocations").json()["total"] == 0


def test_other_methods_ignore_the_header(tenant: Tenant) -> None:
    """API-30, F374a: GET and DELETE ignore an `Idempotency-Key`."""
    account = create(tenant.admin, "a").json()
    path = f"{ACCOUNTS}/{account['id']}"
    for value in ("k", "not valid"):
        assert ask(tenant.admin, "GET", path, value).status_code == 200
    assert [ask(tenant.admin, "DELETE", path, "k").status_code for _ in range(2)] == [204, 404]


# --- requests that claim ---


REGENERATE: Final = "/v1/revocations/srl/regenerate"


def test_a_request_that_publishes_is_claimed(tenant: Tenant, clock: Clock) -> None:
    """API-32, F375a: While a list is published, the same request is refused with `Retry-After`.

    If the first request is interrupted, its repetition publishes after a minute, and once.
    """
    version = tenant.admin.post(REGENERATE).json()["version"]
    answers = list[Any]()

    def repeat() -> None:
        with ThreadPoolExecutor(1) as other:
            answers.append(other.submit(ask, tenant.admin, "POST", REGENERATE, "k").result())
        raise Crash

    script = Script()
    calm = replace(tenant.admin, http=serve(scripted(tenant.ports, script)))
    assert ask(calm, "POST", REGENERATE, "other").json()["version"] == version + 1
    last = len(script.calls) - 1 - script.calls[::-1].index("write")
    with pytest.raises(Crash):
        ask(failing(tenant, {last: repeat}), "POST", REGENERATE, "k")
    assert refusal(answers[0]) == (409, "conflict")
    assert answers[0].headers["retry-after"] == "60"
    clock.advance(seconds=59)
    refused = ask(tenant.admin, "POST", REGENERATE, "k")
    assert (refusal(refused), refused.headers["retry-after"]) == ((409, "conflict"), "1")
    clock.advance(seconds=1)
    for _ in range(2):
        assert ask(tenant.admin, "POST", REGENERATE, "k").json()["version"] == version + 2


def test_a_claim_ends_with_a_failure(tenant: Tenant) -> None:
    """API-32, F375b: If a request that claims fails, it can be repeated at once."""
    path = "/v1/keys/svc_key_01m7yzmhg0ynzqw1fmh6whgvm5/revoke"
    for body in (b'{"reason": "lost"}', b'{"reason": "stolen"}'):
        assert refusal(ask(tenant.admin, "POST", path, "k", body)) == (404, "not_found")


def test_a_claim_that_was_taken_over_leads_to_one_change(tenant: Tenant, clock: Clock) -> None:
    """API-31, F375c: If a request outlives its claim, it and its repetition make one change."""
    version = tenant.admin.post(REGENERATE).json()["version"]
    second = list[Any]()

    def overtake() -> None:
        clock.advance(seconds=61)
        with ThreadPoolExecutor(1) as other:
            second.append(other.submit(ask, tenant.admin, "POST", REGENERATE, "k").result())

    script = Script()
    calm = replace(tenant.admin, http=serve(scripted(tenant.ports, script)))
    ask(calm, "POST", REGENERATE, "other")
    last = len(script.calls) - 1 - script.calls[::-1].index("write")
    first = ask(failing(tenant, {last: overtake}), "POST", REGENERATE, "k")
    assert first.content == second[0].content
    assert first.json()["version"] == version + 2
    assert made(tenant, "srl.regenerate") == 3


def test_a_failure_ends_no_claim_of_another_request(tenant: Tenant, clock: Clock) -> None:
    """API-32, F603a: A request that fails after its claim was taken over leaves the new claim."""
    path = "/v1/keys/svc_key_01m7yzmhg0ynzqw1fmh6whgvm5/revoke"
    lost = partial(ask, method="POST", path=path, name="k", raw=b'{"reason": "lost"}')
    script = Script()
    lost(replace(tenant.admin, http=serve(scripted(tenant.ports, script))))
    claimed = script.calls.index("write")

    def overtake() -> None:
        clock.advance(seconds=61)
        second = failing(tenant, {claimed: raises(Crash())}, late=True)
        with ThreadPoolExecutor(1) as other, pytest.raises(Crash):
            other.submit(lost, second).result()

    first = failing(tenant, {claimed + 1: overtake})
    assert refusal(lost(first)) == (404, "not_found")
    assert refusal(lost(tenant.admin)) == (409, "conflict")


def test_a_cascade_that_was_interrupted_goes_on(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KEY-10, F375d: The repetition of a cascade that was interrupted revokes the other keys."""
    monkeypatch.setattr(key_revocation, "_KEYS_A_WRITE", 2)
    body: dict[str, Any] = {"type": "root", "name": "root"}
    root = tenant.admin.post("/v1/keys", json=body).json()["id"]
    body = {"type": "issuer", "name": "issuer", "parent_id": root}
    for _ in range(4):
        assert tenant.admin.post("/v1/keys", json=body).status_code == 201
    path, raw = f"/v1/keys/{root}/revoke", b'{"reason": "lost", "cascade": true}'
    answer, number = None, 0
    while answer is None or (answer.status_code != 200 and number < 40):
        client = failing(tenant, {number: raises(Unavailable("down"))})
        answer, number = ask(client, "POST", path, "k", raw), number + 1
    assert number > 8
    assert made(tenant, "key.revoke") == 5
    again = ask(tenant.admin, "POST", path, "k", raw)
    assert (again.content, again.headers[REPLAYED]) == (answer.content, "true")


def test_a_signature_is_made_again_while_the_key_may_sign(tenant: Tenant, clock: Clock) -> None:
    """API-33, F369b: A signature is not kept; if the key cannot sign, its repetition is refused."""
    end = times.format_utc(clock() + timedelta(hours=1))
    made_key = {"type": "root", "name": "root", "expires_at": end}
    key = tenant.admin.post("/v1/keys", json=made_key).json()["id"]
    path, body = f"/v1/keys/{key}/sign", b'{"payload": "aGVsbG8="}'
    signed = ask(tenant.admin, "POST", path, "k", body)
    assert ask(tenant.admin, "POST", path, "k", body).content == signed.content
    tenant.admin.post(f"/v1/keys/{key}/suspend")
    assert refusal(ask(tenant.admin, "POST", path, "k", body)) == (409, "invalid_state")
    tenant.admin.post(f"/v1/keys/{key}/enable")
    assert ask(tenant.admin, "POST", path, "k", body).content == signed.content
    clock.advance(hours=1)
    assert refusal(ask(tenant.admin, "POST", path, "k", body)) == (409, "invalid_state")
    clock.advance(hours=-1)
    tenant.admin.post(f"/v1/keys/{key}/rotate")
    assert refusal(ask(tenant.admin, "POST", path, "k", body)) == (409, "invalid_state")
    assert made(tenant, "key.sign") == 1
