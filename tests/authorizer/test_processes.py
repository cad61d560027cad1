"""The client in a program of its own: threads, forks, and nothing left behind."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.authorizer.feeds import TENANT, Feed
from tests.authorizer.service import PIN, Service
from tests.kit.processes import ROOT, environment

_BEGIN = """
import ctypes, os, sys, threading, time, warnings, json, tracemalloc
from shared.authorizer import AuthorizerClient, FileStateStore, PollPolicy, Verdict
from shared.authorizer.view import NEVER
url, tenant, key, folder = sys.argv[1:5]
policy = PollPolicy(max_staleness=30, poll_seconds=0.01)
client = AuthorizerClient(url, api_key="svc_test", tenant=tenant, trust_pin=key,
                          state=FileStateStore(folder), policy=policy)
"""

_FORKS = """
client.start()
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
results = []
for _ in range(3):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        idle = threading.active_count()
        is_known = client.check(["svc_wrt_a"]) is Verdict.REVOKED
        # The service revokes the next warrant when it sees the mark.
        open(sys.argv[5], "a").close()
        is_news = client.wait_for(2, timeout=60)
        found = client.check(["svc_wrt_b"])
        client.close()
        os.write(writer, json.dumps([idle, is_known, is_news, found]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        results.append(json.load(said))
    os.waitpid(child, 0)
alive = client.wait_for(2, timeout=60) and client.check(["svc_wrt_c"])
client.close()
print(json.dumps([results, alive, client.status.failures]))
"""

_THREADS = """
client.start()
wrong, stop = [], threading.Event()

def ask():
    last = 0
    while not stop.is_set():
        held = client.status.sequence
        # What is held was published before this check: its warrants are revoked.
        for number in range(max(1, held - 3), held + 1):
            if client.check(["svc_wrt_root", f"svc_wrt_{number}"]) is not Verdict.REVOKED:
                wrong.append(number)
        if held < last:
            wrong.append(-held)
        last = held
        time.sleep(0.001)

threads = [threading.Thread(target=ask) for _ in range(4)]
for each in threads:
    each.start()
reached = client.wait_for(60, timeout=60)
stop.set()
for each in threads:
    each.join()
client.close()
print(json.dumps([reached, wrong]))
"""

_REPORTS = """
client.start()
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads

def has_reported():
    deadline = time.monotonic() + 60
    while client.status.reporting == "waiting" and time.monotonic() < deadline:
        time.sleep(0.01)

has_reported()
child = os.fork()
if child == 0:
    client.check(["svc_wrt_a"])
    has_reported()
    os._exit(0)
os.waitpid(child, 0)
client.close()
print(json.dumps("closed"))
"""

_POLLS = """
client = AuthorizerClient(url, api_key="svc_test", tenant=tenant, trust_pin=key,
                          state=FileStateStore(folder), policy=policy, report=False)
client.poll()
of_parent = client._follower.transport._connection
child = ctypes.PyDLL(None).fork()
status = os.waitpid(child, 0)[1] if child else 0
client._pause_end = NEVER
client.poll()
is_shared = client._follower.transport._connection is of_parent
is_right = client.check(["svc_wrt_a"]) is Verdict.REVOKED
client.close()
if child == 0:
    os._exit(is_shared or not is_right)
print(json.dumps([status, is_shared, is_right]))
"""

_LEAVES = """
with client:
    assert client.check(["svc_wrt_b"]) is Verdict.CLEAR
assert threading.active_count() == 1
client.close()
second = AuthorizerClient(url, api_key="svc_test", tenant=tenant, trust_pin=key,
                          state=FileStateStore(folder), policy=policy).start()
print(json.dumps("left running"))
"""


@pytest.fixture
def service(service: Service) -> Service:
    service.revoke("svc_wrt_a")
    return service


def ran(program: str, service: Service, folder: Path, *more: str) -> Any:
    """What the program prints, with warnings as errors and the checks of `-X dev`."""
    arguments = [service.url, TENANT, PIN, str(folder / "state"), *more]
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", _BEGIN + program, *arguments],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return json.loads(done.stdout)


def test_each_child_follows_the_feed_itself(service: Service, tmp_path: Path) -> None:
    """F185a: After a fork, parent and child each follow the feed, on connections of their own."""
    mark = tmp_path / "mark"

    def publish(_path: str) -> None:
        if mark.exists() and service.feed.sequence == 1:
            service.revoke("svc_wrt_b")

    service.instead = publish
    results, alive, failures = ran(_FORKS, service, tmp_path, str(mark))
    assert results == [[1, True, True, "revoked"]] * 3
    assert (alive, failures) == ("clear", 0)


def test_a_child_of_a_fork_in_c_has_a_connection_of_its_own(
    service: Service, tmp_path: Path
) -> None:
    """F1609a: A process that was forked without the hooks of Python polls for itself.

    uWSGI forks so.
    """
    assert ran(_POLLS, service, tmp_path) == [0, True, True]


@pytest.mark.slow
def test_threads_ask_while_the_feed_moves(service: Service, tmp_path: Path) -> None:
    """F185b: Threads that check while a state changes see the old state or the new one, whole."""

    def publish(path: str) -> None:
        if "after" in path and service.feed.sequence < 60:
            service.revoke(f"svc_wrt_{service.feed.sequence + 1}")

    service.feed = Feed()
    service.instead = publish
    assert ran(_THREADS, service, tmp_path) == [True, []]


def test_nothing_is_left_open(service: Service, tmp_path: Path) -> None:
    """F185c: A closed client has no thread and no connection; a running one does not delay exit."""
    assert ran(_LEAVES, service, tmp_path) == "left running"


def test_each_child_reports_itself(service: Service, tmp_path: Path) -> None:
    """F294c: After a fork, parent and child each report, under names of their own."""
    assert ran(_REPORTS, service, tmp_path) == "closed"
    first, second = [body["name"] for _, body in service.posted]
    assert second == f"{first} #2"
