"""Follows the feed with one exchange at a time."""

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from random import SystemRandom
from typing import Final

from . import events
from . import view as views
from .answers import (
    ANSWER_BYTES_MAX,
    FeedResponse,
    NoResponse,
    Response,
    TooLarge,
    parse_answer,
    read_age,
    unexpected_status_error,
)
from .formats import documents, wire
from .formats.documents import NotTrusted, RootReason, SignedDocument
from .formats.following import OF_DOCUMENTS, TrustState, follow
from .formats.trust import KeyUse
from .policy import BaseRequired, PollPolicy, RejectionReason, ResponseRejectedError
from .saved_state import SavedState, SavedStateCorrupt, StateStore
from .state import FeedPosition, FeedState, StaticVerifier, advance, restore
from .transport import Transport
from .view import ClockReading, Snapshot, today

_log = logging.getLogger("rescind_authorizer")

_FEED: Final = "/v1/revocations/feed"
_TRUST: Final = "/v1/trust"

# The largest base to fetch, regardless of the size in the feed head: about 13 million warrants.
BASE_MAX: Final = 2**30

# Seconds between polls: the maximum after failures, and the pause after a long poll.
_BACKOFF_MAX: Final = 5.0
_AFTER_WAIT: Final = 0.05

# Seconds to pause after an unexpected error.
_PAUSE: Final = 5.0

_NEVER: Final = datetime.fromtimestamp(0, UTC)

_random: Final = SystemRandom()

_OK: Final = 200
_NOT_MODIFIED: Final = 304


