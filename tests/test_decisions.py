"""The decisions in docs/adr: their index, their links, and all that refers to them."""

import re
from itertools import chain
from pathlib import Path
from typing import Final

from tests.kit.processes import ROOT

_FOLDER: Final = ROOT / "docs" / "adr"
_INDEX: Final = (_FOLDER / "README.md").read_text(encoding="utf-8")
_TEXTS: Final = {
    path.name: path.read_text(encoding="utf-8") for path in sorted(_FOLDER.glob("[0-9]*.md"))
}
_ROOMS: Final = ("docs", "functions", "infra", "shared", "tests", ".ci")
_KINDS: Final = {".css", ".html", ".js", ".md", ".py", ".toml", ".yaml", ""}
# A decision without a link, such as "ADR 3", cannot be followed, and looks like one of the numbers
# before 2026-11-24.
_NAMED: Final = re.compile(r"\[ADR (\d+)\]\([\w./-]*?(?P<linked>\d+)-[\w-]+\.md|\bADRs? \d+")
_PATH: Final = re.compile(r"\badr/(\d+)((?:-[\w-]+\.md)?)")


def _sections(text: str) -> set[str]:
    """The anchors that a Markdown page has, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def _tree() -> list[tuple[str, str]]:
    """The text of each file that may refer to a decision, with its path."""
    inside = chain.from_iterable((ROOT / room).rglob("*") for room in _ROOMS)
    paths = [each for each in chain(ROOT.glob("*"), inside) if each.suffix in _KINDS]
    return [
        (str(path.relative_to(ROOT)), path.read_text(encoding="utf-8", errors="replace"))
        for path in sorted(paths)
        if path.is_file() and path != Path(__file__) and "node_modules" not in path.parts
    ]


def _faults(text: str) -> list[str]:
    """The references of a text that name no decision."""
    paths = [
        found[0]
        for found in _PATH.finditer(text)
        if not [name for name in _TEXTS if name.startswith(f"{found[1]}{found[2] or '-'}")]
    ]
    unlike = [
        found[0] for found in _NAMED.finditer(text) if int(found[1] or 0) != int(found[2] or -1)
    ]
    return paths + unlike


def test_the_index_has_each_decision_with_its_title() -> None:
    """Numbers go from 1 without a gap; number and title stand in the file and in the index."""
    rows = [
        f"| [{number}]({name}) | {text.partition(chr(10))[0].removeprefix(f'# {number} ')} |"
        for number, (name, text) in enumerate(_TEXTS.items(), start=1)
    ]
    assert [line for line in _INDEX.splitlines() if line.startswith("| [")] == rows
    assert [*_TEXTS] == sorted(_TEXTS, key=lambda name: int(name[:2]))


def test_each_decision_says_what_was_rejected_and_what_follows() -> None:
    """The sections that every decision has, once each and last."""
    heads = [re.findall(r"^## (.+)$", text, re.MULTILINE) for text in _TEXTS.values()]
    assert [each[-2:] for each in heads] == [["Rejected", "Consequences"]] * len(_TEXTS)


def test_references_to_sections_lead_somewhere() -> None:
    """Pages that link to a section of a decision name one that is there."""
    linked = [
        (path, name, section)
        for path, text in _tree()
        for name, section in re.findall(r"adr/(\d\d-[\w-]+\.md)#([\w-]+)", text)
    ]
    assert len(linked) > 10
    assert [each for each in linked if each[2] not in _sections(_TEXTS[each[1]])] == []


def test_references_name_decisions_that_are_there() -> None:
    """Code says `docs/adr/` and a number of two digits; pages link, and say the same number."""
    found = {path: faults for path, text in _tree() if (faults := _faults(text))}
    assert found == {}
    assert sum(len(_PATH.findall(text)) for _, text in _tree()) > 100


def test_a_reference_to_no_decision_is_found() -> None:
    """An old number, a number that nobody gave, a bare one, and a link to another decision."""
    wrong = "docs/adr/0047 docs/adr/99 ADR 3 [ADR 4](docs/adr/05-access-and-tenants.md)"
    assert len(_faults(wrong)) == 4
    assert (
        _faults("docs/adr/04 [ADR 4](adr/04-api.md#cursors) adr/04-api.md [ADR 4](04-api.md)") == []
    )


def test_decisions_name_files_that_are_there() -> None:
    """A module that moves takes its name in the decisions along."""
    kinds = r"`((?:functions|infra|shared|tests)/[\w/.-]+\.\w+)"
    named = [(name, each) for name, text in _TEXTS.items() for each in re.findall(kinds, text)]
    assert len(named) > 10
    assert [(name, each) for name, each in named if not (ROOT / each).exists()] == []
