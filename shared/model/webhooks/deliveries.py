"""Deliveries: where the service may send, and what became of each event (HOOK-6, HOOK-8).

A caller who may create a webhook must not reach addresses that only the service can reach.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from shared.model.items import Address, Partition, Table
from shared.model.records import Record

# How long a delivery is shown.
KEPT: Final = timedelta(days=14)
# How long an event, or a webhook, may fail before it is given up.
PATIENCE: Final = timedelta(days=1)
# The longest `Retry-After` that is followed, in seconds.
RETRY_AFTER_MAX: Final = 3600
# The bytes of a receiver's answer that are kept.
ANSWER_MAX: Final = 1024
# The bytes of a message.
MESSAGE_MAX: Final = 20 * 1024

# The seconds between two attempts, by the number of failures; the last one repeats.
_PAUSES: Final = (5, 30, 120, 600, 1800, 3600, 7200, 10_800)

_OK, _REDIRECTION, _GONE, _SERVER_ERROR = 200, 300, 410, 500
# Request timeout, and too many requests: the receiver asks for another attempt.
_LATER: Final = (408, 429)

Network: TypeAlias = IPv4Network | IPv6Network

URL_MAX: Final = 2048
PORT: Final = 443

_LABEL: Final = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
# The last label is not a number: `127.1` and `2130706433` are addresses to resolvers.
_HOST: Final = re.compile(rf"(?:{_LABEL}\.)+(?!\d|0x)[a-z0-9-]{{2,63}}", re.IGNORECASE)
_URL: Final = re.compile(r"https://[!-~]+", re.IGNORECASE)

# Not public, although `is_global` is true of them in some version of Python: protocol assignments,
# relays of 6to4, and the address at which Azure serves a machine its credentials.
_REFUSED_V4: Final = tuple(map(IPv4Network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32")))
# Only these are assigned. All others translate to IPv4 or are local.
_UNICAST_V6: Final = IPv6Network("2000::/3")
# Teredo and others, 6to4, and documentation.
_REFUSED_V6: Final = tuple(map(IPv6Network, ("2001::/23", "2002::/16", "3fff::/20")))


class DeliveryOutcome(StrEnum):
    """What an attempt to send met.

    `answered`: a status. `refused`: the address may not be used, and nothing was sent to it.
    `no_answer`: no connection, no valid certificate, or no well-formed answer in time.
    """

    ANSWERED = "answered"
    REFUSED = "refused"
    NO_ANSWER = "no_answer"


@dataclass(frozen=True, slots=True)
class EventMessage:
    """An event as it is sent: its identifier, its headers, its body."""

    id: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class DeliveryAnswer:
    """The outcome of one attempt. `body` has the first bytes of the answer, as text.

    `status` is None unless `outcome` is `answered`; `retry_after` is in seconds.
    """

    outcome: DeliveryOutcome
    milliseconds: int
    status: int | None = None
    retry_after: int | None = None
    body: str = ""


class Judgement(StrEnum):
    """The consequence of an answer (HOOK-9).

    `accepted`: done. `wait`: the webhook waits, and is then sent the same event. `aside`: the event
    is set aside and sent again later, while others go on. `gone`: the webhook is disabled.
    """

    ACCEPTED = "accepted"
    WAIT = "wait"
    ASIDE = "aside"
    GONE = "gone"


class DeliveryState(StrEnum):
    """Whether an event was accepted, will be sent again, or was given up."""

    DELIVERED = "delivered"
    RETRYING = "retrying"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Delivery(Record):
    """The outcome of an event: the last attempt, and the number of attempts.

    `id` and `index` are those of the entry in the sealed log. The store may delete it after
    `expires`, in seconds since the epoch.
    """

    id: str
    index: int
    type: str
    state: DeliveryState
    attempts: int
    attempted_at: datetime
    outcome: DeliveryOutcome
    status: int | None
    milliseconds: int
    answer: str
    expires: int


def judge(answer: DeliveryAnswer) -> Judgement:
    """Return what follows from an answer."""
    status = answer.status
    if status is None or status >= _SERVER_ERROR or status in _LATER:
        return Judgement.WAIT
    if _OK <= status < _REDIRECTION:
        return Judgement.ACCEPTED
    return Judgement.GONE if status == _GONE else Judgement.ASIDE


def pause(failures: int, answer: DeliveryAnswer, *, jitter: float) -> timedelta:
    """Return how long to wait after this many failures in a row; `answer` is the last.

    `jitter` is from -1 to 1: the pause differs by up to a fifth, so that webhooks of one receiver
    do not come back together.
    """
    seconds = _PAUSES[min(failures, len(_PAUSES)) - 1] * (1 + jitter / 5)
    return timedelta(seconds=max(seconds, min(answer.retry_after or 0, RETRY_AFTER_MAX)))


def deliveries(tenant_id: str, webhook_id: str) -> Partition:
    """Return the partition of a webhook's deliveries, by the identifiers of the entries."""
    return Partition(Table.AUDIT, f"{tenant_id}#deliveries#{webhook_id}")


def address(tenant_id: str, webhook_id: str, entry_id: str) -> Address:
    """Return the address of a delivery."""
    return deliveries(tenant_id, webhook_id).address(entry_id)


def checked_url(url: str) -> str:
    """Return `url`. Raises `ValueError`, with a message for the caller, if it is not allowed."""
    if len(url) > URL_MAX:
        raise ValueError(f"must have at most {URL_MAX} characters")
    if not _URL.fullmatch(url) or "\\" in url:
        raise ValueError("must be an https address of printable ASCII characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("must be a valid https address") from None
    if "@" in parts.netloc or "#" in url:
        raise ValueError("must have neither a user nor a fragment")
    if port not in (None, PORT):
        raise ValueError(f"must use port {PORT}")
    if not _HOST.fullmatch(parts.hostname or ""):
        raise ValueError("must name its host by a DNS name with a dot, not by an IP address")
    return url


def is_allowed(address: str, networks: Sequence[Network]) -> bool:
    """Return whether the service may connect to an IP address.

    It must be a public unicast address, or in one of the operator's `networks`.
    """
    ip = ip_address(address)
    if any(ip.version == each.version and ip in each for each in networks):
        return True
    return _is_public_v4(ip) if isinstance(ip, IPv4Address) else _is_public_v6(ip)


def _is_public_v4(ip: IPv4Address) -> bool:
    return ip.is_global and not ip.is_multicast and not any(ip in each for each in _REFUSED_V4)


def _is_public_v6(ip: IPv6Address) -> bool:
    if ip.scope_id is not None or ip not in _UNICAST_V6:
        return False
    return ip.is_global and not any(ip in each for each in _REFUSED_V6)
