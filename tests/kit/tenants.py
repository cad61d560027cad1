"""A tenant at the level of operations, and what is true of it whatever happened."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from functions.authorizers import records as authorizer_model
from functions.webhooks import records as webhook_model
from shared.errors import InvalidApiKey
from shared.model import api_keys as api_key_model
from shared.model import revocations as model
from shared.model import revocations as signer_model
from shared.model import service_accounts
from shared.model import signing_keys as signing_key_model
from shared.model import warrants as warrant_model
from shared.model.audit import audit_log
from shared.model.callers import Caller, Scope
from shared.model.items import Address, Item, Partition, Table
from shared.model.lists import signers as srl_signers
from shared.model.lists.content import Payload
from shared.model.lists.verification import verify
from shared.model.records import integer
from shared.model.service_accounts import ServiceAccount
from shared.model.signing_keys import KeyStatus, SigningKey, SigningKeyType
from shared.model.warrants import WarrantRecord, WarrantState
from shared.operations.access import api_keys
from shared.operations.access import service_accounts as accounts
from shared.operations.access.api_key_creation import CreatedKey
from shared.operations.base import counters
from shared.operations.changes import key_revocation, revocations, signing_keys, srl, warrants
from shared.operations.changes.warrants import SignRequest
from shared.operations.lists import in_force, records
from shared.operations.lists.feed_writer import FeedWriter
from shared.operations.operator import onboarding
from shared.ports import Ports


@dataclass(frozen=True)
class Tenant:
    """A tenant and its operator."""

    id: str
    operator: Caller

    @classmethod
    def create(cls, ports: Ports, handle: str = "acme") -> "Tenant":
        settings, _ = onboarding.create_tenant(ports, handle=handle)
        operator = Caller.inside(settings.tenant_id, name="operator", handle=handle)
        return cls(settings.tenant_id, operator)

    @classmethod
    def another(cls, ports: Ports) -> "Tenant":
        """One with a handle that no other has."""
        return cls.create(ports, ports.new_id("t").replace("_", "-"))

    def revoke(self, ports: Ports, warrant_id: str, *, ends_at: datetime | None = None) -> str:
        record, _ = revocations.create(
            ports,
            self.operator,
            warrant_id=warrant_id,
            reason="stolen",
            warrant_expires_at=ends_at,
        )
        return record.id

    def unrevoke(self, ports: Ports, revocation_id: str) -> None:
        revocations.delete(ports, self.operator, revocation_id=revocation_id)

    def account(self, ports: Ports, name: str = "robot") -> ServiceAccount:
        return accounts.create(ports, self.operator, name=name)

    def api_key(
        self,
        ports: Ports,
        scope: Scope = Scope.ADMIN,
        *,
        name: str = "k",
        account: ServiceAccount | None = None,
        expires_at: datetime | None = None,
    ) -> CreatedKey:
        """A new key, of an account of its own if none is given."""
        return api_keys.create(
            ports,
            self.operator,
            name=name,
            scopes=(scope,),
            service_account_id=account.id if account else None,
            expires_at=expires_at,
        )

    def key(self, ports: Ports, parent: SigningKey | None = None) -> SigningKey:
        """A new root, or an issuer below `parent`."""
        type_, parent_id = (
            (SigningKeyType.ISSUER, parent.id) if parent else (SigningKeyType.ROOT, None)
        )
        return signing_keys.create(ports, self.operator, type_=type_, name="k", parent_id=parent_id)

    def rotate(self, ports: Ports, key: SigningKey) -> SigningKey:
        return signing_keys.rotate(ports, self.operator, key_id=key.id)

    def suspend(self, ports: Ports, key: SigningKey) -> SigningKey:
        return signing_keys.suspend(ports, self.operator, key_id=key.id)

    def versions(self, ports: Ports, key: SigningKey) -> list[SigningKey]:
        """Those of a key, the newest first."""
        return signing_keys.versions(ports, self.operator, key_id=key.id)

    def sign(
        self,
        ports: Ports,
        key: SigningKey,
        warrant_id: str | None = None,
        *,
        ends_at: datetime | None = None,
    ) -> str:
        order = SignRequest(b"grant", warrant_id=warrant_id, expires_at=ends_at)
        signed = warrants.sign(ports, self.operator, key_id=key.id, order=order)
        return signed.warrant.warrant_id

    def revoke_key(self, ports: Ports, key: SigningKey, *, cascade: bool = False) -> SigningKey:
        return key_revocation.revoke(
            ports, self.operator, key_id=key.id, reason="lost", cascade=cascade
        ).key

    def status(self, ports: Ports, key: SigningKey) -> KeyStatus:
        return signing_keys.get(ports, self.operator, key_id=key.id).status

    def is_revoked(self, ports: Ports, warrant_id: str) -> bool:
        return revocations.check(ports, self.operator, warrant_id=warrant_id).revoked

    def feed_sequence(self, ports: Ports) -> int:
        """Return the number of the newest entry in the feed."""
        head = in_force.read_feed_head(ports, self.id)
        assert head is not None
        return head.sequence

    def regenerate(self, ports: Ports) -> Payload:
        srl.regenerate(ports, self.operator)
        return self.published(ports)

    def published(self, ports: Ports) -> Payload:
        """The list in force, as a verifier accepts it, under the key that its head names."""
        head = in_force.read_srl_head(ports, self.id)
        item = ports.store.get(srl_signers.signers_partition(self.id).address(head.key_id))
        assert item is not None
        signer = srl_signers.SrlSigner.from_item(item)
        body = in_force.read_srl_body(ports, head)
        return verify(body, public_key=signer.public_bytes, now=head.issued_at)

    def actions(self, ports: Ports) -> list[str]:
        """The actions in the audit log of the present month, in order."""
        walks = (ports.store.query(each) for each in audit_log.month(self.id, ports.now()))
        entries = sorted(chain.from_iterable(walks), key=lambda entry: entry.sk)
        return [str(entry.item["action"]) for entry in entries]

    def check_totals(self, ports: Ports, *, is_torn: bool = False) -> None:
        """F31: every counter equals a recount, and what belongs together stands or falls.

        `is_torn` is whether it may lack authorizers whose names it has, which are taken anew then.
        """
        self._check_revocations(ports)
        self._check_api_keys(ports)
        self._check_service_accounts(ports)
        self._check_signing_keys(ports)
        self._check_authorizers(ports, is_torn=is_torn)
        self._check_webhooks(ports)

    def _check_webhooks(self, ports: Ports) -> None:
        stored = list(ports.store.query(webhook_model.webhooks(self.id)))
        counted = ports.store.get(webhook_model.count_address(self.id)) or {"count": 0}
        assert len(stored) == counted["count"]

    def _check_authorizers(self, ports: Ports, *, is_torn: bool) -> None:
        """The authorizers are counted, and each name leads to one of them."""
        stored = {row.sk for row in ports.store.query(authorizer_model.authorizers(self.id))}
        counted = ports.store.get(authorizer_model.registered_address(self.id)) or {"count": 0}
        assert len(stored) == counted["count"]
        named = Partition(Table.REVOCATIONS, f"{self.id}#authorizer-names")
        assert is_torn or {row.item["id"] for row in ports.store.query(named)} <= stored

    def _check_revocations(self, ports: Ports) -> None:
        warrants: dict[str, Item] = {}
        for shard in model.shards(self.id):
            found = {e.sk: e.item for e in ports.store.query(shard, after="svc_wrt_")}
            moved = ports.store.query(model.ended_partition(shard))
            found |= {warrant_model.of_by_end(e.sk)[0]: e.item for e in moved}
            assert len(found) == counters.of_shard(ports, shard)["count"]
            warrants |= found
        walks = [ports.store.query(partition) for partition in model.records(self.id)]
        records = {e.sk: e.item for e in chain.from_iterable(walks)}
        assert {i["warrant_id"] for i in records.values()} == set(warrants)
        for record_id, record in records.items():
            address = warrant_model.warrant_address(self.id, str(record["warrant_id"]))
            assert WarrantState.of(ports.store.get(address)).revocation_id == record_id

    def _check_api_keys(self, ports: Ports) -> None:
        """Each key has its usage, and its credential if it is active; if not, at most a note."""
        keys = self._api_keys(ports)
        counted = ports.store.get(api_key_model.count_address(self.id))
        assert counted is not None
        assert len(keys) == counted["count"]
        assert {e.sk for e in ports.store.query(api_key_model.usage(self.id))} == {
            key.id for key in keys
        }
        for key in keys:
            credential = ports.store.get(api_key_model.credential_address(key.digest))
            assert (credential is not None) == (key.status is api_key_model.ApiKeyStatus.ACTIVE)
            note = ports.store.get(api_key_model.revocation_note_address(key.digest))
            assert credential is None or note is None

    def _check_service_accounts(self, ports: Ports) -> None:
        """Each account has its name, the keys that name it, and its say over their credentials."""
        entries = ports.store.query(service_accounts.accounts(self.id))
        accounts = [service_accounts.ServiceAccount.from_item(entry.item) for entry in entries]
        counted = ports.store.get(service_accounts.count_address(self.id))
        assert len(accounts) == (integer(counted, "count") if counted else 0)
        own = Partition(Table.KEYS, self.id)
        prefix = service_accounts.name_address(self.id, "").sk
        names = ports.store.query(own, after=prefix, before=prefix + "~")
        taken = {(e.sk.removeprefix(prefix), e.item["id"]) for e in names}
        # The names of deleted accounts stay taken.
        assert taken >= {(account.name, account.id) for account in accounts}
        assert len({account.name for account in accounts}) == len(accounts)
        keys = self._api_keys(ports)
        named = {key.service_account_id for key in keys} - {None}
        assert named <= {account.id for account in accounts}
        for account in accounts:
            self._check_owned(
                ports, account, [k for k in keys if k.service_account_id == account.id]
            )

    def _check_owned(
        self,
        ports: Ports,
        account: service_accounts.ServiceAccount,
        keys: list[api_key_model.ApiKey],
    ) -> None:
        owned = ports.store.query(api_key_model.owned_by(self.id, account.id))
        assert {entry.sk for entry in owned} == {key.id for key in keys}
        assert account.api_key_count == len(keys)
        addresses = [api_key_model.credential_address(key.digest) for key in keys]
        disabled = account.status is service_accounts.AccountStatus.DISABLED
        for item in ports.store.get_many(addresses).values():
            assert item["disabled"] is disabled

    def _check_signing_keys(self, ports: Ports) -> None:
        entries = ports.store.query(signing_key_model.keys(self.id))
        keys = [SigningKey.from_item(entry.item) for entry in entries]
        recount = Counter(signing_key_model.count_name(key.type, key.status) for key in keys)
        counts = dict(ports.store.get(signing_key_model.counts_address(self.id)) or {})
        assert {name: count for name, count in counts.items() if count} == recount
        revoked = [key.signer for key in keys if key.status is KeyStatus.REVOKED]
        assert records.read_revoked_signers(ports, self.id) == tuple(sorted(map(str, revoked)))
        held = signer_model.RevokedSignerCount.of(
            ports.store.get(signer_model.marker_count_address(self.id))
        )
        assert replace(held, version=1) == signer_model.RevokedSignerCount.counting(revoked)
        for key in keys:
            if key.current_id is None:
                self._check_versions(ports, key, keys)
                self._check_signed(ports, key)

    def _check_versions(self, ports: Ports, key: SigningKey, keys: list[SigningKey]) -> None:
        """Every version but the present one is a record; none of them has a seed."""
        old = {each.key_version: each for each in keys if each.current_id == key.id}
        assert sorted(old) == list(range(1, key.key_version))
        assert all(each.sealed_seed is None for each in old.values())
        pointers = ports.store.query(signing_key_model.versions(self.id, key.id))
        assert {int(e.sk): e.item["id"] for e in pointers} == {n: k.id for n, k in old.items()}

    def _check_signed(self, ports: Ports, key: SigningKey) -> None:
        """Each warrant is in its key's list and under its own identifier, and counted twice."""
        entries = ports.store.query(warrant_model.signed_by(self.id, key.id))
        signed = [WarrantRecord.from_item(entry.item) for entry in entries]
        for warrant in signed:
            item = ports.store.get(warrant_model.warrant_address(self.id, warrant.warrant_id))
            standing = WarrantState.of(item)
            assert standing.key_id == warrant.key_id
            assert standing.key_version == warrant.key_version
            assert standing.ends_at == warrant.ends_at
        recount = Counter(warrant_model.version_count(each.key_version) for each in signed)
        if signed:
            recount["count"] = len(signed)
        assert counters.of_signed(ports, self.id, key.id) == recount

    def _api_keys(self, ports: Ports) -> list[api_key_model.ApiKey]:
        entries = ports.store.query(api_key_model.records(self.id))
        return [api_key_model.ApiKey.from_item(entry.item) for entry in entries]


def break_off(ports: Ports, tenant_id: str, *, above: int | None = None) -> None:
    """Publish a break of the feed, as a list from all records does; `above` as after a restore."""
    read = in_force.read_facts(ports, tenant_id)
    FeedWriter(ports, read).append_discontinuity(restored_sequence=above)


def opens(ports: Ports, created: CreatedKey) -> bool:
    """Whether the secret of a key lets its holder in."""
    try:
        api_keys.authenticate(ports, created.secret)
    except InvalidApiKey:
        return False
    return True


def item_at(ports: Ports, address: Address) -> Item:
    """What is stored there, which there must be."""
    item = ports.store.get(address)
    assert item is not None, address
    return item
