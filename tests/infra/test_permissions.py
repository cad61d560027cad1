"""Least privilege: each function may do what it does, and nothing else.

Every call to AWS that a function makes is recorded, on every way through its endpoints on which it
succeeds; the permissions that these calls need are those that its role grants, no fewer, no more.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.authorizers import propagation
from functions.authorizers import records as authorizers
from functions.authorizers.propagation import canary, watch
from functions.authorizers.records import AuthorizerDescription
from functions.authorizers.registering import register
from functions.authorizers.unregistered import UnregisteredClient, unregistered_partition
from functions.console import handler as console
from functions.stock_authorizers import records as native
from functions.transparency_log import head, merkle, sealing
from functions.transparency_log.merkle import TileAddress
from functions.trust import publishing
from functions.trust.records import document_blob
from functions.webhooks import operations as managing
from functions.webhooks.records import DispatchMarker, Webhook
from shared import wiring
from shared.adapters.https import HttpsSender
from shared.model import feed as feed_model
from shared.model import revocations as model
from shared.model import times
from shared.model.audit import audit_log
from shared.model.callers import Caller
from shared.model.callers import Scope as Right
from shared.model.feed import StoredEntry
from shared.model.identities.providers import ProviderUsage
from shared.model.lists import schedule as srl_schedule
from shared.model.lists.head import head_address
from shared.model.lists.schedule import IN_FLIGHT_MAX, PublicationDeadline
from shared.model.lists.signers import SrlSignerStatus
from shared.model.revocations import SignerRevocation, marker_address
from shared.model.signing_keys import SigningKeyType, WarrantSigner
from shared.model.tenants import SettingsChange, SrlPublicationPolicy
from shared.model.warrants import signed_by, warrant_address
from shared.operations.access import api_keys, leaked_keys, service_accounts, tenant_settings
from shared.operations.base import tenants
from shared.operations.changes import revocations, signing_keys, srl, warrants
from shared.operations.changes.warrants import SignRequest
from shared.operations.identities import sign_in, tickets
from shared.operations.lists import decisions, expiring, in_force, publication, records, schedule
from shared.operations.lists import marks as srl_marks
from shared.operations.lists.journal import Journals
from shared.operations.operator import deployment, doctor, moving, onboarding
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from shared.ports.store import Address, Delete, Expect, Increment, Put
from shared.web.app import create_app
from tests.functions.signing import create, moved, signed
from tests.infra.templates import LAMBDAS, entry_point, events, managed, statements, variables
from tests.kit import gates, identities, issuers, kms_roots, roots, tour
from tests.kit.api import Client, Instance, Tenant, serve
from tests.kit.aws import REGION, STAGE, Account, aws
from tests.kit.endpoints import ENDPOINTS, call, name_signers, refuse_registration
from tests.kit.lambda_events import Request, queued, streamed
from tests.kit.offices import ACTS, ASKING, Office
from tests.kit.recorded_calls import ACCOUNT, Permission, granted, of_any_partition, recording
from tests.kit.sealed_log import entry_made
from tests.kit.tenants import item_at
from tests.kit.worlds import Clock, embedded
from tests.operations.signers import stored_signers

pytestmark = pytest.mark.slow

SRL: Final = "/v1/revocations/srl"


@dataclass(frozen=True)
class World:
    """A tenant that anything is done to unrecorded, and what the function under test needs."""

    tenant: Tenant
    needed: set[Permission]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """What the templates name; the ports that are built from the environment are recorded.

    Calls on all partitions need the same permissions, so few partitions are enough.
    """
    monkeypatch.setattr(model, "SHARDS", 2)
    monkeypatch.setattr(model, "RECORD_SHARDS", 2)
    monkeypatch.setattr(model, "COUNTERS", 2)
    monkeypatch.setattr(audit_log, "SHARDS", 2)
    monkeypatch.setattr(srl_schedule, "MARK_PARTITIONS", 2)
    needed: set[Permission] = set()
    with aws() as account:
        settings = _settings(account)
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        ports = wiring.build(wiring.settings(settings))
        tenant = Tenant(ports, serve(ports), handle="acme")
        _forget()
        with recording(needed):
            yield World(tenant, needed)
        _forget()


@pytest.mark.parametrize("name", LAMBDAS)
def test_a_role_grants_what_the_function_needs(world: World, name: str) -> None:
    """S8: The role of each function grants exactly what the function calls."""
    if entry_point(name) in WITHOUT_ENDPOINTS:
        WITHOUT_ENDPOINTS[entry_point(name)](world.tenant)
    else:
        _call_all(entry_point(name), world.tenant)
    needed = world.needed
    if name == "WebhookDelivery":
        # The function fills a queue of its own; the pretended account has one queue.
        queue = variables(name)["RESCIND_QUEUE"][6:-1] + ".Arn"
        calls = {each for each in needed if each.action.startswith("sqs:")}
        needed = needed - calls | {each._replace(resource=queue) for each in calls}
    assert needed | _of_lambda(name) == granted(statements(name))


def test_the_operator_may_do_what_the_commands_do(world: World) -> None:
    """F101a: The operator's policy on AWS allows what the documented commands call.

    They read the outputs of the stack, create and list tenants, mint a key, examine, raise the
    schema, publish, fly a canary, and recover what is lost. The policy allows nothing else.
    """
    ports = wiring.from_environment()
    onboarding.create_tenant(ports, handle="globex")
    onboarding.mint_admin_key(ports, handle="globex")
    operator = onboarding.operator(ports, handle="globex")
    _lose_a_revocation(world.tenant.ports, operator, "svc_wrt_lost")
    assert [each.handle for each in tenants.directory(ports)] == ["acme", "globex"]
    _tear(world.tenant.ports, operator)
    list(doctor.examine(ports))
    plain = world.tenant.ports
    # The store is as a release with an earlier schema left it.
    earlier = deployment.read_deployment(plain)
    deployment.write(plain, earlier, earlier.next(schema=earlier.schema - 1))
    deployment.mark_schema(ports)
    # The sealed log has a bundle that the records do not know, as after a restore.
    tile = head.blob(operator.tenant_id, 1, TileAddress(None, 0))
    plain.blobs.put(tile, merkle.bundle([bytes(56)]))
    document = roots.signed_draft(plain, operator)
    publishing.publish(
        plain, operator, payload=document.payload, signatures={**document.signatures}
    )
    revocations.create(plain, operator, warrant_id="svc_wrt_published", reason="r")
    publication.publish_feed(plain, operator.tenant_id)
    Journals().write_missing_records(plain, operator.tenant_id)
    assert recovery.recover(ports, operator).revoked_again == ["svc_wrt_lost"]
    assert not publication.publish_due(ports).failed
    with canary(ports, operator) as record:
        assert [*watch(ports, operator, record.id, seconds=0)]
    needed = {of_any_partition(each) for each in world.needed}
    # All of it on restored tables too, before the functions work on them.
    needed |= {
        each._replace(resource=each.resource.replace(f"/rescind-{STAGE}-", f"/rescind-{STAGE}-r?-"))
        for each in needed
        if each.action.startswith("dynamodb:")
    }
    stack = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/rescind-{STAGE}/*"
    needed.add(Permission("cloudformation:DescribeStacks", stack))
    assert needed == granted(managed("OperatorPolicy"))


def test_a_move_needs_what_its_policy_adds(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F601a: With both policies the operator moves all data to AWS and back, and with one not."""
    here = embedded(tmp_path, clock)
    tour.take(here, clock)
    needed: set[Permission] = set()
    with aws() as account:
        settings = _settings(account)
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        with recording(needed):
            there = replace(wiring.assemble(wiring.settings(settings)), now=clock)
            for source, target in ((here, there), (there, here)):
                moving.begin(source, target)
                moving.copy(source, target)
                moving.finish(source, target)
    needed = {of_any_partition(each) for each in needed}
    own, added = granted(managed("OperatorPolicy")), granted(managed("MigrationPolicy"))
    assert needed <= own | added
    # What a move does not do removes a tenant, or stops the region that a failover leaves.
    assert {each.action for each in added} - {each.action for each in needed} <= {
        "dynamodb:DeleteItem",
        "lambda:PutFunctionConcurrency",
        "s3:DeleteObject",
    }


