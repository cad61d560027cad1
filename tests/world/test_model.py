"""docs/spec/model: its invariants hold, each wrong order breaks one, the code does its traces."""

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from shared.authorizer import follower
from shared.authorizer.formats.documents import SignedDocument
from shared.operations.lists import marks
from tests.kit.processes import ROOT, environment
from tests.world import traces

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


# The code with another decision: marks stay, the age does not count, anybody vouches.
_OTHER: Final[list[tuple[Any, str, Any]]] = [
    (marks, "clear", lambda *_, **__: 0),
    (follower, "read_age", lambda _: 0),
    (SignedDocument, "is_signed_by", lambda *_: True),
]


def _simulate(model: Path, seed: int, samples: int, *options: str | Path) -> str:
    """What the simulator prints; traces are in the format of `traces.replay`."""
    assert _QUINT.exists(), f"{_QUINT} is missing; `make test-slow` installs it"
    asked = ("--seed", str(seed), "--max-samples", str(samples), "--max-steps", "60")
    ran = subprocess.run(
        [_QUINT, "run", model, "--backend", "typescript", "--mbt", *asked, *options],
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return ran.stdout + ran.stderr


def _drawn(folder: Path) -> list[Path]:
    """Traces of the model as it is, after whose steps all invariants hold."""
    kept = ("--n-traces", "25", "--out-itf", str(folder / "{seq}.json"))
    asked = ("--invariants", *_INVARIANTS, "--witnesses", *_WITNESSES, *kept)
    said = _simulate(_MODEL, 1, 120, *asked)
    assert "No violation found" in said, said[-9000:]
    for each in _WITNESSES:
        assert f"{each} was witnessed in" in said
        assert f"{each} was witnessed in 0 " not in said
    return sorted(folder.glob("*.json"))


def _replay(drawn: Iterable[Path]) -> int:
    return sum(map(traces.replay, drawn))


def test_the_code_does_what_the_model_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F990a: Marks, feed, list, leader and clients are those of the model after each step.

    The simulator finds no step after which an invariant fails. Code that decides otherwise parts
    from the model.
    """
    drawn = _drawn(tmp_path)
    print(f"{len(drawn)} traces of {_replay(drawn)} steps")
    assert len(drawn) == 25
    for place, name, other in _OTHER:
        with monkeypatch.context() as patched:
            patched.setattr(place, name, other)
            with pytest.raises(AssertionError, match=r"\(code, model\)"):
                _replay(drawn)


@pytest.mark.parametrize(("old", "new", "broken"), _WRONG)
def test_a_wrong_order_is_found(tmp_path: Path, old: str, new: str, broken: str) -> None:
    """F991a: The simulator finds each wrong order, and the code does not do it."""
    text = _MODEL.read_text(encoding="utf-8")
    assert text.count(old) == 1
    wrong, trace = tmp_path / "rescind.qnt", tmp_path / "trace.json"
    wrong.write_text(text.replace(old, new), encoding="utf-8")
    said = _simulate(wrong, 1, 2000, "--invariants", broken, "--out-itf", trace)
    assert "Invariant violated" in said or "violation" in said, said[-3000:]
    # What would go on is asked of a state, and not done.
    if broken != "goesOn":
        with pytest.raises(AssertionError, match=r"\(code, model\)"):
            traces.replay(trace)
