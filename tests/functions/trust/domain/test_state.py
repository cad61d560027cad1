"""Warnings about trust documents (TRUST-19)."""

from dataclasses import replace

import pytest

from functions.trust import records as model
from functions.trust import state
from functions.trust.state import TrustSurvey
from shared.operations.base import tenants
from shared.operations.changes import list_signers
from shared.operations.lists import in_force, storage
from shared.operations.lists.storage import SeedCache
from shared.operations.operator import doctor
from shared.ports import Ports
from tests.functions.trust.clients import keep, without_root
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock

pytestmark = pytest.mark.usefixtures("at_once")

NONE_DUE = TrustSurvey(0, 0)


def problems(ports: Ports, tenant: Tenant) -> list[str]:
    return [each[0] for each in state.problems(ports, tenant.id)]


def test_a_document_ends_soon(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """TRUST-19, F680a: A document in the last third of its life, and an expired one, are told."""
    assert state.survey(ports) == NONE_DUE
    assert problems(ports, tenant) == []
    keep(without_root(ports), tenant)
    assert state.survey(ports) == TrustSurvey(1, 0)
    assert problems(ports, tenant) == ["it has no trust document"]
    keep(ports, tenant)
    assert (state.survey(ports), problems(ports, tenant)) == (NONE_DUE, [])
    clock.advance(days=9)
    assert (state.survey(ports), problems(ports, tenant)) == (NONE_DUE, [])
    clock.advance(days=1)
    assert state.survey(ports) == TrustSurvey(1, 0)
    (ends,) = problems(ports, tenant)
    assert ends == "its trust document expires at 2026-12-05T12:00:00Z"
    clock.advance(days=4)
    assert state.survey(ports) == TrustSurvey(1, 1)
    (ended,) = problems(ports, tenant)
    assert "has expired" in ended


def test_a_document_waits(ports: Ports, tenant: Tenant) -> None:
    """TRUST-19, F680b: A document that waits for its roots is told until it need not wait."""
    keep(ports, tenant)
    pending = list_signers.create(ports, tenant.operator).record
    offline = without_root(ports)
    keep(offline, tenant)
    assert state.survey(ports) == TrustSurvey(1, 0)
    assert problems(offline, tenant) == [
        "its trust document does not name the signers of its records"
    ]
    list_signers.revoke(ports, tenant.operator, key_id=pending.id)
    keep(offline, tenant)
    assert (state.survey(ports), problems(offline, tenant)) == (NONE_DUE, [])


def test_what_doctor_finds(ports: Ports, tenant: Tenant) -> None:
    """TRUST-19, F680c: `doctor` names a feed without references, an orphan, and a lost document."""
    keep(ports, tenant)
    assert not [each for each in doctor.examine(ports) if "trust" in each.problem]
    newest = in_force.read_feed_head(ports, tenant.id)
    assert newest is not None
    # As a release leaves it that knows of no documents.
    settings, signer = (
        tenants.settings(ports, tenant.id),
        in_force.read_active_signer(ports, tenant.id),
    )
    unnamed = replace(newest.signed_head, trust=None, keys=None)
    ports.store.write(
        *storage.reference_changes(SeedCache(ports), newest, settings, signer, unnamed)
    )
    name = model.document_blob(tenant.id, 7)
    ports.blobs.put(name, b"{}")
    found = {each.problem: each.is_remark for each in doctor.examine(ports)}
    assert found["its feed does not name the newest trust document"] is False
    orphan = "a newer trust document than the published one is stored"
    assert found[orphan] is True
    ports.blobs.remove(name)
    keep(ports, tenant)
    ports.blobs.remove(model.document_blob(tenant.id, 1))
    (lost,) = [each for each in doctor.examine(ports) if "trust" in each.problem]
    assert lost.problem == "the trust document of version 1 is missing or altered"
