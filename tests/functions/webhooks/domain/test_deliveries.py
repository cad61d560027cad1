"""What follows from the answer of a receiver (HOOK-9)."""

import pytest

from functions.webhooks.deliveries import DeliveryDecision, judge, pause
from shared.model.outbound import DeliveryOutcome, DeliveryResponse

SERVICE_UNAVAILABLE = DeliveryResponse(DeliveryOutcome.RESPONSE, 5, status=503)


@pytest.mark.parametrize(
    ("statuses", "judgement"),
    [
        ((200, 201, 202, 204, 299), DeliveryDecision.ACCEPTED),
        ((408, 429, 500, 502, 503, 599), DeliveryDecision.RETRY),
        (
            (100, 101, 300, 301, 302, 304, 307, 400, 401, 404, 409, 411, 499),
            DeliveryDecision.DEFERRED,
        ),
        ((410,), DeliveryDecision.GONE),
    ],
)
def test_a_status_is_judged(statuses: tuple[int, ...], judgement: DeliveryDecision) -> None:
    """HOOK-9, F389a: A status says whether a webhook waits, an event is set aside, or all ends."""
    for status in statuses:
        assert judge(DeliveryResponse(DeliveryOutcome.RESPONSE, 5, status=status)) is judgement
    assert judge(DeliveryResponse(DeliveryOutcome.NO_RESPONSE, 5)) is DeliveryDecision.RETRY
    assert judge(DeliveryResponse(DeliveryOutcome.BLOCKED, 5)) is DeliveryDecision.RETRY


def test_pauses_grow() -> None:
    """F389b: Pauses between attempts grow to three hours and differ by up to a fifth."""
    steady = [
        pause(failures, SERVICE_UNAVAILABLE, jitter=0).total_seconds() for failures in range(1, 11)
    ]
    assert steady == [5, 30, 120, 600, 1800, 3600, 7200, 10_800, 10_800, 10_800]
    for jitter, seconds in ((-1, 24), (1, 36), (0.5, 33)):
        made = pause(2, SERVICE_UNAVAILABLE, jitter=jitter).total_seconds()
        assert made == pytest.approx(seconds)


@pytest.mark.parametrize(("asked", "seconds"), [(60, 60), (1, 5), (3600, 3600), (10**9, 3600)])
def test_a_receiver_may_ask_for_a_pause(asked: int, seconds: int) -> None:
    """F389c: `Retry-After` lengthens a pause, and never beyond an hour."""
    answer = DeliveryResponse(DeliveryOutcome.RESPONSE, 5, status=429, retry_after=asked)
    assert pause(1, answer, jitter=0).total_seconds() == seconds
