"""The ratios of the language find names and constructions, and leave usual ones alone."""

import ast

import pytest

from tests import dialect


@pytest.mark.parametrize("name", ["told", "_kept", "leapt", "sealed", "anew"])
def test_odd_names(name: str) -> None:
    """A participle or an adverb is no name."""
    assert dialect._is_odd(name)


@pytest.mark.parametrize("name", ["feed", "expired", "is_closed", "sealed_at", "publish"])
def test_usual_names(name: str) -> None:
    """Nouns in "ed", adjectives of the field, and participles with a noun are names."""
    assert not dialect._is_odd(name)


@pytest.mark.parametrize(
    ("source", "has_effect"),
    [
        ("def told() -> None: ...", True),
        ("def told(): print(1)", True),
        ("def told() -> int: return 1", False),
        ("def told(): return 1", False),
        ("@property\ndef told(self) -> None: ...", False),
    ],
)
def test_effects(source: str, has_effect: bool) -> None:
    """A function without a result is there for its effect; a property is not."""
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.FunctionDef)
    assert dialect._has_effect(node) is has_effect


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("What the feed says is final.", 2),
        ("The list whose head is newest.", 1),
        ("Those that nobody told it.", 2),
        ("Publish entries for all marks, and remove the marks.", 0),
        ("```\nwhat is that of whose\n``` The key expires.", 0),
        ("Use `whose` here.", 0),
    ],
)
def test_constructions(text: str, number: int) -> None:
    """Constructions are counted in prose, and not in code."""
    words = len(dialect._WORD.findall(dialect._strip_code(text)))
    assert dialect.count_constructions([text]) == round(10_000 * number / words)
