"""Native list of unmodified `tenuo` authorizers, served once it matches the feed (FLEET-26)."""

import asyncio
import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final

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
        self._line = line
        self._state = state
        self._kept: _FetchedList | None = None
        self._task: asyncio.Task[None] | None = None

    async def body(self, sequence: int) -> bytes:
        """Return a list that covers entry `sequence` or a later one. Raises `NoResponse`."""
        if not self._is_enough(sequence):
            if self._task is None:
                self._task = asyncio.ensure_future(self._refresh())
            await asyncio.shield(self._task)
        if self._kept is None or self._kept.sequence < sequence:
            raise NoResponse("the relay does not have the list of the newest entry")
        return self._kept.body

    def close(self) -> None:
        """Cancel the pending request."""
        if self._task:
            self._task.cancel()

    def _is_enough(self, sequence: int) -> bool:
        kept = self._kept
        if kept is None or kept.sequence < sequence:
            return False
        return monotonic() - kept.read_at < _FRESH_SECONDS

    async def _refresh(self) -> None:
        try:
            found = await self._line.run(_fetch)
            for _ in range(_ATTEMPTS):
                state = self._state()
                if state and state.sequence >= found.sequence:
                    break
                await asyncio.sleep(_PAUSE)
            self._check(found, self._state())
            # The feed state already contains the warrants.
            self._kept = replace(found, revoked=frozenset())
        finally:
            self._task = None

    def _check(self, fetched_list: _FetchedList, state: FeedState | None) -> None:
        """Raise `NoResponse` unless the list equals the feed state at its sequence."""
        if self._kept and self._kept.issuer != fetched_list.issuer:
            raise NoResponse("the list has another signer than before")
        if state is None or state.sequence != fetched_list.sequence:
            raise NoResponse("the list does not cover the end of the feed")
        is_same = len(fetched_list.revoked) == len(state.revoked)
        if not is_same or not all(each in state.revoked for each in fetched_list.revoked):
            raise NoResponse("the list differs from the feed")


def _fetch(transport: Transport) -> _FetchedList:
    """Fetch the native list, and verify its signature. Raises `NoResponse`."""
    body = transport.get_far(PATH, limit=_BYTES_MAX)
    try:
        members = json.loads(body)
        data = base64.b64decode(members["srl"], validate=True)
        signed = cbor2.loads(data)
        payload, (_, signature) = signed["payload"], signed["signature"]
        (_, issuer), version = payload["issuer"], payload["version"]
        if not _is_signed(data, payload, signature, issuer):
            raise NoResponse("the list is not signed by its issuer")
        if type(version) is not int or version != members["version"]:
            raise NoResponse("the list has two versions")
        revoked = frozenset(map(_as_revoked, payload["revoked_ids"]))
    # A CBOR tag may raise errors of many types.
    except Exception as error:
        if isinstance(error, NoResponse):
            raise
        raise NoResponse(f"the list is malformed: {type(error).__name__}") from None
    return _FetchedList(body, version - 1, issuer, revoked, monotonic())


def _is_signed(data: bytes, payload: Any, signature: bytes, issuer: bytes) -> bool:
    # The members are in their signed order.
    encoded = cbor2.dumps(payload)
    if encoded not in data:
        return False
    return ed25519.is_signed(_PREFIX + encoded, signature, public_key=issuer)


def _as_revoked(name: str) -> str:
    """Return the identifier of a warrant in the feed (NATIVE-3)."""
    return f"svc_wrt_{found[1]}" if (found := _TENUO.fullmatch(name)) else name
