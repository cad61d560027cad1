"""Native list of unmodified `tenuo` authorizers, served once it matches the feed (FLEET-26)."""

import asyncio
import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

import cbor2

from ..answers import NoResponse
from ..formats import ed25519
from ..state import FeedState
from ..transport import Transport
from .upstream import UpstreamConnection

PATH: Final = "/compat/tenuo/v1/revocations/srl/signed"

_PREFIX: Final = b"tenuo-warrant-v1tenuo-srl-v1"
_TENUO: Final = re.compile("tnu_wrt_([0-9a-f]{32})", re.ASCII)

# The largest response. Then the seconds until an unchanged list is fetched again.
_BYTES_MAX: Final = 256 * 2**20
_FRESH_SECONDS: Final = 3600.0

# How often, and at what interval in seconds, to wait for the feed if the list is ahead of it.
_ATTEMPTS: Final = 10
_PAUSE: Final = 0.2


@dataclass(frozen=True, slots=True)
class _FetchedList:
    """A list as received, the sequence that it covers, and the time of the request."""

    body: bytes
    sequence: int
    issuer: bytes
    revoked: frozenset[str]
    read_at: float


class NativeListCache:
    """Caches the newest native list. It belongs to one event loop.

    `state` returns the verified state of the feed. Only the signer of the first list is accepted
    (NATIVE-2).
    """

    def __init__(self, line: UpstreamConnection, state: Callable[[], FeedState | None]) -> None:
        self._connection = line
        self._feed_state = state
        self._list: _FetchedList | None = None
        self._task: asyncio.Task[None] | None = None

    async def body(self, sequence: int) -> bytes:
        """Return a list that covers entry `sequence` or a later one. Raises `NoResponse`."""
        cached = self._list
        is_current = (
            cached is not None
            and cached.sequence >= sequence
            and monotonic() - cached.read_at < _FRESH_SECONDS
        )
        if not is_current:
            if self._task is None:
                self._task = asyncio.ensure_future(self._refresh())
            await asyncio.shield(self._task)
        if self._list is None or self._list.sequence < sequence:
            raise NoResponse("the relay does not have the native list of the newest entry")
        return self._list.body

    def close(self) -> None:
        """Cancel the pending request."""
        if self._task:
            self._task.cancel()

    async def _refresh(self) -> None:
        """Fetch the list, and keep it if it equals the feed state at its sequence."""
        try:
            fetched_list = await self._connection.run(_fetch)
            for _ in range(_ATTEMPTS):
                state = self._feed_state()
                if state and state.sequence >= fetched_list.sequence:
                    break
                await asyncio.sleep(_PAUSE)
            state = self._feed_state()
            if self._list and self._list.issuer != fetched_list.issuer:
                raise NoResponse("the native list has another signer than before")
            if state is None or state.sequence != fetched_list.sequence:
                raise NoResponse("the native list does not cover the end of the feed")
            is_same = len(fetched_list.revoked) == len(state.revoked)
            if not is_same or not all(each in state.revoked for each in fetched_list.revoked):
                raise NoResponse("the native list differs from the feed")
            # The feed state already contains the warrants.
            self._list = replace(fetched_list, revoked=frozenset())
        finally:
            self._task = None


def _fetch(transport: Transport) -> _FetchedList:
    """Fetch the native list, and verify its signature. Raises `NoResponse`."""
    body = transport.get_far(PATH, limit=_BYTES_MAX)
    try:
        members = json.loads(body)
        data = base64.b64decode(members["srl"], validate=True)
        message = cbor2.loads(data)
        payload, (_, signature) = message["payload"], message["signature"]
        (_, issuer), version = payload["issuer"], payload["version"]
        # The members are in their signed order.
        encoded = cbor2.dumps(payload)
        if encoded not in data or not ed25519.is_signed(
            _PREFIX + encoded, signature, public_key=issuer
        ):
            raise NoResponse("the native list is not signed by its issuer")
        if type(version) is not int or version != members["version"]:
            raise NoResponse("the native list has two versions")
        # The identifiers of warrants in the feed (NATIVE-3).
        revoked = frozenset(
            f"svc_wrt_{warrant[1]}" if (warrant := _TENUO.fullmatch(name)) else name
            for name in payload["revoked_ids"]
        )
    # A CBOR tag may raise errors of many types.
    except Exception as error:
        if isinstance(error, NoResponse):
            raise
        raise NoResponse(f"the native list is malformed: {type(error).__name__}") from None
    return _FetchedList(body, version - 1, issuer, revoked, monotonic())
