"""The whole decision about a request: its warrants are genuine, and none of them is revoked."""

import base64
import os
import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from . import trust
from .answers import NoAnswer, Response
from .client import AuthorizerClient
from .formats.warrants import InvalidWarrant
from .policy import check_seconds
from .status import Verdict
from .transport import Transport
from .trust import Bundle, BundleChanged, NoBundle, TrustReason, Warrant
from .view import NEVER, Moment

# Seconds after which the keys are read again: at the next decision, and for an unknown key. They
# are read at half of the age that they may have, if that is sooner.
_BUNDLE_SECONDS: Final = 30.0
_UNKNOWN_SECONDS: Final = 1.0
_BUNDLE_PART: Final = 2
# Seconds between two attempts, as long as the keys may be used.
_RETRY_SECONDS: Final = 5.0

# More warrants than any request needs; each costs two signatures.
_CHAIN_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a request is allowed. `reason` is `clear`, or why not.

    Reasons are those of `Verdict` and `TrustReason` and `WarrantReason`; `missing` without a
    warrant; `unknown` as long as the keys could not be read, and `stale_keys` if that was too long
    ago (TRUST-5). `warrants` are those of an allowed request, root to leaf.
    """

    is_allowed: bool
    reason: str
    warrants: tuple[Warrant, ...] = ()


class Guard:
    """Decides about chains of warrants of the format `cose`. Threads may share it.

    `client` knows what is revoked, and has the keys that the head of the feed names. So make the
    guard before the client starts; otherwise it knows no keys before the next poll. If `transport`
    is given, it reads the keys instead (the trust bundle), and is not that of the client. The
    payload of a warrant says what it permits; the caller has to read
    it.

    `max_staleness` is how many seconds after the service confirmed the keys a warrant may be
    allowed by them: as long as by the feed, if it is None. With `allow_when_stale` in the policy of
    the client, there is no such limit. Raises `ValueError` if it is no number of seconds above 0.
    """

    def __init__(
        self,
        client: AuthorizerClient,
        transport: Transport | None = None,
        *,
        max_staleness: float | None = None,
    ) -> None:
        policy = client.policy
        if max_staleness is not None:
            check_seconds("max_staleness", max_staleness)
        if transport is None:
            client.want_keys()
        self._client = client
        self._transport = transport
        self._max_staleness = max_staleness or policy.max_staleness
        self._allows = policy.allow_when_stale is True
        self._bundle: Bundle | None = None
        self._confirmed = self._asked = NEVER
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
        if is_clear and self._is_stale():
            return Decision(False, "stale_keys")
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
        bundle = self._keys(min(_BUNDLE_SECONDS, self._max_staleness / _BUNDLE_PART))
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
        if self._transport is None:
            return self._client.view.keys
        # One thread reads; the others do not wait, unless there is nothing to use.
        is_useless = self._bundle is None or self._is_stale()
        if self._is_due(seconds) and self._reading.acquire(blocking=is_useless):
            try:
                if self._is_due(seconds):
                    self._read()
            finally:
                self._reading.release()
        return self._bundle

    def _is_due(self, seconds: float) -> bool:
        is_useless = self._bundle is None or self._is_stale()
        pause = _UNKNOWN_SECONDS if is_useless else min(seconds, _RETRY_SECONDS)
        return self._confirmed.is_before(seconds) and self._asked.is_before(pause)

    def _is_stale(self) -> bool:
        if self._transport is None:
            return False
        return not self._allows and self._confirmed.is_before(self._max_staleness)

    def _read(self) -> None:
        transport, ages = self._transport, [0]
        if transport is None:
            return

        def get(path: str, *, limit: int, etag: str | None = None) -> Response:
            response = transport.get(path, limit=limit, etag=etag)
            ages.append(response.age)
            return response

        asked = self._asked = Moment.now()
        try:
            bundle = trust.read(get, held=self._bundle)
        except (NoAnswer, NoBundle, BundleChanged):
            return
        if bundle.tenant_id == self._client.tenant:
            self._bundle, self._confirmed = bundle, asked.before(max(ages))

    def _after_fork(self) -> None:
        # A thread of the parent may hold it.
        self._reading = threading.Lock()


_guards: "weakref.WeakSet[Guard]" = weakref.WeakSet()


def _after_fork() -> None:
    for guard in list(_guards):
        guard._after_fork()  # noqa: SLF001


os.register_at_fork(after_in_child=_after_fork)
