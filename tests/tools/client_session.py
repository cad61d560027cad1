"""A session with the service through a client that `openapi-python-client` generated.

    PYTHONPATH=<folder of the client> python tests/tools/client_session.py URL < key > types.json

It calls every operation with an admin key and prints the type of each answer, as the client parsed
it. It fails if a status is not the documented one, or if a typed answer is not what was asked for.
"""

import base64
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from rescind_client import AuthenticatedClient, Client
from rescind_client import models as m
from rescind_client.types import UNSET

SEEN: dict[str, str] = {}
# Of the last answer.
HEADERS: dict[str, str] = {}


class Session:
    """A client with one key; `session.tag.operation(…)` is the parsed answer."""

    def __init__(self, url: str, key: str) -> None:
        self._client = AuthenticatedClient(
            base_url=url, token=key, raise_on_unexpected_status=True, timeout=30
        )

    def __getattr__(self, tag: str) -> "Operations":
        return Operations(self._client, tag)


class Operations:
    """The operations of a tag."""

    def __init__(self, client: AuthenticatedClient, tag: str) -> None:
        self._client = client
        self._tag = tag

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        module = import_module(f"rescind_client.api.{self._tag}.{operation}")

        def call(
            *arguments: Any, expected: int = 200, or_: int | None = None, **options: Any
        ) -> Any:
            answer = module.sync_detailed(*arguments, client=self._client, **options)
            assert answer.status_code in (expected, or_), (operation, answer)
            HEADERS.update(answer.headers)
            if answer.status_code < 300:
                SEEN.setdefault(operation, type(answer.parsed).__name__)
            return answer.parsed

        return call


def api_keys(session: Session, account_id: str) -> str:
    """Create, use, list in pages, revoke and delete a key; the secret of an authorizer."""
    keys = session.api_keys
    made = [
        keys.create_api_key(
            body=m.CreateApiKey(
                name=f"gateway {number}",
                scopes=[m.Scope.AUTHORIZER],
                expires_at=datetime.fromisoformat("2099-01-01T00:00:00+00:00"),
                service_account_id=account_id,
            ),
            expected=201,
        )
        for number in range(3)
    ]
    assert made[0].status is m.ApiKeyStatus.ACTIVE
    found, cursor = [], UNSET
    while cursor is not None:
        page = keys.list_api_keys(limit=2, cursor=cursor)
        assert page.total == 4
        found += [key.id for key in page.api_keys]
        cursor = page.cursor
    assert found[:3] == [key.id for key in reversed(made)]
    owned = session.service_accounts.list_service_account_api_keys(account_id)
    assert [key.id for key in owned.api_keys] == found[:3]
    assert keys.get_api_key(made[0].id).request_count == 0
    assert keys.get_caller().identity.startswith("admin@")
    body = m.RotateApiKey(grace_seconds=60)
    successor = keys.rotate_api_key(made[2].id, body=body, expected=201)
    assert successor.predecessor_accepted_until > successor.created_at
    keys.delete_api_key(successor.id, expected=204)
    assert keys.revoke_api_key(made[1].id).revoked_at >= made[1].created_at
    keys.delete_api_key(made[1].id, expected=204)
    keys.delete_api_key(made[2].id, expected=204)
    assert keys.get_api_key(made[2].id, expected=404).error.code is m.ErrorCode.NOT_FOUND
    return str(made[0].key)


