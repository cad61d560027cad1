"""Who can write to the store rewrites no sealed log: service, doctor and new auditors say so."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2
import pytest

from infra.audit_verification.trusted import TrustedLog
from infra.audit_verification.verification import verify
from infra.cli import client
from infra.cli.audit_log import ServedLog
from infra.cli.client import Api
from infra.cli.profiles import Profile
from shared import wiring
from shared.authorizer.formats.trust import TrustDocument
from shared.model.audit import audit_log, kept
from shared.model.audit import head as model
from shared.model.audit import signers as signer_model
from shared.operations.audit import log
from shared.operations.base import tenants
from shared.operations.lists import in_force
from shared.operations.trust import documents
from shared.ports import Ports
from shared.ports.store import Delete, Expect
from tests.kit import postgresql
from tests.kit.processes import LocalServer, free_port, local_server, run
from tests.kit.waiting import soon

pytestmark = pytest.mark.slow

WARRANTS: Final = 12


@dataclass(frozen=True)
class Place:
    """Stores that servers work on, and an admin key of their tenant."""

    folder: Path
    settings: dict[str, str]
    key: str

    @contextmanager
    def ports(self) -> Iterator[Ports]:
        with closing(wiring.build(wiring.settings(self.settings))) as opened:
            yield opened

    def rescind(self, *arguments: str, url: str = "") -> tuple[int, str]:
        """What a command prints for an auditor who has never verified anything, and its exit."""
        home = self.folder / f"home-{free_port()}"
        user = {"RESCIND_URL": url, "RESCIND_API_KEY": self.key, "RESCIND_HOME": str(home)}
        ended = run("-m", "infra.cli", *arguments, settings=self.settings | (user if url else {}))
        return ended.returncode, ended.stdout + ended.stderr


@contextmanager
def sqlite(folder: Path) -> Iterator[tuple[str, str]]:
    yield f"sqlite:{folder / 'svc.db'}", f"file:{folder / 'blobs'}"


@contextmanager
def on_postgresql(_: Path) -> Iterator[tuple[str, str]]:
    with postgresql.borrowed() as url:
        yield url, "postgresql:"


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with request.param(tmp_path) as (store, blobs):
        keys = f"file:{tmp_path / 'master.key'}"
        settings = {"SVC_STORE": store, "SVC_BLOBS": blobs, "SVC_KEYS": keys}
        made = run("-m", "infra.cli", "setup", "--tenant", "local", settings=settings)
        assert made.returncode == 0, made.stderr
        yield Place(tmp_path, settings, made.stdout.strip())


@contextmanager
def served(place: Place) -> Iterator[LocalServer]:
    with local_server(place.folder / "data", settings=place.settings) as server:
        yield server


def history(place: Place, server: LocalServer) -> None:
    """Some revocations, sealed."""
    headers = {"Authorization": f"Bearer {place.key}"}
    for number in range(WARRANTS):
        body = {"warrant_id": f"svc_wrt_{number}", "reason": "stolen"}
        answer = httpx2.post(f"{server.url}/v1/revocations", headers=headers, json=body)
        assert answer.status_code == 201, answer.text
    path = f"{server.url}/v1/audit-logs/checkpoint"

    def size() -> int:
        found = httpx2.get(path, headers=headers).text.split("\n")
        return int(found[1]) if len(found) > 1 else 0

    soon(lambda: size() >= WARRANTS, seconds=60)


def rewritten(ports: Ports, *, also: bool) -> str:
    """Remove the head and the first entries from the store, and perhaps all that one can reach."""
    (tenant_id,) = tenants.identifiers(ports)
    first = log.records(ports, tenant_id, 0, 3)
    entries = [audit_log.address(tenant_id, each.id, ports.now()) for each in first]
    ports.store.write(*(Delete(each, Expect.ANYTHING) for each in entries))
    ports.store.write(Delete(model.address(tenant_id), Expect.PRESENT))
    if also:
        partition = signer_model.signers(tenant_id)
        for row in list(ports.store.query(partition)):
            ports.store.write(Delete(partition.address(row.sk), Expect.PRESENT))
        for folder in (model.folder(tenant_id), kept.folder(tenant_id)):
            for name in list(ports.blobs.names(folder)):
                ports.blobs.remove(name)
    return tenant_id


def audited(
    place: Place, server: LocalServer, tenant_id: str, trusted: TrustedLog | None
) -> list[str]:
    """What a new auditor finds, who does not wait for a service that is busy."""
    profile = Profile(place.folder / "new", server.url, place.key)
    with Api(profile) as api:
        source = ServedLog(api)
        report, pin = verify(source, tenant_id, pins=[], now=wiring.now, trusted=trusted)
    assert pin is None
    return report.findings


@pytest.mark.parametrize(
    ("place", "also"), [(sqlite, False), (on_postgresql, True)], indirect=["place"]
)
def test_a_log_whose_head_was_removed_is_not_begun_anew(
    place: Place, also: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOG-12, LOG-34, F815a: Without head and first entries, all say that the log was cut.

    That is so also if signers, tiles and kept checkpoints are gone: journal and document tell.
    """
    monkeypatch.setattr(client, "_PATIENCE", 0.0)
    with served(place) as server:
        history(place, server)
        with place.ports() as ports:
            (tenant_id,) = tenants.identifiers(ports)

            def is_named() -> TrustDocument | None:
                head = in_force.trust_head(ports, tenant_id)
                found = head and documents.read(ports, tenant_id, head.version).document
                return found if found and found.log else None

            document = soon(is_named, seconds=60)
        pin = document.roots.pin
        code, said = place.rescind("audit", "verify", "--root", pin, url=server.url)
        assert (code, "The audit log is whole." in said) == (0, True), said
    with place.ports() as ports:
        rewritten(ports, also=also)
    with served(place) as server:
        soon(lambda: "was cut, or its store is older" in server.output.read_text(), seconds=60)
        headers = {"Authorization": f"Bearer {place.key}"}
        checkpoint = httpx2.get(f"{server.url}/v1/audit-logs/checkpoint", headers=headers)
        assert checkpoint.status_code == 503
        found = audited(place, server, tenant_id, TrustedLog(document))
        assert [each for each in found if "there is no log, smaller than the pinned" in each], found
        found = audited(place, server, tenant_id, None)
        told = "the service refuses to show" if also else "cut or removed"
        assert [each for each in found if told in each], found
    code, said = place.rescind("doctor")
    assert (code, "was cut, or its store is older" in said) == (1, True), said
