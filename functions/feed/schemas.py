"""Bodies of the endpoints of the feed (POLL-1)."""

import base64
from typing import Final, Self

from pydantic import JsonValue

from shared.operations.changes.feed import FeedPage
from shared.web.fields import BASE64, ResponseBody, Signature, example, field

# Examples for the API document: a valid signed head of a feed with one entry, and the entry.
_HEAD: Final[dict[str, JsonValue]] = {
    "Payload": (
        "pmRCYXNlpWVDaGFpblgg4cHjOjXbWvyFlBq1ep1MRKB+0CsI+lk+7lGWHu7+tkNlQ291bnQAZlNIQTI1NlggLXEW"
        "QrcmsEQBYnyp+6wy9chTD7GQPMTbAiWHF5IaSIFnVmVyc2lvbgFoU2VxdWVuY2UAZUNoYWluWCBmppQxGKTHQY/i"
        "FohLLO662sqyZntS0mhvBpBGdjG9FGZUZW5hbnR4InN2Y190bnRfMDFrYm00eHQzcmZ6OGM1dzd5MnE5bjZkMWVo"
        "SXNzdWVkQXR0MjAyNi0xMS0yMVQxMjowMDowMFpoU2VxdWVuY2UBaUV4cGlyZXNBdHQyMDI2LTExLTIxVDEzOjAw"
        "OjAwWg=="
    ),
    "Signature": (
        "JeAvmkK35L+RL9lDd6gCC7Bw66Pw4hA0XZrSU93mGUGcSuvABerYZI3Jyh72MGdc4C2h/PGqRKEHvzfc65DbAw=="
    ),
}

_ENTRY: Final = "omdSZXZva2VkgXFzdmNfd3J0X2xhcHRvcC0xN2hTZXF1ZW5jZQE="


class FeedHeadBody(ResponseBody):
    """The signed head of the feed."""

    model_config = example(**_HEAD)

    Payload: str = field(
        "The signed bytes: base64 of a CBOR map with Tenant, Sequence, Chain, IssuedAt, ExpiresAt "
        "and Base.",
        **BASE64,
    )
    Signature: Signature


class FeedAnswer(ResponseBody):
    """The feed head, and the entries up to it."""

    model_config = example(head=_HEAD, entries=[_ENTRY], poll_seconds=1, max_wait_seconds=0)

    head: FeedHeadBody
    entries: list[str] = field(
        "The feed entries, oldest first. Each is base64 of a CBOR map with Sequence, and with "
        "Revoked and Removed unless they are empty."
    )
    poll_seconds: int = field("Recommended interval between two polls, in seconds.", minimum=1)
    max_wait_seconds: int = field(
        "Longest `wait`, in seconds; 0 if the service does not support long polls."
    )

    @classmethod
    def of(cls, page: FeedPage, *, poll_seconds: int, max_wait_seconds: int) -> Self:
        """Return the body for the result of a poll."""
        head = FeedHeadBody(
            Payload=_base64(page.head.payload), Signature=_base64(page.head.signature)
        )
        entries = [_base64(each) for each in page.entries]
        return cls(
            head=head, entries=entries, poll_seconds=poll_seconds, max_wait_seconds=max_wait_seconds
        )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
