"""What every queue promises (`shared.ports.outside.MessageQueue`)."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.ports.outside import MessageQueue

Delivered = Callable[[], Counter[str]]


@pytest.mark.parametrize("number", [0, 1, 9, 10, 11, 35])
def test_every_message_is_delivered(queue: MessageQueue, delivered: Delivered, number: int) -> None:
    """Any number of messages arrives, as it was sent and, where nothing fails, once."""
    messages = [f"svc_tnt_{each}" for each in range(number)]
    queue.send(iter(messages))
    assert delivered() == Counter(messages)


def test_a_message_comes_back_as_it_was(queue: MessageQueue, delivered: Delivered) -> None:
    """Text is text, whatever it means, one character or a thousand; sent twice, it comes twice."""
    messages = ['"{}"', "<a&b>", "Ærøskøbing 🗝", "two\nlines\t", "x", "y" * 1000]
    queue.send([*messages, *["same"] * 12])
    queue.send(["same"])
    assert delivered() == Counter(messages) + Counter(same=13)


def test_many_threads_share_a_queue(queue: MessageQueue, delivered: Delivered) -> None:
    """What is sent at once is all delivered."""
    batches = [[f"{thread}-{each}" for each in range(12)] for thread in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(queue.send, batches))
    assert delivered() == Counter(message for batch in batches for message in batch)