class FeedFollower:
    """Keeps the state of one tenant's feed up to date. It belongs to one thread.

    `load` reads `store`. A new state or trust document is saved to `store` before it takes effect.
    `emit` receives each event. With `asks_all`, all trust documents are read for forwarding.
    """

    def __init__(
        self,
        transport: Transport,
        store: StateStore,
        trust: TrustState,
        policy: PollPolicy,
        emit: Callable[[events.Event], None],
        *,
        asks_all: bool = False,
    ) -> None:
        self.transport = transport
        self.trust = trust
        self.view = Snapshot()
        self.last: FeedResponse | None = None  # the newest accepted response
        self.documents: tuple[SignedDocument, ...] = ()  # the last accepted trust response
        self.store = store
        self._policy = policy
        self._emit = emit
        self._fetches_all = asks_all
        self._position: FeedPosition | None = None
        self._signed_by: bytes | None = None  # signer of the newest feed head, while it is trusted
        self._etag: str | None = None
        self._has_gap = False
        self._failures = 0
        self._may_wait = True
        # Whether the last response had news at once. If the next one does too, the pause is not
        # shortened.
        self._has_hurried = False

    def load(self) -> None:
        """Load the saved state. Raises `SavedStateCorrupt` or `OSError`."""
        saved = self.store.load()
        if saved is None:
            return
        if (tenant := saved.trust.tenant_id) != self.trust.tenant_id:
            raise SavedStateCorrupt(
                f"the saved state belongs to {tenant}: use a separate folder for each tenant"
            )
        self.trust = saved.trust.with_pin(self.trust.pin)
        position = FeedPosition(saved.sequence, saved.chain)
        self._position = self.trust.position(saved.signer, position)
        self._signed_by = saved.signer
        state = self._restore(saved)
        if state:
            self._confirm(state, ClockReading.of_wall(saved.answered_at))

    def follow(self, stop: threading.Event, notify: Callable[[], None]) -> None:
        """Poll until `stop` is set, and call `notify` after each exchange."""
        pause = 0.0
        while not stop.wait(pause):
            try:
                try:
                    pause = self.poll()
                finally:
                    notify()
            # Any error: if this thread ended, every warrant would become STALE.
            except Exception as error:  # noqa: BLE001
                _log.exception("cannot follow the feed")
                pause = _PAUSE
                self._emit(events.PollFailed(type(error).__name__, pause))
        self.transport.close()

    def poll(self, *, may_wait: bool = True) -> float:
        """Poll the service once. Return the seconds to pause before the next poll.

        With `may_wait`, the service may delay its response until it has news. A failure emits an
        event, and leaves the state unchanged.
        """
        self._may_wait = may_wait
        try:
            if self._fetches_all and not self.documents:
                self._read_documents()
            pause = self._exchange()
        except (ResponseRejectedError, NotTrusted) as rejection:
            return self._reject(rejection.reason)
        except TooLarge:
            return self._reject(RejectionReason.TOO_LARGE)
        except NoResponse as error:
            return self._record_failure(str(error), error.retry_after)
        except (OSError, SavedStateCorrupt) as error:
            return self._record_failure(f"cannot save the state: {error}")
        self._failures = 0
        return pause

    def _exchange(self) -> float:
        response = self._request_feed()
        asked = self.transport.asked
        age, previous = read_age(response), _sequence(self.view.state)
        changed, true_at = response.status == _OK, asked.minus(age)
        if changed:
            answer = parse_answer(response.body)
            state = self._advance_with_documents(answer)
            # The state contains all changes confirmed earlier, regardless of the age of this
            # response.
            confirmed = max(true_at, self.view.confirmed) if self.view.is_trusted else true_at
            self._apply_state(state, confirmed)
            self._etag, self.last = response.headers.get("etag"), answer
            self._has_gap = False
        elif today() >= self.trust.expires_at:
            # Without the tag, the next response contains the feed head, which is checked again.
            raise NotTrusted(RootReason.TRUST_EXPIRED)
        elif self.view.state and true_at > self.view.confirmed:
            self._confirm(self.view.state, true_at)
        seconds = views.monotonic() - asked.monotonic
        self._emit(events.PollSucceeded(seconds, changed=changed))
        if age > self._policy.max_staleness:
            raise NoResponse(f"the response is {age} seconds old")
        return self._pause(seconds, has_news=previous != _sequence(self.view.state))

    def _request_feed(self) -> Response:
        """Return the response of the service: 200, or 304 if it has no news."""
        state = self._state_to_continue()
        wait = self._wait()
        # After a gap, the response must begin at the base.
        query = [f"after={state.sequence}"] if state and not self._has_gap else []
        query += [f"wait={wait}"] if state and wait else []
        path = "?".join([_FEED, "&".join(query)]) if query else _FEED
        etag = self._etag if state else None
        # A response must arrive before the state is stale.
        patience = self._policy.max_staleness / 2
        response = self.transport.get(
            path, limit=ANSWER_BYTES_MAX, etag=etag, seconds=wait, patience=patience
        )
        if response.status != _OK and not (response.status == _NOT_MODIFIED and etag):
            raise unexpected_status_error(response)
        return response

    def _state_to_continue(self) -> FeedState | None:
        """Return the state to continue, or None to reload from a base.

        A reload is needed if the state could not be restored later, or if its signer is not
        trusted.
        """
        state = self.view.state
        return state if state and state.latest and self.view.is_trusted else None

    def _advance_with_documents(self, answer: FeedResponse) -> FeedState:
        """Return the state after `answer`.

        Raises `ResponseRejectedError`, `NotTrusted`, `NoResponse`, `SavedStateCorrupt`, `OSError`.
        """
        try:
            return self._advance(answer)
        except NotTrusted as error:
            if error.reason not in OF_DOCUMENTS:
                raise
        try:
            self._read_documents()
        except NoResponse:
            # Report a service that serves no trust documents. Otherwise, the first rejection is
            # more specific.
            if self.trust.held is None:
                raise
        return self._advance(answer)

    def _advance(self, answer: FeedResponse, base: bytes | None = None) -> FeedState:
        now, verifier, position = today(), self.trust, self._position
        try:
            state = advance(
                self._state_to_continue(),
                answer,
                base=base,
                now=now,
                verifier=verifier,
                saved_position=position,
            )
        except BaseRequired as error:
            # The feed head, already verified, bounds the size.
            limit = min(wire.base_size_max(error.base), BASE_MAX)
            path = f"{_FEED}/base/{error.base.version}"
            return self._advance(answer, self.transport.get_far(path, limit=limit))
        if base is not None:
            self.store.save_base(base)
        return state

    def _apply_state(self, state: FeedState, requested_at: ClockReading) -> None:
        """Save `state`, which the service confirmed for the request, and apply it."""
        previous, signer = self.view.state, self._signed_by
        if previous is None or previous.head != state.head or signer != state.signed_by:
            self.store.save(_to_saved_state(state, self.trust, requested_at))
        self._position, self._signed_by = state.position, state.signed_by
        self._confirm(state, requested_at)
        if signer not in {None, state.signed_by}:
            self._emit(events.SignerChanged(state.signed_by))
        if previous is None or previous.sequence != state.sequence:
            sequence = previous.sequence if previous else None
            self._emit(events.StateAdvanced(sequence, state.sequence, len(state.revoked)))

    def _confirm(self, state: FeedState, requested_at: ClockReading) -> None:
        end = self.trust.expires_at
        self.view = Snapshot.of(state, requested_at, self._policy.max_staleness, end=end)

    def _restore(self, saved_state: SavedState) -> FeedState | None:
        position = self._position
        if (
            saved_state.base is None
            or saved_state.origin is None
            or saved_state.latest is None
            or position is None
        ):
            return None
        base = self.store.load_base(saved_state.base)
        if base is None:
            return None
        verifier = StaticVerifier(self.trust.tenant_id, self.trust.keys_for_use(KeyUse.LISTS))
        try:
            origin, latest = parse_answer(saved_state.origin), parse_answer(saved_state.latest)
            return restore(origin, base, latest, verifier=verifier, saved_position=position)
        except ResponseRejectedError:
            # The trusted keys changed since the state was saved. The position remains valid.
            return None

    def _read_documents(self) -> None:
        """Fetch newer trust documents, save the newest, and apply it (TRUST-14).

        Raises `NotTrusted`, `NoResponse`, `SavedStateCorrupt`, `OSError`.
        """
        after = 0 if self._fetches_all else self.trust.version
        response = self.transport.get(f"{_TRUST}?after={after}", limit=documents.ANSWER_BYTES_MAX)
        if response.status != _OK:
            raise unexpected_status_error(response)
        signed_documents = documents.documents(response.body)
        trust = follow(self.trust, signed_documents, today())
        if trust is self.trust:
            self.documents = signed_documents
            return
        signed_by = self._signed_by if self._signed_by in trust.keys_for_use(KeyUse.LISTS) else None
        position = trust.position(signed_by, self._position)
        state = self.view.state if signed_by and self.view.is_trusted else None
        if state:
            self.store.save(_to_saved_state(state, trust, self.view.confirmed))
        elif position:
            self.store.save(SavedState(trust, *position, _NEVER, 0.0, signed_by))
        self.trust, self._position, self._signed_by = trust, position, signed_by
        if state:
            self._confirm(state, self.view.confirmed)
        elif self.view.state:
            # A thief may have signed the state. Only a head of a trusted signer clears warrants
            # again.
            self.view, self._etag = self.view.without_clearance(), None
        self._emit(events.TrustChanged(trust.version, trust.pin))
        self.documents = signed_documents

    def _wait(self) -> int:
        """Return the duration of the next long poll, in seconds.

        After a failure, or while the state is stale, an immediate response matters more.
        """
        if self.last is None or not self._may_wait or self._failures or not self.view.is_fresh():
            return 0
        return self._policy.wait(self.last.max_wait_seconds)

    def _pause(self, seconds: float, *, has_news: bool) -> float:
        pause_max = self._policy.pause(self.last.poll_seconds if self.last else 0)
        wait = self._wait()
        # Only entries are news. Behind a proxy that changes or drops tags, every response is a 200.
        is_soon, has_hurried = seconds < pause_max / 2, self._has_hurried
        self._has_hurried = has_news and is_soon
        if wait and has_news and not (is_soon and has_hurried):
            pause_max = _AFTER_WAIT
        elif wait and seconds > wait / 2:
            pause_max = max(_AFTER_WAIT, self._policy.poll_seconds - seconds)
        return pause_max * _random.uniform(0.5, 1)

    def _reject(self, reason: RejectionReason | RootReason) -> float:
        self._etag, self._has_gap = None, reason == RejectionReason.GAP
        self._emit(events.ResponseRejected(reason.value))
        return self._backoff()

    def _record_failure(self, message: str, retry_after: float = 0.0) -> float:
        requested_pause = min(retry_after, self._policy.pause_max) * _random.uniform(0.5, 1)
        pause = max(self._backoff(), requested_pause)
        self._emit(events.PollFailed(message, pause))
        return pause

    def _backoff(self) -> float:
        self._failures += 1
        if self._failures > 1:
            # A new connection may lead to another server, and a server may reject the tag itself.
            self.transport.close()
            self._etag = None
        doubled = self._policy.poll_seconds * 2.0 ** min(self._failures, 10)
        pause_max = min(_BACKOFF_MAX, self._policy.pause_max)
        longest = max(self._policy.poll_seconds, min(doubled, pause_max))
        return longest * _random.uniform(0.5, 1)


def _sequence(state: FeedState | None) -> int | None:
    return state.sequence if state else None


def _to_saved_state(state: FeedState, trust: TrustState, requested_at: ClockReading) -> SavedState:
    latest = state.latest.encode() if state.latest else None
    return SavedState(
        trust,
        state.sequence,
        state.head.chain,
        state.head.issued_at,
        requested_at.wall,
        state.signed_by,
        base=state.origin_base.sha256 if latest else None,
        origin=state.origin.encode() if latest else None,
        latest=latest,
    )
