"""The client in Go: it passes the conformance suite, and follows a service as the others do."""

from pathlib import Path

import pytest

from tests.conformance import runner
from tests.conformance.vectors import vectors
from tests.kit import go

pytestmark = [pytest.mark.slow, go.needs_go]

_CASES = vectors()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return go.built(tmp_path_factory.mktemp("go"))


def test_it_passes_all_cases(program: Path) -> None:
    """F1000a: The client in Go passes every case of the conformance suite."""
    with runner.started([str(program), "conformance"]) as ask:
        assert [outcome for outcome in runner.run(ask, _CASES) if outcome.fault] == []


def test_its_sources_are_in_order() -> None:
    """The sources of Go have the format of `gofmt`, pass `go vet`, and need no other module."""
    assert go.ran("gofmt", "-l", ".") == ""
    go.ran("go", "vet", "./...")
    modules = go.ran("go", "list", "-m", "all").split()
    assert len(modules) == 1
    assert "\ngo 1.19\n" in (go.SOURCE / "go.mod").read_text()