def signing_keys(session: Session) -> None:
    """A root, an issuer, a warrant; rotate, suspend, enable and revoke."""
    keys = session.signing_keys
    root = keys.create_signing_key(
        body=m.CreateSigningKey(type_=m.SigningKeyType.ROOT, name="Root"), expected=201
    )
    assert (root.parent_id, root.expires_at, root.rotated_at) == (None, None, UNSET)
    issuer = keys.create_signing_key(
        body=m.CreateSigningKey(type_=m.SigningKeyType.ISSUER, name="I", parent_id=root.id),
        expected=201,
    )
    order = m.SignWarrant(payload=base64.b64encode(b"may pay").decode())
    signed = keys.sign_warrant(issuer.id, body=order, expected=201)
    assert (signed.public_key, signed.signature) == (issuer.public_key, UNSET)
    (warrant,) = keys.list_warrants(issuer.id).warrants
    assert warrant.warrant_id == signed.warrant_id
    assert keys.rotate_signing_key(issuer.id).public_key != issuer.public_key
    assert [each.version for each in keys.list_signing_key_versions(issuer.id).versions] == [2, 1]
    assert keys.suspend_signing_key(issuer.id).status is m.SigningKeyStatus.SUSPENDED
    assert keys.enable_signing_key(issuer.id).status is m.SigningKeyStatus.ACTIVE
    reach = keys.revoke_signing_key(
        root.id, body=m.RevokeSigningKey(reason="drill", cascade=True, dry_run=True)
    )
    assert (reach.keys, reach.warrants, reach.descendants) == (3, 1, UNSET)
    revoked = keys.revoke_signing_key(issuer.id, body=m.RevokeSigningKey(reason="stolen"))
    assert revoked.reason == "stolen"
    assert keys.get_signing_key(issuer.id).status is m.SigningKeyStatus.REVOKED
    found = keys.list_signing_keys(type_=m.SigningKeyType.ISSUER, status=m.SigningKeyStatus.REVOKED)
    assert [key.id for key in found.keys] == [issuer.id]
    check = session.revocations.check_revocation(warrant_id=signed.warrant_id)
    assert (check.revoked, check.reason) == (True, "stolen")


def revocations(admin: Session, authorizer: Session) -> None:
    """Revoke, check, list in pages, take back."""
    body = m.CreateRevocation(warrant_id="svc_wrt_a", reason="stolen\nwith the laptop")
    record = admin.revocations.create_revocation(body=body, expected=201)
    assert admin.revocations.create_revocation(body=body, expected=200) == record
    check = authorizer.revocations.check_revocation(warrant_id="svc_wrt_a")
    assert (check.revoked, check.revoked_at, check.reason) == (
        *(True, record.created_at),
        "stolen\nwith the laptop",
    )
    unknown = authorizer.revocations.check_revocation(warrant_id="svc_wrt_b")
    assert (unknown.revoked, unknown.revoked_at) == (False, UNSET)
    batch = authorizer.revocations.check_revocations(
        body=m.CheckRevocations(warrant_ids=["svc_wrt_a", "svc_wrt_b"])
    )
    assert {name: each.revoked for name, each in batch.results.additional_properties.items()} == {
        "svc_wrt_a": True,
        "svc_wrt_b": False,
    }
    named = admin.revocations.list_revocations(limit=1, include=m.RevocationInclude.NAMES)
    assert [each.to_dict() for each in named.revocations] == [record.to_dict()]
    many = m.BatchRevocations(
        action=m.BatchAction.REVOKE, warrant_ids=["svc_wrt_a", "svc_wrt_b"], reason="stolen"
    )
    changed = admin.revocations.batch_revocations(body=many)
    known, new = changed.results
    assert (known.outcome, known.revocation_id) == (m.BatchOutcome.ALREADY_REVOKED, record.id)
    undo = m.BatchRevocations(
        action=m.BatchAction.UNREVOKE, revocation_ids=[new.revocation_id], reason="found again"
    )
    assert admin.revocations.batch_revocations(body=undo).counts.unrevoked == 1
    third = m.CreateRevocation(warrant_id="svc_wrt_c", reason="stolen")
    mistaken = admin.revocations.create_revocation(body=third, expected=201)
    listed = m.CreateManifest(revocation_ids=[mistaken.id])
    manifest = admin.revocations.create_unrevoke_manifest(body=listed, expected=201)
    assert admin.revocations.get_unrevoke_manifest(manifest.id).sha256 == manifest.sha256
    members = admin.revocations.list_unrevoke_manifest_members(manifest.id).members
    assert [each.revocation_id for each in members] == [mistaken.id]
    part = admin.revocations.apply_unrevoke_manifest_part(
        manifest.id, 1, body=m.ApplyManifestPart(reason="by mistake")
    )
    assert part.counts.unrevoked == 1
    days = admin.revocations.count_revocations().days
    assert days[-1].date >= record.created_at.date()
    refused = authorizer.revocations.list_revocations(expected=403)
    assert refused.error.code is m.ErrorCode.INSUFFICIENT_SCOPE


