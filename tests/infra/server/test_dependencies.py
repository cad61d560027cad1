"""Real servers of which one dependency is away: what goes on meanwhile, and what follows after."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from shared import wiring
from shared.model.lists import journal as model
from shared.operations.base import tenants
from shared.operations.lists import in_force, journal
from shared.ports import Ports
from tests.infra.folders import opened
from tests.kit import postgresql
from tests.kit.processes import HOST, LocalServer, free_port, local_server, run
from tests.kit.waiting import soon

pytestmark = pytest.mark.slow

# Begins the fault; the body of the `with` runs during it.
Fault: TypeAlias = Callable[[Path], Any]

# Longer than a request may take, on a busy machine too.
_BOUND_MS: Final = 8_000
_CHANGES: Final = 3


@dataclass
class Served:
    """A server, its operator, and what it acknowledged."""

    server: LocalServer
    ops: str
    ports: Ports
    http: httpx2.Client
    numbers: Iterator[int] = field(default_factory=count)
    revoked: set[str] = field(default_factory=set)

    @property
    def tenant_id(self) -> str:
        (found,) = tenants.identifiers(self.ports)
        return found

    def revoke(self) -> int:
        """Revoke a warrant; return the status."""
        warrant_id = f"svc_wrt_{next(self.numbers)}"
        body = {"warrant_id": warrant_id, "reason": "lost"}
        status = self.http.post("/v1/revocations", json=body).status_code
        if status == 201:
            self.revoked.add(warrant_id)
        return status

    def is_published(self) -> bool:
        """Whether the feed has each revocation that was acknowledged."""
        head = in_force.read_feed_head(self.ports, self.tenant_id)
        assert head is not None
        stored = in_force.read_entries(self.ports, self.tenant_id, after=0, until=head.sequence)
        return self.revoked <= {id_ for each in stored for id_ in each.decode()[0].revoked}

    def is_kept(self) -> bool:
        """Whether the journal has each revocation that was acknowledged."""
        found = set[str]()
        for _, name in journal.list_blobs(self.ports, self.tenant_id):
            number = model.decode_unverified(self.ports.blobs.get(name) or b"", name)
            found |= {id_ for entry, _ in model.entries_of(number) for id_ in entry.revoked}
        return self.revoked <= found

    def ready(self) -> int:
        """The status of `/readyz`; `/healthz` and `/metrics` answer at any time."""
        assert self.http.get("/healthz").status_code == 200
        assert httpx2.get(f"{self.ops}/metrics").status_code == 200
        return self.http.get("/readyz").status_code

    def unavailable(self) -> list[str]:
        """The ports beside the store that do not answer, by `/readyz`, which is 200."""
        assert self.ready() == 200
        found: list[str] = self.http.get("/readyz").json()["unavailable"]
        return found

    def is_whole(self) -> bool:
        """Whether the metrics say that all ports answer."""
        return [each.value for each in self._samples() if each.name == "rescind_ready"] == [1]

    def _samples(self) -> list[Any]:
        families = parsed(httpx2.get(f"{self.ops}/metrics").text)
        return [sample for family in families for sample in family.samples]

    def waits(self) -> tuple[float, float]:
        """How many changes were in the feed within 3 seconds, and how many in all."""
        name, samples = "rescind_change_published_seconds", self._samples()
        quick = sum(
            each.value
            for each in samples
            if each.name == f"{name}_bucket" and each.labels["le"] == "3.0"
        )
        return quick, sum(each.value for each in samples if each.name == f"{name}_count")

    def slowest_ms(self) -> float:
        """The longest time of a request, as the log has it."""
        lines = self.server.output.read_text().splitlines()
        logged = [json.loads(each) for each in lines if each.startswith("{")]
        return max(float(each["duration_ms"]) for each in logged if each["message"] == "request")


@contextmanager
def serving(
    data: Path,
    settings: dict[str, str] | None = None,
    ports: Callable[[], Any] | None = None,
    key: str = "",
) -> Iterator[Served]:
    """A server on a data folder, or on the stores of these settings."""
    ops = f"{HOST}:{free_port()}"
    with ExitStack() as stack:
        server = stack.enter_context(local_server(data, "--ops-address", ops, settings=settings))
        found = stack.enter_context((ports or partial(opened, data))())
        headers = {"Authorization": f"Bearer {key or server.admin_key}"}
        client = httpx2.Client(base_url=server.url, headers=headers, timeout=60)
        made = Served(server, f"http://{ops}", found, stack.enter_context(client))
        assert made.revoke() == 201
        soon(made.is_published)
        soon(made.is_kept)
        yield made


@contextmanager
def without(folder: Path) -> Iterator[None]:
    """A file in the place of a folder, so that nothing in it can be read or written."""
    aside = folder.with_name(f"{folder.name}-away")
    folder.rename(aside)
    folder.write_bytes(b"")
    try:
        yield
    finally:
        folder.unlink()
        aside.rename(folder)


@contextmanager
def silent(folder: Path) -> Iterator[None]:
    """Pipes in the places of the newest files, so that nobody who reads one gets an answer."""
    files = [each for each in folder.rglob("*") if each.is_file()]
    for each in files:
        each.rename(each.with_name(f"{each.name}-away"))
        os.mkfifo(each, 0o600)
    try:
        yield
    finally:
        for each in files:
            aside = each.with_name(f"{each.name}-away")
            data = aside.read_bytes()
            # Whoever waits gets what it asked for.
            with suppress(OSError):
                waiting = os.open(each, os.O_WRONLY | os.O_NONBLOCK)
                os.set_blocking(waiting, True)
                with open(waiting, "wb") as pipe:  # noqa: PTH123 (a descriptor, no path)
                    pipe.write(data)
            aside.replace(each)


@pytest.mark.parametrize(
    ("fault", "silent"),
    [
        pytest.param(lambda blobs: without(blobs / "journal"), [], id="journal"),
        pytest.param(lambda blobs: without(blobs / "srl"), ["RESCIND_BLOBS"], id="lists"),
        pytest.param(lambda blobs: silent(blobs / "srl"), [], id="silent-lists"),
        pytest.param(without, ["RESCIND_BLOBS"], id="blobs"),
    ],
)
def test_blobs_that_are_away_delay_no_revocation(
    tmp_path: Path, fault: Fault, silent: list[str]
) -> None:
    """F1682a: Without blobs, each acknowledged revocation is in the feed within 3 seconds.

    `/readyz` names blobs that are away and remains 200, and `rescind_ready` is 0. When they are
    back, the journal has all, and a list can be made, without a new change.
    """
    with serving(tmp_path / "data") as served:
        with fault(tmp_path / "data" / "blobs"):
            for _ in range(_CHANGES):
                assert served.revoke() == 201
                soon(served.is_published)
            soon(lambda: served.unavailable() == silent)
            soon(lambda: served.is_whole() == (not silent))
        soon(served.is_kept)
        soon(lambda: served.unavailable() == [])
        soon(served.is_whole)
        assert served.http.post("/v1/revocations/srl/regenerate").status_code == 200
        assert served.waits() == (_CHANGES + 1, _CHANGES + 1)


@contextmanager
def _disk(folder: Path) -> Iterator[Path]:
    """A disk of its own, which root can mount."""
    place = folder / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_is_reported_and_mended_by_room(tmp_path: Path) -> None:
    """F1682c: On a full disk, changes get 503 and `/readyz` says so. With room, all goes on."""
    with _disk(tmp_path) as disk, serving(disk / "data") as served:
        file = disk / "full"
        with suppress(OSError), file.open("wb", buffering=0) as full:
            while full.write(bytes(4096)):
                pass
        assert shutil.disk_usage(disk).free == 0
        soon(lambda: served.revoke() == 503)
        soon(lambda: served.ready() == 503)
        path = "/v1/revocations/check?warrant_id=svc_wrt_0"
        assert served.http.get(path).json()["revoked"] is True
        file.unlink()
        soon(lambda: served.revoke() == 201)
        soon(served.is_published)
        soon(served.is_kept)
        soon(lambda: served.ready() == 200)
        assert served.slowest_ms() < _BOUND_MS


class _Transit(BaseHTTPRequestHandler):
    """The transit engine of a key service, as far as a sealer needs it."""

    answers = threading.Event()

    def do_POST(self) -> None:
        """Seal or open a secret, once the service answers."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answers.wait()
        bound = asked["associated_data"]
        if "/encrypt/" in self.path:
            tag = hashlib.sha256((asked["plaintext"] + bound).encode()).digest()
            sealed = base64.b64encode(tag + asked["plaintext"].encode()).decode()
            data = {"ciphertext": f"vault:v1:{sealed}"}
        else:
            opened = base64.b64decode(asked["ciphertext"].removeprefix("vault:v1:"))
            data = {"plaintext": opened[32:].decode()}
        body = json.dumps({"data": data}).encode()
        with suppress(OSError):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def _key_service() -> Iterator[str]:
    """A key service, which answers while `_Transit.answers` is set; its address."""
    _Transit.answers.set()
    with ThreadingHTTPServer((HOST, 0), _Transit) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_port}"
        finally:
            _Transit.answers.set()
            server.shutdown()
            thread.join()


