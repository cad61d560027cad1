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
_REPOSITORY: Final = "https://github.com/rescind/rescind"
_MODULE: Final = f"{_REPOSITORY.removeprefix('https://')}/{_GO}"
_IMAGE: Final = "ghcr.io/rescind/rescind"
_DOCKERFILE: Final = "infra/container/Dockerfile"
# Where a manifest names the image.
_NAMED_IMAGE: Final = re.compile(
    r"(?<=image: )rescind$|registry\.example\.com/rescind:[\w.]+", re.MULTILINE
)
_IMAGES: Final = re.compile(r"^\s*image(?:: | = )\"?([\w./:-]+)", re.MULTILINE)
_MANIFESTS: Final = ("infra/kubernetes/*", "infra/container/*.toml", "infra/container/container-*")
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
        first, second, tagged = (_checkout(Path(name) / each) for each in ("1", "2", "tagged"))
        for tree, place in ((first, dist), (second, Path(name) / "dist")):
            print(f"Building in {tree}", flush=True)
            build(tree, place)
        compare(dist, Path(name) / "dist")
        for each in dist.glob("*.tar.gz"):
            check_source(each, dist, Path(name) / "again")
        check_tags(tagged, dist, Path(name) / "modules")
        check_manifests(dist, Path(name) / "manifests")
        print(check_image(dist / f"rescind-{__version__}.tar.gz", Path(name) / "image"), flush=True)
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
    if package != _semantic(version):
        raise ReleaseRefused(
            f"package.json has the version {package}, and shared/__init__.py {version}"
        )
    changelog = (root / "CHANGELOG.md").read_text()
    if not tag and ".dev" in version:
        _check_upgrade("Unreleased", changelog)
        return
    if tag not in ("", tags(version)[0]):
        raise ReleaseRefused(f"the tag is {tag}, and the version {version}")
    if f"\n## {version} - " not in changelog:
        raise ReleaseRefused(
            f"CHANGELOG.md has no section {version}; write what changed, and its date"
        )
    _check_upgrade(version, changelog)


def _check_upgrade(title: str, changelog: str) -> None:
    section = changelog.partition(f"\n## {title}")[2].partition("\n## ")[0]
    if not re.search(r"^### Upgrade\n\n\w", section, re.MULTILINE):
        raise ReleaseRefused(
            f'the section {title} of CHANGELOG.md has no part "Upgrade"; say how, or that nothing '
            "is to be done"
        )


def tags(version: str) -> tuple[str, str]:
    """Return the tags of a release: of the whole, and of the module for Go."""
    return f"v{_semantic(version)}", f"{_GO}/v{_semantic(version)}"


def _semantic(version: str) -> str:
    """Return a version of Python in the form of npm and Go."""
    return version.replace(".dev", "-dev.")


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
    _module(tree, dist)
    _manifests(tree, dist)
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


def check_tags(tree: Path, dist: Path, folder: Path, *names: str) -> None:
    """Tag a tree, and fetch the module by its tag and from `dist`, as `go get` does.

    Raises `ReleaseRefused` unless both are the same. `names` are other tags than those of the
    release.
    """
    version = tags(__version__)[0]
    git = ("git", "-c", "user.name=rehearsal", "-c", "user.email=rehearsal@example.com")
    for command in (
        ("init", "--quiet"),
        ("add", "--all", "--force"),
        ("commit", "--quiet", "--no-verify", "--message", "release"),
        *(("tag", each) for each in names or tags(__version__)),
    ):
        _ran(*git, *command, folder=tree)
    proxy = folder / "proxy" / _MODULE / "@v"
    proxy.mkdir(parents=True)
    (proxy / "list").write_text(f"{version}\n")
    (proxy / f"{version}.info").write_text(json.dumps({"Version": version}))
    shutil.copy(tree / _GO / "go.mod", proxy / f"{version}.mod")
    shutil.copy(dist / f"rescind-go-{__version__}.zip", proxy / f"{version}.zip")
    instead = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_VALUE_0": _REPOSITORY}
    instead["GIT_CONFIG_KEY_0"] = f"url.file://{tree}.insteadOf"
    served = _fetched(folder / "served", version, {"GOPROXY": f"file://{folder / 'proxy'}"})
    tagged = _fetched(folder / "tagged", version, {"GOPROXY": "direct", **instead})
    if served != tagged:
        raise ReleaseRefused(f"rescind-go-{__version__}.zip is not what {_MODULE}@{version} names")


def _fetched(folder: Path, version: str, settings: Mapping[str, str]) -> str:
    """Return the hash that Go gives the module of a version."""
    folder.mkdir()
    own = {**_go_settings(), "GOSUMDB": "off", "GOMODCACHE": str(folder), **settings}
    own["GOFLAGS"] = "-mod=mod -modcacherw"
    command = (_go_program(), "mod", "download", "-json", f"{_MODULE}@{version}")
    found: str = json.loads(_ran(*command, folder=folder, settings=own))["Sum"]
    return found


