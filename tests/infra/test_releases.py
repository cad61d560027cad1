"""What a release before this one left is read, goes on, and is damaged by neither release."""

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from infra import backup
from shared.adapters import sqlite_conversion, sqlite_items
from shared.model.items import Table
from shared.model.lists.signers import ListSigner, signers
from shared.model.lists.verification import verify
from shared.operations.audit import sealing
from shared.operations.lists import in_force, publication
from shared.operations.operator import doctor, onboarding
from shared.ports import Ports
from tests.data_model import TABLES, kinds
from tests.kit import processes
from tests.kit.api import Client, serve
from tests.kit.processes import ROOT, LocalServer, free_port, local_server, start_in_vain
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon
from tests.kit.worlds import Clock, close, embedded
from tests.operations.followers import Follower
from tests.releases import COMMITS, Golden, golden, source


@dataclass(frozen=True)
class Upgraded:
    """The data of a release, as this one finds it."""

    ports: Ports
    tenant: Tenant
    golden: Golden
    clock: Clock

    @property
    def facts(self) -> dict[str, Any]:
        return self.golden.facts


@pytest.fixture(params=COMMITS)
def left(request: pytest.FixtureRequest, tmp_path: Path) -> Golden:
    """What a release left."""
    return golden(request.param, tmp_path / "left")


@pytest.fixture
def upgraded(left: Golden) -> Iterator[Upgraded]:
    clock = Clock(left.now)
    ports = embedded(left.data, clock, store=str(left.data / "svc.db"))
    operator = onboarding.operator(ports, handle=left.facts["handle"])
    yield Upgraded(ports, Tenant(left.facts["tenant_id"], operator), left, clock)
    close(ports)


# --- what a release left ---


# Notes of removed authorizers, which 0.3.0 made and nothing reads any more.
_UNUSED = "#removed-authorizers"


def test_each_record_of_a_release_is_read(upgraded: Upgraded) -> None:
    """OPS-11, F586a: Each item that an earlier release stored is still there, and is read."""
    known = [kind for title in TABLES for kind in kinds(title)]
    read = 0
    for table in Table:
        for address, item in upgraded.ports.store.everything(table):
            read += 1
            if address.pk.endswith(_UNUSED):
                continue
            (kind,) = [each for each in known if each.is_at(address)]
            for record in kind.records:
                record.from_item(item)
    assert read >= upgraded.facts["items"]


def test_the_data_of_a_release_is_well(upgraded: Upgraded) -> None:
    """OPS-11, F586b: After an upgrade the doctor finds no fault, and what is revoked stays so."""
    # As a server does within seconds.
    sealing.extend(upgraded.ports, upgraded.tenant.id)
    problems = [each.problem for each in doctor.examine(upgraded.ports)]
    # The tour of the release leaves authorizers that do not follow.
    assert [each for each in problems if "authorizer" not in each] == []
    caller = Client(serve(upgraded.ports), upgraded.facts["admin_key"])
    ids = [*upgraded.facts["refuses"], "svc_wrt_never"]
    body = {"warrant_ids": ids}
    results = caller.post("/v1/revocations/check-batch", json=body).json()["results"]
    assert [each for each in ids if results[each]["revoked"]] == upgraded.facts["refuses"]


def test_lists_and_feed_of_a_release_go_on(upgraded: Upgraded) -> None:
    """OPS-11, FEED-7, F586c: After an upgrade, list, feed and sealed log go on where they were.

    A client that followed the release goes on with the same chain, and sees no equivocation.
    """
    ports, tenant, facts = upgraded.ports, upgraded.tenant, upgraded.facts
    client = Follower(tenant).poll(ports)
    assert client.state is not None
    assert client.state.head.chain.hex() == facts["chain"]
    assert client.state.sequence == facts["sequence"]
    assert client.refuses == set(facts["refuses"])
    upgraded.clock.advance(minutes=1)
    tenant.revoke(ports, "svc_wrt_new")
    assert publication.publish_feed(ports, tenant.id)
    wanted = {*facts["refuses"], "svc_wrt_new"}
    assert client.poll(ports).refuses == wanted
    head = publication.publish(ports, tenant.operator)
    assert head.version == facts["list"] + 1
    item = ports.store.get(signers(tenant.id).address(head.key_id))
    assert item is not None
    key = ListSigner.from_item(item).public_bytes
    listed = verify(in_force.body(ports, head), public_key=key, now=ports.now()).revoked_ids
    assert (
        set(listed) == wanted == client.poll(ports).refuses == Follower(tenant).poll(ports).refuses
    )
    sealing.extend(ports, tenant.id)
    problems = [each.problem for each in doctor.examine(ports)]
    assert [each for each in problems if "authorizer" not in each] == []