def _tear(ports: Ports, operator: Caller) -> None:
    """Lose the turn of the list, a rotation, and from the list of what a key signed a warrant."""
    head = in_force.read_srl_head(ports, operator.tenant_id)
    key = signing_keys.create(ports, operator, type_=SigningKeyType.ROOT, name="k")
    warrants.sign(ports, operator, key_id=key.id, order=SignRequest(payload=b"grant"))
    (signed_,) = ports.store.query(signed_by(operator.tenant_id, key.id))
    ports.store.write(
        Delete(
            PublicationDeadline.after_publication(head, operator.tenant_id).address, Expect.PRESENT
        ),
        Delete(signed_by(operator.tenant_id, key.id).address(signed_.sk), Expect.PRESENT),
        Put(
            marker_address(operator.tenant_id, WarrantSigner(key.id, 1)),
            SignerRevocation(ports.now(), "lost").to_item(),
            Expect.ABSENT,
        ),
    )


def _settings(account: Account) -> dict[str, str]:
    """The variables of the one function that has them all; its queue has an address here."""
    settings = variables("SrlSchedule")
    assert settings["RESCIND_KEY_WRAPPER"] == f"kms:{account.key_id}"
    return settings | {"RESCIND_QUEUE": f"sqs:{account.queue_url}"}


def _forget() -> None:
    wiring.from_environment.cache_clear()
    wiring.queue_from_environment.cache_clear()


def _of_lambda(name: str) -> set[Permission]:
    """What Lambda does in the function's name: write its log, and read the queue that it serves."""
    needed = {
        Permission(f"logs:{action}", f"{name}Logs.Arn")
        for action in ("CreateLogStream", "PutLogEvents")
    }
    for event in events(name, "SQS"):
        needed |= {
            Permission(f"sqs:{action}", event["Queue"])
            for action in ("DeleteMessage", "GetQueueAttributes", "ReceiveMessage")
        }
    if events(name, "DynamoDB"):
        kind = "keys" if name in {"FeedPublication", "TrustRenewal"} else "audit"
        table = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/rescind-{STAGE}-{kind}"
        needed |= {Permission(action, f"{table}/stream/*") for action in _OF_A_STREAM}
    return needed


