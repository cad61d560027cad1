"""Environments are made from lock files by uv, wherever pip is set up to look for packages."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final
from zipfile import ZipFile, ZipInfo

import pytest

from tests.kit.processes import HOST, ROOT, environment

_PYTHON: Final = f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
_UV: Final = str(Path(sys.executable).with_name("uv"))
# A Python as Debian has it without python3-venv and python3-pip.
_BARE: Final = """
import runpy, sys
sys.modules["ensurepip"] = None
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Index:
    """A folder of wheels, and the lock file that pins them."""

    def __init__(self, folder: Path) -> None:
        self.wheels = folder / "wheels"
        self.lock = folder / "requirements.lock"
        self._simple = folder / "index" / "simple"
        self.wheels.mkdir()
        self.add("thing", "1.0", {"thing.py": ""})

    def add(self, name: str, version: str, files: dict[str, str]) -> None:
        """Add a wheel to the folder and the index, and its pin to the lock file."""
        wheel = self.wheels / f"{name}-{version}-py3-none-any.whl"
        info = f"{name}-{version}.dist-info"
        files |= {
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\n"
            "Root-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{each},,\n" for each in [*files, f"{info}/RECORD"])
        with ZipFile(wheel, "w") as archive:
            for each, text in (files | {f"{info}/RECORD": record}).items():
                entry = ZipInfo(each)
                entry.external_attr = 0o100755 << 16
                archive.writestr(entry, text)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        with self.lock.open("a") as lock:
            lock.write(f"{name}=={version} \\\n    --hash=sha256:{digest}\n")
        page = self._simple / name
        page.mkdir(parents=True)
        shutil.copy(wheel, page)
        (page / "index.html").write_text(f'<a href="{wheel.name}#sha256={digest}">{wheel.name}</a>')

    @contextmanager
    def served(self) -> Iterator[str]:
        """The address of the index on this machine. As a proxy it answers for every other."""
        handler = partial(_Handler, directory=str(self._simple.parent))
        with ThreadingHTTPServer((HOST, 0), handler) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://{HOST}:{server.server_port}"
            server.shutdown()


class _Handler(SimpleHTTPRequestHandler):
    def translate_path(self, path: str) -> str:
        """The file; a proxy is asked for it by its whole address."""
        return super().translate_path("/" + path.removeprefix("http://index.invalid/"))

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index(tmp_path)


@pytest.fixture
def make(tmp_path: Path, index: Index) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Make an environment of the lock file, with this configuration of pip and nothing else."""

    def run(
        settings: str = "", *, python: str = sys.executable, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        (tmp_path / "pip.conf").write_text(f"[global]\n{settings}\n")
        none_of = ("PIP_", "UV_", "SSL_")
        inherited = {k: v for k, v in environment().items() if not k.startswith(none_of)}
        inherited |= {
            "PIP_CONFIG_FILE": str(tmp_path / "pip.conf"),
            "UV_CACHE_DIR": str(tmp_path / "cache"),
        }
        script = str(ROOT / "infra" / "environment.py")
        return subprocess.run(
            [python, script, str(tmp_path / "venv"), str(index.lock)],
            env=inherited | {"PATH": os.defpath} | variables,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def has_pip() -> None:
    found = subprocess.run([_PYTHON, "-m", "pip", "--version"], capture_output=True, check=False)
    if found.returncode:
        pytest.skip(f"{_PYTHON} has no pip, whose configuration could be read")


def _installed(ran: subprocess.CompletedProcess[str], folder: Path) -> bool:
    assert ran.returncode == 0, ran.stderr
    assert (ran.stdout.count("\n"), ran.stderr) == (1, "")
    imported = subprocess.run([folder / "venv/bin/python", "-c", "import thing"], check=False)
    return imported.returncode == 0


@pytest.mark.usefixtures("has_pip")
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param("index-url = {index}/simple", id="index", marks=pytest.mark.slow),
        pytest.param(
            "find-links = {wheels}\nno-index = true", id="offline", marks=pytest.mark.slow
        ),
        pytest.param(
            "extra-index-url = {index}/simple\nindex-url = {index}/nothing",
            id="extra index",
            marks=pytest.mark.slow,
        ),
        pytest.param("index-url = http://index.invalid/simple\nproxy = {index}", id="proxy"),
    ],
)
def test_packages_come_from_where_pip_is_set_up_to_look(
    tmp_path: Path,
    index: Index,
    make: Callable[..., subprocess.CompletedProcess[str]],
    settings: str,
) -> None:
    """F33g: `make run` and `make test` install from the indexes that pip is configured for."""
    with index.served() as address:
        ran = make(settings.format(index=address, wheels=index.wheels))
    assert _installed(ran, tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("has_pip")
def test_without_uv_pip_installs_the_one_that_is_locked(
    tmp_path: Path, index: Index, make: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """F33h: An installation needs no more than Python, and is done by the uv that is locked."""
    index.add("uv", "0.13.8", {"uv-0.13.8.data/scripts/uv": f'#!/bin/sh\nexec {_UV} "$@"\n'})
    ran = make(f"find-links = {index.wheels}\nno-index = true", python=_PYTHON)
    assert _installed(ran, tmp_path)
    assert (tmp_path / "venv/bin/uv").read_text().startswith("#!/bin/sh")


def test_a_python_without_pip_and_ensurepip_gets_one_sentence(
    tmp_path: Path, make: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """F33i: A Python without pip and ensurepip gets one sentence that says what to install."""
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\nexec {_PYTHON} -S -c '{_BARE}' \"$@\"\n")
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    says = 'if [ "$1" = --version ]; then echo "uv 0.12.9"; exit; fi'
    uv.write_text(f'#!/bin/sh\n{says}\nexec {_UV} "$@"\n')
    for each in (python, uv):
        each.chmod(0o755)
    ran = make(python=str(python), PATH=f"{uv.parent}:{os.defpath}")
    (said,) = ran.stderr.splitlines()
    assert said.startswith("Cannot install: this Python (")
    assert f"sudo apt install {Path(_PYTHON).name}-venv" in said
    assert ran.returncode == 1
    assert not (tmp_path / "venv").exists()


@pytest.mark.slow
def test_what_uv_says_is_shown(
    index: Index, make: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """F33j: A package whose hash is not the locked one is not installed."""
    index.lock.write_text(f"thing==1.0 --hash=sha256:{'0' * 64}\n")
    with index.served() as address:
        ran = make(f"index-url = {address}/simple")
    assert ran.returncode == 1
    assert "Hash mismatch" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_no_lock_file_names_an_address() -> None:
    """F33k: Lock files name versions and hashes, and no address to download from."""
    places = ("*.lock", "infra/*.lock", "tests/**/*.lock", "tests/**/package-lock.json")
    clients = "infra/clients/*/package-lock.json"
    locks = [lock for place in (*places, clients) for lock in ROOT.glob(place)]
    named = {lock for lock in locks if "://" in lock.read_text()}
    assert len(locks) > 10
    assert not named
