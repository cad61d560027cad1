"""A release is built of a commit, the same each time, and refused if something is wrong."""

import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from infra import release
from tests.kit import go, typescript
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
    (tree / "CHANGELOG.md").write_text(f"{changelog}\n## 9.9.9 - 2026-12-01\n")
    release.check_version(tree, "v9.9.9")
    (tree / "infra/clients/typescript/package.json").write_text('{"version": "9.9.8"}')
    with pytest.raises(
        release.ReleaseRefused, match=re.escape("package.json has the version 9.9.8")
    ):
        release.check_version(tree, "v9.9.9")


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
def test_a_rehearsal_from_the_commit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F1090c: A rehearsal builds twice, and puts each installed client through the suite.

    A source distribution that lacks a file is refused.
    """
    typescript.node()
    dist = tmp_path / "dist"
    release.rehearse(dist)
    assert len(re.findall(r"(\d+) of \1 cases passed", capsys.readouterr().out)) == 3
    assert len((dist / "SHA256SUMS").read_text().splitlines()) == 11
    source = next(dist.glob("rescind_authorizer-*.tar.gz"))
    with tarfile.open(source) as whole:
        whole.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.glob("rescind_authorizer-*")
    (tree / "package/floor.py").unlink()
    broken = tmp_path / source.name
    with tarfile.open(broken, "w:gz") as packed:
        packed.add(tree, tree.name)
    with pytest.raises(release.ReleaseRefused, match="the wheel that is built from"):
        release.check_source(broken, dist, tmp_path / "again")
