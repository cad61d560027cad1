"""The container of one machine, as far as it can be shown without an engine for containers.

The workflow of the forge builds the image, and waits until it is healthy.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import yaml

from shared import wiring
from shared.adapters.postgresql.database import check_url
from tests.kit import postgresql
from tests.kit.postgresql import PostgresqlServer
from tests.kit.processes import HOST, ROOT, answers, free_port
from tests.kit.surroundings import with_proxies
from tests.kit.waiting import soon

_CONTAINER: Final = ROOT / "infra/container"
_TEXT: Final = (_CONTAINER / "Dockerfile").read_text()
_IGNORED: Final = (_CONTAINER / "Dockerfile.dockerignore").read_text().splitlines()[1:]
_USER: Final = 10001
# In a mount namespace of its own, where nothing can be written but two folders, as that user, who
# may read all: the interpreter may be in a folder of root.
_CONFINED: Final = """
cd "$1" && mount --bind . . && cd "$1" && mount --bind data data && mount --bind tmp tmp &&
mount -o remount,bind,ro "$1" && mount -o remount,bind,ro / && cd opt/rescind/app && shift &&
exec setpriv --reuid=10001 --regid=10001 --clear-groups --no-new-privs \\
    --inh-caps=-all,+dac_read_search --ambient-caps=-all,+dac_read_search "$@"