def lists(admin: Session, authorizer: Session) -> None:
    """Publish, fetch both ways, rotate the signer in each way."""
    srl = admin.signed_revocation_list
    published = srl.regenerate_srl()
    fetched = authorizer.signed_revocation_list.get_signed_srl()
    assert fetched.payload.version == published.version
    assert fetched.payload.issued_at == published.issued_at
    assert "svc_wrt_a" in fetched.payload.revoked_i_ds
    assert authorizer.signed_revocation_list.get_srl() == fetched
    tag = HEADERS["etag"]
    assert authorizer.signed_revocation_list.get_srl(if_none_match=tag, expected=304) is None
    assert srl.get_srl_status().version == srl.list_srl_versions().versions[0].version
    first = srl.list_srl_keys().keys[0]
    pending = srl.create_srl_key(expected=201)
    assert (first.statement, pending.status) == (None, m.SrlKeyStatus.PENDING)
    refused = srl.activate_srl_key(pending.key_id, expected=409)
    assert refused.error.code is m.ErrorCode.INVALID_STATE
    active = srl.activate_srl_key(pending.key_id, body=m.ActivateSrlKey(force=True))
    assert active.statement.signature == pending.statement.signature
    assert srl.rotate_srl_key(expected=201).status is m.SrlKeyStatus.ACTIVE
    assert srl.revoke_srl_key(pending.key_id).status is m.SrlKeyStatus.REVOKED


def feed(admin: Session, authorizer: Session) -> None:
    """Poll the feed, and fetch the base of a list."""
    version = admin.signed_revocation_list.regenerate_srl().version
    polled = authorizer.feed.poll_feed()
    assert (polled.poll_seconds, polled.max_wait_seconds) == (1, 25)
    assert base64.b64decode(polled.head.payload)
    assert isinstance(authorizer.feed.poll_feed(after=2**53, wait=25).entries, list)
    base = authorizer.feed.get_feed_base(str(version))
    assert base.payload.read().startswith(b"\xa4")


def _is_published(admin: Session, newest: Any) -> bool:
    signatures = [m.SignatureInput(key=x.key, signature=x.signature) for x in newest.signatures]
    body = m.PublishTrust(payload=newest.payload, signatures=signatures)
    answer = admin.trust.publish_trust(body=body, or_=409)
    return getattr(answer, "version", 0) >= 1


def trust(admin: Session, authorizer: Session) -> None:
    """Get the trust documents and the signing keys that the feed names; publish one again."""
    # The service makes the first one at its start, and may make the next one meanwhile.
    while not (
        (found := authorizer.trust.get_trust().documents) and _is_published(admin, found[-1])
    ):
        time.sleep(0.1)
    assert admin.trust.get_trust_draft(threshold=1).signatures == []
    # Deterministic CBOR: the hash is the first member of `Keys`.
    head = base64.b64decode(authorizer.feed.poll_feed().head.payload)
    _, _, keys = head.partition(b"dKeys")
    sha256 = keys.partition(b"fSHA256X ")[2][:32]
    blob = authorizer.trust.get_trust_keys(sha256.hex()).payload.read()
    assert hashlib.sha256(blob).digest() == sha256


def fleet(admin: Session, authorizer: Session, revocation_id: str) -> None:
    """Register, report what is held, prove how far a revocation has got, remove."""
    ours, signed = admin.authorizers, json.loads(os.environ["GATEWAY"])
    proof = m.RegistrationProof(**signed["proof"])
    gateway = ours.register_authorizer(body=m.RegisterAuthorizer(name="gateway", proof=proof))
    assert gateway.key_verified
    latest = ours.send_heartbeat(gateway.id, body=m.Report(**signed["report"])).feed_sequence
    ours.remove_authorizer(gateway.id, expected=204)
    stock = authorizer.stock_authorizers
    tenuo = m.RegisterStockAuthorizer(name="tenuo")
    second = stock.register_stock_authorizer(body=tenuo, expected=201)
    assert stock.register_stock_authorizer(body=tenuo, expected=200) == second
    assert stock.send_stock_heartbeat(second.id, body=m.StockReport()).status == "ok"
    reports = [m.RelayedReport(id=second.id, srl_version=latest + 1)]
    body = m.SendReports(relay="site-a", reports=reports)
    taken = authorizer.authorizers.send_reports(body=body)
    assert [(each.id, each.status) for each in taken.results] == [(second.id, "ok")]
    proof = admin.revocations.get_revocation_propagation(revocation_id)
    assert (proof.authorizers.total, proof.is_complete) == (1, True)
    assert admin.revocations.get_change(revocation_id).is_complete
    assert revocation_id in [each.id for each in admin.revocations.list_changes().changes]
    assert admin.revocations.search(q=revocation_id).results[0].id == revocation_id
    assert stock.count_stock_events(second.id, body=[], expected=202).rejected == 0
    assert stock.get_native_srl().version == latest + 1
    assert authorizer.authorizers.get_native_signer().algorithm
    found = admin.authorizers.list_authorizers().authorizers
    assert [admin.authorizers.get_authorizer(each.id) for each in found] == found
    assert admin.authorizers.get_authorizer_summary().total == len(found)
    for each in found:
        admin.authorizers.remove_authorizer(each.id, expected=204)
    admin.authorizers.remove_authorizers_of_owner(owner=found[0].api_key_id, expected=204)


