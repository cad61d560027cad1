"""The whole decision about a request: its warrants are genuine, and none of them is revoked."""

import base64
import os
import threading
import time
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from . import trust
from .client import AuthorizerClient
from .responses import NoAnswer
from .status import Verdict
from .transport import Transport
from .trust import Bundle, BundleChanged, NoBundle, TrustReason, Warrant
from .warrants import InvalidWarrant

# Seconds after which the keys are read again: at the next decision, and for an unknown key.
_BUNDLE_SECONDS: Final = 30.0
_UNKNOWN_SECONDS: Final = 1.0

# More warrants than any request needs; each costs two signatures.
_CHAIN_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a request is allowed. `reason` is `clear`, or why not.

    Reasons are those of `Verdict` and `TrustReason` and `WarrantReason`; `missing` without a
    warrant; `unknown` as long as the keys could not be read. `warrants` are those of an allowed
    request, root to leaf.
    """

    is_allowed: bool
    reason: str
    warrants: tuple[Warrant, ...] = ()


class Guard:
    """Decides about chains of warrants of the format `cose`. Threads may share it.

    `client` knows what is revoked. `transport` reads the tenant's keys (the trust bundle), and is
    not that of the client. What a warrant permits is in its payload, which is for the caller to
    read.
    """

    def __init__(self, client: AuthorizerClient, transport: Transport) -> None:
        self._client = client
        self._transport = transport
        self._bundle: Bundle | None = None
        self._read_at = float("-inf")
        self._reading = threading.Lock()
        _guards.add(self)

    def decide(self, chain: Iterable[bytes]) -> Decision:
        """Return the decision about the warrants of a request, from the root to the leaf."""
        warrants = list(chain)
        if not 0 < len(warrants) <= _CHAIN_MAX:
            return Decision(False, "missing" if not warrants else "malformed")
        try:
            verified = self._verified(warrants)
        except InvalidWarrant as error:
            return Decision(False, error.reason.value)
        if verified is None:
            return Decision(False, "unknown")
        verdict = self._client.check([each.id for each in verified])
        is_clear = verdict is Verdict.CLEAR
        return Decision(is_clear, verdict.value, tuple(verified) if is_clear else ())

    def decide_header(self, value: str) -> Decision:
        """Return the decision about a header: base64 of each warrant, separated by commas."""
        parts = [each.strip() for each in value.split(",") if each.strip()]
        try:
            chain = [base64.b64decode(each, validate=True) for each in parts]
        except ValueError:
            return Decision(False, "malformed")
        return self.decide(chain)

    def _verified(self, warrants: list[bytes]) -> list[Warrant] | None:
        now = datetime.now(UTC)
        bundle = self._keys(_BUNDLE_SECONDS)
        if bundle is None:
            return None
        try:
            return bundle.verify_chain(warrants, now=now)
        except InvalidWarrant as error:
            newer = self._keys(_UNKNOWN_SECONDS) if error.reason is TrustReason.KEY else None
            # A key may be younger than what was read.
            if newer is None or newer is bundle:
                raise
            return newer.verify_chain(warrants, now=now)

    def _keys(self, seconds: float) -> Bundle | None:
        """Return the keys as they were at most `seconds` ago, or as long ago as need be."""
        if self._bundle is None:
            seconds = _UNKNOWN_SECONDS
        is_old = time.monotonic() - self._read_at > seconds
        # One thread reads; the others do not wait, unless there is nothing to use.
        if is_old and self._reading.acquire(blocking=self._bundle is None):
            try:
                if time.monotonic() - self._read_at > seconds:
                    self._read()
            finally:
                self._reading.release()
        return self._bundle

    def _read(self) -> None:
        self._read_at = time.monotonic()
        try:
            bundle = trust.read(self._transport.get, held=self._bundle)
        except (NoAnswer, NoBundle, BundleChanged):
            return
        if bundle.tenant_id == self._client.tenant:
            self._bundle = bundle

    def _after_fork(self) -> None:
        # A thread of the parent may hold it.
        self._reading = threading.Lock()


_guards: "weakref.WeakSet[Guard]" = weakref.WeakSet()


def _after_fork() -> None:
    for guard in list(_guards):
        guard._after_fork()  # noqa: SLF001


os.register_at_fork(after_in_child=_after_fork)
