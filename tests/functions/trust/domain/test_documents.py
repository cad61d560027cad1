"""Trust documents, from the records of a tenant to what a client follows (TRUST-16)."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from functions.stock_authorizers import operations as native_list
from functions.transparency_log import operations as sealed_log
from functions.transparency_log import sealing
from functions.transparency_log import signers as audit_signers
from functions.trust import documents, published_keys
from functions.trust import records as trust_model
from functions.trust.publishing import TrustOutcome
from shared.adapters.local.file_sealer import FileSealer
from shared.authorizer.formats.trust import KeyUse
from shared.errors import DataCorrupt, TrustUnsigned
from shared.model import seeds
from shared.model.feed import LEAP
from shared.model.lists.schedule import trust_mark_address
from shared.model.lists.signers import SrlSignerStatus
from shared.model.signing_keys import SigningKey, SigningKeyType, keys
from shared.operations.base import tenants
from shared.operations.changes import key_revocation, list_signers, signing_keys
from shared.operations.lists import in_force, marks, publication, storage, unpublished
from shared.operations.lists.storage import SeedCache
from shared.ports import Ports
from shared.ports.outside import RootSigner
from shared.ports.store import Delete, Expect, Put
from tests.functions.trust.clients import PinnedClient, active, keep, standby, without_root
from tests.kit.feeds import publish_feed
from tests.kit.roots import SeedRoot
from tests.kit.tenants import Tenant, item_at
from tests.kit.worlds import Clock
from tests.operations.signers import stored_signers

pytestmark = pytest.mark.usefixtures("at_once")


def test_the_first_document_names_who_signs(ports: Ports, tenant: Tenant) -> None:
    """TRUST-16, F673a: The first document names each signer of a tenant by its uses."""
    sealing.extend(ports, tenant.id)
    native = native_list.signer(ports, tenant.operator)
    assert keep(ports, tenant) is TrustOutcome.PUBLISHED
    held = PinnedClient(ports, tenant).polls().document
    (auditor,) = audit_signers.all_of(ports, tenant.id)
    of_lists = {active(ports, tenant).public_bytes, standby(ports, tenant).public_bytes}
    assert {*held.keys_for_use(KeyUse.LISTS)} == of_lists
    assert held.keys_for_use(KeyUse.NATIVE) == (native.public_bytes,)
    assert held.keys_for_use(KeyUse.LOG) == (auditor.key("o").public_key,)
    assert held.log is not None
    assert tenant.actions(ports)[-1] == "trust.publish"
    assert keep(ports, tenant) is TrustOutcome.KEPT


def test_a_new_tenant_wakes_the_one_that_signs(ports: Ports) -> None:
    """TRUST-16, F673b: A tenant that a process without the root creates has the mark of trust."""
    elsewhere = Tenant.another(without_root(ports))
    assert trust_mark_address(elsewhere.id) in marks.read_tenant_marks(ports, elsewhere.id)


def test_a_version_is_published_once(ports: Ports, tenant: Tenant) -> None:
    """TRUST-9, F905a: While a rotation is in flight, clients accept the keys as they were before.

    Its items become visible one by one, the record of the version that is replaced perhaps first.
    """
    key = tenant.key(ports)
    tenant.rotate(ports, key)
    rotated = item_at(ports, key.address)
    ports.store.write(Put(key.address, key.to_item(), Expect.ANYTHING))
    keep(ports, tenant)
    client = PinnedClient(ports, tenant)
    client.polls()
    assert [each.name for each in client.keys.keys] == [f"{key.id}#1"]
    ports.store.write(Put(key.address, rotated, Expect.ANYTHING))
    published_keys.publish_key_reference(ports, SeedCache(ports), tenant.id)
    client.polls()
    assert [each.name for each in client.keys.keys] == [f"{key.id}#1", f"{key.id}#2"]


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
    assert pending.public_bytes in client.polls().document.keys_for_use(KeyUse.LISTS)
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
    assert stolen.public_bytes in client.polls().document.keys_for_use(KeyUse.LISTS)
    assert keep(ports, tenant) is TrustOutcome.PUBLISHED
    held = client.polls().document
    assert stolen.public_bytes not in held.keys_for_use(KeyUse.LISTS)
    assert {*held.keys_for_use(KeyUse.LISTS)} == {
        active(ports, tenant).public_bytes,
        standby(ports, tenant).public_bytes,
    }
    # The genuine feed goes on beyond what the thief may have signed.
    assert held.feed.sequence >= LEAP


def test_a_revoked_key_waits_in_the_feed_until_its_head_says_so(
    ports: Ports, tenant: Tenant
) -> None:
    """TRUST-9, FEED-12, F902b: The entry after a key was revoked comes with the keys of now."""
    root = signing_keys.create(ports, tenant.operator, type_=SigningKeyType.ROOT, name="stolen")
    keep(ports, tenant)
    client = PinnedClient(ports, tenant)
    client.polls()
    key_revocation.revoke(ports, tenant.operator, key_id=root.id, reason="stolen")
    # Nothing that it signed is known, so no entry is written, and nobody looks at the documents.
    publish_feed(ports, tenant.id)
    client.polls()
    (published,) = client.keys.keys
    assert published.is_revoked
    assert unpublished.read_backlog(ports, tenant.id).oldest_at is None


def test_a_list_names_a_revoked_key(ports: Ports, tenant: Tenant) -> None:
    """TRUST-9, F902d: A list that is published first names the keys, and leaves no mark."""
    root = signing_keys.create(ports, tenant.operator, type_=SigningKeyType.ROOT, name="stolen")
    keep(ports, tenant)
    key_revocation.revoke(ports, tenant.operator, key_id=root.id, reason="stolen")
    tenant.regenerate(ports)
    client = PinnedClient(ports, tenant)
    client.polls()
    (published,) = client.keys.keys
    assert published.is_revoked
    assert unpublished.read_backlog(ports, tenant.id).oldest_at is None


def test_keys_that_cannot_be_published_make_clients_stale(ports: Ports, tenant: Tenant) -> None:
    """FEED-12, F902c: What was revoked is published, and the feed grows old until the keys are."""
    root = signing_keys.create(ports, tenant.operator, type_=SigningKeyType.ROOT, name="stolen")
    keep(ports, tenant)
    head = documents.read_head(ports, tenant.id)
    assert head is not None
    key_revocation.revoke(ports, tenant.operator, key_id=root.id, reason="stolen")
    tenant.revoke(ports, "svc_wrt_a")
    damaged = replace(head, keys_sha256=b"7" * 32)
    ports.store.write(Put(trust_model.head_address(tenant.id), damaged.to_item(), Expect.PRESENT))
    published = publication.publish_feed(ports, tenant.id)
    assert published is not None
    assert published.entries == 1
    with pytest.raises(DataCorrupt):
        publication.name_keys(ports, tenant.id, published.unnamed)
    assert unpublished.read_backlog(ports, tenant.id).oldest_at is not None


def test_a_feed_without_names_gets_them(ports: Ports, tenant: Tenant) -> None:
    """TRUST-9, F683a: A feed whose head names neither document nor keys names them again."""
    keep(ports, tenant)
    newest = in_force.read_feed_head(ports, tenant.id)
    assert newest is not None
    settings = tenants.settings(ports, tenant.id)
    signer = active(ports, tenant)
    unnamed = replace(newest.signed_head, trust=None, keys=None)
    ports.store.write(
        *storage.reference_changes(SeedCache(ports), newest, settings, signer, unnamed)
    )
    assert published_keys.publish_key_reference(ports, SeedCache(ports), tenant.id)
    PinnedClient(ports, tenant).polls()
    assert not published_keys.publish_key_reference(ports, SeedCache(ports), tenant.id)


def test_an_entry_leaves_the_names(ports: Ports, tenant: Tenant) -> None:
    """TRUST-9: The head of a feed with a new entry names the same document and keys as before."""
    keep(ports, tenant)
    before = in_force.read_feed_head(ports, tenant.id)
    tenant.revoke(ports, "svc_wrt_a")
    assert publication.publish_feed(ports, tenant.id) is not None
    after = in_force.read_feed_head(ports, tenant.id)
    assert before is not None
    assert after is not None
    assert before.signed_head.trust is not None
    assert after.sequence > before.sequence
    assert after.signed_head.trust == before.signed_head.trust
    assert after.signed_head.keys == before.signed_head.keys


def test_more_signers_than_a_document_has(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """TRUST-6, F684a: Of more than 256 signers, those that sign are named, and others that fit."""
    until = clock() + timedelta(hours=1)
    retired = [
        replace(each, public_key=seeds.new()[1])
        for each in stored_signers(
            ports, tenant.id, 300, SrlSignerStatus.RETIRED, listed_until=until
        )
    ]
    for each in retired:
        ports.store.write(Put(each.address, each.to_item(), Expect.PRESENT))
    sealing.extend(ports, tenant.id)
    keep(ports, tenant)
    held = PinnedClient(ports, tenant).polls().document
    assert len(held.signers) == 256
    needed = {active(ports, tenant).public_bytes, standby(ports, tenant).public_bytes}
    assert needed <= {*held.keys_for_use(KeyUse.LISTS)}
    assert held.keys_for_use(KeyUse.LOG)
    # The newest of those that have ceased to sign.
    assert retired[-1].public_bytes in held.keys_for_use(KeyUse.LISTS)
    assert retired[0].public_bytes not in held.keys_for_use(KeyUse.LISTS)
    clock.advance(days=2)
    tenant.regenerate(ports)
    keep(ports, tenant)
    assert {*PinnedClient(ports, tenant).polls().document.keys_for_use(KeyUse.LISTS)} == needed


class Broken:
    """A root whose signatures are of something else."""

    def __init__(self, root: RootSigner) -> None:
        self._root, self.public_key = root, root.public_key

    def sign(self, data: bytes) -> bytes:
        return self._root.sign(data + b".")


def test_nothing_is_published_that_clients_refuse(ports: Ports, tenant: Tenant) -> None:
    """TRUST-16, F685a: A document that a client would refuse is neither stored nor published."""
    keep(ports, tenant)
    tenant.key(ports)
    assert ports.root is not None
    with pytest.raises(DataCorrupt, match="clients would reject"):
        keep(replace(ports, root=Broken(ports.root)), tenant)
    assert documents.highest(ports, tenant.id) == 1
    PinnedClient(ports, tenant).polls()


def test_a_root_that_is_none_of_the_document(ports: Ports, tenant: Tenant) -> None:
    """TRUST-16: A document of other roots waits for these, whatever root is at hand."""
    keep(ports, tenant)
    tenant.key(ports)
    assert keep(replace(ports, root=SeedRoot(9)), tenant) is TrustOutcome.WAITS
    assert keep(ports, tenant) is TrustOutcome.PUBLISHED


def test_an_audit_signer_that_is_replaced(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """TRUST-16: The document names the audit signers that sign, and not those that have ceased."""
    sealing.extend(ports, tenant.id)
    keep(ports, tenant)
    sealed_log.rotate(ports, tenant.operator)
    assert keep(ports, tenant) is TrustOutcome.PUBLISHED
    assert len(PinnedClient(ports, tenant).polls().document.keys_for_use(KeyUse.LOG)) == 2
    clock.advance(days=4000)
    tenant.regenerate(ports)
    keep(ports, tenant)
    assert len(PinnedClient(ports, tenant).polls().document.keys_for_use(KeyUse.LOG)) == 1


def test_a_signer_that_was_revoked_is_dropped(ports: Ports, tenant: Tenant) -> None:
    """SIGNER-7, F675b: A signer that is revoked without a successor is in no further document."""
    pending = list_signers.create(ports, tenant.operator).record
    keep(ports, tenant)
    client = PinnedClient(ports, tenant)
    assert pending.public_bytes in client.polls().document.keys_for_use(KeyUse.LISTS)
    list_signers.revoke(ports, tenant.operator, key_id=pending.id)
    assert keep(ports, tenant) is TrustOutcome.PUBLISHED
    assert pending.public_bytes not in client.polls().document.keys_for_use(KeyUse.LISTS)


@pytest.mark.parametrize("ends", [True, False], ids=["shown soon", "not shown"])
@pytest.mark.parametrize("shown", ["the version before", "the next version"])
def test_a_rotation_that_is_visible_in_part(
    ports: Ports, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, shown: str, ends: bool
) -> None:
    """F921a, TRUST-9: The feed names no version twice, and both if they are visible soon."""
    key = tenant.key(ports)
    before = key.to_item()
    rotated = signing_keys.rotate(ports, tenant.operator, key_id=key.id)
    rows = ports.store.query(keys(tenant.id))
    (old,) = [each for each in map(SigningKey.from_item, (r.item for r in rows)) if each.current_id]
    late, hidden = (rotated, before) if shown == "the version before" else (old, None)
    way = Delete(late.address, Expect.ANYTHING)
    ports.store.write(Put(late.address, hidden, Expect.ANYTHING) if hidden else way)

    def wait() -> None:
        if ends:
            ports.store.write(Put(late.address, late.to_item(), Expect.ANYTHING))

    monkeypatch.setattr(published_keys, "wait_for_writes", wait)
    keep(ports, tenant)
    client = PinnedClient(ports, tenant)
    client.polls()
    assert {each.version for each in client.keys.keys} >= ({1, 2} if ends else set())


def test_no_document_is_stored_that_no_head_can_name(
    ports: Ports, tenant: Tenant, clock: Clock, tmp_path: Path
) -> None:
    """F1800a: While the seed of the list signer is lost, no document is stored.

    The head of the feed could not name it, so each look would leave one more for good.
    """
    keep(ports, tenant)
    clock.advance(days=1)
    lost = replace(ports, sealer=FileSealer.create(tmp_path / "another.key"))
    for _ in range(2):
        with pytest.raises(DataCorrupt, match="seed"):
            keep(lost, tenant)
    assert documents.highest(ports, tenant.id) == 1
    assert keep(ports, tenant) is TrustOutcome.PUBLISHED
