"""The toolchain of Go, an environment of its own in `.tools/go`."""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.kit.processes import ROOT

SOURCE: Final = ROOT / "infra" / "clients" / "go"
_FOUND: Final = [*(ROOT / ".tools/go/lib").glob("python*/site-packages/go/bin")]

needs_go: Final = pytest.mark.skipif(
    not _FOUND, reason="no Go: `make .tools/go/.installed` installs it"
)


def is_there() -> bool:
    """Whether the toolchain is installed."""
    return bool(_FOUND)


def settings() -> dict[str, str]:
    """The environment in which Go asks no registry, and keeps what it compiled in `.tools`."""
    cache = ROOT / ".tools/go/cache"
    own = {"GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}
    return os.environ | own | {"GOCACHE": str(cache), "GOPATH": str(cache / "path"), "GOENV": "off"}


def ran(program: str, *arguments: str | Path, folder: Path = SOURCE) -> str:
    """What `go` or `gofmt` prints; it must succeed."""
    done = subprocess.run(
        [_FOUND[0] / program, *arguments],
        cwd=folder,
        env=settings(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(folder: Path, source: Path = SOURCE) -> Path:
    """The command `rescind-authorizer`, built in a folder."""
    program = folder / "rescind-authorizer"
    ran("go", "build", "-o", program, "./cmd/rescind-authorizer", folder=source)
    return program
