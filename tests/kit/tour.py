"""A tour of the whole API: every endpoint, and the schedule, so that each item is stored once."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from functions.authorizers import propagation, stale
from functions.authorizers import records as fleet
from functions.status_lists import operations as status_lists
from functions.transparency_log import sealing
from functions.trust import publishing
from functions.trust.publishing import TrustOutcome
from functions.webhooks import delivery
from shared.model import times
from shared.model.outbound import DeliveryOutcome, DeliveryResponse, EventMessage
from shared.operations.base import operation
from shared.operations.changes import revocations
from shared.operations.identities import protected_acts, sessions, sign_in, tickets
from shared.operations.lists import expiring, publication, schedule, signers
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.kit import gates, identities
from tests.kit.api import Tenant, serve
from tests.kit.endpoints import ENDPOINTS, call, name_signers, refuse_registration
from tests.kit.offices import ASKING, Office
from tests.kit.worlds import Clock


def take(ports: Ports, clock: Clock) -> Tenant:
    """Take the tour with a new tenant, without pauses between attempts, and return the tenant."""
    at_once = operation.RetryPacing(pause=0, in_flight=0)
    # As if there were more list signers than are kept out of the archive.
    with patch.object(signers, "KEPT", 2), patch.object(operation, "PACING", at_once):
        tenant = Tenant(ports, serve(ports), handle="acme")
        for key, endpoint in ENDPOINTS.items():
            answer = call(key, tenant.admin, endpoint.target(tenant))
            assert answer.status_code == endpoint.status, (key, answer.text)
        _verify_status(tenant)
        _send_in_vain(tenant)
        _give_and_take(tenant)
        _approve(tenant)
        _sign_in(tenant)
        _expire_soon(tenant, clock)
        _fall_behind(tenant, clock)
        _publish(tenant, clock)
        _publish_anew(tenant, clock)
        _change_signers(tenant, clock)
    return tenant


def _done(tenant: Tenant, path: str, **body: Any) -> Any:
    answer = tenant.admin.post(f"/v1/{path}", json=body)
    assert answer.is_success, answer.text
    return answer.json()


def _verify_status(tenant: Tenant) -> None:
    """A status list is made, and its key is read."""
    (made, *_) = tenant.admin.get("/v1/status-lists").json()["status_lists"]
    _, signed = status_lists.make(tenant.ports, made["id"])
    assert signed.count(b".") == 2
    assert status_lists.signer_of(tenant.ports, made["id"]).jwk()["alg"] == "EdDSA"


class _Down:
    """A sender whose receivers do not answer."""

    def send(self, _url: str, messages: Sequence[EventMessage]) -> list[DeliveryResponse]:
        return [DeliveryResponse(DeliveryOutcome.NO_RESPONSE, 1) for _ in messages]


def _send_in_vain(tenant: Tenant) -> None:
    """A webhook that waits, since what it is sent does not arrive."""
    made = _done(tenant, "webhooks", url="https://hooks.example.com/")
    sealing.extend(tenant.ports, tenant.id)
    assert not delivery.deliver(tenant.ports, _Down(), tenant.id, made["id"])


def _give_and_take(tenant: Tenant) -> None:
    """An account with a key, and a key that has signed what is then revoked."""
    account = _done(tenant, "service-accounts", name="owner")["id"]
    made = _done(tenant, "api-keys", name="k", scopes=["admin"], service_account_id=account)
    key = made["id"]
    for action in ("disable", "enable"):
        _done(tenant, f"service-accounts/{account}/{action}")
    _done(tenant, f"api-keys/{key}/rotate", grace_seconds=60)
    assert tenant.admin.delete(f"/v1/api-keys/{key}").status_code == 204
    assert tenant.holding(made["key"]).get("/v1/whoami").status_code == 401
    root = _done(tenant, "keys", type="root", name="root")["id"]
    signed = _done(tenant, f"keys/{root}/sign", payload="aGVsbG8=")["warrant_id"]
    revocation = _done(tenant, "revocations", warrant_id=signed, reason="lost")["id"]
    assert tenant.admin.delete(f"/v1/revocations/{revocation}").status_code == 204
    for is_rehearsal in (True, False):
        _done(tenant, f"keys/{root}/revoke", reason="lost", dry_run=is_rehearsal)
    assert tenant.admin.get(f"/v1/revocations/check?warrant_id={signed}").json()["revoked"]


def _sign_in(tenant: Tenant) -> None:
    """Use one of two tickets; sign in, and end all sessions as a recovery does."""
    used, _ = (tickets.issue(tenant.ports, tenant.operator) for _ in range(2))
    identities.redeemed(tenant.ports, {"grant_type": sign_in.TICKET, "ticket": used})
    provider = identities.bound_outside(tenant.ports, tenant.operator)
    dora = {"sub": "dora", "email": "dora@example.com"}
    identities.exchanged(tenant.ports, provider.id, **dora)
    identities.by_code(tenant.ports, provider.id, **dora | {"email": "d.martin@example.com"})
    identities.exchanged(tenant.ports, provider.id, **dora, sid="s-1")
    identities.logged_out(tenant.ports, provider.id, sub="dora", sid="s-1")
    said: dict[str, Any] = {"sub": "zoe", "email": "zoe@example.com", "groups": ["signer"]}
    zoe = tenant.holding(identities.exchanged(tenant.ports, provider.id, **said).secret)
    assert len(zoe.get("/v1/sessions").json()["sessions"]) == 1
    sessions.end_all(tenant.ports, tenant.id)


def _approve(tenant: Tenant) -> None:
    """Take revocations back freely, and by approvals alone and by a manifest; protect nothing."""
    office = Office(tenant)
    freely = office.unrevoke(office.carol, office.revoked(1))
    assert freely.json()["counts"]["unrevoked"] == 1
    office.protects("admin_keys.create", unrevoke_threshold=1)
    first, second = (f"/v1/revocations/{each}" for each in office.revoked(2))
    assert office.alice.delete(first).status_code == 204
    use = office.approved(office.alice.delete(second, headers=ASKING))
    assert office.alice.delete(second, headers=use).status_code == 204
    path, body = office.manifest(office.alice, office.revoked(2)), {"reason": "mistake"}
    use = office.approved(office.alice.post(path, json=body, headers=ASKING))
    assert office.alice.post(path, json=body, headers=use).json()["counts"]["unrevoked"] == 2
    protected_acts.clear(tenant.ports, tenant.operator, reason="the tour goes on")


def _expire_soon(tenant: Tenant, clock: Clock) -> None:
    """Announce an API key and a signing key that expire within an hour."""
    end = times.format_utc(clock() + timedelta(days=1, hours=1))
    _done(tenant, "api-keys", name="k", scopes=["signer"], expires_at=end)
    _done(tenant, "keys", type="root", name="root", expires_at=end)
    clock.advance(days=1)
    assert len(expiring.announce_expiring(tenant.ports, tenant.id)) == 2


def _registered(tenant: Tenant, name: str) -> str:
    body = gates.registration(tenant.id, name, tenant.ports.now())
    return str(_done(tenant, "authorizers/register", **body)["id"])


def _fall_behind(tenant: Tenant, clock: Clock) -> None:
    """Announce an authorizer that is stale, and then remove it."""
    made = _registered(tenant, "stale")
    _done(tenant, "revocations", warrant_id="svc_wrt_stale", reason="lost")
    _done(tenant, "revocations/srl/regenerate")
    clock.advance(minutes=6)
    for is_registered in (True, False):
        found = propagation.survey(tenant.ports)
        assert found is not None
        assert bool(stale.announce_all(tenant.ports, found.settled)) == is_registered
        if is_registered:
            assert tenant.admin.delete(f"/v1/authorizers/{made}").status_code == 204
    refuse_registration(tenant)
    _end(tenant, clock)


def _end(tenant: Tenant, clock: Clock) -> None:
    """Let a registration end, and revive it."""
    ended, other = (_registered(tenant, name) for name in "ab")
    address = fleet.authorizers(tenant.id).address(ended)
    item = dict(tenant.ports.store.get(address) or {})
    item["last_seen_at"] = times.format_utc(clock() - timedelta(days=60))
    counter = fleet.registered_address(tenant.id)
    tenant.ports.store.write(Put(address, item, Expect.PRESENT), Delete(counter, Expect.PRESENT))
    for each in (other, ended):
        _done(
            tenant,
            f"authorizers/{each}/heartbeat",
            **gates.report(tenant.ports, tenant.id, each, sequence=0),
        )


def _publish(tenant: Tenant, clock: Clock) -> None:
    """Publish a list of many warrants, of a revoked key and of one that ended long ago."""
    admin, now = tenant.admin, clock()
    revocation = tenant.revoke_ended("svc_wrt_ended", now - timedelta(days=60))
    tenant.revoke_ended("svc_wrt_said", now - timedelta(days=60))
    for number in range(230):
        revocations.create(
            tenant.ports, tenant.operator, warrant_id=f"svc_wrt_{number:064}", reason="stolen"
        )
    key_id = _done(tenant, "keys", type="root", name="root")["id"]
    later = times.format_utc(now + timedelta(days=1))
    _done(tenant, f"keys/{key_id}/sign", payload="aGVsbG8=", expires_at=later)
    _done(tenant, f"keys/{key_id}/rotate")
    _, old = admin.get(f"/v1/keys/{key_id}/versions").json()["versions"]
    _done(tenant, f"keys/{old['key_id']}/revoke", reason="lost")
    for _ in range(3):
        for tenant_id in schedule.read_due_tenants(tenant.ports).tenant_ids:
            publication.publish_if_due(tenant.ports, tenant_id)
        clock.advance(minutes=10)
    _done(tenant, "revocations", warrant_id="svc_wrt_said", reason="lost", warrant_expires_at=later)
    _done(
        tenant,
        "revocations/batch",
        action="revoke",
        warrant_ids=["svc_wrt_said"],
        reason="lost",
    )
    assert admin.delete(f"/v1/revocations/{revocation}").status_code == 204


def _publish_anew(tenant: Tenant, clock: Clock) -> None:
    """Publish lists that are made from all records, as each is after a change of its lifetime."""
    path = "revocations/srl/keys"
    clock.advance(hours=2)
    packed = {"Accept-Encoding": "gzip"}
    assert tenant.authorizer.get("/v1/revocations/srl", headers=packed).is_success
    pending = _done(tenant, path)["key_id"]
    lists: list[tuple[str, dict[str, Any]]] = [
        ("revocations/srl/regenerate", {}),
        (f"{path}/{pending}/activate", {"force": True}),
        (f"{path}/{pending}/revoke", {}),
        (f"{path}/rotate", {}),
    ]
    for seconds, (publish, body) in enumerate(lists, 600):
        clock.advance(hours=2)
        settings = {"srl_ttl_seconds": seconds}
        assert tenant.admin.request("PATCH", "/v1/tenant/settings", json=settings).is_success
        name_signers(tenant)
        _done(tenant, publish, **body)


def _change_signers(tenant: Tenant, clock: Clock) -> None:
    """Change the list signer until retired and revoked ones are archived."""
    path = "/v1/revocations/srl/keys"
    for _ in range(signers.KEPT + 2):
        clock.advance(hours=2)
        name_signers(tenant)
        assert tenant.admin.post(f"{path}/rotate").status_code == 201
        pending = tenant.admin.post(path).json()["key_id"]
        assert tenant.admin.post(f"{path}/{pending}/revoke").status_code == 200
    cursor = tenant.admin.get(path).json()["cursor"]
    assert tenant.admin.get(f"{path}?cursor={cursor}").json()["keys"]
    # The root of this machine is none of the document's.
    assert publishing.keep(tenant.ports, tenant.id) is TrustOutcome.WAITS
