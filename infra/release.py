"""Run the checks of `make release-rehearsal`, which builds a release twice and uses it.

The rehearsal uploads no files. On a tag, `.github/workflows/release.yml` uploads the build.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from socket import socket
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from shared import __version__

_ROOT: Final = Path(__file__).parents[1]
_TOOLS: Final = _ROOT / ".tools"
_BIN: Final = Path(sys.executable).parent
_GO: Final = "infra/clients/go"
_REPOSITORY: Final = "https://github.com/rescind/rescind"
_MODULE: Final = f"{_REPOSITORY.removeprefix('https://')}/{_GO}"
_IMAGE: Final = "ghcr.io/rescind/rescind"
_DOCKERFILE: Final = "infra/container/Dockerfile"
# Matches the image references in manifests.
_NAMED_IMAGE: Final = re.compile(
    r"(?<=image: )rescind$|registry\.example\.com/rescind:[\w.]+", re.MULTILINE
)
_IMAGES: Final = re.compile(r"^\s*image(?:: | = )\"?([\w./:-]+)", re.MULTILINE)
_MANIFESTS: Final = ("infra/kubernetes/*", "infra/container/*.toml", "infra/container/container-*")
_SECONDS: Final = 30.0


class ReleaseRefused(Exception):
    """The commit must not be released."""


def main() -> int:
    """Run a rehearsal step. Returns 1 if the commit must not be released."""
    parser = argparse.ArgumentParser(prog="python -m infra.release", description=__doc__)
    parser.add_argument("step", choices=("version", "pack", "check"))
    parser.add_argument("--dist", type=Path, default=Path("dist"))
    parser.add_argument("--folder", type=Path, default=_ROOT, help="a checkout or a build folder")
    parser.add_argument("--tag", default="", help="the tag that is released, such as v0.4.0")
    arguments = parser.parse_args()
    try:
        if arguments.step == "version":
            check_version(_ROOT, arguments.tag)
        elif arguments.step == "pack":
            _pack(arguments.folder, arguments.dist)
        else:
            check(arguments.dist, arguments.folder)
    except ReleaseRefused as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def check(dist: Path, folder: Path) -> None:
    """Check a build against a second build, a checkout and an installation in `folder`.

    Raises `ReleaseRefused`.
    """
    compare(dist, folder / "dist")
    for each in dist.glob("*.tar.gz"):
        check_source(each, dist, folder / "again")
    check_tags(folder / "tagged", dist, folder / "modules")
    check_manifests(dist, folder / "manifests")
    print(check_image(dist / f"rescind-{__version__}.tar.gz", folder / "image"), flush=True)
    _serve(folder / "venv/bin/rescind", folder)


def check_version(root: Path, tag: str = "") -> None:
    """Raise `ReleaseRefused` unless version, changelog, package and tag agree."""
    match = re.search(r'__version__ = "(.*)"', (root / "shared/__init__.py").read_text())
    version = match[1] if match else ""
    package = json.loads((root / "infra/clients/typescript/package.json").read_text())["version"]
    if package != _semantic(version):
        raise ReleaseRefused(
            f"package.json has the version {package}, and shared/__init__.py {version}"
        )
    changelog = (root / "CHANGELOG.md").read_text()
    title = "Unreleased" if not tag and ".dev" in version else version
    if title == version:
        if tag not in ("", tags(version)[0]):
            raise ReleaseRefused(f"the tag is {tag}, and the version {version}")
        if f"\n## {version} - " not in changelog:
            raise ReleaseRefused(f"CHANGELOG.md has no section {version}; add it, with its date")
    section = changelog.partition(f"\n## {title}")[2].partition("\n## ")[0]
    if not re.search(r"^### Upgrade\n\n\w", section, re.MULTILINE):
        raise ReleaseRefused(
            f'the section {title} of CHANGELOG.md has no part "Upgrade"; say how, or that nothing '
            "is to be done"
        )


def tags(version: str) -> tuple[str, str]:
    """Return the tags of a release: for the whole project, and for the Go module."""
    return f"v{_semantic(version)}", f"{_GO}/v{_semantic(version)}"


def _semantic(version: str) -> str:
    """Convert a Python version to the form of npm and Go."""
    return version.replace(".dev", "-dev.")


def compare(first: Path, second: Path) -> None:
    """Raise `ReleaseRefused` unless two folders have the same files, byte for byte."""
    files = [{each.name: each.read_bytes() for each in it.iterdir()} for it in (first, second)]
    names = sorted(files[0].keys() | files[1].keys())
    if different := [name for name in names if files[0].get(name) != files[1].get(name)]:
        raise ReleaseRefused(f"two builds of the commit differ in {', '.join(different)}")


def check_source(source: Path, dist: Path, folder: Path) -> None:
    """Raise `ReleaseRefused` unless a source distribution builds a wheel with the same content."""
    _run(_BIN / "uv", "--quiet", "build", "--wheel", "--out-dir", folder, source)
    name = next(folder.glob(f"{source.name.partition('-')[0]}-*.whl")).name
    if _content(folder / name) != _content(dist / name):
        raise ReleaseRefused(f"the wheel that is built from {source.name} is not {name}")


def check_tags(tree: Path, dist: Path, folder: Path, *names: str) -> None:
    """Tag a tree, and fetch the Go module by its tag and from `dist`, as `go get` does.

    `names` replace the tags of the release. Raises `ReleaseRefused` unless both modules are equal.
    """
    version = tags(__version__)[0]
    git = ("git", "-c", "user.name=rehearsal", "-c", "user.email=rehearsal@example.com")
    for command in (
        ("init", "--quiet"),
        ("add", "--all", "--force"),
        ("commit", "--quiet", "--no-verify", "--message", "release"),
        *(("tag", each) for each in names or tags(__version__)),
    ):
        _run(*git, *command, folder=tree)
    proxy = folder / "proxy" / _MODULE / "@v"
    proxy.mkdir(parents=True)
    (proxy / "list").write_text(f"{version}\n")
    (proxy / f"{version}.info").write_text(json.dumps({"Version": version}))
    shutil.copy(tree / _GO / "go.mod", proxy / f"{version}.mod")
    shutil.copy(dist / f"rescind-go-{__version__}.zip", proxy / f"{version}.zip")
    local_git = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_VALUE_0": _REPOSITORY}
    local_git["GIT_CONFIG_KEY_0"] = f"url.file://{tree}.insteadOf"
    served = _module_hash(folder / "served", version, {"GOPROXY": f"file://{folder / 'proxy'}"})
    tagged = _module_hash(folder / "tagged", version, {"GOPROXY": "direct", **local_git})
    if served != tagged:
        raise ReleaseRefused(f"rescind-go-{__version__}.zip is not what {_MODULE}@{version} names")


def _module_hash(folder: Path, version: str, settings: Mapping[str, str]) -> str:
    """Return Go's hash of a module version."""
    folder.mkdir()
    variables = {"GOTOOLCHAIN": "local", "GOSUMDB": "off", "GOMODCACHE": str(folder), **settings}
    variables["GOFLAGS"] = "-mod=mod -modcacherw"
    (go,) = (_TOOLS / "go/lib").glob("python*/site-packages/go/bin/go")
    command = (go, "mod", "download", "-json", f"{_MODULE}@{version}")
    module_hash: str = json.loads(_run(*command, folder=folder, settings=variables))["Sum"]
    return module_hash


