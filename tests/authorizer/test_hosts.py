"""The client in hosts that freeze, run an event loop, or have other locks."""

import asyncio
import fcntl
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shared.authorizer import (
    AsyncAuthorizerClient,
    AuthorizerClient,
    FileStateStore,
    NotReady,
    PollPolicy,
    SavedStateCorrupt,
    Verdict,
    events,
    files,
    transport,
    view,
)
from shared.authorizer import client as client_module
from shared.authorizer.reporter import Reporter
from shared.authorizer.saved_state import MemoryStateStore
from tests.authorizer.clients import Made, arguments
from tests.authorizer.service import Response, Service, serving
from tests.kit.waiting import soon

CLEAR, REVOKED, STALE = Verdict


def test_a_client_polls_without_threads(
    service: Service, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1608a: `poll` makes one exchange, unless the state is recent, and starts no thread.

    After a freeze, checks say STALE until the next poll.
    """
    service.revoke("svc_wrt_a")
    service.max_wait_seconds = 10
    threads = threading.active_count()
    client = made(report=False)
    assert client.check(["svc_wrt_b"]) is STALE
    client.poll(max_age=5)
    assert [client.check([each]) for each in ("svc_wrt_a", "svc_wrt_b")] == [REVOKED, CLEAR]
    polls = service.polls()
    client.poll(max_age=5)
    assert service.polls() == polls

    def has_polled() -> bool:
        client.poll(max_age=0)
        return service.polls() > polls

    # Also a poll of a recent state waits for no news.
    soon(has_polled)
    assert not any("wait=" in path for path, _ in service.asked)
    now = time.monotonic()
    monkeypatch.setattr(view, "monotonic", lambda: now + 3600)
    assert client.check(["svc_wrt_b"]) is STALE
    client.poll(max_age=5)
    assert client.check(["svc_wrt_b"]) is CLEAR
    # Of the server alone.
    assert threading.active_count() <= threads + 2
    assert client._threads == []


@pytest.mark.parametrize("clock", ["monotonic", "wall"])
@pytest.mark.parametrize(
    ("response", "at_least"),
    [
        (None, 50),
        (Response(b"{"), 50),
        (Response(b"", 503), 50),
        (Response(b"", 503, {"Retry-After": "3600"}), 150),
    ],
)
def test_poll_keeps_the_pause(
    service: Service,
    made: Made,
    monkeypatch: pytest.MonkeyPatch,
    response: Response | None,
    at_least: float,
    clock: str,
) -> None:
    """F1891a: `poll` requests nothing before the pause that the last exchange returned.

    That is the usual pause, the pause after a failure, or `Retry-After`. It ends by the first of
    both clocks, because one may stop in a frozen host, and the other may be set back.
    """
    ahead = {"monotonic": 0.0, "wall": 0.0}
    monkeypatch.setattr(view, "monotonic", lambda: time.monotonic() + ahead["monotonic"])
    monkeypatch.setattr(view, "now", lambda: time.time() + ahead["wall"])
    client = made(report=False, policy=PollPolicy(max_staleness=600, poll_seconds=100))
    service.instead = lambda path: response if path.startswith("/v1/revocations/feed") else None
    client.poll()
    polls = service.polls()
    for _ in range(3):
        client.poll()
        client.poll(max_age=5)
    # The other clock stands still, or is set back.
    ahead["wall"] = -20
    ahead[clock] = at_least - 10
    client.poll()
    assert service.polls() == polls
    assert (client.check(["svc_wrt_b"]) is STALE) is bool(response)
    ahead[clock] = 2 * at_least
    service.instead = lambda _path: None
    client.poll()
    assert service.polls() == polls + 1
    assert client.check(["svc_wrt_b"]) is CLEAR


def test_a_client_with_threads_does_not_poll_beside_them(made: Made) -> None:
    client = made().start()
    with pytest.raises(RuntimeError):
        client.poll()


@pytest.mark.parametrize("use", ["poll", "start"])
def test_a_saved_state_that_failed_once_is_read_again(
    made: Made, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    """F1608b: If the saved state cannot be read once, the next call reads it again."""

    def fail(_: MemoryStateStore) -> None:
        raise OSError("the disk is not there yet")

    client = made(state=MemoryStateStore())
    with monkeypatch.context() as broken:
        broken.setattr(MemoryStateStore, "load", fail)
        with pytest.raises(OSError, match="not there yet"):
            getattr(client, use)()
    assert client.check(["svc_wrt_b"]) is STALE
    getattr(client, use)()
    assert client.check(["svc_wrt_b"]) is CLEAR


# No state ends while the threads of a parent do.
_LASTING = PollPolicy(max_staleness=600, poll_seconds=0.01)


def test_a_client_starts_again_in_another_process(
    service: Service, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1609c: A process that was forked without the hooks of Python starts threads of its own.

    The child needs no lock that a thread of its parent had. Such a fork beside threads leaves
    Python itself in an undefined state, so this is the same process under another number.
    """
    client = made(policy=_LASTING).start()
    # The threads of the parent are not in the child.
    client._stop.set()
    for each in client._threads:
        each.join(60)
    files._locking.acquire()
    monkeypatch.setattr(client_module, "_getpid", lambda: -1)
    assert client.check(["svc_wrt_a"]) is CLEAR
    service.revoke("svc_wrt_a")
    assert client.wait_for(1, timeout=60)
    assert client.check(["svc_wrt_a"]) is REVOKED


def _leave_parent(client: AuthorizerClient) -> None:
    """End the threads that a child does not have, one of which had the locks."""
    client._stop.set()
    for each in client._threads:
        each.join(60)
    client._changed.acquire()
    client._starting.acquire()


def test_one_thread_starts_a_client_in_another_process(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1911a: Many threads of a forked child start the threads of a client once."""
    client = made(report=False, policy=_LASTING).start()
    interval = sys.getswitchinterval()

    def use(began: threading.Barrier) -> Verdict:
        began.wait(60)
        return client.check(["svc_wrt_a"])

    sys.setswitchinterval(1e-6)
    try:
        for number in range(1, 30):
            _leave_parent(client)
            before, began = set(threading.enumerate()), threading.Barrier(8)
            monkeypatch.setattr(client_module, "_getpid", partial(int, -number))
            with ThreadPoolExecutor(8, thread_name_prefix="user") as pool:
                assert {*pool.map(use, [began] * 8)} == {CLEAR}
            new = set(threading.enumerate()) - before
            assert {each for each in new if each.name == "rescind-authorizer"} == set(
                client._threads
            )
            assert len(client._threads) == 2
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("use", ["close", "start"])
def test_a_child_needs_no_lock_of_its_parent(
    made: Made, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    """F1911b: A forked child can close or start a client while its parent had the locks."""
    client = made(report=False)
    client.start() if use == "close" else client.poll()
    done = threading.Thread(target=getattr(client, use), daemon=True)
    locks = threading.Thread(target=_leave_parent, args=(client,))
    locks.start()
    locks.join(60)
    monkeypatch.setattr(client_module, "_getpid", lambda: -1)
    done.start()
    done.join(60)
    assert not done.is_alive()


def _is_locked(path: Path) -> bool:
    """Return whether another open file has the lock."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@pytest.fixture
def _closing_late(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Descriptors are closed later, as gevent closes them."""
    late, close = list[int](), os.close

    def close_late(descriptor: int) -> None:
        late.append(descriptor)

    monkeypatch.setattr(os, "close", close_late)
    yield
    monkeypatch.undo()
    for each in late:
        close(each)


@pytest.mark.usefixtures("_closing_late")
def test_a_lock_is_released_before_the_file_is_closed(tmp_path: Path) -> None:
    """F1609b: A folder and a name are free once they are released, whenever the file is closed."""
    with files.lock_folder(tmp_path):
        assert _is_locked(tmp_path)
    assert not _is_locked(tmp_path)
    number, descriptor = files.claim(tmp_path)
    assert number == 1
    assert files.claim(tmp_path)[0] == 2
    files.release_lock(descriptor)
    assert files.claim(tmp_path)[0] == 1


def test_waits_end_when_the_client_is_closed(service: Service, made: Made) -> None:
    """F1610a: `close` ends all calls of `start` and `wait_for` at once."""
    client = made().start()
    returned: list[bool] = []
    waiting = threading.Thread(
        target=lambda: returned.append(client.wait_for(99, timeout=300)), daemon=True
    )
    waiting.start()
    client.close()
    waiting.join(60)
    assert returned == [False]
    service.instead = lambda _path: Response(b"", 500)
    other = made(state=MemoryStateStore())
    starting = threading.Thread(target=_start_in_vain, args=(other, returned), daemon=True)
    starting.start()
    soon(lambda: other._is_started)
    other.close()
    starting.join(60)
    assert returned == [False, True]


def _start_in_vain(client: Any, returned: list[bool]) -> None:
    try:
        client.start(wait=300)
    except NotReady:
        returned.append(True)


def test_an_event_loop_ends_after_a_wait_was_cancelled(service: Service) -> None:
    """F1610b: `asyncio.run` returns at once if the client is closed while threads wait for it."""

    async def wait_in_vain() -> None:
        async with AsyncAuthorizerClient(service.url, **arguments()) as client:
            # More waits than the pool has threads, so that `close` gets none.
            waits = [asyncio.ensure_future(client.wait_for(99, timeout=300)) for _ in range(64)]
            await asyncio.sleep(0)
            for each in waits[:2]:
                each.cancel()

    ended = threading.Thread(target=lambda: asyncio.run(wait_in_vain()), daemon=True)
    ended.start()
    ended.join(60)
    assert not ended.is_alive()


def test_a_stale_state_is_reported_when_it_becomes_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """F1611a: `BecameStale` comes while an exchange still downloads a base, not at its end.

    `BecameFresh` follows once the service answers.
    """
    # The download does not end by itself.
    monkeypatch.setattr(transport, "_READ_SECONDS", 3600.0)
    service, is_over, is_asked = Service(), threading.Event(), threading.Event()
    with serving(service), ExitStack() as closing:
        service.vouch()

        def hang(path: str) -> Response | None:
            if "/base/" in path and service.feed.version > 1:
                is_asked.set()
                is_over.wait()
            return None

        service.instead = hang
        seen: list[events.Event] = []
        policy = PollPolicy(max_staleness=0.5, poll_seconds=0.01)
        settings = arguments(on_event=seen.append, policy=policy, report=False)
        client = closing.enter_context(AuthorizerClient(service.url, **settings))
        with service.changing:
            # The client cannot follow a break, and needs the next list.
            service.revoke()
            service.feed.publish_list()
            service.sign()
        assert is_asked.wait(60)
        soon(lambda: events.BecameStale() in seen)
        assert client.status.stale
        is_over.set()
        soon(lambda: seen.count(events.BecameFresh()) == 2)
        order = [each for each in seen if isinstance(each, events.BecameStale | events.BecameFresh)]
        assert order[:3] == [events.BecameFresh(), events.BecameStale(), events.BecameFresh()]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        SystemExit(1),
        asyncio.CancelledError(),
        GeneratorExit(),
        KeyboardInterrupt(),
    ],
)
def test_a_handler_that_fails_stops_nothing(
    service: Service, made: Made, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """F1611b: A handler of events that raises anything is logged, and the client follows on."""

    def fail(_: events.Event) -> None:
        raise error

    client = made(on_event=fail).start()
    service.revoke("svc_wrt_a")
    assert client.wait_for(1, timeout=30)
    assert "on_event failed" in caplog.text


def test_a_handler_must_not_be_async(made: Made) -> None:
    async def handle(_: events.Event) -> None:
        """Wait for nothing."""

    with pytest.raises(TypeError, match="must not be async"):
        made(on_event=handle)


def test_a_refused_registration_is_a_warning(
    service: Service, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    """F1611c: If another key has the name of this client, a warning says so, and what to do."""
    caplog.set_level(logging.INFO, "rescind_authorizer")
    refusal = Response(b'{"error": {"code": "conflict"}}', 409)
    service.instead = lambda path: refusal if "/authorizers/" in path else None
    seen: list[events.Event] = []
    made(on_event=seen.append).start()
    failed = soon(lambda: [each for each in seen if isinstance(each, events.ReportFailed)])
    assert failed[0].is_refused
    (record,) = [each for each in caplog.records if "cannot send a report" in each.getMessage()][:1]
    assert record.levelno == logging.WARNING
    assert "rescind authorizers remove" in record.getMessage()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        " svc_wrt_x",
        "svc_wrt_x ",
        "svc_wrt_x\n",
        "SVC_WRT_x",
        "svc_wrt_",
        "svc_wrt_ü",
        "svc_wrt_\u0661",
        "svc_wrt_a,svc_wrt_b",
        "svc_wrt_" + "x" * 65,
        "\ud800",
    ],
)
def test_a_text_that_identifies_no_warrant_is_an_error(made: Made, text: str) -> None:
    """F1612a: A text that is not a warrant identifier raises an error, and is never CLEAR."""
    client = made()
    for _ in range(2):
        for chain in ([text], ["svc_wrt_a", text], [text, "svc_wrt_a"]):
            with pytest.raises(ValueError, match="svc_wrt_ and 1 to 64"):
                client.check(chain)
        if not client._is_started:
            client.start()


def test_a_damaged_saved_state_is_reported_by_poll(made: Made, tmp_path: Path) -> None:
    client = made(state=FileStateStore(tmp_path))
    client.poll()
    (tmp_path / "floor.json").write_bytes(b"{}")
    with pytest.raises(SavedStateCorrupt):
        made(state=FileStateStore(tmp_path)).poll()


def test_a_child_leaves_the_name_to_its_parent(tmp_path: Path) -> None:
    """A process that forgets its parent's name does not release it."""
    number, descriptor = files.claim(tmp_path)
    copied = os.dup(descriptor)
    reporter = Reporter.__new__(Reporter)
    reporter._claim = copied
    reporter.abandon()
    assert (number, files.claim(tmp_path)[0]) == (1, 2)
    files.release_lock(descriptor)
