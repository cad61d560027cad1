"""The way from a follower of the feed to whom it asks: a network that fails, or is another's."""

import gzip
import math
import zlib
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, cast

from shared.authorizer.answers import NoResponse, Response, parse_answer, unexpected_status_error
from shared.authorizer.formats.wire import FeedEntry
from shared.authorizer.view import NEVER, ClockReading
from tests.kit.tenants import Tenant
from tests.world.world import TIMEOUT, Machine, World

if TYPE_CHECKING:
    from shared.authorizer.transport import Transport

# What an attacker says beside an answer, so that the oracle knows whose it is.
LIE = "x-lie"


class Upward(Protocol):
    """Who answers a follower: a server, or a relay."""

    @property
    def machine(self) -> Machine:
        """Where it runs."""

    def get(self, tenant: Tenant, path: str, etag: str | None) -> Response:
        """Answer a request."""


class Link:
    """The transport of a follower on `machine`; `confirmed` is when what it holds was confirmed.

    `heard` is what an attacker has recorded.
    """

    def __init__(
        self, world: World, machine: Machine, tenant: Tenant, ups: Callable[[], Upward]
    ) -> None:
        self.world, self.machine, self.tenant, self._ups = world, machine, tenant, ups
        self.confirmed: Callable[[], ClockReading] = lambda: NEVER
        self.asked = NEVER
        self.heard: list[Response] = []
        # Whether the present poll met an attacker, and what was confirmed by one: who can say that
        # nothing is new until the head expires.
        self._was_lied_to = False
        self._before = self.lie = NEVER

    @property
    def transport(self) -> "Transport":
        """This, as a transport."""
        return cast("Transport", self)

    @property
    def is_deceived(self) -> bool:
        """Whether it was an attacker who confirmed what the follower holds."""
        now = self.confirmed()
        return now == self.lie or (self._was_lied_to and now != self._before)

    def get(
        self,
        path: str,
        *,
        limit: int,
        etag: str | None = None,
        seconds: float = 0.0,
        patience: float = math.inf,
    ) -> Response:
        """Ask, and wait for the answer: `seconds`, and at most `patience` more."""
        self.asked = ClockReading.now()
        if "/feed" in path and "/base/" not in path:
            self._settle()
        if (old := self._replayed()) is not None:
            return old
        up = self._ups()
        answer = self.world.request(
            up.machine,
            lambda: up.get(self.tenant, path, etag),
            self.machine,
            patience=seconds + min(TIMEOUT, patience),
        )
        self._was_lied_to |= LIE in answer.headers
        if "/feed" in path and "/base/" not in path and answer.status == HTTPStatus.OK:
            self.heard.append(_unpacked(answer))
        answer = _unpacked(self._mangled(answer))
        if len(answer.body) > limit:
            raise NoResponse("the response has too many bytes")
        return answer

    def close(self) -> None:
        """Close the connection. Each request here has one of its own."""

    def get_far(self, path: str, *, limit: int) -> bytes:
        """The body of an answer."""
        answer = self.get(path, limit=limit)
        if answer.status != HTTPStatus.OK:
            raise unexpected_status_error(answer)
        return answer.body

    def _settle(self) -> None:
        if self.is_deceived:
            self.lie = self.confirmed()
        self._was_lied_to, self._before = False, self.confirmed()

    def _replayed(self) -> Response | None:
        if self.heard and self.world.take_peril(self.machine, "replay"):
            self._was_lied_to = True
            return self.world.random.choice(self.heard)
        return None

    def _mangled(self, answer: Response) -> Response:
        if answer.body and self.world.take_peril(self.machine, "corrupt"):
            return replace(answer, body=self._altered(answer.body))
        if answer.headers.get("etag") and b'"entries":["' in answer.body:
            return self._forged(answer)
        return answer

    def _altered(self, body: bytes) -> bytes:
        """The bytes with one bit changed, or some of them others, or the rest cut off."""
        random = self.world.random
        place, change = random.randrange(len(body)), random.choice(["bit", "bytes", "end"])
        if change == "bit":
            other = bytes([body[place] ^ 1 << random.randrange(8)])
            return body[:place] + other + body[place + 1 :]
        if change == "bytes":
            other = random.randbytes(random.randrange(4))
            return body[:place] + other + body[place + random.randrange(4) :]
        return body[:place]

    def _forged(self, answer: Response) -> Response:
        """The answer, or one that says the opposite of its last entry, or one of parts of many."""
        if not self.world.take_peril(self.machine, "forge"):
            return answer
        found, random = parse_answer(answer.body), self.world.random
        if random.random() < 0.5:
            # Whoever keeps an old head keeps its tag.
            whole = random.choice([*self.heard, answer])
            entries = [it for each in self.heard for it in parse_answer(each.body).entries]
            mixed = tuple(random.choice(entries) for _ in range(random.randrange(4)) if entries)
            self._was_lied_to = True
            body = replace(parse_answer(whole.body), entries=mixed).encode()
            return replace(whole, body=body)
        last = FeedEntry.decode(found.entries[-1])
        other = FeedEntry(last.sequence, last.removed or ("svc_wrt_forged",), last.revoked)
        forged = replace(found, entries=(*found.entries[:-1], other.encode()))
        return replace(answer, body=forged.encode())


def _unpacked(answer: Response) -> Response:
    if answer.headers.get("content-encoding") != "gzip":
        return answer
    try:
        return replace(answer, body=gzip.decompress(answer.body))
    except (OSError, EOFError, zlib.error) as error:
        raise NoResponse(str(error)) from None