# What Lambda's documentation asks for, and what its `CreateEventSourceMapping` refuses without.
_OF_A_STREAM: Final = (
    "dynamodb:DescribeStream",
    "dynamodb:GetRecords",
    "dynamodb:GetShardIterator",
    "dynamodb:ListStreams",
)


# --- what is called ---


def _call_all(group: str, tenant: Tenant) -> None:
    """Every endpoint of the function, each on a cold start, and what else its calls may take."""
    function = import_module(f"functions.{group}.handler")
    # An application with a public part has the routes of one router behind it.
    served_by = getattr(function.app, "routes", function.routes.routes)
    routes = SimpleNamespace(routes=[each for each in served_by if isinstance(each, APIRoute)])
    admin = Client(Instance(_starting_cold(routes), tenant.ports), tenant.admin.secret)
    served = {(method, route.path_format) for route in routes.routes for method in route.methods}
    for key, endpoint in ENDPOINTS.items():
        if key in served:
            answer = call(key, admin, endpoint.target(tenant))
            assert answer.status_code == endpoint.status, answer.text
    for more in FURTHER.get(group, ()):
        more(tenant, admin)
    provider = identities.bound(tenant.ports, tenant.operator)
    alice = Client(admin.http, identities.signed_in(tenant.ports, provider, sub="dora").secret)
    first = next(each for each in ENDPOINTS if each in served)
    assert call(first, alice, ENDPOINTS[first].target(tenant)).status_code not in {401, 403}


