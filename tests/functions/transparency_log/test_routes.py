"""The sealed log over HTTP, read as a stranger would: with nothing but the answers and hashes."""

import base64
import hashlib
from pathlib import Path

import pytest

from functions.transparency_log import checkpoint as checkpoint_model
from functions.transparency_log import log, merkle, sealing, witnesses, witnessing
from functions.transparency_log import operations as sealed_log
from functions.transparency_log.checkpoint import Checkpoint, signers
from shared import wiring
from shared.model.audit import records
from shared.model.audit.witness_policy import NoteKey
from shared.operations.audit import audit_log
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.api import Tenant
from tests.kit.sealed_log import entry_made, head_of, root_by_path
from tests.kit.witnesses import Witnessed, answering, know, made, policy, url
from tests.kit.worlds import Clock

AT = "/v1/audit-logs"


def _stated(tenant: Tenant) -> Checkpoint:
    """The newest checkpoint, verified with each key that signs."""
    answer = tenant.read_only.get(f"{AT}/checkpoint")
    assert answer.status_code == 200
    stated = Checkpoint.parse(answer.text)
    listed = tenant.read_only.get(f"{AT}/keys").json()
    assert listed["origin"] == stated.origin == f"rescind/{tenant.id}/1"
    for each in listed["keys"]:
        assert checkpoint_model.is_signed_by(answer.text, NoteKey.parse(each["verifier_key"]))
    return stated


def test_nothing_is_sealed_at_first(tenant: Tenant) -> None:
    """LOG-6: A tenant without a checkpoint gets 404, and one key at most."""
    for path in ("checkpoint", "tile/0/000.p/1", f"{'svc_evt_' + 26 * '0'}/proof"):
        assert tenant.admin.get(f"{AT}/{path}").status_code == 404
    assert tenant.admin.get(f"{AT}/keys").json() == {"origin": f"rescind/{tenant.id}/1", "keys": []}


