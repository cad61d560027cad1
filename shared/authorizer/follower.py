"""How a client follows the feed: one exchange with the service at a time. It has no thread."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from random import SystemRandom
from typing import Final
from urllib.parse import quote

from . import events
from .answers import (
    ANSWER_BYTES_MAX,
    Answer,
    NoAnswer,
    Response,
    TooLarge,
    parse_answer,
    unexpected,
)
from .belief import OF_DOCUMENTS, Belief
from .floor import DamagedFloor, Floor, Saved
from .formats import documents, wire
from .formats.documents import NotTrusted, RootReason, SignedDocument
from .formats.signing_keys import PublishedKeys
from .formats.statements import ReportedSigners
from .formats.trust import TrustDocument
from .policy import NeedsBase, Policy, Reason, RefusedAnswer
from .signers import OF_SIGNERS, Signers, Trust
from .state import Position, State, Trusted, advance, restore
from .transport import Transport
from .trust import Bundle
from .view import Moment, View

_FEED: Final = "/v1/revocations/feed"
_KEYS: Final = "/v1/revocations/srl/keys"
_TRUST: Final = "/v1/trust"

# The largest base that is fetched, whatever a head promises: some 13 million warrants.
BASE_MAX: Final = 2**30

# The most bytes of signing keys that are fetched, whatever a head promises: some 300,000 keys. Then
# seconds until they are asked for again if that fails.
SIGNING_KEYS_MAX: Final = 64 * 2**20
_SIGNING_KEYS_SECONDS: Final = 5.0

# The most bytes of a page of list signers, which has some two hundred, and the most pages.
_KEYS_MAX: Final = 2**20
_PAGES_MAX: Final = 50

# Seconds between two readings of the list signers, which say what keys are revoked.
_KEYS_SECONDS: Final = 300.0
_KEYS_SECONDS_FAILED: Final = 20.0

# Seconds between polls: after failures at most, and after an answer that was waited for.
_BACKOFF_MAX: Final = 5.0
_AFTER_WAIT: Final = 0.05

_NEVER: Final = datetime.fromtimestamp(0, UTC)

_random: Final = SystemRandom()

_OK: Final = 200
_NOT_MODIFIED: Final = 304


class Follower:
    """Holds the state of one tenant's feed, and brings it up to date. It belongs to one thread.

    `floor` is read in `load`, and written before a new state or a new trust document counts. `emit`
    gets each event. With `asks_all`, all trust documents are read, to be passed on. If `wants_keys`
    is set, the view has the signing keys that its head names.
    """

    def __init__(
        self,
        transport: Transport,
        floor: Floor,
        trust: Trust | Belief,
        policy: Policy,
        emit: Callable[[events.Event], None],
        *,
        asks_all: bool = False,
    ) -> None:
        self.transport = transport
        self.trust = trust
        self.view = View()
        self.last: Answer | None = None  # the newest that was accepted
        self.documents: tuple[SignedDocument, ...] = ()  # the last answer that was accepted
        self.wants_keys = False
        self.floor = floor
        self._policy = policy
        self._emit = emit
        self._asks_all = asks_all
        self._position: Position | None = None
        self._signed_by: bytes | None = None  # who signed the newest head
        self._etag: str | None = None
        self._has_gap = False
        self._failures = 0
        self._keys_due = time.monotonic()
        self._signers: Signers | None = None  # as the floor has them
        self._signing_keys_due = time.monotonic()

    def load(self) -> None:
        """Take up what the floor has. Raises `DamagedFloor` or `OSError`."""
        pins = self.floor.pins()
        if pins is not None and isinstance(self.trust, Trust):
            self.trust = replace(self.trust, pinned=pins)
            self._emit(events.Repinned(tuple(sorted(pins))))
        saved = self.floor.load()
        if saved is None:
            return
        if saved.tenant != self.trust.tenant:
            raise DamagedFloor(f"the floor is of {saved.tenant}: each tenant needs its own")
        position = Position(saved.sequence, saved.chain)
        self._signed_by = saved.signers.current
        if isinstance(self.trust, Trust):
            self.trust = replace(self.trust, signers=saved.signers)
            self._signers = saved.signers
            self._position = position
        else:
            signers = saved.signers
            self.trust = self.trust.resumed(saved.trust, signers.current, signers.revoked)
            self._position = self.trust.position(self._signed_by, position)
        state = self._restored(saved, self._position)
        if state:
            self._confirm(state, Moment.of_wall(saved.answered_at), None)

    def poll(self) -> float:
        """Make one exchange with the service. Return the seconds to pause before the next.

        A failure is an event, and leaves the state as it is.
        """
        try:
            if isinstance(self.trust, Trust) and time.monotonic() >= self._keys_due:
                self._read_keys()
            if self._asks_all and not self.documents:
                self._read_documents()
            pause = self._exchange()
        except (RefusedAnswer, NotTrusted) as refused:
            return self._refused(refused.reason)
        except TooLarge:
            return self._refused(Reason.TOO_LARGE)
        except NoAnswer as error:
            return self._failed(str(error), error.retry_after)
        except (OSError, DamagedFloor) as error:
            return self._failed(f"the floor cannot be saved: {error}")
        self._failures = 0
        return pause

    def _exchange(self) -> float:
        asked = Moment.now()
        response = self._ask()
        changed, true_at = response.status == _OK, asked.before(response.age)
        if changed:
            answer = parse_answer(response.body)
            state = self._next(answer)
            # It has every change that was confirmed before, however old this answer is.
            held = self.view.confirmed if self.view.is_trusted else true_at
            self._take(state, max(true_at, held))
            self._etag, self.last = response.headers.get("etag"), answer
            self._has_gap = False
        elif self._is_expired():
            # Without the tag, the next answer has the head, which is checked again.
            raise NotTrusted(RootReason.TRUST_EXPIRED)
        elif self.view.state and true_at > self.view.confirmed:
            self._confirm(self.view.state, true_at, self._keys(self.view.state.head))
        seconds = time.monotonic() - asked.monotonic
        self._emit(events.Polled(seconds, changed=changed))
        pause = self._pause(seconds, changed=changed)
        if response.age > self._policy.max_staleness:
            self._emit(events.Failed(f"the answer is {response.age} seconds old", pause))
        return pause

    def _ask(self) -> Response:
        """Return the response of the service: 200, or 304 if it has nothing new."""
        held = self._held()
        wait = self._wait()
        # After a gap, the answer has to begin at the base.
        query = [f"after={held.sequence}"] if held and not self._has_gap else []
        query += [f"wait={wait}"] if held and wait else []
        path = "?".join([_FEED, "&".join(query)]) if query else _FEED
        etag = self._etag if held else None
        response = self.transport.get(path, limit=ANSWER_BYTES_MAX, etag=etag, seconds=wait)
        if response.status != _OK and not (response.status == _NOT_MODIFIED and etag):
            raise unexpected(response)
        return response

    def _held(self) -> State | None:
        """Return the state to continue; None to begin anew, if it could not be restored later."""
        state = self.view.state
        return state if state and state.latest and self._may_continue() else None

    def _may_continue(self) -> bool:
        return isinstance(self.trust, Trust) or self.view.is_trusted

    def _is_expired(self) -> bool:
        end = self._end()
        return end is not None and datetime.now(UTC) >= end

    def _end(self) -> datetime | None:
        held = self.trust.document if isinstance(self.trust, Belief) else None
        return held.expires_at if held else None

    def _next(self, answer: Answer) -> State:
        """Return the state after `answer`.

        Raises `RefusedAnswer`, `NotTrusted`, `NoAnswer`, `DamagedFloor`, `OSError`.
        """
        try:
            return self._advanced(answer)
        except RefusedAnswer as refused:
            if refused.reason not in OF_SIGNERS or isinstance(self.trust, Belief):
                raise
            with suppress(NoAnswer):
                self._read_keys()
        except NotTrusted as refused:
            if refused.reason not in OF_DOCUMENTS:
                raise
            try:
                self._read_documents()
            except NoAnswer:
                # What a service lacks that knows no documents says more than the refusal.
                if isinstance(self.trust, Belief) and self.trust.version == 0:
                    raise
        return self._advanced(answer)

    def _advanced(self, answer: Answer, base: bytes | None = None) -> State:
        now, floor = datetime.now(UTC), self._position
        try:
            state = self._state_after(answer, base, now, floor)
        except NeedsBase as needs:
            # Its size is bounded by the head, whose signature was checked.
            limit = min(wire.base_size_max(needs.base), BASE_MAX)
            path = f"{_FEED}/base/{needs.base.version}"
            return self._advanced(answer, self.transport.get_far(path, limit=limit))
        if base is not None:
            self.floor.save_base(base)
        return state

    def _state_after(
        self, answer: Answer, base: bytes | None, now: datetime, floor: Position | None
    ) -> State:
        held = self._held()
        if isinstance(self.trust, Trust):
            return self.trust.advance(held, answer, base=base, now=now, floor=floor)
        return advance(held, answer, base=base, now=now, trusted=self.trust, floor=floor)

    def _take(self, state: State, asked: Moment) -> None:
        """Save `state`, which the service confirmed when it was asked, and make it count."""
        before, known, trust = self.view.state, self._signed_by, self.trust
        if isinstance(trust, Trust):
            trust = trust.with_current(state.signed_by)
        signers = _signers(trust, state.signed_by)
        if before is None or before.head != state.head or signers != self._signers:
            self.floor.save(_saved(state, trust, asked))
            self._signers = signers
        self.trust, self._position, self._signed_by = trust, state.position, state.signed_by
        self._confirm(state, asked, self._keys(state.head))
        if known not in {None, state.signed_by}:
            self._emit(events.Pinned(state.signed_by))
        if before is None or before.sequence != state.sequence:
            past = before.sequence if before else None
            self._emit(events.Advanced(past, state.sequence, len(state.revoked)))

    def _confirm(self, state: State, asked: Moment, keys: Bundle | None) -> None:
        self.view = View.of(state, asked, self._policy.max_staleness, keys=keys, end=self._end())

    def _restored(self, saved: Saved, position: Position | None) -> State | None:
        if saved.base is None or saved.origin is None or saved.latest is None or position is None:
            return None
        base = self.floor.load_base(saved.base)
        if base is None:
            return None
        keys = self.trust.believed() if isinstance(self.trust, Trust) else self.trust.keys
        trusted = Trusted(self.trust.tenant, keys)
        try:
            origin, latest = parse_answer(saved.origin), parse_answer(saved.latest)
            return restore(origin, base, latest, trusted=trusted, floor=position)
        except RefusedAnswer:
            # Other keys are trusted than when it was saved. The position still counts.
            return None

    def _keys(self, head: wire.SignedHead) -> Bundle | None:
        """Return the signing keys that a head names; None if they cannot be read now."""
        document = self.trust.document if isinstance(self.trust, Belief) else None
        if not self.wants_keys or head.keys is None or document is None:
            return None
        held, name = self.view.keys, (head.keys, document.signing_keys)
        if held and held.name == name:
            return held
        now = time.monotonic()
        if now < self._signing_keys_due:
            return None
        try:
            keys = self._read_signing_keys(head.keys, document, held)
        except NotTrusted as refused:
            self._emit(events.Refused(refused.reason.value))
        except NoAnswer as error:
            message = f"the signing keys cannot be read: {error}"
            self._emit(events.Failed(message, _SIGNING_KEYS_SECONDS))
        else:
            return Bundle.named(keys, *name)
        self._signing_keys_due = now + _SIGNING_KEYS_SECONDS
        return None

    def _read_signing_keys(
        self, named: wire.Reference, document: TrustDocument, held: Bundle | None
    ) -> PublishedKeys:
        path = f"{_TRUST}/keys/{named.sha256.hex()}"
        blob = self.transport.get_far(path, limit=min(named.number, SIGNING_KEYS_MAX))
        keys = PublishedKeys.opened(blob, named, tenant_id=document.tenant_id)
        is_proven = held and held.name and held.name[1] == document.signing_keys
        proven = held.published.proven if held and held.published and is_proven else ()
        keys.check(document.signing_keys, proven=proven)
        return keys

    def _read_documents(self) -> None:
        """Learn of newer trust documents.

        Raises `NotTrusted`, `NoAnswer`, `DamagedFloor`, `OSError`.
        """
        if not isinstance(self.trust, Belief):
            return
        after = 0 if self._asks_all else self.trust.version
        response = self.transport.get(f"{_TRUST}?after={after}", limit=documents.ANSWER_BYTES_MAX)
        if response.status != _OK:
            raise unexpected(response)
        given = documents.documents(response.body)
        belief = self.trust.followed(given, datetime.now(UTC))
        if belief is not self.trust:
            self._believe(belief)
        self.documents = given

    def _believe(self, belief: Belief) -> None:
        """Save another document, and make it count."""
        signed_by = self._signed_by if self._signed_by in belief.keys else None
        position = belief.position(signed_by, self._position)
        state = self.view.state if signed_by and self.view.is_trusted else None
        if state:
            self.floor.save(_saved(state, belief, self.view.confirmed))
        elif position:
            self.floor.save(_without_state(belief, position, signed_by))
        self.trust, self._position, self._signed_by = belief, position, signed_by
        if state:
            self._confirm(state, self.view.confirmed, self.view.keys)
        elif self.view.state:
            # A thief may have signed it, so only a head by another key makes it count again.
            self.view, self._etag = self.view.distrusted(), None
        if belief.state:
            self._emit(events.TrustChanged(belief.version, belief.state.pin))

    def _read_keys(self) -> None:
        """Learn of new and revoked list signers. Raises `NoAnswer`, `OSError`."""
        self._keys_due = time.monotonic() + _KEYS_SECONDS_FAILED
        reported = self._page(None)
        for _ in range(_PAGES_MAX):
            if reported.cursor is None:
                break
            reported = reported.joined(self._page(reported.cursor))
        self._keys_due = time.monotonic() + _KEYS_SECONDS * _random.uniform(0.8, 1)
        if not isinstance(self.trust, Trust):
            return
        self.trust = self.trust.with_report(reported)
        state = self.view.state
        if state and state.signed_by in self.trust.revoked:
            # A thief may have signed it, so only a head by another key makes it count again.
            self.view, self._etag = self.view.distrusted(), None
        if state and self.trust.signers != self._signers:
            self.floor.save(_saved(state, self.trust, self.view.confirmed))
            self._signers = self.trust.signers

    def _page(self, cursor: str | None) -> ReportedSigners:
        path = f"{_KEYS}?cursor={quote(cursor, safe='')}" if cursor else _KEYS
        response = self.transport.get(path, limit=_KEYS_MAX)
        if response.status != _OK:
            raise unexpected(response)
        try:
            return ReportedSigners.parse(response.body)
        except ValueError as error:
            raise NoAnswer(str(error)) from None

    def _wait(self) -> int:
        return self._policy.wait(self.last.wait_max) if self.last else 0

    def _pause(self, seconds: float, *, changed: bool) -> float:
        longest = self._policy.pause(self.last.poll_seconds if self.last else 0)
        wait = self._wait()
        # A service that grants a wait and does not wait is polled as if it did not grant it.
        if wait and (changed or seconds > wait / 2):
            longest = _AFTER_WAIT
        return longest * _random.uniform(0.5, 1)

    def _refused(self, reason: Reason | RootReason) -> float:
        self._etag, self._has_gap = None, reason == Reason.GAP
        self._emit(events.Refused(reason.value))
        return self._backoff()

    def _failed(self, message: str, retry_after: float = 0.0) -> float:
        pause = max(self._backoff(), retry_after)
        self._emit(events.Failed(message, pause))
        return pause

    def _backoff(self) -> float:
        self._failures += 1
        doubled = self._policy.poll_seconds * 2.0 ** min(self._failures, 10)
        longest = max(self._policy.poll_seconds, min(doubled, _BACKOFF_MAX))
        return longest * _random.uniform(0.5, 1)


def _saved(state: State, trust: Trust | Belief, asked: Moment) -> Saved:
    latest = state.latest.encode() if state.latest else None
    return Saved(
        trust.tenant,
        state.sequence,
        state.head.chain,
        state.head.issued_at,
        asked.wall,
        _signers(trust, state.signed_by),
        base=state.origin_base.sha256 if latest else None,
        origin=state.origin.encode() if latest else None,
        latest=latest,
        trust=trust.state if isinstance(trust, Belief) else None,
    )


def _without_state(belief: Belief, position: Position, signed_by: bytes | None) -> Saved:
    signers = _signers(belief, signed_by)
    return Saved(belief.tenant, *position, _NEVER, 0.0, signers, trust=belief.state)


def _signers(trust: Trust | Belief, signed_by: bytes | None) -> Signers:
    return trust.signers if isinstance(trust, Trust) else Signers(signed_by)
