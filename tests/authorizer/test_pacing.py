"""How often a client polls, and over which connections, whatever the responses are."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from shared.authorizer import PollPolicy, http1, transport
from shared.authorizer.events import Event, PollFailed
from shared.authorizer.follower import FeedFollower
from shared.authorizer.formats.following import TrustState
from shared.authorizer.relay.upstream import RelayPolicy
from shared.authorizer.saved_state import MemoryStateStore
from shared.authorizer.transport import Transport
from tests.authorizer.feeds import TENANT
from tests.authorizer.service import KEY, PIN, Response, Service, serving

_UNAVAILABLE = Response(b"", 503)


@pytest.fixture
def service() -> Iterator[Service]:
    """A service that grants long polls, and asks for a pause of a second."""
    with serving(Service(max_wait_seconds=10, poll_seconds=1)) as service:
        service.vouch()
        service.revoke("svc_wrt_a")
        yield service


_Follow = Callable[..., tuple[FeedFollower, list[Event]]]


@pytest.fixture
def follow(service: Service) -> Iterator[_Follow]:
    """Makes followers that have polled once, and the events of each."""
    with ExitStack() as closed:

        def made(policy: PollPolicy | None = None) -> tuple[FeedFollower, list[Event]]:
            connection, trust = Transport(service.url, api_key=KEY), TrustState(TENANT, PIN)
            closed.callback(connection.close)
            seen: list[Event] = []
            follower = FeedFollower(
                connection, MemoryStateStore(), trust, policy or PollPolicy(), seen.append
            )
            follower.poll()
            return follower, seen

        yield made


def _asked_to_wait(service: Service) -> bool:
    return "wait=" in service.asked[-1][0]


def test_a_response_without_entries_is_paced(service: Service, follow: _Follow) -> None:
    """F180e, F180h, F1606a: The client pauses after a response that had no entries and no wait.

    Its status does not matter: behind a proxy that changes or drops tags, each is a 200.
    """
    follower, _ = follow()
    for _ in range(3):
        # Another tag, and another head of the same entries, without a wait.
        service.sign()
        assert 0.5 <= follower.poll() <= 1
    service.revoke("svc_wrt_b")
    assert follower.poll() <= 0.05
    service.poll_seconds = 5
    service.sign()
    assert 2.5 <= follower.poll() <= 5
    service.max_wait_seconds, service.poll_seconds = 0, 1
    service.sign()
    assert 0.5 <= follower.poll() <= 1


@pytest.mark.slow
def test_news_in_each_response_is_paced(service: Service, follow: _Follow) -> None:
    """F1613e: News that came at once is followed by a pause if the news before did, too."""
    follower, _ = follow()
    pauses = []
    for number in range(4):
        service.revoke(f"svc_wrt_n{number}")
        pauses.append(follower.poll())
    assert min(pauses) >= 0.5
    service.max_wait_seconds = 1
    follower.poll()
    service.revoke("svc_wrt_last")
    assert follower.poll() <= 0.05


def test_a_tag_is_dropped_after_two_failures(service: Service, follow: _Follow) -> None:
    """F1613f: The second failure in a row drops the tag, which may be the cause."""
    follower, _ = follow()
    service.instead = lambda _path: Response(b"", 431)
    for has_tag in (True, True, False):
        follower.poll()
        assert ("If-None-Match" in service.asked[-1][1]) is has_tag
    service.instead = lambda _path: None
    follower.poll()
    assert follower.view.is_fresh()


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        (PollPolicy(max_staleness=3), 1 + 1.5),
        (PollPolicy(), 10 + 10),
        (RelayPolicy(wait_seconds=1), 1 + 10),
    ],
)
def test_a_poll_ends_before_the_state_is_stale(
    follow: _Follow, policy: PollPolicy, seconds: float
) -> None:
    """F1613g, F1892c: A poll ends after `wait`, and at most half of `max_staleness`.

    So it is with a relay, although its pauses are shorter: its service may have a cold start.
    """
    follower, seen = follow(policy)
    deadlines: list[float] = []

    def exchange(_self: object, _request: object, deadline: float, **_: object) -> None:
        deadlines.append(deadline - time.monotonic())
        raise TimeoutError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(http1.Connection, "exchange", exchange)
        follower.poll()
    assert isinstance(seen[-1], PollFailed)
    assert deadlines == [pytest.approx(seconds, abs=0.5)]


@pytest.mark.slow
def test_a_response_that_waited_is_not_paced(service: Service, follow: _Follow) -> None:
    """F1606b: After a long poll the client polls again at once."""
    follower, _ = follow(PollPolicy(max_staleness=3))
    assert follower.poll() <= 0.05
    assert _asked_to_wait(service)


def test_short_waits_do_not_add_polls(service: Service, follow: _Follow) -> None:
    """F1840a: Answers just after half of a short wait cause no more polls than no wait at all."""
    service.max_wait_seconds = 1
    follower, _ = follow()
    pauses = [follower._pause(0.55, has_news=False) for _ in range(20)]
    assert min(pauses) >= (1 - 0.55) / 2
    assert follower._pause(1.1, has_news=False) <= 0.05


def test_a_repeated_request_counts_from_its_repetition(
    service: Service, follow: _Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1840b: If a kept connection was closed, the state counts from the repeated request."""
    follower, _ = follow()
    service.max_wait_seconds = 0
    exchange, closed_at = http1.Connection.exchange, list[float]()

    def close_once(connection: http1.Connection, *given: Any, **options: Any) -> http1.Response:
        if not closed_at:
            closed_at.append(time.monotonic())
            raise http1.ConnectionClosed
        return exchange(connection, *given, **options)

    monkeypatch.setattr(http1.Connection, "exchange", close_once)
    follower.poll()
    assert follower.view.confirmed.monotonic > closed_at[0]