def test_a_stranger_verifies_the_log(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """LOG-6, F331a: Tiles, bundles and checkpoint state one tree, up to the newest checkpoint."""
    for _ in range(300):
        _, change = entry_made(ports, clock, tenant.id)
        ports.store.write(change)
    sealing.extend(ports, tenant.id)
    stated = _stated(tenant)
    size = stated.size
    assert size > 300
    bundles = [("entries/000", 256), (f"entries/001.p/{size - 256}", size - 256)]
    data = b""
    for path, count in bundles:
        answer = tenant.read_only.get(f"{AT}/tile/{path}")
        assert answer.headers["Content-Type"] == "application/octet-stream"
        assert len(answer.content) == count * 58
        data += answer.content
    found = [data[start + 2 : start + 58] for start in range(0, len(data), 58)]
    leaves = [hashlib.sha256(b"\x00" + each).digest() for each in found]
    assert tenant.read_only.get(f"{AT}/tile/0/000").content == b"".join(leaves[:256])
    assert tenant.read_only.get(f"{AT}/tile/0/000.p/7").content == b"".join(leaves[:7])
    top = tenant.read_only.get(f"{AT}/tile/1/000.p/1").content
    assert top == merkle.perfect(leaves[:256])
    root = merkle.root(size, lambda a, b: merkle.perfect(leaves[b << a : (b + 1) << a]))
    assert root == stated.root
    for path in ("0/002", f"0/001.p/{size - 255}", "entries/001", "1/000", "2/000.p/1", "x", "%2e"):
        assert tenant.read_only.get(f"{AT}/tile/{path}").status_code == 404, path


def test_an_entry_is_proved_alone(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """LOG-7, F331b: The proof of an entry leads from its line to the signed root."""
    changes = [entry_made(ports, clock, tenant.id)[1] for _ in range(520)]
    for start in range(0, 520, 100):
        ports.store.write(*changes[start : start + 100])
        clock.advance(seconds=1)
    sealing.extend(ports, tenant.id)
    late_id, late = entry_made(ports, clock, tenant.id, ago=3600)
    pending_id, pending = entry_made(ports, clock, tenant.id)
    ports.store.write(late)
    sealing.extend(ports, tenant.id, entry_ids=[late_id])
    ports.store.write(pending)
    stated = _stated(tenant)
    ids = [each.address.sk for each in (changes[0], changes[255], changes[400], changes[-1])]
    for entry_id in (*ids, late_id):
        answer = tenant.read_only.get(f"{AT}/{entry_id}/proof").json()
        item = audit_log.read_entries(ports, tenant.id, [entry_id])[entry_id]
        record = base64.b64decode(answer["record"])
        assert record[24:] == hashlib.sha256(records.line(item)).digest()
        path = [base64.b64decode(each) for each in answer["path"]]
        leaf = hashlib.sha256(b"\x00" + record).digest()
        assert root_by_path(leaf, answer["index"], stated.size, path) == stated.root
        assert Checkpoint.parse(answer["checkpoint"]) == stated
    for unknown in (pending_id, late_id[:-1] + "zz", "svc_evt_" + 26 * "0"):
        assert tenant.read_only.get(f"{AT}/{unknown}/proof").status_code == 404


def test_a_rotation_is_signed_by_both(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """LOG-9, F332a: Old and new signer sign for one retention, also the entry that names the new.

    Each key of the list signs the checkpoint, which `_stated` checks.
    """
    sealing.extend(ports, tenant.id)
    (old,) = tenant.admin.get(f"{AT}/keys").json()["keys"]
    answer = tenant.admin.post(f"{AT}/keys/rotate")
    assert answer.status_code == 200
    first, second = answer.json()["keys"]
    assert first["key_id"] == old["key_id"]
    assert second["retired_at"] is None
    assert first["retired_at"] is not None
    sealing.extend(ports, tenant.id)
    stated = _stated(tenant)
    entry = log.entries(ports, tenant.id, stated.size - 1, stated.size)[0][1]
    assert entry is not None
    assert (entry.action, entry.resource_id) == ("audit_log.rotate_key", second["key_id"])
    assert entry.details == {"public_key": second["public_key"], "replaced": [old["key_id"]]}
    clock.advance(days=401)
    _, change = entry_made(ports, clock, tenant.id)
    ports.store.write(change)
    sealing.extend(ports, tenant.id)
    head = head_of(ports, tenant.id)
    keys = [NoteKey.parse(each["verifier_key"]) for each in (first, second)]
    assert [checkpoint_model.is_signed_by(head.checkpoint, each) for each in keys] == [False, True]
    sealed_log.rotate(ports, tenant.operator)
    seeds = [each.item.get("sealed_seed") for each in ports.store.query(signers(tenant.id))]
    assert [each is None for each in seeds] == [True, False, False]


def test_few_signers_sign_at_once(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """LOG-9, F332b: A pass never has to make more than four signatures."""
    answers = [tenant.admin.post(f"{AT}/keys/rotate").status_code for _ in range(5)]
    assert answers == [200, 200, 200, 200, 409]
    sealing.extend(ports, tenant.id)
    _stated(tenant)


def test_a_lost_seed_of_a_replaced_signer_stops_nothing(
    ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """LOG-9, F332c: If the seed of a replaced signer is lost, its successor signs alone."""
    sealing.extend(ports, tenant.id)
    (row,) = ports.store.query(signers(tenant.id))
    lost = {name: value for name, value in row.item.items() if name != "sealed_seed"}
    ports.store.write(Put(signers(tenant.id).address(row.sk), lost, Expect.PRESENT))
    tenant.revoke("svc_wrt_a")
    with pytest.raises(Exception, match="cannot unwrap the seed"):
        sealing.extend(ports, tenant.id)
    second = tenant.admin.post(f"{AT}/keys/rotate").json()["keys"][1]
    sealing.extend(ports, tenant.id)
    head = head_of(ports, tenant.id)
    assert checkpoint_model.is_signed_by(head.checkpoint, NoteKey.parse(second["verifier_key"]))


def test_cosignatures_are_served(
    ports: Ports, tenant: Tenant, tmp_path: Path, clock: Clock
) -> None:
    """LOG-32, F814a: With `witnessed`, the checkpoint has the lines of a quorum of witnesses."""
    clock.advance(seconds=(wiring.now() - clock()).total_seconds())
    sealing.extend(ports, tenant.id)
    assert tenant.read_only.get(f"{AT}/checkpoint?witnessed=true").status_code == 404
    assert tenant.read_only.get(f"{AT}/checkpoint?witnessed=perhaps").status_code == 400
    memory = made(tmp_path, "w")
    know(memory, ports, tenant.id)
    client = Witnessed({url(memory): answering(memory)})
    witnessing.WitnessRound(ports, client, policy(1, memory)).cosign(tenant.id)
    answer = tenant.read_only.get(f"{AT}/checkpoint?witnessed=true")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert witnesses.cosigned_at(answer.text, memory.identity.key)
    assert answer.text.startswith(tenant.read_only.get(f"{AT}/checkpoint").text)
