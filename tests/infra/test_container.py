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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.kit.processes import ROOT, answers, free_port
from tests.kit.surroundings import with_proxies
from tests.kit.waiting import soon

_CONTAINER: Final = ROOT / "infra/container"
_TEXT: Final = (_CONTAINER / "Dockerfile").read_text()


def _instructions() -> list[tuple[str, str]]:
    """Each instruction of the Dockerfile, with its arguments, in order."""
    whole = re.sub(r"^#.*\n", "", _TEXT, flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line.partition(" ") for line in whole.splitlines() if line]
    return [(name, " ".join(rest.split())) for name, _, rest in lines]


def _of_last(name: str) -> str:
    """The arguments of an instruction of the last stage."""
    return [rest for each, rest in _instructions() if each == name][-1]


class _Image:
    """What the first stage makes, in a folder instead of a file system of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.port = folder, folder / "data", free_port()
        self._run_first_stage()

    @property
    def app(self) -> Path:
        return Path(self.moved(_of_last("WORKDIR")))

    def moved(self, text: str) -> str:
        """With the paths of this folder, and a port of this machine that is free."""
        for path in ("/opt/rescind", "/build", "/data"):
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
        if (ROOT / source).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "container")
            shutil.copytree(ROOT / source, there / target, ignore=ignored)
        else:
            folder = Path(moved(target))
            folder.mkdir(exist_ok=True)
            shutil.copy(ROOT / source, folder)


@contextmanager
def _running(image: _Image) -> Iterator[subprocess.Popen[bytes]]:
    command = [*image.command(_of_last("ENTRYPOINT")), "--port", str(image.port)]
    process = subprocess.Popen(command, cwd=image.app, env={"PATH": os.defpath})
    try:
        soon(lambda: process.poll() or answers(image.port, 401), seconds=60)
        assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.wait()


def _files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.slow
def test_what_the_image_holds_serves_and_is_healthy(tmp_path: Path) -> None:
    """F158a: The container is healthy, and writes to its volume only."""
    image = _Image(tmp_path)
    before = _files(tmp_path / "opt")
    assert not {each.name for each in before} & {"pip", "uv"}
    health = image.command(re.sub(r"^.*(?=CMD)", "", _of_last("HEALTHCHECK")))
    with _running(image) as process:
        assert subprocess.run(health, check=False).returncode == 0
        process.send_signal(signal.Signals[_of_last("STOPSIGNAL")])
        assert process.wait(timeout=30) == 0
    assert subprocess.run(health, stderr=subprocess.DEVNULL, check=False).returncode != 0
    assert _files(tmp_path / "opt") == before
    assert (image.data / "svc.db").exists()


def test_the_container_can_do_little() -> None:
    """F158b: The container runs as a user without rights, on a file system that is read-only."""
    (service,) = yaml.safe_load((_CONTAINER / "compose.yaml").read_text())["services"].values()
    assert _of_last("USER") == "10001:10001"
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["ports"] == ["127.0.0.1:8080:8080"]
    assert service["volumes"] == [f"data:{json.loads(_of_last('VOLUME'))[0]}"]


def test_an_image_gets_no_data_and_no_keys() -> None:
    """F158c: The image is built from the folders of the code, and from nothing else."""
    ignored = (_CONTAINER / "Dockerfile.dockerignore").read_text().splitlines()
    assert ignored[1] == "*"
    allowed = {each[1:] for each in ignored if each.startswith("!")}
    copied = {
        each for name, rest in _instructions() if name == "COPY" for each in rest.split()[:-1]
    }
    assert {each.split("/")[0] for each in copied if not each.startswith(("-", "/"))} == allowed