def check_manifests(dist: Path, folder: Path) -> None:
    """Raise `ReleaseRefused` unless the manifests are valid, and name this version's image."""
    with zipfile.ZipFile(dist / f"rescind-manifests-{__version__}.zip") as packed:
        packed.extractall(folder)
    texts = {each: each.read_text() for each in folder.rglob("*") if each.is_file()}
    named = {image for text in texts.values() for image in _IMAGES.findall(text)}
    if named != {f"{_IMAGE}:{__version__}"}:
        raise ReleaseRefused(f"the manifests name {', '.join(sorted(named))}")
    kinds = [
        each for each, text in texts.items() if re.search("^kind: (?!Kus)", text, re.MULTILINE)
    ]
    _ran(_TOOLS / "kubernetes/bin/kubernetes-validate", "--strict", *kinds)


def check_image(source: Path, folder: Path) -> str:
    """Build the image from a source distribution, if that can be done here; return what was done.

    Raises `ReleaseRefused` if the distribution lacks something, or the image is of another version.
    """
    _unpack(source, folder)
    (tree,) = folder.iterdir()
    lines = (_ROOT / _DOCKERFILE).read_text()
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", lines, re.MULTILINE)
    for each in (_DOCKERFILE, f"{_DOCKERFILE}.dockerignore", *" ".join(copied).split()):
        if not (tree / each).exists():
            raise ReleaseRefused(f"{source.name} lacks {each}, which the image needs")
    builder = shutil.which("buildah")
    if builder is None:
        return "image: not built, because there is no buildah"
    places = ("--root", folder / "layers", "--runroot", folder / "run")
    own = (builder, *places, "--storage-driver", "vfs")
    (base,) = re.findall(r"^FROM (\S+) AS python$", lines, re.MULTILINE)
    try:
        _ran(*own, "pull", "--quiet", "--policy", "missing", base)
    except ReleaseRefused:
        return f"image: not built, because {base} cannot be pulled"
    ignored = ("--ignorefile", tree / f"{_DOCKERFILE}.dockerignore")
    built = ("build", "--isolation", "chroot", *ignored, "--file", tree / _DOCKERFILE)
    _ran(*own, *built, "--tag", "rescind", tree)
    container = _ran(*own, "from", "rescind").strip()
    said = _ran(*own, "run", "--isolation", "chroot", container, "--", "rescind", "--version")
    if said.strip() != f"rescind {__version__}":
        raise ReleaseRefused(f"the image says {said.strip()}")
    return f"image: built, {said.strip()}"


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
    _unpack(archive, folder)
    return folder


def _unpack(archive: Path, folder: Path) -> None:
    # Not with `tarfile`, whose filters the first patches of Python 3.11 do not have.
    folder.mkdir(parents=True, exist_ok=True)
    _ran("tar", "-xf", archive, "-C", folder)


def _go_program() -> Path:
    (programs,) = (_TOOLS / "go/lib").glob("python*/site-packages/go/bin")
    return programs / "go"


def _go_settings() -> dict[str, str]:
    """Return the settings with which Go asks no registry."""
    settings = {"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOPROXY": "off"}
    return settings | {"CGO_ENABLED": "0", "GOCACHE": str(_TOOLS / "go/cache")}


def _go(source: Path, dist: Path, platform: str) -> None:
    system, machine = platform.split("/")
    settings = {**_go_settings(), "GOOS": system, "GOARCH": machine}
    output = dist / f"rescind-authorizer-{__version__}-{system}-{machine}"
    flags = ("-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=")
    command = (_go_program(), "build", *flags, "-o", output, "./cmd/rescind-authorizer")
    _ran(*command, folder=source, settings=settings)


def _module(tree: Path, dist: Path) -> None:
    """Pack the module as Go does: each file below the module and its version, and the license."""
    source = tree / _GO
    files = {str(each.relative_to(source)): each for each in source.rglob("*") if each.is_file()}
    files.setdefault("LICENSE", tree / "LICENSE")
    version = tags(__version__)[0]
    packed = {f"{_MODULE}@{version}/{name}": each.read_bytes() for name, each in files.items()}
    _packed(dist / f"rescind-go-{__version__}.zip", packed)


def _manifests(tree: Path, dist: Path) -> None:
    """Pack the manifests with the image of this version, and copy what Prometheus and Grafana read.

    The overlay of a user adds settings and namespace.
    """
    image = f"{_IMAGE}:{__version__}"
    files = [each for pattern in _MANIFESTS for each in tree.glob(pattern)]
    packed = {
        str(each.relative_to(tree / "infra")): _NAMED_IMAGE.sub(image, each.read_text()).encode()
        for each in files
    }
    _packed(dist / f"rescind-manifests-{__version__}.zip", packed)
    for name in ("alerts.yaml", "dashboard.json"):
        shutil.copy(tree / "infra" / name, dist / name)


def _packed(file: Path, content: Mapping[str, bytes]) -> None:
    """Pack files in an order and at a time that are always the same."""
    with zipfile.ZipFile(file, "w") as made:
        for name in sorted(content):
            made.writestr(zipfile.ZipInfo(name), content[name], zipfile.ZIP_DEFLATED)


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
