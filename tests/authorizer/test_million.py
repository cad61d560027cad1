"""A client of a tenant with a million revoked warrants: how fast it is, and how large."""

import subprocess
import sys
from pathlib import Path
from statistics import median
from time import process_time
from timeit import timeit

import pytest

from shared.authorizer.state import advance
from tests.authorizer.feeds import NOW, TRUSTED, begun_with, payload_of
from tests.kit.processes import ROOT

_MANY = 1_000_000

# The program of the process whose memory is measured. It has the payload from the start.
_BEGIN = """
import os, pathlib, sys
from tests.authorizer.feeds import begun_with
data, page = pathlib.Path(sys.argv[1]).read_bytes(), os.sysconf("SC_PAGESIZE")
memory = lambda: int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * page
before = memory()
_, state = begun_with(data, 1_000_000)
status = dict(each.split(":", 1) for each in pathlib.Path("/proc/self/status").open())
print(memory() - before, int(status["VmHWM"].split()[0]) * 1024 - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="it measures as Linux does")
def test_a_client_with_a_million_revoked_warrants(tmp_path: Path) -> None:
    """F175a: With a million revoked warrants, a client is fast and small."""
    data = payload_of({f"svc_wrt_{number:026}" for number in range(_MANY)}, 1)
    start = process_time()
    feed, state = begun_with(data, _MANY)
    beginning = process_time() - start
    followed = []
    for _ in range(9):
        feed.publish(*(f"svc_wrt_new-{feed.sequence}-{number:04}" for number in range(1000)))
        answer = feed.answer(feed.sequence - 1)
        start = process_time()
        state = advance(state, answer, now=NOW, verifier=TRUSTED)
        followed.append(process_time() - start)
    asked = "svc_wrt_" + "0" * 26
    assert state.is_revoked(asked)
    deciding = timeit(lambda: state.is_revoked(asked), timer=process_time, number=100_000) / 100_000
    (tmp_path / "base.cbor").write_bytes(data)
    program = [sys.executable, "-c", _BEGIN, str(tmp_path / "base.cbor")]
    done = subprocess.run(program, check=True, capture_output=True, cwd=ROOT)
    base, (grown, most) = len(data) / 1e6, (int(each) / 1e6 for each in done.stdout.split())
    print(
        f"begins in {beginning:.2f} s and {base + grown:.0f} MB ({base + most:.0f} at most), takes"
        f" 1,000 changes in {median(followed) * 1e3:.1f} ms, looks in {deciding * 1e9:.0f} ns"
    )
    # Goals: 1 s, 60 MB with the base, a few ms, 1 us. A busy machine has more time.
    assert beginning < 3
    assert base + grown <= 60
    assert base + most <= 75
    assert median(followed) < 0.015
    assert deciding < 3e-6