def status_lists(session: Session) -> None:
    """Create a status list, give out entries, replace the key."""
    lists = session.status_lists
    made = lists.create_status_list(body=m.CreateStatusList(name="badges"), expected=201)
    body = m.AllocateStatusEntries(count=3)
    given = lists.allocate_status_entries(made.id, body=body, expected=201)
    assert (given.uri, len(set(given.indexes))) == (made.uri, 3)
    assert [each.allocated for each in lists.list_status_lists().status_lists] == [3]
    assert lists.rotate_status_key().algorithm


def webhooks(session: Session) -> None:
    """Create, change, rotate the secret, switch, test, replay, list, delete."""
    hooks = session.webhooks
    body = m.CreateWebhook(
        url="https://hooks.example.com/", events=[m.CreateWebhookEventsItem("key.revoke")]
    )
    made = hooks.create_webhook(body=body, expected=201)
    assert made.secret.startswith("whsec_")
    changed = hooks.update_webhook(
        made.id, body=m.UpdateWebhook(events=[m.UpdateWebhookEventsType0Item("*")])
    )
    assert (changed.url, changed.events) == (made.url, ["*"])
    assert hooks.rotate_webhook_secret(made.id).secret != made.secret
    assert hooks.disable_webhook(made.id).status is m.WebhookStatus.DISABLED
    assert hooks.enable_webhook(made.id).disabled_reason is None
    assert hooks.replay_webhook(made.id, body=m.ReplayWebhook(from_index=0)).next_index == 0
    assert hooks.test_webhook(made.id, expected=202).id == made.id
    assert hooks.list_webhook_deliveries(made.id).cursor is None
    assert [each.id for each in hooks.list_webhooks().webhooks] == [made.id]
    assert hooks.get_webhook(made.id).deferred_events == 0
    hooks.delete_webhook(made.id, expected=204)


def signed_in(url: str, provider_id: str, name: str) -> Session:
    """A session of a person."""
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "audience": provider_id,
        "subject_token": json.loads(os.environ["TOKENS"])[name],
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
    }
    with urlopen(f"{url}/v1/token", urlencode(form).encode(), timeout=30) as answer:
        return Session(url, json.load(answer)["access_token"])


def two_people(session: Session, url: str, provider_id: str) -> None:
    """Protect an action, which one person then asks for, and another rejects or approves."""
    bob, carol = (signed_in(url, provider_id, name) for name in ("bob", "carol"))
    actions = m.UpdateProtectedActions(
        actions=[m.ProtectedAction.TENANT_REMOVE], unrevoke_threshold=None
    )
    assert session.identities.update_protected_actions(body=actions) == (
        session.identities.get_protected_actions()
    )
    ask = {"rescind_approval": "request", "rescind_approval_reason": "done"}
    nothing = m.UpdateProtectedActions(actions=[], unrevoke_threshold=None)
    approval = ""
    for decide in (carol.identities.reject_request, carol.identities.approve_request):
        asked = bob.identities.update_protected_actions(body=nothing, expected=202, **ask)
        (waiting,) = carol.identities.list_approvals(status=m.ApprovalStatus.PENDING).approvals
        assert waiting.id == asked.approval_id
        approval = waiting.id
        assert decide(waiting.id).requested_by_id == waiting.requested_by_id
    assert carol.identities.get_approval(approval).remaining == 1
    bob.identities.update_protected_actions(body=nothing, rescind_approval=approval)