def check_manifests(dist: Path, folder: Path) -> None:
    """Raise `ReleaseRefused` unless the manifests are valid, and name this version's image."""
    with zipfile.ZipFile(dist / f"rescind-manifests-{__version__}.zip") as packed:
        packed.extractall(folder)
    texts = {each: each.read_text() for each in folder.rglob("*") if each.is_file()}
    images = {image for text in texts.values() for image in _IMAGES.findall(text)}
    if images != {f"{_IMAGE}:{__version__}"}:
        raise ReleaseRefused(f"the manifests name {', '.join(sorted(images))}")
    kinds = [
        each for each, text in texts.items() if re.search("^kind: (?!Kus)", text, re.MULTILINE)
    ]
    _run(_TOOLS / "kubernetes/bin/kubernetes-validate", "--strict", *kinds)


def check_image(source: Path, folder: Path) -> str:
    """Build the image from a source distribution, if possible here. Return the outcome.

    Raises `ReleaseRefused` if the distribution lacks a file, or the image has another version.
    """
    # `tarfile` lacks filters in the first patch releases of Python 3.11.
    folder.mkdir(parents=True, exist_ok=True)
    _run("tar", "-xf", source, "-C", folder)
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
    buildah = (builder, *places, "--storage-driver", "vfs")
    (base,) = re.findall(r"^FROM (\S+) AS python$", lines, re.MULTILINE)
    try:
        _run(*buildah, "pull", "--quiet", "--policy", "missing", base)
    except ReleaseRefused:
        return f"image: not built, because {base} cannot be pulled"
    ignored = ("--ignorefile", tree / f"{_DOCKERFILE}.dockerignore")
    build = ("build", "--isolation", "chroot", *ignored, "--file", tree / _DOCKERFILE)
    _run(*buildah, *build, "--tag", "rescind", tree)
    container = _run(*buildah, "from", "rescind").strip()
    run = ("run", "--isolation", "chroot", container, "--", "rescind", "--version")
    version = _run(*buildah, *run).strip()
    if version != f"rescind {__version__}":
        raise ReleaseRefused(f"the image has the version {version}, not {__version__}")
    return f"image: built, {version}"


