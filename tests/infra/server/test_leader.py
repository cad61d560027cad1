"""Which of several servers leads, under any timing, with faults of the store between them."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.server import leader
from infra.server.leader import LAPSE_SECONDS, RENEW_SECONDS, LeaderElection, StoreLease
from shared.adapters.local.sqlite import SqliteStore
from shared.errors import Unavailable
from shared.model.deployment import LEADER_ADDRESS
from shared.ports import Ports
from shared.ports.store import Store
from tests.kit.faults import Script, raises
from tests.kit.intercepted import Intercepted
from tests.kit.processes import ROOT


@dataclass
class _Time:
    """Seconds that all servers have in common, whatever their clocks say."""

    now: float = 0.0

    def clock(self, offset: float) -> Callable[[], float]:
        return lambda: self.now + offset


@dataclass
class _Server:
    """A server whose store fails, or stands still, around some of its calls."""

    store: Store
    time: _Time
    offset: float = 0.0
    script: Script = field(default_factory=Script)
    leads: bool = False

    def __post_init__(self) -> None:
        clock = self.time.clock(self.offset)
        calls = Intercepted(self.store, lambda call: self.script.run(call.verb, call))
        self.leader = LeaderElection(StoreLease(calls, clock), clock=clock)

    def look(self) -> bool:
        """Look once, as each server does each second."""
        self.leads = self.leader.leads()
        return self.leads

    def goes_wrong(self, fault: str, call: int) -> None:
        """Let a call of the next look be lost, or its answer."""
        hooks = self.script.before if fault == "is lost" else self.script.after
        hooks[len(self.script.calls) + call] = raises(Unavailable())

    def stands_still(
        self, call: int, others: list["_Server"], *, seconds: int, before: bool = True
    ) -> None:
        """Let this server stand still around a call of the next look, while others go on."""

        def go_on() -> None:
            for _ in range(seconds):
                self.time.now += RENEW_SECONDS
                for each in others:
                    each.look()

        hooks = self.script.before if before else self.script.after
        hooks[len(self.script.calls) + call] = go_on

    @property
    def believes(self) -> bool:
        """Whether it works as a leader now, if it looks as often as it should."""
        return self.leads and self.time.now < self.leader.seen_at - self.offset + LAPSE_SECONDS


_FAULTS = ("is lost", "answer is lost", "stands still before", "stands still after")
_STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 7.0]),
        st.sampled_from(["", "", *_FAULTS]),
        st.integers(0, 1),
    ),
    max_size=30,
)


@pytest.mark.slow
@given(_STEPS)
def test_one_leads_at_a_time(steps: list[tuple[int, float, str, int]]) -> None:
    """F617a: However servers stand still, lose calls or differ in their clocks, one leads at most.

    Once the store answers, one of them leads within five seconds.
    """
    store, time = SqliteStore(":memory:"), _Time()
    try:
        servers = [_Server(store, time, offset) for offset in (0.0, -1e6, 1e6)]
        for number, seconds, fault, call in steps:
            server = servers[number]
            if "stands still" in fault:
                others = [each for each in servers if each is not server]
                before = fault == "stands still before"
                server.stands_still(call, others, seconds=int(seconds), before=before)
            elif fault:
                server.goes_wrong(fault, call)
            server.look()
            assert sum(each.believes for each in servers) <= 1
            time.now += seconds
        for each in servers:
            each.script.before.clear()
            each.script.after.clear()
        for _ in range(int(5 / RENEW_SECONDS)):
            time.now += RENEW_SECONDS
            for each in servers:
                each.look()
        assert sum(each.believes for each in servers) == 1
    finally:
        store.close()


@pytest.mark.parametrize("call", [0, 1])
def test_one_that_stood_still_notices(ports: Ports, call: int) -> None:
    """F617b: A leader that stood still does not lead once another one has taken over."""
    time = _Time()
    first, second = (_Server(ports.store, time) for _ in range(2))
    assert (first.look(), second.look()) == (True, False)
    first.stands_still(call, [second], seconds=4)
    assert not first.look()
    assert second.leads
    assert not first.look()


def test_a_stop_lets_another_lead_at_once(ports: Ports) -> None:
    """F617c: After an orderly stop of the leader another server leads with its next look."""
    time = _Time()
    first, second = (_Server(ports.store, time) for _ in range(2))
    assert (first.look(), second.look()) == (True, False)
    second.leader.end()
    assert first.look()
    first.leader.end()
    assert ports.store.get(LEADER_ADDRESS) is None
    assert second.look()


def test_a_leader_outlasts_a_short_fault(ports: Ports, caplog: pytest.LogCaptureFixture) -> None:
    """F617d: A leader goes on while the store is away for less than its lease lasts, no longer."""
    time = _Time()
    server = _Server(ports.store, time)
    assert server.look()
    found = []
    for _ in range(4):
        time.now += RENEW_SECONDS
        server.goes_wrong("is lost", 0)
        found.append(server.look())
    assert found == [True, True, False, False]
    assert len(caplog.records) == 1
    assert server.look()


def test_on_one_machine_the_kernel_tells(tmp_path: Path) -> None:
    """F617e: On one machine a killed leader is followed at once, and an idle one writes nothing."""
    path = str(tmp_path / "svc.db")
    with closing(SqliteStore(path)) as store:
        ours = leader.lease(store)
        program = "import sys; from infra.server import leader;"
        program += " from shared.adapters.local.sqlite import SqliteStore;"
        program += " print(leader.lease(SqliteStore(sys.argv[1])).take(wants=True), flush=True);"
        program += " sys.stdin.read()"
        with subprocess.Popen(
            [sys.executable, "-c", program, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"True\n"
            assert not ours.take(wants=True)
            other.kill()
            other.wait()
        assert not ours.take(wants=False)
        assert ours.take(wants=True)
        assert ours.take(wants=True)
        assert store.get(LEADER_ADDRESS) is None