@pytest.mark.slow
def test_no_poll_waits_after_a_failure(service: Service, follow: _Follow) -> None:
    """F1606c: After a failure, and while the state is stale, the client polls without a wait."""
    follower, _ = follow(PollPolicy(max_staleness=3))
    service.instead = lambda _path: _UNAVAILABLE
    follower.poll()
    assert _asked_to_wait(service)
    service.instead = lambda _path: None
    follower.poll()
    assert not _asked_to_wait(service)
    follower.poll()
    assert _asked_to_wait(service)
    follower.view = follower.view.without_clearance()
    service.instead = lambda _path: _UNAVAILABLE
    follower.poll()
    assert not _asked_to_wait(service)


def test_a_stale_state_is_refreshed_at_once(service: Service, follow: _Follow) -> None:
    """F1606d: A client that slept, or whose responses are too old, does not wait either."""
    follower, seen = follow()
    follower.view = replace(follower.view, wall_end=0.0)
    follower.poll()
    assert not _asked_to_wait(service)
    assert follower.view.is_fresh()
    service.age = "31"
    follower, seen = follow()
    assert isinstance(seen[-1], PollFailed)
    service.age = "0"
    follower.poll()
    assert not _asked_to_wait(service)
    assert follower.view.is_fresh()


@pytest.mark.parametrize("max_staleness", [4, 30])
def test_pauses_are_bounded(service: Service, follow: _Follow, max_staleness: float) -> None:
    """F1606e: `Retry-After`, failures and refusals pause for half of `max_staleness` at most.

    The pauses are random, so that clients do not come back together.
    """
    follower, _ = follow(PollPolicy(max_staleness=max_staleness, poll_seconds=0.1))
    responses = [
        Response(b"", 503, {"Retry-After": "3600"}),
        Response(b"{", 200),
        Response(b"", 500),
    ]
    for response in responses:
        service.instead = lambda _path, given=response: given  # type: ignore[misc]
        pauses = [follower.poll() for _ in range(8)]
        assert max(pauses) <= max_staleness / 2
        assert len(set(pauses)) == 8
        follower._failures = 0


@pytest.mark.parametrize("after", ["-1", "1, 3600", "soon", "", "Fri, 01 Jan 2100 00:00:00 GMT"])
def test_another_form_of_retry_after_counts_for_nothing(
    service: Service, follow: _Follow, after: str
) -> None:
    follower, _ = follow(PollPolicy(poll_seconds=0.01))
    service.instead = lambda _path: Response(b"", 503, {"Retry-After": after})
    assert follower.poll() <= 0.02


def test_a_relay_pauses_briefly(service: Service, follow: _Follow) -> None:
    """F1606f: A relay pauses for 2 seconds at most, because its clients pause, too."""
    follower, _ = follow(RelayPolicy())
    service.instead = lambda _path: Response(b"", 503, {"Retry-After": "60"})
    pauses = [follower.poll() for _ in range(8)]
    assert max(pauses) <= 2


class _Opened:
    """Counts the connections that are opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, connect = 0, http1.connect

        def counted(*arguments: Any) -> http1.Connection:
            self.count += 1
            return connect(*arguments)

        monkeypatch.setattr(http1, "connect", counted)


def test_two_failures_change_the_connection(
    service: Service, follow: _Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1607a: After the second failure or refusal in a row, the client opens a connection."""
    follower, _ = follow()
    opened = _Opened(monkeypatch)
    for response in (_UNAVAILABLE, Response(b"{")):
        service.instead = lambda _path, given=response: given  # type: ignore[misc]
        before = opened.count
        follower.poll()
        follower.poll()
        assert opened.count == before
        service.instead = lambda _path: None
        follower.poll()
        assert opened.count == before + 1


def test_old_answers_change_the_connection(
    service: Service, follow: _Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1890a: An answer older than `max_staleness` counts as a failure, and its state counts.

    So a client leaves a relay that is cut off for another one behind the same address.
    """
    follower, seen = follow()
    opened = _Opened(monkeypatch)
    service.max_wait_seconds, service.age = 0, "31"
    service.revoke("svc_wrt_b")
    pauses = [follower.poll(), follower.poll()]
    assert opened.count == 0
    assert "svc_wrt_b" in follower.view.revoked
    assert isinstance(seen[-1], PollFailed)
    # Twice and four times `poll_seconds`.
    assert 1 <= pauses[0] <= 2 <= pauses[1] <= 4
    service.age = "30"
    assert follower.poll() <= 1
    assert opened.count == 1


def test_a_connection_has_a_maximum_age(
    service: Service, follow: _Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1607b: A connection is replaced after ten minutes at the latest."""
    follower, _ = follow()
    opened, begun = _Opened(monkeypatch), time.monotonic()
    service.max_wait_seconds = 0
    monkeypatch.setattr(transport, "_now", lambda: begun + 299)
    follower.poll()
    assert opened.count == 0
    monkeypatch.setattr(transport, "_now", lambda: begun + 610)
    follower.poll()
    assert opened.count == 1
