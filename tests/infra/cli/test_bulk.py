"""Very many warrants by the command line, as a person sees it: in a terminal."""

import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

from tests.kit.processes import ROOT, LocalServer, environment, local_server

_WHY = ("--reason", "mistake")


class Shown(NamedTuple):
    """What a command that ended well showed on the terminal, and how long it took."""

    text: str
    seconds: float


def _in_terminal(server: LocalServer, *arguments: str) -> Shown:
    """Run `rescind` in a terminal of its own."""
    settings = {"RESCIND_URL": server.url, "RESCIND_API_KEY": server.admin_key, "TERM": "xterm"}
    ours, theirs = pty.openpty()
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "infra.cli", *arguments],
        cwd=ROOT,
        env=environment(settings | {"COLUMNS": "100"}),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:
        pass  # Linux says so when the other end is closed.
    os.close(ours)
    assert process.wait() == 0, shown[-2000:]
    return Shown(shown.decode(errors="replace"), time.monotonic() - began)


def _total(server: LocalServer) -> int:
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    answer = httpx2.get(f"{server.url}/v1/revocations?limit=1", headers=headers)
    return int(answer.json()["total"])


@pytest.mark.parametrize(
    "count",
    [pytest.param(3_000, marks=pytest.mark.slow), pytest.param(100_000, marks=pytest.mark.long)],
)
def test_very_many_are_revoked_and_unrevoked(tmp_path: Path, count: int) -> None:
    """F358a: A hundred thousand warrants are revoked and taken back, with a progress bar.

    `pytest -s` prints how long it takes.
    """
    lost = tmp_path / "lost.csv"
    lost.write_text("warrant_id\n" + "".join(f"svc_wrt_{each:06}\n" for each in range(count)))
    with local_server(tmp_path / "data") as server:
        assert _total(server) == 0
        done = _in_terminal(server, "revoke", "--file", str(lost), "--reason", "lost", "--yes")
        assert _total(server) == count
        assert f"{count} revoked" in done.text
        steps = re.findall(rf"(\d+)/{count}\b", done.text)
        assert {"0", "1000", str(count)} <= {*steps}
        batch = done.text.split()[-1]
        back = _in_terminal(server, "unrevoke", *_WHY, "--batch", batch, "--yes")
        assert f"{count} unrevoked" in back.text
        assert _total(server) == 0
    print(f"{count}: revoked in {done.seconds:.1f} s, taken back in {back.seconds:.1f} s")
