"""A release is built of a commit, the same each time, and refused if something is wrong."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from infra import release, site
from shared import __version__
from tests.kit import go, processes, typescript
from tests.kit.processes import ROOT


def _tree(folder: Path) -> Path:
    """What says the version of a checkout."""
    for name in ("shared/__init__.py", "infra/clients/typescript/package.json", "CHANGELOG.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def _release(tree: Path, version: str) -> None:
    (tree / "shared/__init__.py").write_text(f'__version__ = "{version}"\n')
    package = json.dumps({"version": version.replace(".dev", "-dev.")})
    (tree / "infra/clients/typescript/package.json").write_text(package)


def test_versions_agree(tmp_path: Path) -> None:
    """F1090a: No release is made if version, tag, package and changelog do not agree."""
    release.check_version(ROOT)
    tree = _tree(tmp_path)
    with pytest.raises(release.ReleaseRefused, match=re.escape("the tag is v9.9.9")):
        release.check_version(tree, "v9.9.9")
    _release(tree, "9.9.9")
    with pytest.raises(release.ReleaseRefused, match=re.escape("no section 9.9.9")):
        release.check_version(tree, "v9.9.9")
    changelog = (tree / "CHANGELOG.md").read_text()
    dated = f"{changelog}\n## 9.9.9 - 2026-12-01\n"
    (tree / "CHANGELOG.md").write_text(dated)
    with pytest.raises(
        release.ReleaseRefused, match=re.escape('9.9.9 of CHANGELOG.md has no part "U')
    ):
        release.check_version(tree, "v9.9.9")
    (tree / "CHANGELOG.md").write_text(f"{dated}\n### Upgrade\n\nNothing is to be done.\n")
    release.check_version(tree, "v9.9.9")
    for wrong in ("9.9.9", "v9.9.9-dev.0", "infra/clients/go/v9.9.9"):
        with pytest.raises(release.ReleaseRefused, match=re.escape(f"the tag is {wrong}")):
            release.check_version(tree, wrong)
    (tree / "infra/clients/typescript/package.json").write_text('{"version": "9.9.8"}')
    with pytest.raises(
        release.ReleaseRefused, match=re.escape("package.json has the version 9.9.8")
    ):
        release.check_version(tree, "v9.9.9")


def test_all_files_name_one_repository() -> None:
    """F1319a: The module for Go, the npm package and the links of the site name one repository.

    Npm takes no provenance for a package that names another one.
    """
    module = (ROOT / "infra/clients/go/go.mod").read_text().split()[1]
    package = json.loads((ROOT / "infra/clients/typescript/package.json").read_text())["repository"]
    repository = module.removesuffix("/infra/clients/go")
    assert package["url"] == f"git+https://{repository}.git"
    assert package["directory"] == "infra/clients/typescript"
    assert f"https://{repository}/tree" == site.CODE


def test_a_wrong_version_ends_the_rehearsal() -> None:
    """F1344a: The rehearsal of a tag that is not the version's ends at once, and says why."""
    ended = processes.run("-m", "infra.release", "version", "--tag", "v9.9.9")
    assert ended.returncode == 1
    assert ended.stderr == f"error: the tag is v9.9.9, and the version {__version__}\n"


def test_builds_that_differ_are_refused(tmp_path: Path) -> None:
    """F1090b: Two builds of a commit are the same, byte for byte, and have the same files."""
    one, other = tmp_path / "one", tmp_path / "other"
    for each in (one, other):
        each.mkdir()
        (each / "a.whl").write_text("a")
    release.compare(one, other)
    (other / "a.whl").write_text("b")
    (one / "b.whl").write_text("b")
    with pytest.raises(release.ReleaseRefused, match=re.escape("a.whl, b.whl")):
        release.compare(one, other)


@pytest.mark.slow
@go.needs_go
def test_a_rehearsal_from_the_commit(tmp_path: Path) -> None:
    """F1090c: A rehearsal builds twice, and puts each installed client through the suite.

    It fetches the module for Go by its tag. What is broken is refused: a source distribution that
    lacks a file, a tag that names no module, a manifest with another image or a wrong field.
    """
    typescript.node()
    dist = tmp_path / "dist"
    said = _make("release-rehearsal", f"DIST={dist}", f"REHEARSAL={tmp_path / 'release'}")
    assert len(re.findall(r"(\d+) of \1 cases passed", said)) == 3
    assert re.search(r"^image: (built, rescind \d|not built, because .*)", said, re.MULTILINE)
    assert len((dist / "SHA256SUMS").read_text().splitlines()) == 14
    _refuse_a_tag(dist, tmp_path)
    _refuse_manifests(dist, tmp_path)
    _refuse_sources(dist, tmp_path)


def _make(*arguments: str) -> str:
    """What `make` prints in the repository; it must succeed."""
    command = ["make", "--silent", *arguments, f"VENV={sys.prefix}"]
    done = subprocess.run(
        command, cwd=ROOT, env=processes.environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _refuse_a_tag(dist: Path, folder: Path) -> None:
    tree = folder / "untagged"
    shutil.copytree(folder / "release" / "second", tree, ignore=shutil.ignore_patterns(".tools"))
    whole, _ = release.tags(__version__)
    with pytest.raises(release.ReleaseRefused, match=f"unknown revision {release._GO}/{whole}"):
        release.check_tags(tree, dist, folder / "modules", whole)


def _refuse_manifests(dist: Path, folder: Path) -> None:
    file = f"rescind-manifests-{__version__}.zip"
    with zipfile.ZipFile(dist / file) as packed:
        packed.extractall(folder / "manifests")
    for n, (name, line, wrong, said) in enumerate(
        [
            ("fly.toml", f":{__version__}", ":0.3.0", "the manifests name .*:0.3.0"),
            ("deployment.yaml", "replicas: 3", "replica: 3", "'replica' was unexpected"),
        ]
    ):
        (place,) = (folder / "manifests").rglob(name)
        text = place.read_text()
        place.write_text(text.replace(line, wrong))
        broken = folder / f"broken-{n}"
        broken.mkdir()
        shutil.make_archive(str(broken / file.removesuffix(".zip")), "zip", folder / "manifests")
        with pytest.raises(release.ReleaseRefused, match=said):
            release.check_manifests(broken, broken / "unpacked")
        place.write_text(text)


def _refuse_sources(dist: Path, folder: Path) -> None:
    broken = _without(dist, folder, "rescind_authorizer", "package/saved_state.py")
    with pytest.raises(release.ReleaseRefused, match="the wheel that is built from"):
        release.check_source(broken, dist, folder / "again")
    broken = _without(dist, folder, "rescind", release._DOCKERFILE)
    with pytest.raises(release.ReleaseRefused, match=f"lacks {release._DOCKERFILE}"):
        release.check_image(broken, folder / "image")


def _without(dist: Path, folder: Path, project: str, lost: str) -> Path:
    """A source distribution that lacks a file."""
    source = next(dist.glob(f"{project}-*.tar.gz"))
    with tarfile.open(source) as whole:
        whole.extractall(folder / project, filter="data")
    (tree,) = (folder / project).iterdir()
    (tree / lost).unlink()
    with tarfile.open(folder / source.name, "w:gz") as packed:
        packed.add(tree, tree.name)
    return folder / source.name
