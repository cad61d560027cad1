"""`make release-rehearsal`: build a release twice from the commit, compare, and use what was built.

Nothing is uploaded. `.github/workflows/release.yml` uploads what this has built, on a tag.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from shared import __version__

_ROOT: Final = Path(__file__).parents[1]
_TOOLS: Final = _ROOT / ".tools"
_BIN: Final = Path(sys.executable).parent
_PYTHON: Final = (".", "infra/clients/python")
_GO: Final = "infra/clients/go"
_PLATFORMS: Final = ("linux/amd64", "linux/arm64", "darwin/arm64")
_SECONDS: Final = 30.0


class ReleaseRefused(Exception):
    """A release must not be made of this."""


def main() -> int:
    """Build in `--dist`, and return 1 if a release must not be made of the commit."""
    parser = argparse.ArgumentParser(prog="python -m infra.release", description=__doc__)
    parser.add_argument("--dist", type=Path, default=Path("dist"))
    parser.add_argument("--tag", default="", help="the tag that is released, such as v0.4.0")
    asked = parser.parse_args()
    try:
        check_version(_ROOT, asked.tag)
        rehearse(asked.dist.absolute())
    except ReleaseRefused as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def rehearse(dist: Path) -> None:
    """Build twice, compare, build the wheels again, and use all of it. Raises `ReleaseRefused`."""
    shutil.rmtree(dist, ignore_errors=True)
    with TemporaryDirectory() as name:
        first, second = (_checkout(Path(name) / each) for each in ("first", "second"))
        for tree, place in ((first, dist), (second, Path(name) / "dist")):
            print(f"Building in {tree}", flush=True)
            build(tree, place)
        compare(dist, Path(name) / "dist")
        for each in dist.glob("*.tar.gz"):
            check_source(each, dist, Path(name) / "again")
        _ran(_TOOLS / "files/bin/twine", "check", "--strict", *_distributions(dist))
        use(dist, Path(name))
    sums = [f"{_hash(each)}  {each.name}" for each in sorted(dist.iterdir())]
    (dist / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    print("\n".join(sums))


def check_version(root: Path, tag: str = "") -> None:
    """Raise `ReleaseRefused` unless version, changelog, package and tag agree."""
    said = re.search(r'__version__ = "(.*)"', (root / "shared/__init__.py").read_text())
    version = said[1] if said else ""
    package = json.loads((root / "infra/clients/typescript/package.json").read_text())["version"]
    if package.replace("-dev.", ".dev") != version:
        raise ReleaseRefused(
            f"package.json has the version {package}, and shared/__init__.py {version}"
        )
    if not tag and ".dev" in version:
        return
    if tag not in ("", f"v{version}"):
        raise ReleaseRefused(f"the tag is {tag}, and the version {version}")
    if f"\n## {version} - " not in (root / "CHANGELOG.md").read_text():
        raise ReleaseRefused(
            f"CHANGELOG.md has no section {version}; write what changed, and its date"
        )


def build(tree: Path, dist: Path) -> None:
    """Build all files of a release of a checkout. Raises `ReleaseRefused`."""
    dist.mkdir(parents=True)
    for source in _PYTHON:
        _ran(_BIN / "uv", "--quiet", "build", "--out-dir", dist, tree / source)
    (tree / ".tools").symlink_to(_TOOLS)
    installed = ".tools/typescript/.installed"
    _ran("make", "--silent", "-o", installed, "typescript", f"DIST={dist}", folder=tree)
    for platform in _PLATFORMS:
        _go(tree / _GO, dist, platform)
    _module(tree / _GO, dist)
    for each in ("requirements.lock", "infra/requirements.lock"):
        name = each.replace("/", "-").replace(".lock", "")
        form = ("--output-reproducible", "--output-format", "JSON")
        program = (_TOOLS / "audit/bin/cyclonedx-py", "requirements", tree / each)
        _ran(*program, *form, "--output-file", dist / f"rescind-{name}.cdx.json")
    # Of uv, in which it is built.
    (dist / ".gitignore").unlink(missing_ok=True)


def compare(first: Path, second: Path) -> None:
    """Raise `ReleaseRefused` unless two folders have the same files, byte for byte."""
    one, other = ({each.name: _hash(each) for each in it.iterdir()} for it in (first, second))
    if wrong := sorted(name for name in one | other if one.get(name) != other.get(name)):
        raise ReleaseRefused(f"two builds of the commit differ in {', '.join(wrong)}")


def check_source(source: Path, dist: Path, folder: Path) -> None:
    """Raise `ReleaseRefused` unless the wheel of a source distribution has what the wheel has."""
    _ran(_BIN / "uv", "--quiet", "build", "--wheel", "--out-dir", folder, source)
    name = next(folder.glob(f"{source.name.partition('-')[0]}-*.whl")).name
    if _content(folder / name) != _content(dist / name):
        raise ReleaseRefused(f"the wheel that is built from {source.name} is not {name}")


def use(dist: Path, folder: Path) -> None:
    """Install what was built, serve, and put each client through the suite.

    Raises `ReleaseRefused`.
    """
    python = folder / "venv/bin/python"
    _ran(_BIN / "uv", "--quiet", "venv", "--python", sys.executable, folder / "venv")
    locked = ("--constraint", _ROOT / "infra/requirements.lock")
    wheels = [each for each in dist.iterdir() if each.suffix == ".whl"]
    _ran(_BIN / "uv", "--quiet", "pip", "install", "--python", python, *locked, *wheels)
    _serve(python.with_name("rescind"), folder)
    (package,) = dist.glob("rescind-authorizer-*.tgz")
    offline = ("--offline", "--registry", "http://127.0.0.1:9", "--ignore-scripts", "--silent")
    modules = _TOOLS / "typescript/node_modules/@noble/hashes"
    (folder / "package.json").write_text('{"private": true}')
    _ran("npm", "pack", *offline, modules, folder=folder)
    _ran("npm", "install", *offline, package, *folder.glob("noble-*.tgz"), folder=folder)
    (binary,) = dist.glob(f"*-{_here()}")
    for command in (
        (python, "-m", "rescind_authorizer", "conformance"),
        (folder / "node_modules/.bin/rescind-authorizer", "conformance"),
        (binary, "conformance"),
    ):
        said = _ran(sys.executable, "-m", "tests.conformance", "--", *command).splitlines()
        print(f"{command[0]}: {said[-1]}", flush=True)


def _serve(rescind: Path, folder: Path) -> None:
    """Start the installed service until it is ready. Raises `ReleaseRefused`."""
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = ("--port", str(port), "--data", str(folder / "data"))
    with subprocess.Popen(  # noqa: S603 (what was just built)
        [rescind, "serve", *address], stdout=subprocess.DEVNULL
    ) as process:
        try:
            _wait(process, port)
        finally:
            process.terminate()


def _wait(process: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + _SECONDS
    while process.poll() is None and time.monotonic() < until:
        try:
            with urlopen(f"http://127.0.0.1:{port}/readyz"):
                return
        except URLError:
            time.sleep(0.2)
    raise ReleaseRefused("the installed service does not become ready")


def _checkout(folder: Path) -> Path:
    """Return a folder with the files of the commit, and with nothing else."""
    archive = folder.with_suffix(".tar")
    _ran("git", "archive", "--output", archive, "HEAD")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder


def _go(source: Path, dist: Path, platform: str) -> None:
    system, machine = platform.split("/")
    (programs,) = (_TOOLS / "go/lib").glob("python*/site-packages/go/bin")
    settings = {"GOOS": system, "GOARCH": machine, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"}
    settings |= {"GOTOOLCHAIN": "local", "GOPROXY": "off", "GOCACHE": str(_TOOLS / "go/cache")}
    output = dist / f"rescind-authorizer-{__version__}-{system}-{machine}"
    flags = ("-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=")
    command = (programs / "go", "build", *flags, "-o", output, "./cmd/rescind-authorizer")
    _ran(*command, folder=source, settings=settings)


def _module(source: Path, dist: Path) -> None:
    """Pack the module as proxies of Go have it: each file below the module and its version."""
    (line,) = re.findall(r"^module (.*)$", (source / "go.mod").read_text(), re.MULTILINE)
    files = sorted(each for each in source.rglob("*") if each.is_file())
    with zipfile.ZipFile(dist / f"rescind-go-{__version__}.zip", "w", zipfile.ZIP_DEFLATED) as made:
        for each in files:
            name = f"{line}@v{__version__}/{each.relative_to(source)}"
            made.writestr(zipfile.ZipInfo(name), each.read_bytes(), zipfile.ZIP_DEFLATED)


def _distributions(dist: Path) -> Iterator[Path]:
    return (each for each in dist.iterdir() if each.name.endswith((".whl", ".tar.gz")))


def _content(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel, without their list, whose order differs."""
    with zipfile.ZipFile(wheel) as packed:
        return {
            name: packed.read(name) for name in packed.namelist() if not name.endswith("/RECORD")
        }


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _here() -> str:
    """Return the platform of this machine, as the names of binaries have it."""
    machine = os.uname().machine
    return f"{sys.platform}-{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(machine, machine) }"


@cache
def _committed_at() -> str:
    """Return when the commit was made, in seconds since 1970."""
    command = ("git", "log", "-1", "--format=%ct")
    return subprocess.check_output(command, cwd=_ROOT, text=True).strip()  # noqa: S603 (above)


def _ran(
    *command: str | Path, folder: Path = _ROOT, settings: Mapping[str, str] | None = None
) -> str:
    """Return what a program prints. Raises `ReleaseRefused` if it fails."""
    environment: dict[str, str] = {**os.environ, "SOURCE_DATE_EPOCH": _committed_at()}
    done = subprocess.run(  # noqa: S603 (commands of this module)
        [*map(str, command)],
        cwd=folder,
        env=environment | {**(settings or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseRefused(
            f"{' '.join(map(str, command))}\n{(done.stdout + done.stderr)[-2000:]}"
        )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
