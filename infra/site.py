"""Build the documentation as a site with search: `python -m infra.site FOLDER [--tag v0.4.0]`.

The pages are the same as on GitHub. Links to code point to the tree of the tag. A link to a missing
file, page or anchor fails the build. Each version has a folder. The newest release is also in the
folder `latest`. zensical generates the pages (`make site`).
"""

import argparse
import json
import os
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_ROOT: Final = Path(__file__).resolve().parent.parent
CODE: Final = "https://github.com/rescind/rescind/tree"
# Refuses links to missing pages and anchors.
ZENSICAL: Final = (_ROOT / ".tools" / "site" / "bin" / "zensical", "build", "--strict")
# Site paths of pages outside docs/.
_MOVED: Final = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
_LINK: Final = re.compile(r"(?<=\]\()([^)#\s]+)(?=[#)])")
_RELEASE: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
_FIRST: Final = '<!doctype html><meta http-equiv="refresh" content="0; url=latest/">\n'
_PARTS: Final = {
    "Try": ("index.md", "concepts.md", "console.md"),
    "Enforce": (
        *("authorizers.md", "relay.md", "signing-keys.md", "bulk.md", "api-keys.md"),
        *("sign-in.md", "tokens.md", "webhooks.md"),
    ),
    "Run": (
        *("homes.md", "one-machine.md", "deploy.md", "second-region.md", "moving.md"),
        *("restore.md", "runbook.md", "audit-log.md"),
    ),
    "Judge": ("security.md", "performance.md", "cost.md", "architecture.md"),
    "Reference": ("cli.md", "metrics.md", "data-model.md", "contributing.md"),
}


def write_sources(folder: Path, tag: str) -> None:
    """Copy the pages and their files to a folder, and adapt their links."""
    shutil.copytree(_ROOT / "docs", folder)
    for name, moved in _MOVED.items():
        shutil.copy(_ROOT / name, folder / moved)
    for page in folder.rglob("*.md"):
        place = page.relative_to(folder).as_posix()
        written = {moved: _ROOT / name for name, moved in _MOVED.items()}
        home = written.get(place, _ROOT / "docs" / place).parent
        link = partial(_link, home, page, folder, tag)
        page.write_text(_LINK.sub(link, page.read_text(encoding="utf-8")), encoding="utf-8")


def _link(home: Path, page: Path, folder: Path, tag: str, match: re.Match[str]) -> str:
    """Return the new target of a link on a page that moved from `home` to `page`."""
    if urlsplit(match[0]).scheme:
        return match[0]
    target = Path(os.path.normpath(home / match[0])).relative_to(_ROOT).as_posix()
    if not (_ROOT / target).exists():
        raise FileNotFoundError(f"Dead link: {page.relative_to(folder)}: {match[0]}")
    if target in _MOVED or target.startswith("docs/"):
        here = folder / _MOVED.get(target, target.removeprefix("docs/"))
        return os.path.relpath(here, page.parent)
    return f"{CODE}/{tag}/{target}"


def build(folder: Path, tag: str) -> Path:
    """Build the version's folder in `html` of a folder, and return it.

    A release is also copied to `latest`, and the first page redirects to it. Raises
    `CalledProcessError`, or `FileNotFoundError` for a dead link to code.
    """
    shutil.rmtree(folder, ignore_errors=True)
    write_sources(folder / "docs", tag)
    version = tag.removeprefix("v")
    (folder / "zensical.toml").write_text(_settings(folder / "docs", version))
    subprocess.run(ZENSICAL, cwd=folder, check=True)  # noqa: S603 (of the project)
    site = folder / "html"
    if _RELEASE.fullmatch(version):
        shutil.copytree(site / version, site / "latest")
        (site / "index.html").write_text(_FIRST)
    return site / version


def _settings(pages: Path, version: str) -> str:
    """Return the configuration of zensical. JSON strings and lists are valid TOML."""
    parts = [*_PARTS.items()]
    for name, title in (("spec", "Specification"), ("adr", "Decisions")):
        of_part = sorted(each.relative_to(pages).as_posix() for each in (pages / name).glob("*.md"))
        parts.append((title, (*of_part,)))
    nav = ", ".join(f"{{{json.dumps(title)} = {json.dumps(names)}}}" for title, names in parts)
    return f"""[project]
site_name = "Rescind"
site_dir = "html/{version}"
nav = [{nav}]
[project.theme]
font = false
features = ["navigation.sections", "search.highlight", "content.code.copy"]
"""


def main() -> None:
    """Build the site, and print its folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tag", default="main")
    options = parser.parse_args()
    print(f"The site is in {build(options.folder, options.tag)}.")


if __name__ == "__main__":
    main()
