"""The sessions in the documentation are run as they stand, against a server of their own."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, environment, local_server

_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# What a reader is told to expect, in this order.
_EXPECTED = {
    "README.md": [
        '"warrant_id":"svc_wrt_laptop-17","reason":"laptop stolen"',
        '"revoked":true',
        '"version":2',
        "valid: version 2, ",
        ", 1 revoked",
        "Signature Verified Successfully",
        '"scopes":["authorizer"]',
    ],
    "docs/signing-keys.md": [
        '"key_version":1',
        '"warrant":"0oRY',
        "holds",
        "warrant: svc_wrt_pay-1",
        'payload: {"may": "pay"',
        '"rotated_at"',
        '"revoked":false',
        '"warrant_id":"svc_wrt_pay-1"',
        '"keys":1,"warrants":1',
        '"status":"revoked"',
        '"revoked":true',
        '"version":2',
        "['svc_wrt_pay-1']",
        "revoked",
        "exit code 3",
    ],
}


def _session(document: str) -> str:
    blocks = _BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))
    return "set -euo pipefail\n" + "\n".join(blocks)


def _desk(folder: Path) -> Path:
    """A folder that looks to the reader's commands like a checkout with its environment.

    The environment is the one that runs the tests, wherever it is.
    """
    for name in ("infra", "shared"):
        (folder / name).symlink_to(ROOT / name)
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    return folder


@pytest.mark.parametrize("document", _EXPECTED)
def test_a_documented_session_works(document: str, tmp_path: Path) -> None:
    """A reader who types it sees what is promised."""
    with local_server(tmp_path / ".data") as server:
        check_session(document, tmp_path, url=server.url)


def check_session(document: str, folder: Path, *, url: str) -> None:
    """Hold what the commands of a document print to what it promises; `.data` is in `folder`."""
    ran = subprocess.run(
        ["bash", "-c", _session(document).replace("http://127.0.0.1:8080", url)],
        cwd=_desk(folder),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    seen = ran.stdout
    for expected in _EXPECTED[document]:
        before, found, seen = seen.partition(expected)
        assert found, f"{expected!r} is missing in what came: {before}"
