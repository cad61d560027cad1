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

from ..answers import NoAnswer
from ..formats import ed25519
from ..state import State
from ..transport import Transport
from .upstream import Line

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
class _List:
    """A list as the service sent it, the sequence that it covers, and when it was read."""

    body: bytes
    sequence: int
    issuer: bytes
    revoked: frozenset[str]
    read_at: float


class NewestNativeList:
    """Holds the newest list. It belongs to one event loop.

    `state` returns what the relay has verified of the feed. The signer of the first list stays the
    only one (NATIVE-2).
    """

    def __init__(self, line: Line, state: Callable[[], State | None]) -> None:
        self._line = line
        self._state = state
        self._kept: _List | None = None
        self._task: asyncio.Task[None] | None = None

    async def body(self, sequence: int) -> bytes:
        """Return the response that covers entry `sequence`, or a later one. Raises `NoAnswer`."""
        if not self._is_enough(sequence):
            if self._task is None:
                self._task = asyncio.ensure_future(self._refresh())
            await asyncio.shield(self._task)
        if self._kept is None or self._kept.sequence < sequence:
            raise NoAnswer("the relay does not have the list of the newest entry")
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
            found = await self._line.run(_fetched)
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

    def _check(self, found: _List, state: State | None) -> None:
        """Raise `NoAnswer` unless the list says what the feed says at its sequence."""
        if self._kept and self._kept.issuer != found.issuer:
            raise NoAnswer("the list has another signer than before")
        if state is None or state.sequence != found.sequence:
            raise NoAnswer("the list does not cover the end of the feed")
        is_same = len(found.revoked) == len(state.revoked)
        if not is_same or not all(each in state.revoked for each in found.revoked):
            raise NoAnswer("the list differs from the feed")


def _fetched(transport: Transport) -> _List:
    """Return the list of the service, whose signature was checked. Raises `NoAnswer`."""
    body = transport.get_far(PATH, limit=_BYTES_MAX)
    try:
        members = json.loads(body)
        data = base64.b64decode(members["srl"], validate=True)
        signed = cbor2.loads(data)
        payload, (_, signature) = signed["payload"], signed["signature"]
        (_, issuer), version = payload["issuer"], payload["version"]
        if not _is_signed(data, payload, signature, issuer):
            raise NoAnswer("the list is not signed by its issuer")
        if type(version) is not int or version != members["version"]:
            raise NoAnswer("the list has two versions")
        revoked = frozenset(map(_as_revoked, payload["revoked_ids"]))
    # A tag of CBOR may raise errors of many kinds.
    except Exception as error:
        if isinstance(error, NoAnswer):
            raise
        raise NoAnswer(f"the list is malformed: {type(error).__name__}") from None
    return _List(body, version - 1, issuer, revoked, monotonic())


def _is_signed(data: bytes, payload: Any, signature: bytes, issuer: bytes) -> bool:
    # The members are in the order in which they were signed.
    encoded = cbor2.dumps(payload)
    if encoded not in data:
        return False
    return ed25519.is_signed(_PREFIX + encoded, signature, public_key=issuer)


def _as_revoked(name: str) -> str:
    """Return the identifier by which the feed has a warrant (NATIVE-3)."""
    return f"svc_wrt_{found[1]}" if (found := _TENUO.fullmatch(name)) else name
