"""The TypeScript client: its package, and what it does against a live service."""

import json
from typing import Any, Final

import pytest

from shared import __version__
from tests.conformance.__main__ import main
from tests.conformance.vectors import vectors
from tests.kit import typescript

pytestmark = pytest.mark.slow

_CASES: Final = vectors()


def test_the_installed_package_passes_the_conformance_suite(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """F1040a: The TypeScript client, packed and installed offline, passes the conformance suite."""
    assert main(["--", *typescript.command()]) == 0
    assert capsys.readouterr().out.endswith(f"{len(_CASES)} of {len(_CASES)} cases passed\n")


def test_the_package_says_its_version_and_needs_one_other() -> None:
    """F1040b: The npm package has the version of the service, and depends on `@noble/hashes`."""
    package, lock = (_read(name) for name in ("package.json", "package-lock.json"))
    assert package["version"].replace("-dev.", ".dev") == __version__
    assert package["dependencies"] == {"@noble/hashes": "2.4.0"}
    assert "devDependencies" not in package
    locked = {name: each for name, each in lock["packages"].items() if name}
    assert all(each["integrity"].startswith("sha512-") for each in locked.values())
    assert "resolved" not in json.dumps(lock)


def _read(name: str) -> Any:
    return json.loads((typescript.SOURCE / name).read_text(encoding="utf-8"))
