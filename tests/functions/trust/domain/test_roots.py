"""What an operator does about lost roots (TRUST-21)."""

from dataclasses import replace
from pathlib import Path

import pytest

from functions.trust import documents, publishing
from functions.trust import records as model
from functions.trust.publishing import TrustOutcome
from functions.trust.state import has_documents
from shared.adapters.local.file_root import FileRoot
from shared.authorizer.formats import following
from shared.authorizer.formats.documents import NotTrusted
from shared.authorizer.formats.following import TrustState
from shared.ports import Ports
from tests.kit.tenants import Tenant

pytestmark = pytest.mark.usefixtures("at_once")


def _pin(ports: Ports, tenant: Tenant) -> str:
    head = documents.read_head(ports, tenant.id)
    assert head is not None
    return head.pin


def _polls(ports: Ports, tenant: Tenant, state: TrustState) -> TrustState:
    """The state of a client after it has asked for documents."""
    of = documents.newest(ports, tenant.operator)
    found = documents.read_since(ports, tenant.operator, of=of, after=state.version)
    return following.follow(state, found, ports.now())


def test_documents_of_other_roots_need_another_pin(
    ports: Ports, tenant: Tenant, tmp_path: Path
) -> None:
    """TRUST-21, F716a: After a new beginning a client needs the new pin; it follows from there on.

    With the old pin it keeps what it holds, and believes nothing else.
    """
    publishing.keep(ports, tenant.id)
    old = _polls(ports, tenant, TrustState(tenant.id, _pin(ports, tenant)))
    other = replace(ports, root=FileRoot.create(tmp_path / "other.key"))
    assert publishing.replace_root(other, tenant.operator)
    assert publishing.keep(other, tenant.id) is TrustOutcome.PUBLISHED
    with pytest.raises(NotTrusted, match="root"):
        _polls(other, tenant, old)
    new = _polls(other, tenant, old.with_pin(_pin(other, tenant)))
    assert new.version > old.version
    assert "trust.replace_root" in tenant.actions(ports)


def test_a_new_beginning_may_be_repeated(ports: Ports, tenant: Tenant) -> None:
    """TRUST-21: Without a document there is nothing to begin anew."""
    assert not publishing.replace_root(ports, tenant.operator)
    publishing.keep(ports, tenant.id)
    assert publishing.replace_root(ports, tenant.operator)
    assert not publishing.replace_root(ports, tenant.operator)


def test_the_service_never_begins_anew(ports: Ports, tenant: Tenant, tmp_path: Path) -> None:
    """TRUST-21, F716b: With another root at hand the service waits for those of the document."""
    publishing.keep(ports, tenant.id)
    pin = _pin(ports, tenant)
    other = replace(ports, root=FileRoot.create(tmp_path / "other.key"))
    later = replace(other, now=lambda: ports.now() + model.LIFETIME)
    assert publishing.keep(later, tenant.id) is TrustOutcome.WAITS
    assert _pin(ports, tenant) == pin


def test_documents_are_known_by_record_or_blob(ports: Ports, tenant: Tenant) -> None:
    """F703g: A document is known by its record or by its blob, and neither is of signing keys."""
    assert not has_documents(ports)
    ports.blobs.put(model.keys_blob(tenant.id, bytes(32)), b"keys")
    assert not has_documents(ports)
    ports.blobs.put(model.document_blob(tenant.id, 1), b"a document")
    assert has_documents(ports)
    ports.blobs.remove(model.document_blob(tenant.id, 1))
    publishing.keep(ports, tenant.id)
    ports.blobs.remove(model.document_blob(tenant.id, 1))
    assert has_documents(ports)