@contextmanager
def _shared(folder: Path, store: str, keys: str) -> Iterator[Served]:
    """A server on PostgreSQL, with a key service at the address `keys`."""
    (folder / "token").write_text("token")
    (folder / "blobs").mkdir(mode=0o700)
    settings = {
        "RESCIND_STORE": store,
        "RESCIND_BLOBS": f"file:{folder / 'blobs'}",
        "RESCIND_KEY_WRAPPER": "vault:transit/rescind",
        "VAULT_ADDR": keys,
        "VAULT_TOKEN_FILE": str(folder / "token"),
    }
    made = run("-m", "infra.cli", "setup", "--tenant", "acme", settings=settings)
    assert made.returncode == 0, made.stderr

    @contextmanager
    def ports() -> Iterator[Ports]:
        with pytest.MonkeyPatch.context() as environment:
            for name, value in settings.items():
                environment.setenv(name, value)
            with closing(wiring.build(wiring.settings(settings))) as opened:
                yield opened

    with serving(folder / "server", settings, ports, made.stdout.strip()) as served:
        yield served


def test_a_key_service_that_does_not_answer(tmp_path: Path) -> None:
    """F1682d: Without the key service, revocations are acknowledged and checked.

    `/readyz` names it. It is 503 once the changes wait for too long. Once the key service answers,
    they are in the feed, without a new change.
    """
    with ExitStack() as stack:
        keys = stack.enter_context(_key_service())
        store = stack.enter_context(postgresql.server().database(f"keys-{free_port()}"))
        served = stack.enter_context(_shared(tmp_path, store, keys))
        _Transit.answers.clear()
        for _ in range(_CHANGES):
            assert served.revoke() == 201
        path = "/v1/revocations/check?warrant_id=svc_wrt_1"
        assert served.http.get(path).json()["revoked"] is True
        assert served.unavailable() == ["RESCIND_KEY_WRAPPER"]
        assert not served.is_published()
        soon(lambda: served.ready() == 503)
        _Transit.answers.set()
        soon(served.is_published)
        soon(served.is_kept)
        soon(lambda: served.ready() == 200)


def test_a_database_that_is_away_holds_no_request(tmp_path: Path) -> None:
    """F1682e: While PostgreSQL is away, each request gets 503 within seconds, also many at once.

    `/readyz` is 503, and all goes on once it is back.
    """
    with ExitStack() as stack:
        keys = stack.enter_context(_key_service())
        database = stack.enter_context(postgresql.running())
        postgresql.execute(database.url(), "CREATE DATABASE rescind")
        served = stack.enter_context(_shared(tmp_path, database.url("rescind"), keys))
        database.stop()
        crowd = [threading.Thread(target=served.revoke) for _ in range(40)]
        for each in crowd:
            each.start()
        for each in crowd:
            each.join()
        soon(lambda: served.ready() == 503)
        database.start()
        soon(lambda: served.revoke() == 201)
        soon(served.is_published)
        soon(lambda: served.ready() == 200)
        assert served.slowest_ms() < _BOUND_MS