def _starting_cold(routes: Any) -> ASGIApp:
    """The function on Lambda, which at every request has leased and counted nothing yet."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        called = {**scope, "aws.event": {}}
        await create_app(routes, ports=wiring.from_environment)(called, receive, send)

    return app


def _keys_of_an_account(tenant: Tenant, admin: Client) -> None:
    """An admin key that an account owns is created, and goes in both ways."""
    (account,) = tenant.admin.get("/v1/service-accounts").json()["service_accounts"]
    body = {"name": "k", "scopes": ["admin"], "service_account_id": account["id"]}
    for _ in range(2):
        made = admin.post("/v1/api-keys", json=body).json()
        body_ = {"grace_seconds": 60}
        made = admin.post(f"/v1/api-keys/{made['id']}/rotate", json=body_).json()
        assert admin.post(f"/v1/api-keys/{made['id']}/revoke").status_code == 200
        assert admin.delete(f"/v1/api-keys/{made['id']}").status_code == 204


def _report_leaks(tenant: Tenant, _admin: Client) -> None:
    """An API key is reported as leaked."""
    secret = tenant.client(Right.SIGNER).secret or ""
    report = leaked_keys.LeakReport(secret, None, "192.0.2.1", "r")
    leaked_keys.end(wiring.from_environment(), report)


def _disable_a_maker(tenant: Tenant, admin: Client) -> None:
    """A person is disabled who made an admin key, which ends."""
    provider = identities.bound(tenant.ports, tenant.operator)
    begun = identities.signed_in(tenant.ports, provider, sub="maker")
    end = times.format_utc(tenant.ports.now() + timedelta(days=2))
    body = {"name": "k", "scopes": ["admin"], "expires_at": end}
    assert tenant.holding(begun.secret).post("/v1/api-keys", json=body).status_code == 201
    path = f"/v1/people/{begun.session.owner}/disable"
    assert admin.post(path, json={"made_keys": "end"}).json()["keys_ended"] == 1
    body = {"name": "k", "scopes": ["admin"], "expires_at": end}
    other = tenant.holding(identities.signed_in(tenant.ports, provider, sub="other").secret)
    key = replace(admin, secret=other.post("/v1/api-keys", json=body).json()["key"])
    assert key.post(f"/v1/people/{begun.session.owner}/enable").is_success


def _unrevoke_with_approvals(tenant: Tenant, admin: Client) -> None:
    """A revocation is taken back freely, and two by an approval each: alone, by a manifest."""
    office = Office(tenant)
    alice = replace(office.alice, http=admin.http)
    office.protects(unrevoke_threshold=1)
    first, second, third = office.revoked(3)
    assert alice.delete(f"/v1/revocations/{first}").status_code == 204
    path = f"/v1/revocations/{second}"
    use = office.approved(alice.delete(path, headers=ASKING))
    assert alice.delete(path, headers=use).status_code == 204
    path, reason = office.manifest(alice, [third]), {"reason": "mistake"}
    use = office.approved(alice.post(path, json=reason, headers=ASKING))
    answer = alice.post(path, json=reason, headers=use)
    assert answer.json()["results"][0]["outcome"] == "unrevoked"


def _act_with_approval(
    tenant: Tenant, admin: Client, act: str, method: str, path: str, body: Any
) -> None:
    """What is asked for is done once it is approved."""
    office = Office(tenant)
    alice = replace(office.alice, http=admin.http)
    office.protects(act)
    use = office.approved(alice.request(method, path, json=body, headers=ASKING))
    assert alice.request(method, path, json=body, headers=use).is_success


def _an_approved_key(tenant: Tenant, admin: Client) -> None:
    """An admin key is made by an approval."""
    end = times.format_utc(tenant.ports.now() + timedelta(minutes=9))
    body = {"name": "k", "scopes": ["admin"], "expires_at": end}
    _act_with_approval(tenant, admin, "admin_keys.create", "POST", "/v1/api-keys", body)


def _a_forced_signer(tenant: Tenant, admin: Client) -> None:
    """A list signer is activated before its time, by an approval."""
    pending = tenant.admin.post(f"{SRL}/keys").json()["key_id"]
    name_signers(tenant)
    path = f"{SRL}/keys/{pending}/activate"
    _act_with_approval(tenant, admin, "srl_signers.force_activate", "POST", path, {"force": True})


def _weaker_settings(tenant: Tenant, admin: Client) -> None:
    """Lists get a longer lifetime by an approval."""
    path, body = "/v1/tenant/settings", {"srl_ttl_seconds": 7200}
    _act_with_approval(tenant, admin, "settings.weaken", "PATCH", path, body)


def _a_root_that_is_revoked(tenant: Tenant, admin: Client) -> None:
    """A root key is revoked by an approval."""
    path = f"/v1/keys/{create(tenant)['id']}/revoke"
    act, body = "signing_keys.revoke_root", {"reason": "stolen"}
    _act_with_approval(tenant, admin, act, "POST", path, body)


def _another_status_signer(tenant: Tenant, admin: Client) -> None:
    """The status signer is replaced by an approval."""
    path = "/v1/status-lists/keys/rotate"
    _act_with_approval(tenant, admin, "status_signer.rotate", "POST", path, None)


def _protected_acts(tenant: Tenant, admin: Client) -> None:
    """Acts are protected, and no longer by an approval."""
    office = Office(tenant)
    alice, bob = (replace(each, http=admin.http) for each in (office.alice, office.bob))
    body: dict[str, Any] = {"actions": ["tenant.remove"], "unrevoke_threshold": None}
    assert alice.request("PUT", ACTS, json=body).status_code == 200
    body = {"actions": [], "unrevoke_threshold": None}
    use = office.approved(alice.request("PUT", ACTS, json=body, headers=ASKING), by=bob)
    assert alice.request("PUT", ACTS, json=body, headers=use).status_code == 200


def _an_account_with_keys(tenant: Tenant, admin: Client) -> None:
    """An account that owns an admin key is switched off and on."""
    made = tenant.admin.post("/v1/service-accounts", json={"name": "robot-2"}).json()
    body = {"name": "k", "scopes": ["admin"], "service_account_id": made["id"]}
    assert tenant.admin.post("/v1/api-keys", json=body).status_code == 201
    for action in ("disable", "enable"):
        answer = admin.post(f"/v1/service-accounts/{made['id']}/{action}")
        assert answer.status_code == 200, answer.text


def _an_approved_account(tenant: Tenant, admin: Client) -> None:
    """An account that owns an admin key is enabled by an approval."""
    made = tenant.admin.post("/v1/service-accounts", json={"name": "robot-3"}).json()["id"]
    body = {"name": "k", "scopes": ["admin"], "service_account_id": made}
    assert tenant.admin.post("/v1/api-keys", json=body).status_code == 201
    assert admin.post(f"/v1/service-accounts/{made}/disable").is_success
    path = f"/v1/service-accounts/{made}/enable"
    _act_with_approval(tenant, admin, "admin_keys.create", "POST", path, None)


def _a_line_of_keys(tenant: Tenant, admin: Client) -> None:
    """A key below another is made, signs, and goes with it."""
    root = create(tenant)
    body = {"type": "issuer", "name": "k", "parent_id": root["id"]}
    issuer = admin.post("/v1/keys", json=body).json()["id"]
    body = {"payload": "cGF5", "warrant_id": "svc_wrt_line"}
    assert admin.post(f"/v1/keys/{issuer}/sign", json=body).status_code == 201
    body = {"reason": "lost", "cascade": True}
    assert admin.post(f"/v1/keys/{root['id']}/revoke", json=body).status_code == 200


def _warrants_of_revoked_keys(tenant: Tenant, admin: Client) -> None:
    """The key's present version and a superseded one are looked up."""
    for warrant_id in _revoked_by_keys(tenant):
        answer = admin.get(f"/v1/revocations/check?warrant_id={warrant_id}")
        assert answer.json()["revoked"]


def _a_long_log(tenant: Tenant, admin: Client) -> None:
    """A log with a full tile, and a proof from it."""
    clock = Clock(tenant.ports.now())
    made = [entry_made(tenant.ports, clock, tenant.id)[1] for _ in range(260)]
    for start in range(0, 260, 100):
        tenant.ports.store.write(*made[start : start + 100])
    sealing.extend(tenant.ports, tenant.id)
    assert admin.get(f"/v1/audit-logs/{made[0].address.sk}/proof").status_code == 200
    assert admin.post("/v1/audit-logs/keys/rotate").status_code == 200


def _lists_that_change(tenant: Tenant, admin: Client) -> None:
    """What left the list is looked up; what revoked keys signed is on it, and the keys change."""
    _let_one_leave(tenant)
    moved(tenant, _publish_document(tenant), "revoke")
    _revoked_by_keys(tenant)
    assert admin.post(f"{SRL}/regenerate").status_code == 200


def _a_claim_that_is_released(_tenant: Tenant, admin: Client) -> None:
    """A request that claims fails, so that it can be repeated at once."""
    unknown = "svc_key_01m7yzmhg0ynzqw1fmh6whgvm5"
    headers = {"Idempotency-Key": "released"}
    for path, body in (
        (f"/v1/keys/{unknown}/revoke", {"reason": "lost"}),
        (f"{SRL}/keys/{unknown}/revoke", {}),
    ):
        answer = admin.post(path, json=body, headers=headers)
        assert answer.status_code == 404


