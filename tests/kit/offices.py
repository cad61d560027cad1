"""A tenant whose people approve what others ask for."""

from typing import Any, Final
from urllib.parse import quote

from shared.model.callers import Scope
from shared.model.identities.providers import IdentityProvider, providers
from shared.operations.identities import protected_acts
from tests.kit.api import Client, Tenant
from tests.kit.identities import bound, signed_in

_SESSION: Final = 43_200
ACTS: Final = "/v1/tenant/protected-actions"
BATCH: Final = "/v1/revocations/batch"
MANIFESTS: Final = "/v1/unrevoke-manifests"
WHY: Final = "Wrong list, 100 % ours: ticket ö-4711"
ASKING: Final = {"Rescind-Approval": "request", "Rescind-Approval-Reason": quote(WHY)}


class Office:
    """A tenant with Alice and Bob, who are administrators, and Carol, who revokes."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        settings = {"unrevoke_policy": "any"}
        assert tenant.admin.request("PATCH", "/v1/tenant/settings", json=settings).is_success
        rows = tenant.ports.store.query(providers(tenant.id))
        found = IdentityProvider.from_rows(rows)
        own = next((each for each in found if each.session_seconds == _SESSION), None)
        # Another provider would give other people, who cannot have the same e-mails.
        self.provider = own or bound(tenant.ports, tenant.operator, session_seconds=_SESSION)
        self.sign_in()

    def sign_in(self) -> None:
        """New sessions for all of them."""
        self.alice, self.bob = self.person("alice"), self.person("bob")
        self.carol = self.person("carol", Scope.REVOKER)

    def person(self, name: str, role: Scope = Scope.ADMIN, **said: Any) -> Client:
        item = self.tenant.ports.store.get(self.provider.address)
        provider = IdentityProvider.from_optional(item) or self.provider
        made = signed_in(self.tenant.ports, provider, role, sub=name, **said)
        return Client(self.tenant.admin.http, made.secret, made.session.owner)

    def protects(self, *actions: str, unrevoke_threshold: int | None = None) -> None:
        body = {"actions": actions, "unrevoke_threshold": unrevoke_threshold}
        answer = self.alice.request("PUT", ACTS, json=body)
        assert answer.status_code == 200, answer.text

    def protects_nothing(self) -> None:
        """As the operator, who needs no approval."""
        protected_acts.clear(self.tenant.ports, self.tenant.operator, reason="r")

    def approved(self, answer: Any, by: Client | None = None) -> dict[str, str]:
        """The header of a request whose approval this answer promises, once it is approved."""
        approval = asked(answer)["approval_id"]
        done = (by or self.bob).post(f"/v1/approvals/{approval}/approve")
        assert done.status_code == 200, done.text
        return {"Rescind-Approval": approval}

    def seen(self, approval: str) -> dict[str, Any]:
        return dict(self.alice.get(f"/v1/approvals/{approval}").json())

    def revoked(self, number: int, by: Client | None = None) -> list[str]:
        """Identifiers of so many revocations of Carol's, or of another's."""
        names = [self.tenant.ports.new_id("wrt") for _ in range(number)]
        body = {"action": "revoke", "warrant_ids": names, "reason": "stolen"}
        results = (by or self.carol).post(BATCH, json=body).json()["results"]
        return [each["revocation_id"] for each in results]

    def unrevoke(self, who: Client, ids: list[str], headers: Any = None, **more: Any) -> Any:
        body = {"action": "unrevoke", "revocation_ids": ids, "reason": "mistake", **more}
        return who.post(BATCH, json=body, headers=headers or {})

    def manifest(self, who: Client, ids: list[str]) -> str:
        """The path of the first part of a new manifest."""
        made = who.post(MANIFESTS, json={"revocation_ids": ids}).json()
        return f"{MANIFESTS}/{made['id']}/parts/1/apply"


def asked(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 202, answer.text
    return dict(answer.json())
