"""After a theft: list signer, seeds and feed are sound again, and nothing that was said is lost."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from functions.trust import documents, publishing
from shared.adapters.local.file_sealer import FileSealer
from shared.authorizer.answers import FeedResponse
from shared.authorizer.formats.documents import NotTrusted
from shared.authorizer.formats.following import TrustState, follow
from shared.authorizer.formats.trust import RootSet
from shared.authorizer.policy import BaseRequired, ResponseRejectedError
from shared.authorizer.state import advance
from shared.errors import DataCorrupt
from shared.model import feed as model
from shared.model.lists.signers import SrlSigner
from shared.operations.changes import feed as feed_api
from shared.operations.changes import list_signers
from shared.operations.lists import in_force, publication, storage
from shared.operations.operator import doctor
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from tests.kit.faults import Script, meeting, scripted
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock, close, embedded
from tests.operations.conftest import make_few
from tests.operations.followers import Follower, current
from tests.operations.restores import Deployment

pytestmark = pytest.mark.usefixtures("few_partitions", "at_once")

_BEFORE, _BACK, _DURING = NAMES = ["svc_wrt_before", "svc_wrt_back", "svc_wrt_during"]


def _tenant(ports: Ports) -> tuple[Tenant, Follower, str]:
    """A tenant with two revocations, a client, and the record of the second."""
    tenant = Tenant.create(ports)
    tenant.revoke(ports, _BEFORE)
    record = tenant.revoke(ports, _BACK)
    assert publication.publish_feed(ports, tenant.id)
    return tenant, Follower(tenant).poll(ports), record


def _recorded() -> list[str]:
    """The calls that replace a stolen signer."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        make_few(patch)
        ports, script = embedded(Path(folder), Clock()), Script()
        tenant, _, _ = _tenant(ports)
        list_signers.rotate(scripted(ports, script), tenant.operator, compromised=True)
        close(ports)
    return script.calls


def _assert_all_follow(ports: Ports, tenant: Tenant, client: Follower, *refused: str) -> None:
    """The client, a newcomer and the next list have exactly these."""
    assert client.poll(ports).refuses == {*refused}
    assert Follower(tenant).poll(ports).refuses == {*refused}
    tenant.regenerate(ports)
    assert set(tenant.published(ports).revoked_ids) == {*refused}
    assert list(doctor.examine(ports)) == []


@pytest.mark.parametrize("step", range(len(_recorded())))
def test_a_change_while_a_signer_is_replaced(ports: Ports, step: int) -> None:
    """F284d, FEED-3, FEED-4: Entries during the replacement of a stolen signer are stated again."""
    tenant, client, record = _tenant(ports)

    def change() -> None:
        tenant.unrevoke(ports, record)
        tenant.revoke(ports, _DURING)
        assert publication.publish_feed(ports, tenant.id)

    hooked = meeting(ports, step, change)
    list_signers.rotate(hooked, tenant.operator, compromised=True)
    assert current(ports, tenant.id).sequence >= model.LEAP
    _assert_all_follow(ports, tenant, client, _BEFORE, _DURING)


