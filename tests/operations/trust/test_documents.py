"""Trust documents, from the records of a tenant to what a client follows (TRUST-16)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.authorizer.formats import following
from shared.authorizer.formats.documents import SignedDocument
from shared.authorizer.formats.following import TrustState
from shared.authorizer.formats.trust import Use
from shared.errors import TrustUnsigned
from shared.model.feed import LEAP
from shared.model.lists.signers import ListSigner
from shared.operations.audit import sealing
from shared.operations.audit import signers as audit_signers
from shared.operations.changes import list_signers
from shared.operations.fleet import native_list
from shared.operations.lists import in_force, publication, signers
from shared.operations.trust import documents, renewal, serving
from shared.operations.trust.renewal import TrustOutcome
from shared.ports import Ports
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock

pytestmark = pytest.mark.usefixtures("at_once")


class PinnedClient:
    """A client that has the pin of the first root, and follows what the service answers."""

    def __init__(self, ports: Ports, tenant: Tenant) -> None:
        self._ports, self._tenant = ports, tenant
        head = documents.head(ports, tenant.id)
        assert head is not None
        first = documents.read(ports, tenant.id, int(head.turns[0]))
        self.state = TrustState(tenant.id, first.document.roots.pin)

    def polls(self) -> SignedDocument:
        """Follow the documents, and judge the head of the feed by the newest."""
        caller, now = self._tenant.operator, self._ports.now()
        of = serving.newest(self._ports, caller)
        found = serving.since(self._ports, caller, of=of, after=self.state.version)
        self.state = following.follow(self.state, found, now)
        newest = in_force.feed_head(self._ports, self._tenant.id)
        assert newest is not None
        following.judge(newest.payload, newest.signature, self.state, now)
        assert self.state.held is not None
        assert newest.signed.trust == self.state.held.reference
        return self.state.held


def standby(ports: Ports, tenant: Tenant) -> ListSigner:
    found = signers.standby(ports, tenant.id)
    assert found is not None
    return found


def active(ports: Ports, tenant: Tenant) -> ListSigner:
    return in_force.signer(ports, tenant.id)


def without_root(ports: Ports) -> Ports:
    return replace(ports, root=None)


def keep(ports: Ports, tenant: Tenant) -> TrustOutcome:
    return renewal.keep(ports, tenant.id)


def test_the_first_document_names_who_signs(ports: Ports, tenant: Tenant) -> None:
    """TRUST-16, F673a: The first document names each signer of a tenant by its uses."""
    sealing.extend(ports, tenant.id)
    native = native_list.signer(ports, tenant.operator)
    assert keep(ports, tenant) is TrustOutcome.PUBLISHED
    held = PinnedClient(ports, tenant).polls().document
    (auditor,) = audit_signers.all_of(ports, tenant.id)
    of_lists = {active(ports, tenant).public_bytes, standby(ports, tenant).public_bytes}
    assert {*held.named(Use.LISTS)} == of_lists
    assert held.named(Use.NATIVE) == (native.public_bytes,)
    assert held.named(Use.LOG) == (auditor.key("o").public_key,)
    assert held.log is not None
    assert tenant.actions(ports)[-1] == "trust.publish"
    assert keep(ports, tenant) is TrustOutcome.KEPT


def test_each_day_another_one(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """TRUST-16: If the root is at hand, a document is replaced after a day, for 14 days."""
    keep(ports, tenant)
    client = PinnedClient(ports, tenant)
    first = client.polls().document
    clock.advance(hours=23)
    assert keep(ports, tenant) is TrustOutcome.KEPT
    clock.advance(hours=1)
    assert keep(ports, tenant) is TrustOutcome.PUBLISHED
    publication.publish_if_due(ports, tenant.id)
    held = client.polls().document
    assert (held.version, held.expires_at) == (2, ports.now() + timedelta(days=14))
    assert held.signers == first.signers


def test_no_signer_signs_before_a_document_names_it(ports: Ports, tenant: Tenant) -> None:
    """SIGNER-2, F674a: A pending signer becomes active once the document names it."""
    keep(ports, tenant)
    client = PinnedClient(ports, tenant)
    pending = list_signers.create(ports, tenant.operator).record
    # The root is at hand, so the document is made first.
    list_signers.activate(ports, tenant.operator, key_id=pending.id, force=True)
    assert pending.public_bytes in client.polls().document.named(Use.LISTS)
    assert active(ports, tenant).id == pending.id


def test_a_signer_waits_for_an_offline_root(ports: Ports, tenant: Tenant) -> None:
    """SIGNER-2, F674b: While the roots have not signed, a pending signer is not activated."""
    keep(ports, tenant)
    offline = without_root(ports)
    pending = list_signers.create(offline, tenant.operator).record
    with pytest.raises(TrustUnsigned):
        list_signers.activate(offline, tenant.operator, key_id=pending.id, force=True)
    assert keep(offline, tenant) is TrustOutcome.WAITS
    # A rotation does not wait: the document names the standby.
    named = standby(ports, tenant)
    assert list_signers.rotate(offline, tenant.operator).record.id == named.id
    assert active(ports, tenant).pending_id == pending.id
    PinnedClient(ports, tenant).polls()
    with pytest.raises(TrustUnsigned):
        list_signers.rotate(offline, tenant.operator)


def test_a_stolen_signer_is_replaced_at_once(ports: Ports, tenant: Tenant) -> None:
    """SIGNER-5, F675a: After a theft the standby signs at once; the next document drops the key."""
    keep(ports, tenant)
    client, stolen = PinnedClient(ports, tenant), active(ports, tenant)
    client.polls()
    list_signers.rotate(without_root(ports), tenant.operator, compromised=True)
    # Before any other document, its heads are accepted.
    assert stolen.public_bytes in client.polls().document.named(Use.LISTS)
    assert keep(ports, tenant) is TrustOutcome.PUBLISHED
    held = client.polls().document
    assert stolen.public_bytes not in held.named(Use.LISTS)
    assert {*held.named(Use.LISTS)} == {
        active(ports, tenant).public_bytes,
        standby(ports, tenant).public_bytes,
    }
    # The genuine feed goes on beyond what the thief may have signed.
    assert held.feed.sequence >= LEAP