def test_a_backup_of_a_release_is_restored(left: Golden, tmp_path: Path) -> None:
    """OPS-15, F587a: A backup of an earlier release is restored completely."""
    data = tmp_path / "data"
    restored = backup.restore(left.folder / "backup", data)
    assert restored.handles == (left.facts["handle"],)
    ports = embedded(data, Clock(left.now), store=str(data / "svc.db"))
    caller = Client(serve(ports), left.facts["admin_key"])
    check = {"warrant_id": left.facts["refuses"][0]}
    assert caller.get("/v1/revocations/check", params=check).json()["revoked"] is True
    tables = [dict(ports.store.everything(table)) for table in Table]
    assert sum(map(len, tables)) >= left.facts["items"]
    close(ports)


# --- a conversion that is stopped ---

_STOPPED = """
import os, signal, sys
from shared.adapters import sqlite_conversion
from shared.adapters.sqlite import SqliteStore

def spill(connection, _path):
    # Pages are written to the file before the commit, as in a conversion of many.
    connection.execute("PRAGMA cache_size = 2")
    connection.create_function("stop", 0, lambda: os.kill(os.getpid(), signal.SIGKILL))

sqlite_conversion._report = spill
rest = sqlite_conversion._CONVERSION
all_pages = "UPDATE items_5 SET checksum = checksum + 1"
sqlite_conversion._CONVERSION = (*rest, all_pages, "SELECT stop()")
SqliteStore(sys.argv[1])
"""


def test_a_conversion_that_is_killed_changes_nothing(left: Golden) -> None:
    """F583e, OPS-11: If a conversion is killed midway, the file is as it was for either release."""
    file = left.data / "svc.db"
    before = _rows(file, "items")
    stopped = processes.run("-c", _STOPPED, str(file))
    assert stopped.returncode == -signal.SIGKILL, stopped.stderr
    # Without the journal, it would be neither the one nor the other.
    assert file.with_name("svc.db-journal").stat().st_size > 0
    assert _rows(file, "items") == before
    with closing(sqlite3.connect(file)) as connection:
        assert sqlite_items.version(connection) == sqlite_conversion.OLDEST
    ports = embedded(left.data, Clock(left.now), store=str(file))
    assert list(ports.store.problems()) == []  # type: ignore[attr-defined]
    close(ports)


def test_a_restore_sets_aside_what_a_killed_conversion_left(left: Golden) -> None:
    """F587b, OPS-15: A backup that is put back is not mixed with a conversion that was killed."""
    file = left.data / "svc.db"
    assert processes.run("-c", _STOPPED, str(file)).returncode == -signal.SIGKILL
    done = backup.restore(left.folder / "backup", left.data, replace=True)
    assert done.set_aside is not None
    assert _rows(done.set_aside, "items") == _rows(left.folder / "backup/svc.db", "items")
    ports = embedded(left.data, Clock(left.now), store=str(file))
    assert list(ports.store.problems()) == []  # type: ignore[attr-defined]
    close(ports)


def _rows(file: Path, table: str) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()


# --- two releases on one folder ---

_CLIENT = """
import json, sys
from shared.authorizer import AuthorizerClient, FileFloor, Policy

url, key, tenant, signers, floor, *ids = sys.argv[1:]
client = AuthorizerClient(
    url, api_key=key, tenant=tenant, public_keys=signers.split(), floor=FileFloor(floor),
    policy=Policy(poll_seconds=0.1), report=False,
)
with client:
    said = {each: client.check([each]) for each in ids}
    print(json.dumps([said, client.status.sequence, client.status.refusals]))
"""


@dataclass(frozen=True)
class Caller:
    """An administrator of a server, and the authorizers that follow it."""

    server: LocalServer

    def request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.server.admin_key}"}
        address = f"{self.server.url}/v1/{path}"
        return httpx2.request(method, address, headers=headers, timeout=30, **options)

    def revoke(self, warrant_id: str) -> str:
        """Revoke a warrant, wait until the feed says so, and return the revocation."""
        body = {"warrant_id": warrant_id, "reason": "stolen"}
        before = self._sequence()
        made = self.request("POST", "revocations", json=body)
        assert made.status_code == 201, made.text
        soon(lambda: self._sequence() > before)
        return str(made.json()["id"])

    def _sequence(self) -> int:
        return int(self.request("GET", "revocations/srl/status").json()["feed_sequence"])

    def followed(self, tree: Path, floor: Path, *warrant_ids: str) -> tuple[Any, int, Any]:
        """What a client from a source tree holds: verdicts, entry, refusals."""
        tenant = self.request("GET", "tenant/settings").json()["tenant_id"]
        keys = self.request("GET", "revocations/srl/keys").json()["keys"]
        pinned = " ".join(each["public_key"] for each in keys)
        places = (self.server.url, self.server.admin_key, tenant, pinned, str(floor))
        done = processes.run("-c", _CLIENT, *places, *warrant_ids, cwd=tree)
        assert done.returncode == 0, done.stderr
        verdicts, sequence, refusals = json.loads(done.stdout)
        return verdicts, sequence, refusals


