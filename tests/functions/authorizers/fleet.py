"""Authorizers as they are stored, and authorizers with keys of their own."""

from dataclasses import dataclass, replace
from typing import Any

from functions.authorizers.records import Authorizer, authorizers
from shared.authorizer.formats.proofs import SignedRegistration, SignedReport
from shared.model.feed import FeedHead
from shared.operations.changes import feed as feed_api
from tests.authorizer.feeds import public, signer
from tests.kit import gates
from tests.kit.api import Client, Tenant

REGISTER = "/v1/authorizers/register"
STOCK = "/compat/tenuo/v1/authorizers"


def stored(tenant: Tenant, authorizer_id: str) -> Authorizer:
    """The authorizer as it is stored."""
    item = tenant.ports.store.get(authorizers(tenant.id).address(authorizer_id))
    assert item is not None
    return Authorizer.from_item(item)


def described(client: Client, name: str = "edge-1", **fields: Any) -> dict[str, Any]:
    """The body of a registration."""
    assert client.http.ports
    return gates.registration(client.tenant_id, name, client.http.ports.now(), **fields)


def register(client: Client, name: str = "edge-1", **fields: Any) -> str:
    """Register an authorizer, and return its identifier."""
    answer = client.post(REGISTER, json=described(client, name, **fields))
    assert answer.status_code in {200, 201}, answer.text
    return str(answer.json()["id"])


def stock(client: Client, name: str = "stock", **fields: Any) -> str:
    """Register a stock authorizer, and return its identifier."""
    answer = client.post(f"{STOCK}/register", json={"name": name} | fields)
    assert answer.status_code in {200, 201}, answer.text
    return str(answer.json()["id"])


def reported(client: Client, authorizer_id: str, **changes: Any) -> dict[str, str]:
    """The body of a report."""
    assert client.http.ports
    return gates.report(client.http.ports, client.tenant_id, authorizer_id, **changes)


def beat(client: Client, authorizer_id: str, **changes: Any) -> Any:
    """The answer to a report."""
    body = reported(client, authorizer_id, **changes)
    return client.post(f"/v1/authorizers/{authorizer_id}/heartbeat", json=body)


def listed(tenant: Tenant) -> FeedHead:
    """A new list; the feed has it as its base."""
    tenant.admin.post("/v1/revocations/srl/regenerate")
    return feed_api.news(tenant.ports, tenant.operator).head


@dataclass
class Gate:
    """An authorizer that signs its reports with the key of a number, through an API key."""

    tenant: Tenant
    client: Client
    name: str = "gate"
    key: int = 11
    id: str = ""

    @property
    def public_key(self) -> bytes:
        return public(signer(self.key))

    def statement(self, **changes: Any) -> SignedRegistration:
        now = self.tenant.ports.now()
        made = SignedRegistration(self.tenant.id, self.name, self.public_key, now)
        return replace(made, **changes)

    def proof(self, **changes: Any) -> dict[str, str]:
        """The proof of a registration."""
        return gates.prove(self.statement(**changes), signer(self.key))

    def register(self, **fields: Any) -> Any:
        """The answer to a registration with a proof, or with other fields."""
        body = {"name": self.name, "proof": self.proof()} | fields
        return self.client.post(REGISTER, json=body)

    def register_stock(self, **fields: Any) -> Any:
        """The answer to a registration as a stock authorizer."""
        return self.client.post(f"{STOCK}/register", json={"name": self.name} | fields)

    def beat_stock(self, **fields: Any) -> Any:
        """The answer to a heartbeat as of a stock authorizer."""
        return self.client.post(f"{STOCK}/{self.id}/heartbeat", json=fields)

    def begin(self) -> "Gate":
        """Register."""
        answer = self.register()
        assert answer.status_code in {200, 201}, answer.text
        self.id = answer.json()["id"]
        return self

    def signed(self, **changes: Any) -> dict[str, str]:
        """The signed fields of a report, by default of nothing that is held."""
        now = self.tenant.ports.now()
        made = SignedReport(
            tenant_id=self.tenant.id,
            authorizer_id=self.id,
            number=int(now.timestamp() * 1000),
            trust=0,
            sequence=None,
            chain=b"",
            verified_at=now,
            max_staleness=30,
            fail_open=False,
        )
        return gates.sign(replace(made, **changes), signer(self.key))

    def beat(self, fields: Any = None, *, of: str = "", **changes: Any) -> Any:
        """The answer to a signed report, or to other fields, sent for this authorizer or `of`."""
        path = f"/v1/authorizers/{of or self.id}/heartbeat"
        return self.client.post(path, json=fields or self.signed(**changes))
