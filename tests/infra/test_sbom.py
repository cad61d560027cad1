"""The bill of materials names what is in the lock, and nothing else."""

import json
import re
import subprocess

import pytest

from tests.kit.processes import ROOT

pytestmark = pytest.mark.slow

_LOCKED = re.compile(r"^([a-z0-9._-]+)==([^ ;]+)", re.MULTILINE)


def test_the_bill_names_each_locked_package() -> None:
    """Each package of `requirements.lock` is a component under its version and hashes."""
    subprocess.run(["make", "--silent", "sbom"], cwd=ROOT, check=True, timeout=120)
    bill = json.loads((ROOT / ".build" / "sbom.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    named = {(each["name"], each["version"]) for each in bill["components"]}
    locked = set(_LOCKED.findall((ROOT / "requirements.lock").read_text()))
    assert named == locked
    hashed = [each["externalReferences"][0]["hashes"] for each in bill["components"]]
    assert all(hashed)
