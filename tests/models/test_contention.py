"""What one tenant can do before DynamoDB refuses it, by the model of `contention.py`."""

from collections.abc import Sequence

import pytest

from tests.models.contention import (
    PARTITION_UNITS,
    Write,
    created,
    hottest,
    shards,
    shared_items,
    signatures,
    simulate,
)

# Each rate with a margin above what is promised.
_MARGIN = 1.25
_SIGNATURES = 200 * _MARGIN
_REVOCATIONS = 2000 * _MARGIN


@pytest.fixture(scope="module")
def signed() -> Sequence[Write]:
    return signatures(300)


def test_the_model_shows_what_a_shared_item_does() -> None:
    """One item for all: at 100 requests a second, more than one in ten is refused."""
    assert simulate(shards(1), 100, 0.010, 20).refused > 0.1
    assert simulate(shards(1), 20, 0.010, 20).refused == 0


@pytest.mark.parametrize("hold", [0.010, 0.020])
def test_two_hundred_signatures_a_second_are_not_refused(
    signed: Sequence[Write], hold: float
) -> None:
    """F136a: 200 signatures a second with one key do not wait for a shared item."""
    came = simulate(shared_items(signed), _SIGNATURES, hold, 10)
    assert came.refused == 0
    assert came.p99 < 0.25


@pytest.fixture(scope="module")
def revoked() -> Sequence[Write]:
    return created(1000)


@pytest.mark.parametrize("hold", [0.010, 0.020])
def test_two_thousand_revocations_a_second_are_not_refused(
    revoked: Sequence[Write], hold: float
) -> None:
    """F137a: 2,000 revocations a second of one tenant do not wait for a shared counter."""
    came = simulate(shared_items(revoked), _REVOCATIONS, hold, 3)
    assert came.refused == 0
    assert came.p99 < 0.25


def test_revocations_fit_their_partitions(revoked: Sequence[Write]) -> None:
    """F140a: No partition takes more writes than DynamoDB allows at 2,000 revocations a second."""
    assert hottest(revoked)[1] * 2000 <= PARTITION_UNITS


def test_signatures_fit_their_partitions(signed: Sequence[Write]) -> None:
    """F136: no partition takes more than it can when one key signs 200 times a second."""
    assert hottest(signed)[1] * _SIGNATURES <= PARTITION_UNITS
