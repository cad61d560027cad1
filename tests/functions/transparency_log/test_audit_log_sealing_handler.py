"""The function that seals the audit log: by the stream of new entries, and by the daily sweep."""

import json
from pathlib import Path

import pytest

from functions.transparency_log import log, sealing, witnesses, witnessing
from functions.transparency_log.audit_log_sealing_handler import NotSealedError, handler
from functions.transparency_log.checkpoint import Checkpoint
from shared import wiring
from shared.model.audit.witness_policy import WitnessPolicy
from shared.model.items import Address, Table
from shared.model.tenants import settings_address
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.infra.templates import events
from tests.kit.lambda_events import streamed
from tests.kit.sealed_log import entered, sealed
from tests.kit.tenants import Tenant
from tests.kit.witnesses import Witnessed, answering, know, made, policy, url
from tests.kit.worlds import Clock


@pytest.fixture
def ports(from_environment: Ports) -> Ports:
    return from_environment


@pytest.fixture
def now(ports: Ports) -> Clock:
    return Clock(ports.now())


def address(tenant: Tenant, entry_id: str) -> Address:
    """The address of an entry that was written by now."""
    return Address(Table.AUDIT, f"{tenant.id}#2026-11#3", entry_id)


def test_the_stream_has_entries_sealed(ports: Ports, now: Clock) -> None:
    """LOG-8, F333a: The function seals the entries of each tenant in a batch, and late ones."""
    acme, globex = (Tenant.create(ports, each) for each in ("acme", "globex"))
    named = [address(each, entered(ports, now, each.id)) for each in (acme, globex)]
    assert handler(streamed(*named), None) == {"sealed": 2, "nothing new": 0}
    assert handler(streamed(*named), None) == {"sealed": 0, "nothing new": 2}
    late = entered(ports, now, acme.id, ago=7200)
    other = [Address(Table.AUDIT, f"{acme.id}#deliveries#x", late), Address(Table.AUDIT, "x", "y")]
    assert handler(streamed(*other), None) == {"sealed": 0, "nothing new": 0}
    assert handler(streamed(address(acme, late)), None) == {"sealed": 1, "nothing new": 0}
    assert late in sealed(ports, acme.id)


def test_a_failure_has_the_batch_delivered_again(ports: Ports, now: Clock) -> None:
    """F333b: If the log of a tenant cannot be extended, others are, and the batch comes again."""
    acme, globex = (Tenant.create(ports, each) for each in ("acme", "globex"))
    ports.store.write(Delete(settings_address(acme.id), Expect.PRESENT))
    named = [address(each, entered(ports, now, each.id)) for each in (acme, globex)]
    with pytest.raises(NotSealedError, match="1 of 2 logs"):
        handler(streamed(*named), None)
    assert log.head(ports, acme.id) is None
    assert len(sealed(ports, globex.id)) == 2


def test_the_sweep_reaches_every_tenant(ports: Ports, now: Clock) -> None:
    """LOG-8, F333c: The daily run seals what the stream has missed, for each tenant."""
    acme, _ = (Tenant.create(ports, each) for each in ("acme", "globex"))
    assert handler({}, None) == {"sealed": 2, "nothing new": 0}
    entered(ports, now, acme.id, ago=40 * 3600)
    assert handler({}, None) == {"sealed": 1, "nothing new": 1}
    assert len(sealed(ports, acme.id)) == 2
    (entries,) = events("AuditLogSealing", "DynamoDB")
    assert entries["MaximumRecordAgeInSeconds"] == 24 * 3600
    sweep, witnessing = events("AuditLogSealing", "ScheduleV2")
    assert sweep["ScheduleExpression"] == "rate(1 day)"
    assert (witnessing["ScheduleExpression"], json.loads(witnessing["Input"])) == (
        "rate(1 minute)",
        {"witnesses": True},
    )


def test_witnesses_are_asked_each_minute(
    ports: Ports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOG-31, F810d: An event of the schedule asks witnesses about each tenant, and seals nothing.

    A failure for one tenant stops no other. Without witnesses nothing is done.
    """
    event = {"witnesses": True}
    acme, globex, hooli = (Tenant.create(ports, each) for each in ("acme", "globex", "hooli"))
    assert handler(event, None) == {}
    memory = made(tmp_path, "w")
    sealing.extend(ports, acme.id)
    know(memory, ports, acme.id)
    client = Witnessed({url(memory): answering(memory)})

    def found() -> WitnessPolicy:
        return policy(1, memory)

    monkeypatch.setattr(wiring, "witnesses", found)
    monkeypatch.setattr(wiring, "witness_client", lambda: client)
    assert handler(event, None) == {"signed": 1, "nothing new": 2}
    assert handler(event, None) == {"nothing new": 3}
    sealing.extend(ports, globex.id)
    ports.store.write(Put(witnesses.address(hooli.id), {"version": "x"}, Expect.ABSENT))
    assert handler(event, None) == {"nothing new": 1, "refused": 1, "failed": 1}
    assert log.head(ports, hooli.id) is None
    note = witnessing.quorum_checkpoint(ports, acme.id)
    assert note
    assert Checkpoint.parse(note).size == 1
