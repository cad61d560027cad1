"""Sentences that nobody would say aloud, in the documents and in the docstrings of the code.

These are sentences, rows and items whose subject is "what", "who" or "that which", and the phrases
"no more", "nothing that", "all that" and "of which". `python -m tests.prose` prints them, and
`tests/ratchet.py` keeps their numbers.
"""

import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Final

from tests.kit.processes import ROOT

_SUBJECT: Final = (
    r"(?:^|(?<=[.;!] )|(?<=\| ))(?:What|Who|Whoever|Whatever|That which)\b[^.?|]*[.|;:]"
)
_PHRASE: Final = r"\b(?:no more(?! than)|nothing that|all that|of which|that which)\b"
_RIDDLE: Final = re.compile(rf"{_SUBJECT}|{_PHRASE}", re.IGNORECASE)
_CODE: Final = re.compile(r"```.*?```", re.DOTALL)
# Headings, and the first rows of tables, may be questions.
_HEADING: Final = re.compile(r"^#.*$|^\|.*\|\n(?=\| ?-)|\*\*[^*]+\.\*\*", re.MULTILINE)
_MARK: Final = re.compile(r"^(?:[-*]|\d+\.) ")
_BETWEEN: Final = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.) )")
_DOCSTRING: Final = re.compile(r'(?:\A|^ *)"""(.+?)"""', re.DOTALL | re.MULTILINE)


def of_documents() -> list[str]:
    """Where such sentences are in the documents, each with the page and the words around it."""
    pages = chain(ROOT.glob("*.md"), (ROOT / "docs").rglob("*.md"))
    return list(chain.from_iterable(_found(page, [_text(page)]) for page in sorted(pages)))


def of_docstrings() -> list[str]:
    """Where such sentences are in the docstrings of the code without its tests."""
    modules = chain.from_iterable(
        (ROOT / room).rglob("*.py") for room in ("functions", "infra", "shared")
    )
    return list(
        chain.from_iterable(
            _found(module, _DOCSTRING.findall(module.read_text(encoding="utf-8")))
            for module in sorted(modules)
        )
    )


def _found(file: Path, texts: Iterable[str]) -> list[str]:
    paragraphs = [
        _MARK.sub("", " ".join(part.split())) for t in texts for part in _BETWEEN.split(t)
    ]
    return [
        f"{file.relative_to(ROOT)}: {text[max(0, found.start() - 60) : found.end() + 60]}"
        for text in paragraphs
        for found in _RIDDLE.finditer(text)
    ]


def _text(page: Path) -> str:
    return _HEADING.sub("", _CODE.sub("", page.read_text(encoding="utf-8")))


if __name__ == "__main__":
    print("\n".join([*of_documents(), *of_docstrings()]))