def _a_long_list(tenant: Tenant, admin: Client) -> None:
    """A list too long for an answer is left to whoever holds its signed address."""
    head = in_force.read_srl_head(tenant.ports, tenant.id)
    long = replace(head, size=5 * 1024 * 1024)
    tenant.ports.store.write(Put(head_address(tenant.id), long.to_item(), Expect.PRESENT))
    assert admin.get(SRL).status_code == 307


def _an_unknown_path(_tenant: Tenant, admin: Client) -> None:
    """The catch-all route answers for paths that are nobody's."""
    assert admin.get("/v1/nothing").status_code == 404


def _archived_signers(tenant: Tenant, admin: Client) -> None:
    """Retired and revoked signers of which some go to the archive, and one returns."""
    old = stored_signers(tenant.ports, tenant.id, 101, SrlSignerStatus.RETIRED)
    stored_signers(tenant.ports, tenant.id, 101, SrlSignerStatus.REVOKED, first=200)
    assert admin.post(f"{SRL}/keys/rotate").status_code == 201
    assert admin.post(f"{SRL}/keys/{old[0].id}/revoke").status_code == 200


def _publish_document(tenant: Tenant) -> str:
    """By another function, a document of a key is published; return the key."""
    key_id: str = create(tenant)["id"]
    document = roots.body_of(roots.signed_draft(tenant.ports, tenant.operator))
    assert tenant.admin.request("PUT", "/v1/trust", json=document).status_code == 200
    return key_id


def _signers_that_are_named(tenant: Tenant, admin: Client) -> None:
    """A standby and a pending signer that a trust document names take over."""
    admin.post(f"{SRL}/keys")
    _publish_document(tenant)
    assert admin.post(f"{SRL}/keys/rotate").status_code == 201
    assert admin.post(f"{SRL}/keys/rotate").status_code == 201


def _native_lists(tenant: Tenant, admin: Client) -> None:
    """A native list with an entry after its base, and one whose blob is gone."""
    path, signed_at = "/compat/tenuo/v1/revocations/srl/signed", native.folder(tenant.id)
    # As before the first request.
    for address in (native.signer_address(tenant.id), native.list_address(tenant.id)):
        tenant.ports.store.write(Delete(address, Expect.ANYTHING))
    tenant.revoke(tenant.ports.new_id("wrt"))
    publication.publish_feed(tenant.ports, tenant.id)
    assert admin.get(path).status_code == 200
    blobs: Any = tenant.ports.blobs
    for name in list(blobs.names(signed_at)):
        blobs._client().delete_object(Bucket=blobs._bucket, Key=name)
    assert admin.get(path).status_code == 503
    assert admin.get(path).status_code == 200


def _authorizers_that_ended(tenant: Tenant, admin: Client) -> None:
    """One registers twice, some are removed, and one that ended long ago is revived."""
    path, now = "/v1/authorizers", tenant.ports.now()

    def made(name: str) -> str:
        body = gates.registration(tenant.id, name, now)
        return str(admin.post(f"{path}/register", json=body).json()["id"])

    def signed(authorizer_id: str, **more: Any) -> dict[str, str]:
        return gates.report(tenant.ports, tenant.id, authorizer_id, sequence=1, **more)

    ids = [made(name) for name in ("edge", "edge", "ended")]
    _age(tenant, authorizers.authorizers(tenant.id).address(ids[2]), "last_seen_at")
    gone = authorizers.removed_partition(tenant.id)
    old = authorizers.removed_sk(datetime(2026, 1, 1, tzinfo=UTC), ids[0])
    tenant.ports.store.write(Put(gone.address(old), {"id": ids[0]}, Expect.ABSENT))
    beat = signed(ids[0], chain="ab" * 32)
    assert admin.post(f"{path}/{ids[0]}/heartbeat", json=beat).status_code == 200
    _age(tenant, authorizers.registered_address(tenant.id), "counted_at")
    assert admin.delete(f"{path}/{ids[0]}").status_code == 204
    assert admin.delete(f"{path}?owner={tenant.authorizer.key_id}").status_code == 204
    new = made("new")
    # The first one changes the count, so that the second one corrects it.
    for _ in range(2):
        reports = {"relay": "r", "reports": [{"id": new, **signed(new)}]}
        assert admin.post(f"{path}/reports", json=reports).status_code == 200
    stored = {row.sk for row in tenant.ports.store.query(authorizers.authorizers(tenant.id))}
    assert stored.isdisjoint({ids[2]})
    assert old not in {row.sk for row in tenant.ports.store.query(gone)}
    assert admin.post(f"{path}/{ids[2]}/heartbeat", json=signed(ids[2])).status_code == 200


def _refused_clients(tenant: Tenant, admin: Client) -> None:
    """A client is refused, long after another one."""
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    old = UnregisteredClient("old", tenant.operator.identity, "", "conflict", long_ago)
    partition = unregistered_partition(tenant.id)
    tenant.ports.store.write(Put(partition.address(old.sk), old.to_item(), Expect.ABSENT))
    refuse_registration(tenant, admin)
    assert old.sk not in {row.sk for row in tenant.ports.store.query(partition)}


