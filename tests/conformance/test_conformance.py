"""Two clients pass the conformance suite.

The mutants' book has clients that leave a check out: none of them passes.
"""

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from shared.authorizer import conformance
from shared.authorizer.formats.documents import RootReason
from shared.authorizer.policy import RejectionReason
from tests.conformance import runner
from tests.conformance.__main__ import main
from tests.conformance.vectors import vectors
from tests.kit import typescript

_CASES = vectors()
_PYTHON = [sys.executable, "-m", "shared.authorizer", "conformance"]


def test_our_client_passes_all_cases() -> None:
    """F161a, F163a, F172a, TRUST-6, TRUST-9, TRUST-12, TRUST-13, TRUST-14: Our client passes.

    It accepts and refuses heads, entries, lists, documents and signing keys as the suite says.
    """
    session = conformance.ConformanceSession()

    def ask(request: runner.Request) -> Any:
        try:
            return session.answer(request)
        except Exception as error:  # noqa: BLE001
            return f"no answer: {error!r}"

    assert [each for each in runner.run(ask, _CASES) if each.fault] == []


def test_each_refusal_has_a_case() -> None:
    """F172b: The suite has an answer that is refused by each name."""
    expected = [step["expected"] for case in _CASES for step in case["steps"]]
    assert {each["refused"] for each in expected if "refused" in each} == {
        *RejectionReason,
        *RootReason,
    }
    names = [case["name"] for case in _CASES]
    assert len({*names}) == len(names)
    assert all(case["shows"].endswith(".") for case in _CASES)


@pytest.mark.slow
@pytest.mark.parametrize("command", [lambda: _PYTHON, typescript.command], ids=["python", "ts"])
def test_a_client_in_a_process_of_its_own_passes(
    command: Callable[[], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """F172c: Two clients in two languages, with two CBOR decoders, pass all cases.

    The one for TypeScript was packed, and installed offline.
    """
    assert main(["--", *command()]) == 0
    assert capsys.readouterr().out.endswith(f"{len(_CASES)} of {len(_CASES)} cases passed\n")


def test_the_runner_says_which_request_failed(capsys: pytest.CaptureFixture[str]) -> None:
    """F172: A client that answers wrongly, or ends, fails, and the output says at what."""
    assert (
        main(["--case", "an empty feed", "--", sys.executable, "-c", "input(); print('{}')"]) == 1
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1/1 an empty feed: FAILED: request 1 (init): {} and not {'ready'")
    assert lines[1] == "0 of 1 cases passed"
    assert main(["--case", "an empty feed", "--", sys.executable, "-c", ""]) == 1
    assert "no answer" in capsys.readouterr().out
    assert main(["--case", "an empty feed"]) == 0
    (case,) = json.loads(capsys.readouterr().out)
    assert case["name"] == "an empty feed"


def test_a_client_that_has_ended_is_no_fault_of_the_runner() -> None:
    """F172: Each request to a client that ended is answered by "no answer"."""
    with runner.started([sys.executable, "-c", ""]) as ask:
        for _ in range(3):
            assert ask({"init": {}}).startswith("no answer")


def test_our_client_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F172: The command answers each line with a line."""
    steps = _CASES[0]["steps"]
    lines = "".join(json.dumps(step["request"]) + "\n" for step in steps)
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    conformance.main()
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert answers == [step["expected"] for step in steps]