"""


def _instructions() -> list[tuple[str, str]]:
    """Each instruction of the Dockerfile, with its arguments, in order."""
    whole = re.sub(r"^#.*\n", "", _TEXT, flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line.partition(" ") for line in whole.splitlines() if line]
    return [(name, " ".join(rest.split())) for name, _, rest in lines]


def _of_last(name: str) -> str:
    """The arguments of an instruction of the last stage."""
    return [rest for each, rest in _instructions() if each == name][-1]


def _stop_signal() -> signal.Signals:
    """What stops a container; Kubernetes heeds it too."""
    return signal.Signals[dict(_instructions()).get("STOPSIGNAL", "SIGTERM")]


class _Image:
    """What the first stage makes, in a folder instead of a file system of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.port = folder, folder / "data", free_port()
        self._run_first_stage()
        start = folder / "opt/rescind/start"
        start.write_text(self.moved(start.read_text()))

    @property
    def app(self) -> Path:
        return Path(self.moved(_of_last("WORKDIR")))

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a container, with the folder for what may be written."""
        given = dict(each.split("=") for each in self.moved(_of_last("ENV")).split())
        path = given["PATH"].replace("$PATH", os.defpath)
        return given | {"PATH": path, "TMPDIR": f"{self.folder}/tmp"}

    def moved(self, text: str) -> str:
        """With the paths of this folder, and a port of this machine that is free."""
        for path in ("/opt/rescind", "/build", "/data", "/secrets", "/tmp/secrets"):
            text = re.sub(rf"(?<![\w/]){path}\b", f"{self.folder}{path}", text)
        return text.replace(":8080", f":{self.port}")

    def command(self, text: str) -> list[str]:
        """The words of a command that is given as JSON."""
        return list(json.loads(self.moved(text.removeprefix("CMD "))))

    def _run_first_stage(self) -> None:
        begin, *end = [n for n, (name, _) in enumerate(_instructions()) if name == "FROM"][1:]
        there = self.folder
        for name, rest in _instructions()[begin + 1 : end[0]]:
            if name == "WORKDIR":
                there = Path(self.moved(rest))
                there.mkdir(parents=True)
            elif name == "COPY":
                _copy(*rest.split(), there=there, moved=self.moved)
            else:
                assert name == "RUN"
                self._run(rest, there)

    def _run(self, command: str, there: Path) -> None:
        path = f"{Path(sys.executable).parent}:{os.defpath}"
        with with_proxies():
            environment = os.environ | {"PATH": path}
            subprocess.run(
                ["sh", "-c", self.moved(command)], cwd=there, env=environment, check=True
            )


def _copy(*names: str, there: Path, moved: Callable[[str], str]) -> None:
    *sources, target = names
    for source in sources:
        files = [each for each in (ROOT / source).rglob("*") if each.is_file()]
        for file in files or [ROOT / source]:
            path = file.relative_to(ROOT)
            if _goes_in(path):
                place = there / moved(target) / (path.relative_to(source) if files else path.name)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, place)


def _goes_in(path: Path) -> bool:
    """Whether a build sees a file: by the last pattern that names it, or a folder of it."""
    decided = True
    for pattern in _IGNORED:
        if any(each.match(pattern.removeprefix("!")) for each in (path, *path.parents)):
            decided = pattern.startswith("!")
    return decided


@cache
def _can_confine() -> bool:
    """Whether programs can be started as in a container; a container itself may not allow it."""
    tried = ["unshare", "--mount", "mount", "-o", "remount,bind,ro", "/"]
    return (
        os.getuid() == 0 and subprocess.run(tried, capture_output=True, check=False).returncode == 0
    )


@pytest.fixture(scope="module")
def image() -> Iterator[_Image]:
    # Another user must be able to reach it, unlike the folders of pytest.
    with tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as name:
        folder = Path(name)
        folder.chmod(0o755)
        made = _Image(folder)
        for each in ("data", "tmp"):
            (folder / each).mkdir(0o700)
            if _can_confine():
                os.chown(folder / each, _USER, _USER)
        yield made


def _started(
    image: _Image, *arguments: str, settings: Mapping[str, str], **options: Any
) -> subprocess.Popen[str]:
    """A container of the image; as a user without rights if whoever runs the tests can do that."""
    command = [*image.command(_of_last("ENTRYPOINT")), *arguments]
    if _can_confine():
        confined = ["unshare", "--mount", "sh", "-c", _CONFINED, "sh", str(image.folder)]
        command = [*confined, *command]
    environment = image.environment | dict(settings)
    return subprocess.Popen(command, cwd=image.app, env=environment, text=True, **options)


@contextmanager
def _running(
    image: _Image, *arguments: str, settings: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    serve = [*image.command(_of_last("CMD")), "--port", str(image.port), *arguments]
    process = _started(image, *serve, settings=settings or {})
    try:
        soon(lambda: process.poll() or answers(image.port, 401))
        assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.wait()


def _files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.slow
def test_what_the_image_holds_serves_and_is_healthy(image: _Image) -> None:
    """F158a: The container is healthy, and writes to its volume only."""
    before = _files(image.folder / "opt")
    assert not {each.name for each in before} & {"pip", "uv"}
    health = image.command(re.sub(r"^.*(?=CMD)", "", _of_last("HEALTHCHECK")))
    with _running(image) as process:
        assert subprocess.run(health, check=False).returncode == 0
        process.send_signal(_stop_signal())
        assert process.wait(timeout=60) == 0
    assert subprocess.run(health, stderr=subprocess.DEVNULL, check=False).returncode != 0
    assert _files(image.folder / "opt") == before
    assert (image.data / "svc.db").exists()


def _with_secrets(image: _Image, server: PostgresqlServer) -> dict[str, str]:
    """The settings of a container on a new database, whose secrets are files of root."""
    secrets = image.folder / "secrets/rescind"
    secrets.mkdir(parents=True)
    (secrets / "master.key.base64").write_text("A" * 43 + "=")
    wiring.create_root(secrets / "root.key")
    (secrets / "pgpass").write_text("*:*:*:rescind:secret\n")
    postgresql.execute(server.url(), "CREATE ROLE rescind LOGIN")
    postgresql.execute(server.url(), "CREATE DATABASE rescind")
    copies = image.moved("/tmp/secrets")
    return {
        "RESCIND_STORE": f"postgresql://{HOST}:{server.port}/rescind",
        "RESCIND_BLOBS": "postgresql:",
        "RESCIND_KEY_WRAPPER": f"file:{copies}/master.key",
        "RESCIND_ROOT": f"file:{copies}/root.key",
        "PGUSER": "rescind",
        "PGPASSFILE": f"{copies}/pgpass",
    }


@pytest.mark.slow
def test_the_image_serves_from_postgresql_and_drains(image: _Image) -> None:
    """F656a: The container serves the stores that RESCIND_… name, and SIGTERM drains it."""
    with postgresql.running() as server:
        _serve_and_drain(image, _with_secrets(image, server))
    copies = list(image.folder.glob("tmp/secrets/*"))
    assert {each.name for each in copies} == {"master.key", "pgpass", "root.key"}
    assert {each.stat().st_mode & 0o777 for each in copies} == {0o600}


def _serve_and_drain(image: _Image, settings: dict[str, str]) -> None:
    setup = ("setup", "--role", "rescind", "--tenant", "acme")
    owner = settings | {"PGUSER": "owner"}
    made = _started(image, *setup, settings=owner, stdout=subprocess.PIPE)
    key, _ = made.communicate(timeout=60)
    assert made.returncode == 0
    headers = {"Authorization": f"Bearer {key.strip()}"}
    url, before = f"http://{HOST}:{image.port}", _files(image.data)
    with _running(image, "--drain-seconds", "60", settings=settings) as process:
        assert httpx2.get(f"{url}/readyz").status_code == 200
        assert httpx2.get(f"{url}/v1/whoami", headers=headers).status_code == 200
        process.send_signal(_stop_signal())
        soon(lambda: httpx2.get(f"{url}/readyz").status_code == 503)
        assert httpx2.get(f"{url}/v1/whoami", headers=headers).status_code == 200
        process.send_signal(_stop_signal())
        assert process.wait(timeout=60) == 0
    assert _files(image.data) == before


def _check_rights(service: dict[str, Any]) -> None:
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["tmpfs"] == ["/tmp"]
    assert all(each.startswith("127.0.0.1:") for each in service.get("ports", ()))


def test_the_container_can_do_little() -> None:
    """F158b: The container runs as a user without rights, on a file system that is read-only."""
    (service,) = yaml.safe_load((_CONTAINER / "compose.yaml").read_text())["services"].values()
    assert _of_last("USER") == f"{_USER}:{_USER}"
    _check_rights(service)
    assert service["ports"] == [f"127.0.0.1:8080:{_of_last('EXPOSE')}"]
    assert service["volumes"] == [f"data:{json.loads(_of_last('VOLUME'))[0]}"]


def test_two_servers_share_a_database_and_a_key() -> None:
    """F656b: The compose file with PostgreSQL names stores and a key that its servers share."""
    document = yaml.safe_load((_CONTAINER / "compose.postgresql.yaml").read_text())
    servers, setup = document["services"]["rescind"], document["services"]["setup"]
    _check_rights(servers)
    _check_rights(setup)
    assert servers["deploy"]["replicas"] == 2
    assert servers["volumes"] == setup["volumes"]
    named = wiring.settings(servers["environment"])
    check_url(f"{named.store.scheme}:{named.store.location}")
    assert (named.store.scheme, named.blobs.scheme) == ("postgresql", "postgresql")
    assert named.key_wrapper.location.startswith(f"{json.loads(_of_last('VOLUME'))[0]}/")
    # The servers have the rights to rows alone, of a role that is no owner.
    owner = document["services"]["database"]["environment"]["POSTGRES_USER"]
    assert setup["environment"] == servers["environment"] | {"PGUSER": owner}
    assert f"--role {servers['environment']['PGUSER']} " in setup["command"]


def test_an_image_gets_no_data_and_no_keys() -> None:
    """F158c: The image is built from the folders of the code, and from nothing else."""
    assert _IGNORED[0] == "*"
    allowed = {each[1:] for each in _IGNORED if each.startswith("!") and "/" not in each}
    copied = {
        each for name, rest in _instructions() if name == "COPY" for each in rest.split()[:-1]
    }
    assert {each.split("/")[0] for each in copied if not each.startswith(("-", "/"))} == allowed