def _age(tenant: Tenant, address: Address, name: str) -> None:
    """Let a time of an item be long ago."""
    old = {**item_at(tenant.ports, address), name: "2026-01-01T00:00:00Z"}
    tenant.ports.store.write(Put(address, old, Expect.PRESENT))


def _status_lists(tenant: Tenant, admin: Client) -> None:
    """A verifier fetches a status list, first one that is made for it, and the key of it."""
    tenant.revoke(tenant.ports.new_id("wrt"))
    path = "/v1/status-lists"
    made = admin.get(path).json()["status_lists"][0]["id"]
    handler = import_module("functions.status_lists.handler").handler
    listed = Request("GET", f"{path}/{made}")
    for each in (listed, listed, Request("GET", f"{path}/jwks.json", (("list", made),))):
        assert handler(each.http_api(), None)["statusCode"] == 200


FURTHER: Final[dict[str, tuple[Callable[[Tenant, Client], None], ...]]] = {
    "api_keys": (_keys_of_an_account, _an_approved_key, _report_leaks),
    "identities": (_protected_acts, _disable_a_maker),
    "authorizers": (_refused_clients, _authorizers_that_ended, _native_lists),
    "audit_log": (_a_long_log,),
    "revocations": (_warrants_of_revoked_keys, _unrevoke_with_approvals),
    "service_accounts": (_an_account_with_keys, _an_approved_account),
    "status_lists": (_status_lists, _another_status_signer),
    "signing_keys": (_a_line_of_keys, _a_claim_that_is_released, _a_root_that_is_revoked),
    "srl": (
        _lists_that_change,
        _a_long_list,
        _archived_signers,
        _a_claim_that_is_released,
        _signers_that_are_named,
        _a_forced_signer,
    ),
    "tenant_settings": (_an_unknown_path, _weaker_settings),
}


def _schedule(tenant: Tenant) -> None:
    """A tick that finds a tenant due, and one that counts authorizers and announces one and a key.

    An authorizer that was announced before is no straggler any more.
    """
    tenant.revoke("svc_wrt_a")
    long_ago = replace(tenant.ports, now=lambda: datetime.now(UTC) - timedelta(days=60))
    end = datetime.now(UTC) + timedelta(days=5)
    signing_keys.create(
        long_ago, tenant.operator, type_=SigningKeyType.ROOT, name="k", expires_at=end
    )
    described = AuthorizerDescription("gateway")
    register(tenant.ports, tenant.operator, description=described)
    note = authorizers.stale(tenant.id).address(tenant.ports.new_id("azr"))
    tenant.ports.store.write(Put(note, {}, Expect.ABSENT))
    module = import_module("functions.srl_schedule.handler")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(propagation, "SETTLED_AFTER", timedelta())
        patched.setattr(expiring, "is_tenant_due", lambda *_: True)
        change = SettingsChange(unused_key_days=30)
        tenant_settings.update(tenant.ports, tenant.operator, change=change)
        api_keys.create(long_ago, tenant.operator, name="unused", scopes=(Right.ADMIN,))
        for is_due in (False, True):
            patched.setattr(schedule, "is_survey_due", lambda _, is_due=is_due: is_due)
            patched.setattr(expiring, "is_due", lambda _, is_due=is_due: is_due)
            assert module.handler({}, None)["queued"] == 1


def _publish(tenant: Tenant) -> None:
    """A publication of a list that lost one identifier and won others, and another look later.

    The second list is made from all records, and one of these ended long ago.
    """
    _let_one_leave(tenant)
    moved(tenant, _publish_document(tenant), "revoke")
    tenant.revoke_ended("svc_wrt_ended", datetime(2001, 1, 1, tzinfo=UTC))
    _revoked_by_keys(tenant)
    module = import_module("functions.srl_publication.handler")
    event = {"Records": [{"messageId": "1", "body": tenant.id}]}
    before = in_force.read_srl_head(tenant.ports, tenant.id)
    assert module.handler(event, None)["failed"] == 0
    assert in_force.read_srl_head(tenant.ports, tenant.id).version == before.version + 1
    # A worker has seen the tenant's marks so long ago that they can go.
    seen_at = tenant.ports.now() - 2 * IN_FLIGHT_MAX
    for key, mark in srl_marks.read_tenant_marks(tenant.ports, tenant.id).items():
        old_mark = replace(mark, seen_at=seen_at)
        tenant.ports.store.write(Put(key, old_mark.to_item(), Expect.PRESENT))
    # The entries of the tenant's feed are so old that the next list removes them.
    feed = feed_model.feed_partition(tenant.id)
    for row in tenant.ports.store.query(feed, before=feed_model.HEAD):
        old = replace(StoredEntry.from_item(row.item), issued_at=datetime(2026, 1, 1, tzinfo=UTC))
        tenant.ports.store.write(Put(feed.address(row.sk), old.to_item(), Expect.PRESENT))
    assert module.handler(event, None)["failed"] == 0
    assert [row.sk for row in tenant.ports.store.query(feed_model.feed_partition(tenant.id))] == [
        "head"
    ]
    assert srl_marks.read_tenant_marks(tenant.ports, tenant.id) == {}
    shard = model.shard_of(tenant.id, "svc_wrt_ended")
    assert [moved for moved, _ in records.read_ended(tenant.ports, shard)] == ["svc_wrt_ended"]


