"""Reads at once: all answers in order, and nothing under way when they are out."""

import threading
import time

import pytest

from shared.adapters.threads import ThreadedGather


def test_answers_come_in_the_order_of_the_reads() -> None:
    """However long each of them takes."""
    later = threading.Event()

    def slow() -> str:
        later.wait(5)
        return "slow"

    def quick() -> str:
        later.set()
        return "quick"

    assert ThreadedGather()(slow, quick, quick) == ("slow", "quick", "quick")


def test_they_wait_for_each_other_no_more_than_they_must() -> None:
    """Sixteen reads that each wait for all others come to an end."""
    gather = threading.Barrier(16, timeout=60)
    assert len(ThreadedGather()(*[gather.wait] * 16)) == 16


@pytest.mark.parametrize("failing", range(3))
def test_a_failure_comes_out_once_nothing_is_under_way(failing: int) -> None:
    """The first in order is raised; the others have ended by then."""
    ended: list[int] = []

    def read(number: int) -> None:
        try:
            if number >= failing:
                raise LookupError(number)
            time.sleep(0.05)
        finally:
            ended.append(number)

    with pytest.raises(LookupError) as caught:
        ThreadedGather()(*(lambda number=number: read(number) for number in range(3)))
    assert sorted(ended) == [0, 1, 2]
    assert caught.value.args == (failing,)
