"""Examples for the API document: a head that verifies, and its entry."""

from typing import Final

from pydantic import JsonValue

# Of a feed with one entry, which is below.
FEED_HEAD: Final[dict[str, JsonValue]] = {
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

FEED_ENTRY: Final = "omdSZXZva2VkgXFzdmNfd3J0X2xhcHRvcC0xN2hTZXF1ZW5jZQE="