def _feed(tenant: Tenant) -> None:
    """An entry about warrants and a revoked key, which a list follows; a break; a document."""
    change = SettingsChange(srl_publication=SrlPublicationPolicy.IMMEDIATE, feed_window_ms=0)
    operator = Caller.inside(tenant.id, name="operator", handle="acme")
    tenant_settings.update(tenant.ports, operator, change=change)
    _let_one_leave(tenant)
    moved(tenant, _publish_document(tenant), "suspend")
    _revoked_by_keys(tenant)
    module = import_module("functions.feed_publication.handler")
    # As an instance begins that finds what another one wrote.
    Journals().write_missing_records(tenant.ports, tenant.id)
    vars(module)["_journals"] = Journals()
    for inline_max in (decisions.INLINE_MAX, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decisions, "INLINE_MAX", inline_max)
            event = streamed(*srl_marks.read_tenant_marks(tenant.ports, tenant.id))
            assert module.handler(event, None)["published"] == 1
        _revoked_by_keys(tenant)


def _seal(tenant: Tenant) -> None:
    """A first pass, one that stores a full tile and reads it, with a late entry, and a sweep.

    Journal and a trust document are there, which a pass compares with the log.
    """
    ports, clock = tenant.ports, Clock(tenant.ports.now())
    document = roots.body_of(roots.signed_draft(ports, tenant.operator))
    assert tenant.admin.request("PUT", "/v1/trust", json=document).status_code == 200
    tenant.revoke("svc_wrt_journal")
    publication.publish_feed(ports, tenant.id)
    Journals().write_missing_records(ports, tenant.id)
    module = import_module("functions.transparency_log.audit_log_sealing_handler")
    made = [entry_made(ports, clock, tenant.id)[1] for _ in range(260)]
    late = entry_made(ports, clock, tenant.id, ago=7200)[1]
    for start in range(0, 260, 100):
        ports.store.write(*made[start : start + 100])
    assert module.handler(streamed(made[0].address), None)["sealed"] == 1
    ports.store.write(late)
    assert module.handler(streamed(late.address), None)["sealed"] == 1
    assert module.handler({}, None) == {"sealed": 0, "nothing new": 1}
    # The daily run states the counters of the revocations, once and again.
    for _ in range(2):
        tenant.revoke(f"svc_wrt_{ports.new_id('evt')}")
        assert module.handler({}, None) == {"sealed": 1, "nothing new": 0}


def _webhooks(tenant: Tenant) -> None:
    """A webhook that is told of many entries and waits; one with a test left; one that fails."""
    ports, clock = tenant.ports, Clock(tenant.ports.now())
    operator = Caller.inside(tenant.id, name="operator", handle="acme")
    made = managing.create(
        ports, operator, url="https://nobody.invalid/", events=("*",), description=None
    ).webhook
    changes = [entry_made(ports, clock, tenant.id)[1] for _ in range(260)]
    for start in range(0, 260, 100):
        ports.store.write(*changes[start : start + 100])
    sealing.extend(ports, tenant.id)
    module = import_module("functions.webhooks.webhook_delivery_handler")
    grown = streamed(head.address(tenant.id))
    assert module.handler(grown, None) == {"queued": 1}
    work = queued(f"{tenant.id}#{made.id}")
    # Its address is refused, so it waits; after a day it is disabled.
    refusing = HttpsSender(resolve=lambda _: ["10.0.0.1"])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wiring, "sender_from_environment", lambda: refusing)
        _wait_and_give_up(ports, operator, made, lambda: module.handler(work, None))
    assert module.handler({}, None) == {"queued": 0}


def _wait_and_give_up(
    ports: Ports, operator: Caller, made: Webhook, work: Callable[[], dict[str, int]]
) -> None:
    assert work() == {"queued": 0}
    waiting = managing.get(ports, operator, webhook_id=made.id)
    assert waiting.next_attempt_at is not None
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    later = replace(waiting, next_attempt_at=long_ago, failing_since=long_ago)
    ports.store.write(Put(later.address, later.to_item(), Expect.PRESENT))
    turn = DispatchMarker(made.tenant_id, made.id, long_ago)
    ports.store.write(Put(turn.address, turn.to_item(), Expect.PRESENT))
    assert import_module("functions.webhooks.webhook_delivery_handler").handler({}, None) == {
        "queued": 1
    }
    assert work() == {"queued": 0}
    assert not managing.get(ports, operator, webhook_id=made.id).is_enabled


def _renew_trust(tenant: Tenant) -> None:
    """A first document, one after a rotation, and one that waits."""
    ports = tenant.ports
    module = import_module("functions.trust.trust_renewal_handler")
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 300_000)
    with kms_roots.signing(), pytest.MonkeyPatch.context() as patched:
        patched.setenv("RESCIND_ROOT", variables("TrustRenewal")["RESCIND_ROOT"])
        assert module.handler({}, context) == {"published": 1}
        # A process that was stopped left a blob of the next version.
        ports.blobs.put(document_blob(tenant.id, 2), b"stopped")
        tenant.admin.post(f"{SRL}/keys/rotate", json={"compromised": True})
        marked = streamed(srl_schedule.trust_mark_address(tenant.id))
        assert module.handler(marked, None) == {"published": 1}
        # As if other roots signed from now on.
        patched.delenv("RESCIND_ROOT")
        _forget()
        tenant.admin.post(f"{SRL}/keys")
        assert module.handler({}, context) == {"waits": 1}