@pytest.fixture(params=COMMITS)
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The source of a release."""
    return source(request.param, tmp_path / "source")


@pytest.mark.slow
def test_two_releases_on_one_folder(tree: Path, tmp_path: Path) -> None:
    """F586d, OPS-11, OPS-12: While the release before serves a folder, this one does not start.

    It changes nothing, and can make a backup. After the other has stopped, it converts the folder,
    its lists and feed go on for clients of either release, and the other one refuses to start.
    """
    data, port, floor = tmp_path / "data", free_port(), tmp_path / "floor"
    with local_server(data, cwd=tree, port=port, workers=2) as server:
        old = Caller(server)
        old.revoke("svc_wrt_before")
        assert old.followed(tree, floor, "svc_wrt_before")[0] == {"svc_wrt_before": "revoked"}
        refused = start_in_vain(data, port=free_port())
        assert refused.returncode == 1
        assert "another process has it open" in refused.stderr
        kept = processes.run("-m", "infra.cli", "backup", str(tmp_path / "b"), "--data", str(data))
        assert kept.returncode == 0, kept.stderr
        old.revoke("svc_wrt_beside")
        verdicts, sequence, _ = old.followed(tree, floor, "svc_wrt_beside", "svc_wrt_never")
        assert verdicts == {"svc_wrt_beside": "revoked", "svc_wrt_never": "clear"}
        assert server.interrupt() == 0
    with local_server(data, port=port, workers=2) as server:
        new = Caller(server)
        new.revoke("svc_wrt_after")
        ids = ("svc_wrt_before", "svc_wrt_beside", "svc_wrt_after")
        for each in (tree, ROOT):
            verdicts, reached, refusals = new.followed(each, floor, *ids, "svc_wrt_never")
            assert verdicts == dict.fromkeys(ids, "revoked") | {"svc_wrt_never": "clear"}
            assert (reached > sequence, refusals) == (True, {})
        assert server.interrupt() == 0
    for refused in (
        start_in_vain(data, port=port, cwd=tree),
        processes.run("-m", "infra.cli", "publish", "--data", str(data), cwd=tree),
    ):
        assert refused.returncode != 0
        assert "this release reads format 4" in refused.stderr


@pytest.mark.slow
def test_a_running_server_of_the_release_before_is_fenced(tree: Path, tmp_path: Path) -> None:
    """F586e, OPS-11: A server of the release before that runs on a converted file does nothing.

    It answers 503, also to checks, and its schedules change nothing.
    """
    data = tmp_path / "data"
    with local_server(data, cwd=tree) as server:
        old = Caller(server)
        revocation = old.revoke("svc_wrt_revoked")
        with closing(sqlite3.connect(data / "svc.db", isolation_level=None, timeout=5)) as file:
            # What a conversion does, without being alone.
            file.execute("BEGIN IMMEDIATE")
            sqlite_conversion._change(file)
            file.execute("COMMIT")
        before = _rows(data / "svc.db", "items_5"), _rows(data / "svc.db", "places")
        body = {"warrant_id": "svc_wrt_other", "reason": "lost"}
        for method, path, options in (
            ("GET", "revocations/check?warrant_id=svc_wrt_revoked", {}),
            ("POST", "revocations", {"json": body}),
            ("DELETE", f"revocations/{revocation}", {}),
            ("POST", "revocations/srl/regenerate", {}),
            ("GET", "revocations/feed", {}),
        ):
            answer = old.request(method, path, **options)
            assert answer.status_code == 503, (path, answer.text)
        # The thread of the feed looks often, and says that it cannot go on.
        soon(lambda: "could not be published" in server.output.read_text())
        assert (_rows(data / "svc.db", "items_5"), _rows(data / "svc.db", "places")) == before


_READ = """
import sys
from shared.adapters.sqlite import SqliteStore
from shared.model.items import Table

store = SqliteStore(sys.argv[1])
print(sum(sum(1 for _ in store.everything(table)) for table in Table), list(store.problems()))
"""


@pytest.mark.slow
def test_the_release_before_opens_what_a_killed_conversion_left(tree: Path, left: Golden) -> None:
    """F586f, OPS-11: After a conversion was killed, the release before still works on the file."""
    file = left.data / "svc.db"
    assert processes.run("-c", _STOPPED, str(file)).returncode == -signal.SIGKILL
    read = processes.run("-c", _READ, str(file), cwd=tree)
    assert read.stdout.split() == [str(left.facts["items"]), "[]"], read.stderr
