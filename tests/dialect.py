"""Ratios that show how far the language of the code and the documents is from the field's.

Each ratio covers a whole population: all functions, all classes, all words. Peers such as Boulder,
Vault and python-tuf have 0 to 3 % of participle names and 1 to 4 constructions per 1,000 words.
The ratios are a thermometer. A name or a sentence that satisfies them can still fail its reader.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

from tests.kit.processes import ROOT

T = TypeVar("T")

_PRODUCT: Final = ("functions", "infra", "shared")
_FOREIGN: Final = frozenset({"dist", "node_modules", "vendor"})
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def _read_words() -> dict[str, frozenset[str]]:
    """Return the words of each section of tests/dialect.txt."""
    text = (ROOT / "tests/dialect.txt").read_text(encoding="utf-8")
    sections = re.split(
        r"^\[(.*)\]$", re.sub("^#.*", "", text, flags=re.MULTILINE), flags=re.MULTILINE
    )
    return {
        name: frozenset(words.split())
        for name, words in zip(*[iter(sections[1:])] * 2, strict=True)
    }


_WORDS: Final = _read_words()
_RELATIVE: Final = "after|at|before|by|for|from|in|of|on|over|to|under|with"
# Families of constructions that native technical prose avoids.
_CONSTRUCTIONS: Final = tuple(
    re.compile(each, re.IGNORECASE | re.MULTILINE)
    for each in (
        # A clause with "what" or "who" as its subject.
        (
            r"(?:^|[.:;] )(?:what|whatever|who|whoever|which|that which)\b[^.?]{0,60}"
            r"\b(?:are|can|did|do|does|has|have|is|may|must|was|were)\b"
        ),
        r"\bit is [^.]{0,30} that\b",
        (
            r"\b(?:what|whatever|whoever|whom) (?:a|an|are|came|can|comes|each|follows|has|have|he"
            r"|is|it|may|must|needs?|others?|remains|she|that|the|they|this|waits?|was|were)\b"
        ),
        # A pronoun in place of a repeated noun.
        r"\b(?:one|ones|that|those) (?:after|before|by|for|from|in|of|on|to|with|without) \b",
        r"\bthose (?:that|which|who)\b|\bof those\b|\bthat which\b",
        rf"\bwhose\b|\bof which\b|\b(?:{_RELATIVE}) (?:which|whom)\b",
        # A negation by a pronoun.
        r"\b(?:any more|no longer than|no more|no one|nobody|none of|nothing|nowhere)\b",
        # Words that only old texts have.
        (
            r"\b(?:afterwards|altogether|anew|aside|besides?|hence|likewise|meanwhile|oftener"
            r"|of another|of before|of its own|of now|of the kind|of their own|so long|so many"
            r"|so much|such as|that it|therein|thereof|thus|whereby)\b"
        ),
    )
)
_FENCED: Final = re.compile(r"```.*?```", re.DOTALL)
_QUOTED: Final = re.compile(r"`[^`]*`")
_HEADING: Final = re.compile(r"^(?:#.*|\|[-: |]+\|)$", re.MULTILINE)
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z'\u2019-]*")
_SCRIPT_COMMENT: Final = re.compile(r"/\*\*?(.*?)\*/|(?:^|\s)//([^\n]*)", re.DOTALL | re.MULTILINE)
# A comment of Python, or a string, in which a comment cannot begin.
_COMMENT: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"""'
    r"|'''(?:[^\\]|\\.)*?'''"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'(?:[^'\\\n]|\\.)*'"
    r"|(#[^\n]*)",
    re.DOTALL,
)
_TAG: Final = re.compile(r"@\w+ (?:\{[^}]*\})?")


