"""The thread of the local server that makes trust documents."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from functions.trust import documents
from infra.server import trust as local_trust
from infra.server.feed import FeedPublisher
from infra.server.trust import TrustKeeper
from shared.authorizer.formats.trust import KeyUse
from shared.errors import Unavailable
from shared.operations.changes import list_signers
from shared.ports import Ports
from tests.kit.intercepted import Call, Intercepted
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon
from tests.kit.worlds import Clock, embedded


@contextmanager
def running(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> Iterator[TrustKeeper]:
    """A thread that tries again at once what fails."""
    monkeypatch.setattr(local_trust, "_RETRY_SECONDS", 0.01)
    trust = TrustKeeper(ports)
    trust.start()
    try:
        yield trust
    finally:
        trust.stop()
        trust.join()
    assert not trust.is_alive()


def version(ports: Ports, tenant: Tenant) -> int:
    head = documents.read_head(ports, tenant.id)
    return 0 if head is None else head.version


@pytest.mark.slow
def test_the_first_start_makes_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TRUST-16, F682a: The first start makes a document for each tenant, as does each new key."""
    ports = embedded(tmp_path, Clock())
    acme, globex = (Tenant.create(ports, handle=each) for each in ("acme", "globex"))
    with running(ports, monkeypatch) as trust:
        soon(lambda: (version(ports, acme), version(ports, globex)) == (1, 1))
        feed = FeedPublisher(ports, lambda _: None, trust.request)
        feed.start()
        signer = list_signers.create(ports, acme.operator).record
        soon(lambda: version(ports, acme) == 2)
        acme.key(ports)
        soon(lambda: version(ports, acme) == 3)
        feed.stop()
        feed.join()
    named = documents.read_document(ports, acme.id, 3).document.keys_for_use(KeyUse.LISTS)
    assert signer.public_bytes in named
    assert version(ports, globex) == 1


def test_a_failure_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """TRUST-16, F682b: A document that cannot be made delays no other, and is tried again."""
    ports = embedded(tmp_path, Clock())
    acme, globex = (Tenant.create(ports, handle=each) for each in ("acme", "globex"))
    down = [acme.id]

    def put(call: Call) -> Any:
        if call.verb == "put" and any(each in call.arguments[0] for each in down):
            raise Unavailable
        return call()

    broken = replace(ports, blobs=Intercepted(ports.blobs, put))
    with running(broken, monkeypatch), caplog.at_level(logging.WARNING):
        soon(lambda: version(ports, globex) == 1)
        soon(lambda: f"publishing the trust document of {acme.id} failed" in caplog.text)
        assert version(ports, acme) == 0
        down.clear()
        soon(lambda: version(ports, acme) == 1)
        soon(lambda: f"publishing the trust document of {acme.id} succeeds again" in caplog.text)
