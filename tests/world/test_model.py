"""docs/spec/model: its invariants hold, and each wrong order breaks one."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.kit.processes import ROOT, environment

pytestmark = pytest.mark.slow

_QUINT: Final = ROOT / ".tools/quint/node_modules/.bin/quint"
_MODEL: Final = ROOT / "docs/spec/model/rescind.qnt"
_INVARIANTS: Final = (
    "nothingLost",
    "listIsFold",
    "neverForked",
    "neverFell",
    "boundHolds",
    "onlyRootsVouch",
    "goesOn",
)
_WITNESSES: Final = ("twoLead", "hasDeceived", "hasRecovered")
# A wrong order, as a change of the model: what it is, old and new text, and what it breaks.
_WRONG: Final = [
    pytest.param(*change, id=name)
    for name, *change in [
        (
            "a mark is removed although the record differs",
            "same.filter(w => st.records.contains(w) == it.said.contains(w))",
            "same",
            "nothingLost",
        ),
        (
            "marks are removed before the entry",
            '(st, { ...it, pc: "entry",',
            '({ ...st, marks: Map() }, { ...it, pc: "entry",',
            "nothingLost",
        ),
        (
            "a list is made from records",
            "content: content, until",
            "content: st.records, until",
            "listIsFold",
        ),
        (
            "an entry relies on the lease",
            "if (st.feed.writes != it.head.writes or st.feed.signer != it.signer)",
            "if (false)",
            "neverForked",
        ),
        (
            "a client checks the signature alone",
            "if (names(reader.doc, ask.answer)) refusal(reader, ask.answer) else",
            'if (names(reader.doc, ask.answer)) "" else',
            "neverFell",
        ),
        ("the age does not count", "asked - answer.age", "asked", "boundHolds"),
        (
            "the bound is counted from the arrival",
            "taken(reader, ask.answer, ask.at)",
            "taken(reader, ask.answer, s.now)",
            "boundHolds",
        ),
        ("a thief vouches", "doc.isOfRoot and doc.version", "doc.version", "onlyRootsVouch"),
        (
            "the position of a thief stays",
            "isTrusted: false, signer: 0, chain: doc.feed }",
            "isTrusted: false, signer: 0 }",
            "goesOn",
        ),
    ]
]


def _simulate(model: Path, seed: int, samples: int, *options: str | Path) -> str:
    """Return what the simulator prints."""
    assert _QUINT.exists(), f"{_QUINT} is missing; `make test-slow` installs it"
    asked = ("--seed", str(seed), "--max-samples", str(samples), "--max-steps", "60")
    ran = subprocess.run(
        [_QUINT, "run", model, "--backend", "typescript", *asked, *options],
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return ran.stdout + ran.stderr


def test_the_invariants_of_the_model_hold() -> None:
    """F990a: The simulator finds no step after which an invariant fails, and the rare states."""
    asked = ("--invariants", *_INVARIANTS, "--witnesses", *_WITNESSES)
    said = _simulate(_MODEL, 1, 120, *asked)
    assert "No violation found" in said, said[-9000:]
    for each in _WITNESSES:
        assert f"{each} was witnessed in" in said
        assert f"{each} was witnessed in 0 " not in said


@pytest.mark.parametrize(("old", "new", "broken"), _WRONG)
def test_a_wrong_order_is_found(tmp_path: Path, old: str, new: str, broken: str) -> None:
    """F991a: The simulator finds each wrong order."""
    text = _MODEL.read_text(encoding="utf-8")
    assert text.count(old) == 1
    wrong = tmp_path / "rescind.qnt"
    wrong.write_text(text.replace(old, new), encoding="utf-8")
    said = _simulate(wrong, 1, 2000, "--invariants", broken)
    assert "Invariant violated" in said or "violation" in said, said[-3000:]