def identities(session: Session, url: str) -> None:
    """Bind an identity provider, sign somebody in, list, disable, end, and delete the provider."""
    api = session.identities
    body = m.CreateIdentityProvider.from_dict(
        {
            "name": "SSO",
            "usage": "sign_in",
            "issuer": "https://sso.example.com",
            "client_id": "rescind",
            "jwks": json.loads(os.environ["JWKS"]),
            "role_mappings": [{"claims": {"groups": "security"}, "role": "admin"}],
            "token_exchange": True,
        }
    )
    made = api.create_identity_provider(body=body, expected=201)
    assert made.role_mappings[0].role == "admin"
    update = m.UpdateIdentityProvider(session_seconds=600)
    assert api.update_identity_provider(made.id, body=update).session_seconds == 600
    assert api.check_identity_provider(made.id).is_stored
    assert api.get_identity_provider(made.id).name == "SSO"
    assert api.list_identity_providers().total == 1
    signed_in(url, made.id, "alice")
    (person,) = api.list_people().people
    (begun,) = api.list_sessions().sessions
    assert begun.owner == api.get_person(person.id).id
    api.delete_session(begun.id, expected=204)
    ending = m.DisablePerson(made_keys=m.MadeKeys.END)
    assert api.disable_person(person.id, body=ending).status is m.PersonStatus.DISABLED
    assert api.enable_person(person.id).email == "alice@example.com"
    assert api.sign_out_person(person.id).role == "admin"
    two_people(session, url, made.id)
    api.delete_identity_provider(made.id, expected=204)
    role = m.PutRole(scopes=[m.Scope.REVOKER], warrant_prefixes=["svc_wrt_paris-"])
    assert api.put_role("paris", body=role) == api.get_role("paris")
    assert [each.name for each in api.list_roles().roles if not each.is_built_in] == ["paris"]
    api.delete_role("paris", expected=204)


def rest(session: Session, account_id: str) -> None:
    """Service accounts, settings and the audit log."""
    accounts = session.service_accounts
    assert accounts.disable_service_account(account_id).status is m.ServiceAccountStatus.DISABLED
    assert accounts.enable_service_account(account_id) == accounts.get_service_account(account_id)
    assert accounts.list_service_accounts().total == 2
    empty = accounts.create_service_account(body=m.CreateServiceAccount(name="b"), expected=201)
    accounts.delete_service_account(empty.id, expected=204)
    changed = session.tenant_settings.update_tenant_settings(
        body=m.UpdateTenantSettings(srl_ttl_seconds=7200)
    )
    assert session.tenant_settings.get_tenant_settings() == changed
    (entry,) = session.audit_log.list_audit_log(
        action=m.AuditAction.TENANT_UPDATE_SETTINGS
    ).audit_logs
    assert entry.resource_id == changed.tenant_id
    assert entry.id in session.audit_log.export_audit_log()
    sealed(session)


def sealed(session: Session) -> None:
    """The sealed log, as soon as it has an entry."""
    log = session.audit_log
    for _ in range(100):
        if log.list_audit_signers().keys:
            break
        time.sleep(0.1)
    assert log.get_audit_checkpoint().startswith(log.list_audit_signers().origin)
    oldest = log.list_audit_log(action=m.AuditAction.TENANT_CREATE).audit_logs[0]
    assert log.get_audit_entry_proof(oldest.id).index == 0
    assert len(log.rotate_audit_signer().keys) > 1


def main() -> None:
    """The whole session."""
    url, key = sys.argv[1], sys.stdin.read().strip()
    admin = Session(url, key)
    account = admin.service_accounts.create_service_account(
        body=m.CreateServiceAccount(name="billing", description="Pays"), expected=201
    )
    authorizer = Session(url, api_keys(admin, account.id))
    signing_keys(admin)
    revocations(admin, authorizer)
    lists(admin, authorizer)
    feed(admin, authorizer)
    trust(admin, authorizer)
    (record,) = admin.revocations.list_revocations().revocations
    assert admin.revocations.get_revocation(record.id).warrant_id == record.warrant_id
    fleet(admin, authorizer, record.id)
    assert authorizer.signing_keys.get_trust_bundle().tenant_id.startswith("svc_tnt_")
    admin.revocations.delete_revocation(record.id, expected=204)
    webhooks(admin)
    status_lists(admin)
    identities(admin, url)
    rest(admin, account.id)
    nobody = import_module("rescind_client.api.api_keys.list_api_keys")
    answer = nobody.sync_detailed(client=Client(base_url=url))
    assert answer.parsed.error.code is m.ErrorCode.UNAUTHORIZED
    json.dump(SEEN, sys.stdout)


if __name__ == "__main__":
    main()
