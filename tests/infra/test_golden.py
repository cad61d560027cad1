"""Data that earlier versions made: it opens, it is migrated, and it goes on.

`tests/golden/<edition>/` is a data folder as a server of that edition left it, with what is true of
it in `facts.json`. It is never rewritten: whoever changes a stored format writes a migration.
"""

import base64
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shared.authorizer import warrants
from shared.model.items import Item
from shared.model.srl import signers as srl_signers
from shared.model.srl.encoding import Payload
from shared.model.srl.head import head_address, publications
from shared.model.srl.verification import verify
from shared.operations.operator import onboarding
from shared.operations.srl import in_force, publication
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests import processes
from tests.api import Client, serve
from tests.infra.folders import opened
from tests.processes import ROOT

FIRST = ROOT / "tests/golden/first-edition"
FACTS: dict[str, Any] = json.loads((FIRST / "facts.json").read_text())
LISTED = [
    "svc_wrt_by-stolen",
    "svc_wrt_expiring",
    "svc_wrt_revoked",
    "svc_wrt_unknown-1",
    "svc_wrt_unknown-2",
    "svc_wrt_unlisted",
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A copy of the folder, with the modes that git does not keep."""
    folder = tmp_path / "data"
    shutil.copytree(FIRST, folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return folder


@pytest.fixture
def fourth(data: Path) -> Item:
    """The head of the last list that the first edition published, as it stored it."""
    with opened(data) as ports:
        item = ports.store.get(publications(FACTS["tenant_id"]).address("000000000004"))
    assert item is not None
    return item


@pytest.fixture
def migrated(data: Path) -> Iterator[Ports]:
    done = command(data, "upgrade")
    assert (done.returncode, done.stdout) == (0, "")
    assert "local: 4 seeds sealed again, 2 removed, list 5 published." in done.stderr
    with opened(data) as ports:
        yield ports


def command(data: Path, *arguments: str) -> Any:
    return processes.run("-m", "infra.cli", *arguments, "--data", str(data))


def client(ports: Ports) -> Client:
    return Client(serve(ports), (FIRST / "admin.key").read_text().strip())


def published(ports: Ports, *, now: datetime | None = None) -> Payload:
    """The list in force, as a verifier accepts it."""
    head = in_force.head(ports, FACTS["tenant_id"])
    item = ports.store.get(srl_signers.signers(FACTS["tenant_id"]).address(head.key_id))
    assert item is not None
    signer = srl_signers.ListSigner.from_item(item)
    body = in_force.body(ports, head)
    return verify(body, public_key=signer.public_bytes, now=now or ports.now())


def test_the_folder_is_as_it_was_made() -> None:
    """No test, no tool and no commit rewrites it."""
    facts = {path.relative_to(FIRST).as_posix() for path in FIRST.rglob("*") if path.is_file()}
    assert facts >= {"admin.key", "facts.json", "master.key", "svc.db"}
    assert not any(name.endswith(("-wal", "-shm")) for name in facts)
    assert len(facts) == 11


def test_before_the_migration(data: Path) -> None:
    """F46a: Before a migration nothing is signed, reads work, and the doctor says what to do."""
    with opened(data) as ports:
        caller = client(ports)
        answer = caller.post(f"/v1/keys/{FACTS['issuer']}/sign", json={"payload": "cGF5"})
        assert answer.status_code == 503
        assert caller.post("/v1/revocations/srl/regenerate").status_code == 503
        said = caller.get("/v1/revocations/check?warrant_id=svc_wrt_expiring").json()
        assert said["revoked"] is True
    examined = command(data, "doctor")
    assert examined.returncode == 1
    assert "the seed of its list signer is sealed in the format of an earlier" in examined.stderr
    assert "the seed of its signing key" in examined.stderr
    assert "run: upgrade local" in examined.stderr


def test_after_the_migration(data: Path, migrated: Ports) -> None:
    """F46: the doctor is content, and a second migration finds nothing to do."""
    examined = command(data, "doctor")
    assert (examined.returncode, examined.stderr) == (0, "All is well.\n")
    again = command(data, "upgrade", "local")
    assert again.stderr == "local: 0 seeds sealed again, 0 removed, no list was due.\n"
    assert in_force.head(migrated, FACTS["tenant_id"]).version == 5


def test_the_migrated_keys_sign(migrated: Ports) -> None:
    """F46: each key is in the state that it was in, and those that may sign do so verifiably."""
    caller = client(migrated)
    keys = {each["id"]: each for each in caller.get("/v1/keys").json()["keys"]}
    states = {name: keys[FACTS[name]]["status"] for name in ("root", "issuer", "stolen", "paused")}
    assert states == {
        "root": "active",
        "issuer": "active",
        "stolen": "revoked",
        "paused": "suspended",
    }
    assert caller.post(f"/v1/keys/{FACTS['paused']}/enable").status_code == 200
    for name in ("root", "issuer", "paused"):
        body = {"payload": "cGF5", "warrant_id": f"svc_wrt_new-{name}"}
        answer = caller.post(f"/v1/keys/{FACTS[name]}/sign", json=body)
        assert answer.status_code == 201, answer.text
        claims = warrants.verify(
            base64.b64decode(answer.json()["warrant"]),
            public_keys=[base64.b64decode(keys[FACTS[name]]["public_key"])],
            tenant_id=FACTS["tenant_id"],
            now=migrated.now(),
        )
        assert claims.warrant_id == f"svc_wrt_new-{name}"
    stolen = caller.post(f"/v1/keys/{FACTS['stolen']}/sign", json={"payload": "cGF5"})
    assert stolen.status_code == 409


def test_the_migrated_list(migrated: Ports) -> None:
    """F46: what was revoked is listed under the signer that verifiers know, and checks say so."""
    assert published(migrated).revoked_ids == LISTED
    caller = client(migrated)
    body = {"warrant_ids": [*LISTED, "svc_wrt_taken-back"]}
    results = caller.post("/v1/revocations/check-batch", json=body).json()["results"]
    assert [each for each, verdict in results.items() if verdict["revoked"]] == LISTED


def test_what_was_never_signed_ends_nothing(migrated: Ports) -> None:
    """F43, F46: an expiry of the first edition removes nothing from any list, now or later."""
    later = datetime(2031, 1, 1, tzinfo=UTC)
    ports = replace(migrated, now=lambda: later)
    tenant_id = FACTS["tenant_id"]
    assert client(migrated).post("/v1/revocations/srl/regenerate").status_code == 200
    signer = in_force.head(ports, tenant_id).key_id
    publication.publish(ports, onboarding.operator(ports, handle="local"))
    assert published(ports).revoked_ids == LISTED
    assert in_force.head(ports, tenant_id).key_id == signer


def test_heads_of_old_lists_are_removed(migrated: Ports) -> None:
    """F131b: A migration removes the heads of old lists that the first edition kept."""
    entries = migrated.store.query(publications(FACTS["tenant_id"]))
    assert [entry.sk for entry in entries] == ["05", "head"]


def test_a_list_follows_from_none_of_the_first_edition(fourth: Item, migrated: Ports) -> None:
    """F46d: The first list after an upgrade restores what unsigned expiries had removed."""
    tenant_id = FACTS["tenant_id"]
    # As after an upgrade whose list was pruned, with no state that could tell.
    pruned = {name: value for name, value in fourth.items() if name != "state"} | {"version": 5}
    migrated.store.write(Put(head_address(tenant_id), pruned, Expect.PRESENT))
    assert client(migrated).post("/v1/revocations/srl/regenerate").status_code == 200
    assert published(migrated).revoked_ids == LISTED
