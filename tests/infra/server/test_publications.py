"""Lists that requests ask for are made by the publisher, and answered where they were asked for."""

import os
import pickle
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from functions.stock_authorizers import operations as native_list
from infra.server import publications as local_publications
from infra.server.publications import PublicationRequests
from infra.server.routers import ROUTERS
from shared.errors import Conflict, InsufficientScope, NotFound, Unavailable
from shared.model.callers import Caller, Scope
from shared.operations.base.operation import Operation
from shared.operations.changes import list_signers, srl
from shared.operations.lists import in_force
from shared.ports import Ports
from shared.web.routes import ApiRoute
from shared.web.work import WorkKind
from tests.kit.tenants import Tenant


@contextmanager
def taken(ports: Ports) -> Iterator[PublicationRequests]:
    """The publisher's part, in a thread."""
    publications = PublicationRequests()
    stop, stopping = os.pipe()
    thread = threading.Thread(target=publications.take, args=(stop, lambda: ports))
    thread.start()
    try:
        yield publications
    finally:
        os.close(stopping)
        thread.join()
        os.close(stop)
        publications.close()


def _publications() -> list[Operation[..., object]]:
    routes = [each for router in ROUTERS for each in router.routes]
    found = [each.serving for each in routes if isinstance(each, ApiRoute)]
    return [each.operation for each in found if each.kind is WorkKind.PUBLICATION]


def test_the_publisher_finds_each_operation() -> None:
    """F558a: Each operation that makes a list can be asked for in another process."""
    found = _publications()
    assert {srl.regenerate, list_signers.rotate, native_list.current} <= set(found)
    for each in found:
        assert pickle.loads(pickle.dumps(each)) is each


def test_a_list_is_made_where_it_is_asked_for(ports: Ports) -> None:
    """F558b: A request has the result of the publication that the publisher made for it."""
    tenant = Tenant.create(ports)
    with taken(ports) as publications:
        made = publications.ask(srl.regenerate, tenant.operator)
        assert made == in_force.read_srl_head(ports, tenant.id)
        assert made.version == 2


def _refuse(_ports: Ports, caller: Caller) -> None:
    raise Conflict(f"no, {caller.tenant_id}", retry_after=7)


def _fail(_ports: Ports) -> None:
    raise ZeroDivisionError


def _tell_nothing(_ports: Ports) -> object:
    return threading.Lock()


def test_an_error_is_that_of_the_publication(
    ports: Ports, caplog: pytest.LogCaptureFixture
) -> None:
    """F558c: An error of a publication is raised where it was asked for, with its message."""
    tenant = Tenant.create(ports)
    with taken(ports) as publications:
        with pytest.raises(Conflict, match=f"no, {tenant.id}") as refused:
            publications.ask(_refuse, tenant.operator)
        assert refused.value.retry_after == 7
        with pytest.raises(NotFound):
            publications.ask(list_signers.activate, tenant.operator, key_id="svc_key_none")
        reader = Caller(tenant.id, "reader", (Scope.READ_ONLY,))
        with pytest.raises(InsufficientScope) as denied:
            publications.ask(srl.regenerate, reader)
        assert denied.value.scopes == srl.regenerate.scopes
        assert not caplog.records
        with pytest.raises(ZeroDivisionError):
            publications.ask(_fail)
        assert "a publication failed" in caplog.text


def test_no_answer_is_unavailable(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    """F558d: Without a publisher, or without its answer, the request gets 503."""
    monkeypatch.setattr(local_publications, "_TAKEN_SECONDS", 0.02)
    with closing(PublicationRequests()) as unheard:
        # Its queue is full after a while, which is said at once.
        for _ in range(1000):
            with pytest.raises(Unavailable):
                unheard.ask(_fail)
            monkeypatch.setattr(local_publications, "_TAKEN_SECONDS", 0.0)
    monkeypatch.setattr(local_publications, "_TAKEN_SECONDS", 5.0)
    with taken(ports) as publications, pytest.raises(Unavailable):
        publications.ask(_tell_nothing)
