"""Bodies of the endpoints of the feed (POLL-1)."""

import base64
from typing import Self

from functions.feed import examples
from shared.operations.api.feed import News
from shared.web.fields import BASE64, ResponseBody, Signature, example, shown


class FeedHead(ResponseBody):
    """The signed head of the feed."""

    model_config = example(**examples.FEED_HEAD)

    Payload: str = shown(
        "Base64 of a CBOR map with Tenant, Sequence, Chain, IssuedAt, ExpiresAt and Base.", **BASE64
    )
    Signature: Signature


class FeedAnswer(ResponseBody):
    """The head of the feed, and entries that end at it."""

    model_config = example(
        head=examples.FEED_HEAD, entries=[examples.FEED_ENTRY], poll_seconds=1, wait_max=0
    )

    head: FeedHead
    entries: list[str] = shown(
        "The entries, oldest first: each is base64 of a CBOR map with Sequence, and with Revoked "
        "and Removed unless these are empty."
    )
    poll_seconds: int = shown("How many seconds to wait between two polls.", minimum=1)
    wait_max: int = shown("The longest `wait`, in seconds; 0 if the service does not wait.")

    @classmethod
    def of(cls, polled: News, *, poll_seconds: int, wait_max: int) -> Self:
        """Return the body for what was polled."""
        head = FeedHead(
            Payload=_base64(polled.head.payload), Signature=_base64(polled.head.signature)
        )
        entries = [_base64(each) for each in polled.entries]
        return cls(head=head, entries=entries, poll_seconds=poll_seconds, wait_max=wait_max)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
