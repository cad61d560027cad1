"""A tenant at the level of operations, and what is true of it whatever happened."""

from dataclasses import dataclass

from shared.model import api_keys as api_key_model
from shared.model import audit_log, srl_keys
from shared.model import revocations as model
from shared.model.callers import Caller
from shared.model.items import Item
from shared.model.records import integer
from shared.model.srl import Payload
from shared.model.srl_verification import verify
from shared.operations import onboarding, publication, revocations, srl
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

    def revoke(self, ports: Ports, warrant_id: str) -> str:
        record, _ = revocations.create(ports, self.operator, warrant_id=warrant_id, reason="stolen")
        return record.id

    def regenerate(self, ports: Ports) -> Payload:
        srl.regenerate(ports, self.operator)
        return self.published(ports)

    def published(self, ports: Ports) -> Payload:
        """The list in force, verified as a stranger would, under the key that its head names."""
        head = publication.current(ports, self.id)
        item = ports.store.get(srl_keys.signers(self.id).key(head.key_id))
        assert item is not None
        signer = srl_keys.SrlKey.from_item(item)
        body = publication.read(ports, head)
        return verify(body, public_key=signer.public_bytes, now=head.issued_at)

    def actions(self, ports: Ports) -> list[str]:
        """The actions in the audit log of the present month, in order."""
        entries = ports.store.query(audit_log.months(self.id, ports.now()))
        return [str(entry.item["action"]) for entry in entries]

    def check_totals(self, ports: Ports) -> None:
        """F31: every counter equals a recount, and both sides of a revocation stand or fall."""
        warrants: dict[str, Item] = {}
        for shard in model.shards(self.id):
            found = {e.sk: e.item for e in ports.store.query(shard, after="svc_wrt_")}
            counter = ports.store.get(model.counter_key(shard))
            assert len(found) == (integer(counter, "count") if counter else 0)
            warrants |= found
        records = {e.sk: e.item for e in ports.store.query(model.records(self.id))}
        assert {i["revocation_id"] for i in warrants.values()} == set(records)
        assert {i["warrant_id"] for i in records.values()} == set(warrants)
        keys = list(ports.store.query(api_key_model.records(self.id)))
        counted = ports.store.get(api_key_model.count_key(self.id))
        assert counted is not None
        assert len(keys) == counted["count"]
