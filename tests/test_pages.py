"""The pages of the documentation: short, without rules of their own, and with words of the code."""

import json
import pkgutil
import re
import subprocess
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import pytest
import yaml

from infra import site
from tests.kit.processes import ROOT, environment

# The pages that the code writes, or a test compares with it line by line.
_REFERENCE: Final = {"cli.md", "data-model.md", "metrics.md"}
_WORDS_MAX: Final = 25_000
_CODE: Final = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


def _guides() -> Iterator[tuple[str, str]]:
    """The pages that are read from top to bottom, each with its text without blocks of code."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    for page in sorted(pages):
        if page.name not in _REFERENCE:
            yield page.name, _CODE.sub("", page.read_text(encoding="utf-8"))


def test_the_guides_are_short() -> None:
    """F1350a: The pages beside reference and decisions have 25,000 words at most, README 700."""
    words = {name: len(re.findall(r"\S*\w\S*", text)) for name, text in _guides()}
    assert sum(words.values()) <= _WORDS_MAX, words
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700


def test_rules_stand_in_the_specification() -> None:
    """F1350b: No page beside the specification says what another party must do."""
    rule = re.compile(r"^.*\bmust\b.*$", re.IGNORECASE | re.MULTILINE)
    assert [(name, line) for name, text in _guides() for line in rule.findall(text)] == []


def _members(value: object) -> set[str]:
    """The names of all members of a JSON value."""
    if isinstance(value, dict):
        return {*value, *chain.from_iterable(map(_members, value.values()))}
    return set().union(*map(_members, value)) if isinstance(value, list) else set()


def test_examples_have_the_members_of_the_api() -> None:
    """Each example in JSON has only members that the API document names."""
    document = (ROOT / "docs" / "openapi.json").read_text(encoding="utf-8")
    # The reference to a status list, which is in the issuer's credential.
    named = {"idx", "status_list"}.union(re.findall(r'"(\w+)": \{', document))
    for page in (ROOT / "docs").glob("*.md"):
        for block in re.findall(
            r"^```json\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
        ):
            assert _members(json.loads(block.replace("…", ""))) <= named, page.name


def test_the_words_have_the_names_of_the_code() -> None:
    """Each row of the words has a word of its own, and a name that can be imported."""
    words = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8").split("\n## Words\n")[1]
    row = r"^\| ([A-Z][\w, ]+) \| .+ \| `((?:functions|infra|shared)\.\S+)` \|$"
    rows = re.findall(row, words, re.MULTILINE)
    assert len(rows) == words.count("\n| ") - 2
    assert len({word for word, _ in rows}) == len(rows)
    for _, name in rows:
        pkgutil.resolve_name(name)


@pytest.mark.slow
def test_the_site_has_no_dead_link(tmp_path: Path) -> None:
    """F1351a: The site has each page and a search, and a link or anchor that is dead is named."""
    built = site.build(tmp_path, "v0.4.0")
    found = json.loads((built / "search.json").read_text(encoding="utf-8"))["items"]
    assert any(each["location"].startswith("spec/srl/#verify-1") for each in found)
    assert (
        f"{site.CODE}/v0.4.0/infra/relay/compose.yaml" in (built / "relay/index.html").read_text()
    )
    page = tmp_path / "docs" / "bulk.md"
    page.write_text("[one](webhooks.md#none)\n\n[other](none.md)\n", encoding="utf-8")
    ended = subprocess.run(site.ZENSICAL, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    said = re.sub(r"\x1b\[[0-9;]*m", "", ended.stdout + ended.stderr)
    assert re.search(r"anchor does not exist\s.*bulk\.md:1:", said)
    assert re.search(r"page does not exist\s.*bulk\.md:3:", said)


@pytest.mark.parametrize("target", ["none.png", "../infra/none.py", "spec/none.md#a"])
def test_a_link_to_a_missing_file_is_refused(tmp_path: Path, target: str) -> None:
    """F1351b: A link to a file that the repository lacks ends the build, and is named."""
    found = site._LINK.search(f"[text]({target})")
    assert found is not None
    dead = re.escape(f"Dead link: bulk.md: {found[0]}")
    with pytest.raises(FileNotFoundError, match=dead):
        site._link(ROOT / "docs", tmp_path / "bulk.md", tmp_path, "main", found)


_SITES: Final = {"v0.4.0": "html/0.4.0", "v0.4.1": "html/0.4.1", "v0.4.2-dev.0": "html/0.4.2-dev.0"}


@pytest.mark.slow
def test_each_release_keeps_its_pages(tmp_path: Path) -> None:
    """F1316a: The pages of a release stay when the next is published, and `latest` is the newest.

    A version before a release is not the latest.
    """
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    (publish,) = (
        each for each in workflow["jobs"]["site"]["steps"] if "PAGES" in each.get("env", {})
    )
    pages = tmp_path / "pages.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(pages)], check=True)
    for tag, folder in _SITES.items():
        here = tmp_path / tag
        built = site.build(here / "made", tag)
        assert built == here / "made" / folder
        (here / "made/html").rename(here / "site")
        given = {"PAGES": str(pages), "GITHUB_REF_NAME": tag, "GITHUB_ACTOR": "somebody"}
        subprocess.run(
            ["bash", "-e", "-c", publish["run"]], cwd=here, env=environment(given), check=True
        )
    shown = tmp_path / "shown"
    subprocess.run(
        ["git", "clone", "--quiet", "--branch", "gh-pages", str(pages), str(shown)], check=True
    )
    assert "url=latest/" in (shown / "index.html").read_text()
    for folder, tag in (("0.4.0", "v0.4.0"), ("0.4.1", "v0.4.1"), ("latest", "v0.4.1")):
        page = (shown / folder / "relay/index.html").read_text()
        assert f"{site.CODE}/{tag}/infra/relay/compose.yaml" in page
    assert (shown / "0.4.2-dev.0/index.html").exists()
