"""The source of earlier builds, from the history.

`tests/golden/releases` names the commit of each, because tags may not be here.
"""

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Final

import pytest

from tests.kit.processes import ROOT

COMMITS: Final = dict(
    line.split()
    for line in (ROOT / "tests/golden/releases").read_text(encoding="ascii").splitlines()
)


def source(release: str, folder: Path) -> Path:
    """Put the source of a release into a new folder; skip the test if the history is not here."""
    packed = subprocess.run(
        ["git", "archive", COMMITS[release]], cwd=ROOT, capture_output=True, check=False
    )
    if packed.returncode:
        pytest.skip(f"the history has no release {release}: the clone is shallow, or no clone")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tree:
        # Python before 3.11.4 has no filters, and knows no argument for one.
        tree.extraction_filter = getattr(tarfile, "data_filter", None)
        tree.extractall(folder)
    return folder