def test_many_changes_while_a_signer_is_replaced(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F284e: If more is stated meanwhile than fits in one write, the signer is replaced anew."""
    monkeypatch.setattr(storage, "_RESTATED_MAX", 1)
    tenant, client, _ = _tenant(ports)

    def change() -> None:
        for each in ("svc_wrt_1", "svc_wrt_2"):
            tenant.revoke(ports, each)
            assert publication.publish_feed(ports, tenant.id)

    calls = _recorded()
    last_read = max(step for step, call in enumerate(calls) if call == "get")
    hooked = meeting(ports, last_read, change)
    list_signers.rotate(hooked, tenant.operator, compromised=True)
    _assert_all_follow(ports, tenant, client, _BEFORE, _BACK, "svc_wrt_1", "svc_wrt_2")


def test_the_break_has_an_entry(ports: Ports) -> None:
    """F284f, FEED-7: The break is stored as an entry with its chain, and the base covers it."""
    tenant, _, _ = _tenant(ports)
    before = current(ports, tenant.id)
    list_signers.rotate(ports, tenant.operator, compromised=True)
    newest = current(ports, tenant.id)
    assert (
        newest.sequence == newest.base.sequence == newest.broke_at == before.sequence + model.LEAP
    )
    (stored,) = in_force.read_entries(
        ports, tenant.id, after=newest.sequence - 1, until=newest.sequence
    )
    assert stored.decode()[0].is_break
    assert stored.chain == newest.signed_head.chain == newest.base.chain
    assert newest.key_id == in_force.read_active_signer(ports, tenant.id).id
    # A usual rotation breaks nothing.
    list_signers.rotate(ports, tenant.operator)
    assert current(ports, tenant.id).sequence == newest.sequence


def _refusal(ports: Ports, tenant: Tenant, trust: TrustState) -> str:
    """Why a client with this trust, and without a state, refuses the feed; empty if not."""
    news = feed_api.news(ports, tenant.operator)
    answer = FeedResponse(news.head.payload, news.head.signature, tuple(news.entries))
    try:
        advance(None, answer, now=ports.now(), verifier=trust, saved_position=None)
    except BaseRequired:
        return ""
    except (ResponseRejectedError, NotTrusted) as refused:
        return refused.reason.value
    raise AssertionError("a client without a state needs the base")


def _followed(ports: Ports, tenant: Tenant, trust: TrustState) -> TrustState:
    """The trust after the client has read the documents."""
    publishing.keep(ports, tenant.id)
    head = documents.newest(ports, tenant.operator)
    found = documents.read_since(ports, tenant.operator, of=head, after=trust.version)
    return follow(trust, found, ports.now())


def test_a_restore_to_before_a_rotation(
    deployment: Deployment, ports: Ports, tenant: Tenant
) -> None:
    """F286a, TRUST-14: After a restore to before a rotation and `recover`, each client goes on.

    Before the recovery a client that knows a newer document refuses the feed. Nobody has to visit a
    client: the root is that of before.
    """
    publishing.keep(ports, tenant.id)
    root = ports.root
    assert root is not None
    new = TrustState(tenant.id, RootSet((root.public_key,), 1).pin)
    before = _followed(ports, tenant, new)
    copy = deployment.copy()
    list_signers.rotate(ports, tenant.operator)
    after = _followed(ports, tenant, before)
    assert _refusal(ports, tenant, after) == ""
    deployment.restore(copy)
    recovery.recover(ports, tenant.operator)
    for known in (new, before, after):
        assert _refusal(ports, tenant, _followed(ports, tenant, known)) == ""


def _rotated(ports: Ports, tenant: Tenant) -> SrlSigner:
    return list_signers.rotate(ports, tenant.operator).record


def _revoked(ports: Ports, tenant: Tenant) -> SrlSigner:
    with pytest.raises(DataCorrupt, match="must sign the succession statement"):
        list_signers.create(ports, tenant.operator)
    stolen = in_force.read_active_signer(ports, tenant.id)
    list_signers.revoke(ports, tenant.operator, key_id=stolen.id)
    return in_force.read_active_signer(ports, tenant.id)


@pytest.mark.parametrize("replace_signer", [_rotated, _revoked])
def test_another_master_key_heals(
    ports: Ports,
    tenant: Tenant,
    tmp_path: Path,
    replace_signer: Callable[[Ports, Tenant], SrlSigner],
) -> None:
    """All signs again, lists keep what they had, and the stolen key opens no seed of now."""
    key = tenant.key(ports)
    tenant.revoke(ports, "svc_wrt_a")
    after = replace(ports, sealer=FileSealer.create(tmp_path / "another.key"))
    signer = replace_signer(after, tenant)
    rotated = tenant.rotate(after, key)
    tenant.sign(after, rotated)
    assert tenant.regenerate(after).revoked_ids == ["svc_wrt_a"]
    for each in (signer, rotated):
        assert each.sealed_seed is not None
        with pytest.raises(DataCorrupt):
            ports.sealer.unseal(each.sealed_seed, context=each.seal_context)