def measure() -> dict[str, int]:
    """Return the ratios: names per 1,000 names, and constructions per 10,000 words."""
    modules = _files(_PRODUCT, ".py")
    names, classes, parameters = list[str](), list[str](), list[str]()
    effects, docstrings = list[str](), list[str]()
    # A tree that is kept costs more than to make it.
    for node in chain.from_iterable(map(read_statements, modules)):
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Module)):
            docstrings.append(ast.get_docstring(node) or "")
        if isinstance(node, ast.ClassDef):
            classes.append(node.name.strip("_"))
        elif isinstance(node, _FUNCTIONS) and not node.name.startswith("__"):
            names.append(node.name)
            parameters += [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
            if _has_effect(node):
                effects.append(node.name)
    prose = {
        "docstrings": docstrings,
        "comments": chain.from_iterable(map(_read_comments, modules)),
        "documents": _read_documents(),
        "scripts": chain.from_iterable(map(_read_script, _files(_PRODUCT, ".js", ".ts"))),
    }
    return {
        "participles of functions": _per_mille(names, _is_odd),
        "effects without verbs": _per_mille(
            effects, lambda each: _get_head(each) not in _WORDS["verbs"]
        ),
        "odd classes": _per_mille(classes, _is_odd_class),
        "odd parameters": _per_mille(parameters, _is_odd),
        **{f"constructions of {name}": count_constructions(it) for name, it in prose.items()},
    }


def read_statements(path: Path) -> list[ast.AST]:
    """Return a module and all its statements, without the expressions in them."""
    found: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    for node in found:
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            found += getattr(node, name, ())
    return found


def count_constructions(texts: Iterable[str]) -> int:
    """Return the number of constructions per 10,000 words of prose, without its code."""
    text = "\n\n".join(map(_strip_code, texts))
    found = sum(len(each.findall(text)) for each in _CONSTRUCTIONS)
    return round(10_000 * found / max(1, len(_WORD.findall(text))))


def _per_mille(names: Collection[T], is_odd: Callable[[T], bool]) -> int:
    return round(1000 * sum(map(is_odd, names)) / max(1, len(names)))


def _is_odd(name: str) -> bool:
    """Return whether a name is a participle or an adverb without another word."""
    bare = name.strip("_")
    if bare in _WORDS["adverbs"] | _WORDS["participles"]:
        return True
    return bare not in _WORDS["no participles"] and re.fullmatch("[a-z]{2,}ed", bare) is not None


def _is_odd_class(name: str) -> bool:
    bare = name.lower()
    return len(re.findall("[A-Z][a-z]*", name)) == 1 and (
        _is_odd(bare) or bare in _WORDS["pictures"]
    )


def _get_head(name: str) -> str:
    return name.lstrip("_").partition("_")[0]


def _has_effect(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function returns nothing, so that it is there for its effect."""
    if any(
        "property" in ast.unparse(each) or ".setter" in ast.unparse(each)
        for each in node.decorator_list
    ):
        return False
    if node.returns is not None:
        return ast.unparse(node.returns) in ("None", "NoReturn")
    return not any(isinstance(each, ast.Return) and each.value for each in ast.walk(node))


def _read_comments(path: Path) -> Iterator[str]:
    for comment in _COMMENT.findall(path.read_text(encoding="utf-8")):
        if comment and not re.search("noqa|type:", comment):
            yield comment.lstrip("# ")


def _read_script(path: Path) -> Iterator[str]:
    for found in _SCRIPT_COMMENT.findall(path.read_text(encoding="utf-8")):
        yield _TAG.sub("", "".join(found))


def _read_documents() -> Iterator[str]:
    pages = chain((ROOT / "docs").rglob("*.md"), ROOT.glob("*.md"))
    return (each.read_text(encoding="utf-8") for each in pages if each.name != "CHANGELOG.md")


def _strip_code(text: str) -> str:
    return _HEADING.sub(" ", _QUOTED.sub("X", _FENCED.sub(" ", text)))


def _files(folders: Iterable[str], *suffixes: str) -> list[Path]:
    found = chain.from_iterable((ROOT / each).rglob("*.*") for each in folders)
    return sorted(
        each for each in found if each.suffix in suffixes and not _FOREIGN & {*each.parts}
    )
