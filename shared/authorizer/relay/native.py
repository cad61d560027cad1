"""The list of unmodified `tenuo` authorizers, repeated once it agrees with the feed (FLEET-26)."""

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

# The largest response; then seconds after which a list is read again although it has not changed.
_BYTES_MAX: Final = 256 * 2**20
_FRESH_SECONDS: Final = 3600.0

# How often, and after how many seconds, the feed is looked at if the list is ahead of it.
_ATTEMPTS: Final = 10
_PAUSE: Final = 0.2


@dataclass(frozen=True, slots=True)
class _FetchedList:
    """A list as the service sent it, the sequence that it covers, and when it was read."""

    body: bytes
    sequence: int
    issuer: bytes
    revoked: frozenset[str]
    read_at: float


class NativeListCache:
    """Holds the newest list. It belongs to one event loop.

    `state` returns what the relay has verified of the feed. The signer of the first list stays the
    only one (NATIVE-2).
    """

    def __init__(self, line: UpstreamConnection, state: Callable[[], FeedState | None]) -> None:
        self._line = line
        self._state = state
        self._kept: _FetchedList | None = None
        self._task: asyncio.Task[None] | None = None

    async def body(self, sequence: int) -> bytes:
        """Return the response that covers entry `sequence`, or a later one. Raises `NoResponse`."""
        if not self._is_enough(sequence):
            if self._task is None:
                self._task = asyncio.ensure_future(self._refresh())
            await asyncio.shield(self._task)
        if self._kept is None or self._kept.sequence < sequence:
            raise NoResponse("the relay does not have the list of the newest entry")
        return self._kept.body

    def close(self) -> None:
        """Let nobody wait for the service."""
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
            # The state has the warrants.
            self._kept = replace(found, revoked=frozenset())
        finally:
            self._task = None

    def _check(self, fetched_list: _FetchedList, state: FeedState | None) -> None:
        """Raise `NoResponse` unless the list says what the feed says at its sequence."""
        if self._kept and self._kept.issuer != fetched_list.issuer:
            raise NoResponse("the list has another signer than before")
        if state is None or state.sequence != fetched_list.sequence:
            raise NoResponse("the list does not cover the end of the feed")
        is_same = len(fetched_list.revoked) == len(state.revoked)
        if not is_same or not all(each in state.revoked for each in fetched_list.revoked):
            raise NoResponse("the list differs from the feed")


def _fetch(transport: Transport) -> _FetchedList:
    """Return the list of the service, whose signature was checked. Raises `NoResponse`."""
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
    # A tag of CBOR may raise errors of many kinds.
    except Exception as error:
        if isinstance(error, NoResponse):
            raise
        raise NoResponse(f"the list is malformed: {type(error).__name__}") from None
    return _FetchedList(body, version - 1, issuer, revoked, monotonic())


def _is_signed(data: bytes, payload: Any, signature: bytes, issuer: bytes) -> bool:
    # The members are in the order in which they were signed.
    encoded = cbor2.dumps(payload)
    if encoded not in data:
        return False
    return ed25519.is_signed(_PREFIX + encoded, signature, public_key=issuer)


def _as_revoked(name: str) -> str:
    """Return the identifier by which the feed has a warrant (NATIVE-3)."""
    return f"svc_wrt_{found[1]}" if (found := _TENUO.fullmatch(name)) else name
