"""The console's modules that need no document, in Node."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.kit.processes import environment

pytestmark = pytest.mark.slow

# When lit-html is loaded, it asks the document for a walker.
_DOCUMENT: Final = "data:text/javascript,globalThis.document = {createTreeWalker: () => null}"


def test_the_modules_keep_what_they_promise() -> None:
    """F462a: The pure modules of the console pass their tests in Node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node")
    files = sorted(Path(__file__).parent.glob("*.test.mjs"))
    ran = subprocess.run(
        [node, "--import", _DOCUMENT, "--test", "--test-reporter=tap", *files],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    passed = re.search(r"^# pass (\d+)$", ran.stdout, re.MULTILINE)
    # A file without a test would pass as well.
    assert passed is not None
    assert int(passed[1]) >= len(files) > 0, ran.stdout