def _serve(rescind: Path, folder: Path) -> None:
    """Start the installed service until it is ready. Raises `ReleaseRefused`."""
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = ("--port", str(port), "--data", str(folder / "data"))
    with subprocess.Popen(  # noqa: S603 (the build under test)
        [rescind, "serve", *address], stdout=subprocess.DEVNULL
    ) as process:
        try:
            deadline = time.monotonic() + _SECONDS
            while process.poll() is None and time.monotonic() < deadline:
                try:
                    with urlopen(f"http://127.0.0.1:{port}/readyz"):
                        return
                except URLError:
                    time.sleep(0.2)
            raise ReleaseRefused("the installed service does not become ready")
        finally:
            process.terminate()


def _pack(tree: Path, dist: Path) -> None:
    """Pack the Go module as Go does, and the manifests with this version's image.

    Go packs the files below the module path and version, and the license. Users add settings and a
    namespace to the manifests with an overlay.
    """
    source, version = tree / _GO, tags(__version__)[0]
    files = {str(each.relative_to(source)): each for each in source.rglob("*") if each.is_file()}
    files.setdefault("LICENSE", tree / "LICENSE")
    module = {f"{_MODULE}@{version}/{name}": each.read_bytes() for name, each in files.items()}
    manifests = {}
    for pattern in _MANIFESTS:
        for each in tree.glob(pattern):
            text = _NAMED_IMAGE.sub(f"{_IMAGE}:{__version__}", each.read_text())
            manifests[str(each.relative_to(tree / "infra"))] = text.encode()
    # The fixed order and the fixed time make the archives reproducible.
    for name, content in (("go", module), ("manifests", manifests)):
        with zipfile.ZipFile(dist / f"rescind-{name}-{__version__}.zip", "w") as archive:
            for path in sorted(content):
                archive.writestr(zipfile.ZipInfo(path), content[path], zipfile.ZIP_DEFLATED)


def _content(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel except RECORD, because its order differs."""
    with zipfile.ZipFile(wheel) as packed:
        return {
            name: packed.read(name) for name in packed.namelist() if not name.endswith("/RECORD")
        }


def _run(
    *command: str | Path, folder: Path = _ROOT, settings: Mapping[str, str] | None = None
) -> str:
    """Run a program and return its output. Raises `ReleaseRefused` if it fails."""
    words, env = [*map(str, command)], {**os.environ, **(settings or {})}
    done = subprocess.run(  # noqa: S603 (commands of this module)
        words, cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ReleaseRefused(f"{' '.join(words)}\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