def _console(_: Tenant) -> None:
    """The console's page, which is in the artefact."""
    page = Request("GET", "/", headers=(("Accept", "text/html"),))
    assert console.handler(page.http_api(), None)["statusCode"] == 200


def _sign_in(tenant: Tenant) -> None:
    """People sign in by token, also under another e-mail, and a program; a ticket; a tick."""
    make = (tenant.ports, tenant.operator)
    provider_id = identities.bound_outside(*make).id
    programs = identities.bound_outside(*make, ProviderUsage.WORKLOAD).id
    service_accounts.create(*make, name="robot")
    ports = wiring.from_environment()
    assert len(sign_in.list_sign_in_providers(ports, "acme")) == 1
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 29_000)
    assert import_module("functions.sign_in.handler").handler({}, context) == {"failed": 0}
    identities.exchanged(ports, provider_id)
    identities.exchanged(ports, provider_id, email="a.martin@example.com")
    identities.exchanged(ports, programs, programs)
    ticket = tickets.issue(*make)
    identities.redeemed(ports, {"grant_type": sign_in.TICKET, "ticket": ticket})


def _sign_in_code(tenant: Tenant) -> None:
    """People sign in by code, also under another e-mail; their provider ends a session, and all."""
    provider = identities.bound_outside(tenant.ports, tenant.operator, client_secret="s3cret")
    ports = wiring.from_environment()
    identities.by_code(ports, provider.id)
    identities.by_code(ports, provider.id, email="a.martin@example.com", sid="s-1")
    # A later logout of a session extends its revocation.
    later = int(ports.now().timestamp()) + 30
    for claims in ({"sid": "s-1"}, {"sid": "s-1", "sub": None, "iat": later}, {}):
        identities.logged_out(ports, provider.id, **claims)


def _introspect(tenant: Tenant) -> None:
    """A good token is introspected, and one of an issuer whose warrants keys have signed."""
    keys = {"keys": [issuers.public(issuers.key("ES256"), kid="k1")]}
    values = {"jwks": keys, "client_id": "accounts", "role_mappings": ()}
    identities.bound(tenant.ports, tenant.operator, ProviderUsage.VERIFY_ONLY, **values)
    module = import_module("functions.introspection.handler")
    key = create(tenant)["id"]
    token = {"kind": "jwt", "issuer": issuers.ISSUER, "value": "of-key"}
    order = {"payload": "eyJ9", "format": "raw", "token": token}
    assert tenant.admin.post(f"/v1/keys/{key}/sign", json=order).status_code == 201
    moved(tenant, key, "revoke")
    for jti, is_active in (("good", True), ("of-key", False)):
        jwt = identities.token(tenant.ports, "accounts", jti=jti)
        headers = (
            ("Authorization", f"Bearer {tenant.authorizer.secret}"),
            ("Content-Type", "application/x-www-form-urlencoded"),
        )
        asked = Request("POST", module.PATH, headers=headers, body=f"token={jwt}".encode())
        answer = module.handler(asked.http_api(), None)
        assert json.loads(answer["body"])["active"] is is_active


WITHOUT_ENDPOINTS: Final[dict[str, Callable[[Tenant], None]]] = {
    "audit_log_sealing": _seal,
    "console": _console,
    "feed_publication": _feed,
    "introspection": _introspect,
    "sign_in": _sign_in,
    "sign_in_code": _sign_in_code,
    "srl_publication": _publish,
    "srl_schedule": _schedule,
    "trust_renewal": _renew_trust,
    "webhook_delivery": _webhooks,
}


def _lose_a_revocation(ports: Ports, operator: Caller, warrant_id: str) -> None:
    """A list has it, the records do not, as after a restore."""
    made, _ = revocations.create(ports, operator, warrant_id=warrant_id, reason="stolen")
    srl.regenerate(ports, operator)
    shard = model.shard_of(operator.tenant_id, warrant_id)
    ports.store.write(
        Delete(shard.address(warrant_id), Expect.PRESENT),
        Delete(warrant_address(operator.tenant_id, warrant_id), Expect.PRESENT),
        Delete(model.record_address(operator.tenant_id, made.id), Expect.PRESENT),
        Increment(
            model.counter_address(operator.tenant_id, warrant_id), {"count": -1}, Expect.PRESENT
        ),
    )


def _let_one_leave(tenant: Tenant) -> None:
    """A warrant on the list is restored."""
    revocation = tenant.revoke("svc_wrt_back")
    tenant.admin.post(f"{SRL}/regenerate")
    tenant.admin.delete(f"/v1/revocations/{revocation}")


def _revoked_by_keys(tenant: Tenant) -> list[str]:
    """Warrants of two keys: of one all versions are revoked, of the other a superseded one."""
    key, rotated = create(tenant), create(tenant)
    warrants = [signed(tenant, each["id"]) for each in (key, rotated)]
    moved(tenant, rotated["id"], "rotate")
    versions = tenant.admin.get(f"/v1/keys/{rotated['id']}/versions").json()["versions"]
    for key_id in (key["id"], versions[1]["key_id"]):
        moved(tenant, key_id, "revoke")
    return warrants
