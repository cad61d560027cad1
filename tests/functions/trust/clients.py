"""A client of trust documents that has the pin of the first root, and shorthands."""

from dataclasses import replace

from functions.trust import documents, published_keys, publishing
from functions.trust.publishing import TrustOutcome
from shared.authorizer.formats import following
from shared.authorizer.formats.documents import SignedDocument
from shared.authorizer.formats.following import TrustState
from shared.authorizer.formats.signing_keys import PublishedKeys
from shared.model.lists.signers import SrlSigner
from shared.operations.lists import in_force, signers
from shared.ports import Ports
from tests.kit.tenants import Tenant


class PinnedClient:
    """A client that has the pin of the first root, and follows what the service answers."""

    def __init__(self, ports: Ports, tenant: Tenant) -> None:
        self._ports, self._tenant = ports, tenant
        head = documents.read_head(ports, tenant.id)
        assert head is not None
        first = documents.read_document(ports, tenant.id, int(head.turns[0]))
        self.state = TrustState(tenant.id, first.document.roots.pin)

    def polls(self) -> SignedDocument:
        """Follow the documents; judge the head of the feed and its keys by the newest."""
        caller, now = self._tenant.operator, self._ports.now()
        of = documents.newest(self._ports, caller)
        found = documents.read_since(self._ports, caller, of=of, after=self.state.version)
        self.state = following.follow(self.state, found, now)
        newest = in_force.read_feed_head(self._ports, self._tenant.id)
        assert newest is not None
        self.state.judge(newest.payload, newest.signature, now)
        held, named = self.state.held, newest.signed_head
        assert held is not None
        assert named.trust == held.reference
        assert named.keys is not None
        _, blob = published_keys.read_key_blob(self._ports, caller, sha256=named.keys.sha256)
        self.keys = opened = PublishedKeys.from_blob(blob, named.keys, tenant_id=self._tenant.id)
        opened.check(held.document.signing_keys)
        return held


def standby(ports: Ports, tenant: Tenant) -> SrlSigner:
    found = signers.read_standby(ports, tenant.id)
    assert found is not None
    return found


def active(ports: Ports, tenant: Tenant) -> SrlSigner:
    return in_force.read_active_signer(ports, tenant.id)


def without_root(ports: Ports) -> Ports:
    return replace(ports, root=None)


def keep(ports: Ports, tenant: Tenant) -> TrustOutcome:
    return publishing.keep(ports, tenant.id)
