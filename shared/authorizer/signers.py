"""Which list signers a client accepts: it walks from its pin upwards, by statements alone.

Everything here is pure. A relay, and the conformance suite, use it as the client does (FEED-9).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Self

from . import state
from .answers import Answer
from .formats import ed25519, wire
from .formats.statements import Form, ReportedSigners, Statement, authors, follow, highest, raw_key
from .policy import Reason, RefusedAnswer
from .state import Position, State, Trusted

# The refusals after which a client reads the list signers, and checks the answer again.
OF_SIGNERS: Final = frozenset(
    {
        Reason.SIGNATURE,
        Reason.SIGNER_REVOKED,
        Reason.SIGNER_OLDER,
        Reason.STATEMENT_MISSING,
        Reason.STATEMENT_FORGED,
        Reason.STATEMENT_TENANT,
        Reason.STATEMENT_ORDER,
    }
)


@dataclass(frozen=True, slots=True)
class Signers:
    """The list signers that a client has met, as raw public keys of 32 bytes.

    `current` signed the newest head: it is the pin from then on. `statements` lead to it. `revoked`
    are the keys that were ever reported as revoked and had signed something.
    """

    current: bytes | None = None
    statements: tuple[Form, ...] = ()
    revoked: frozenset[bytes] = frozenset()

    @property
    def superseded(self) -> frozenset[bytes]:
        """The signers before the current one, which sign no new head, and no statement."""
        return frozenset(Statement.opened(each).previous for each in self.statements)


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom a client believes: the `pinned` keys of one tenant, and what it has learned since.

    `listed` are the signers that the service reported last, each with its statement, and `reported`
    those that it called revoked.
    """

    tenant: str
    pinned: frozenset[bytes]
    signers: Signers = field(default_factory=Signers)
    listed: Mapping[bytes, Form | None] = field(default_factory=dict)
    reported: frozenset[bytes] = frozenset()

    @property
    def revoked(self) -> frozenset[bytes]:
        """The keys that are not accepted, because they were or are reported as revoked."""
        return self.signers.revoked | self.reported

    def restarted(self) -> Self:
        """Return what is left of this after a restart."""
        return replace(self, listed={}, reported=frozenset())

    def believed(self) -> frozenset[bytes]:
        """Return all keys that ever could sign, but those that are revoked."""
        forms = [form for _, form in self._opened()]
        return frozenset(follow(self.pinned, forms, revoked=self.revoked))

    def accepted(self) -> frozenset[bytes]:
        """Return the keys that may sign the next head.

        They are the current one, those that statements lead to from it, and pinned keys; but none
        that is revoked, or older than the current one. Statements of an older key are ignored.
        """
        current, revoked = self.signers.current, self.revoked
        held = follow(self.pinned, self.signers.statements, revoked=revoked)
        roots = self.pinned | (held.keys() & {current})
        number = highest(self.signers.statements)
        forms = [
            form
            for statement, form in self._opened()
            if statement.previous != current or statement.number > number
        ]
        return frozenset(follow(roots, forms, revoked=revoked | self.signers.superseded))

    def advance(
        self,
        held: State | None,
        answer: Answer,
        *,
        base: bytes | None,
        now: datetime,
        floor: Position | None,
    ) -> State:
        """Return the state after `answer`, as `state.advance` does, by an accepted signer.

        Raises `RefusedAnswer`, with the name of the fault if the signer is not accepted, or
        `NeedsBase`.
        """
        trusted = Trusted(self.tenant, self.accepted())
        try:
            return state.advance(held, answer, base=base, now=now, trusted=trusted, floor=floor)
        except RefusedAnswer as refused:
            if refused.reason is not Reason.SIGNATURE:
                raise
            raise RefusedAnswer(self._fault(answer)) from None

    def with_report(self, reported: ReportedSigners) -> Self:
        """Return this with what the service reported.

        A revoked key stays revoked, if this client knows something that it signed: a head or a
        statement. The status of any other key counts as long as it is reported. Nobody signs it, so
        one false word about a key that is yet to sign would otherwise refuse it for ever.
        """
        forms = [*self.signers.statements, *reported.statements]
        signed = authors(forms) | {self.signers.current}
        signers = replace(self.signers, revoked=self.signers.revoked | reported.revoked & signed)
        return replace(self, signers=signers, listed=reported.listed, reported=reported.revoked)

    def with_current(self, key: bytes) -> Self:
        """Return this with `key` as the signer of the newest head, from which the next walk is."""
        if key == self.signers.current:
            return self
        signers = replace(self.signers, current=key, statements=tuple(self._leading_to(key)))
        return replace(self, signers=signers)

    def _leading_to(self, key: bytes) -> list[Form]:
        """Return the statements about `key` and about the believed keys before it."""
        believed, found, left = self.believed(), [], {key}
        # Numbers rise along a chain, so in this order each follows those that depend on it.
        for statement, form in sorted(self._opened(), key=lambda each: -each[0].number):
            if statement.public_key in left and statement.previous in believed - {key}:
                left.add(statement.previous)
                found.append(form)
        return found

    def _fault(self, answer: Answer) -> Reason:
        """Return why the signer of a head is not accepted; SIGNATURE if no known key signed it."""
        signed, signers = wire.signed_part(answer.payload), self.signers
        for key in {*self.listed, *self.pinned, *signers.superseded, *self.revoked}:
            if ed25519.is_signed(signed, answer.signature, public_key=key):
                return self._broken_link(key, self.accepted())
        return Reason.SIGNATURE

    def _broken_link(self, key: bytes, accepted: frozenset[bytes]) -> Reason:
        """Return the fault of the first link that does not hold, from `key` downwards."""
        passed = {*accepted}
        while True:
            link = self._link(key)
            if isinstance(link, Reason):
                return link
            if link.previous in passed:
                return Reason.STATEMENT_ORDER
            passed.add(key)
            key = link.previous

    def _link(self, key: bytes) -> Statement | Reason:
        """Return the statement by which `key` may follow another one, or why it has none."""
        if key in self.revoked:
            return Reason.SIGNER_REVOKED
        if key in self.signers.superseded:
            return Reason.SIGNER_OLDER
        form = self.listed.get(key)
        if form is None:
            return Reason.STATEMENT_MISSING
        try:
            statement = Statement.opened(form)
            if statement.public_key != key:
                raise ValueError("it is about another key")
        except (KeyError, TypeError, ValueError):
            return Reason.STATEMENT_FORGED
        return statement if statement.tenant_id == self.tenant else Reason.STATEMENT_TENANT

    def _opened(self) -> list[tuple[Statement, Form]]:
        opened = {}
        for form in (*self.signers.statements, *self.listed.values()):
            try:
                statement = Statement.opened(form or {})
            except (KeyError, TypeError, ValueError):
                continue
            if statement.tenant_id == self.tenant:
                opened[statement] = form or {}
        return list(opened.items())


def public_keys(given: Iterable[bytes | str]) -> frozenset[bytes]:
    """Return raw public keys, each given raw or in base64.

    Raises `ValueError` if there is none, or if one is not a safe Ed25519 key.
    """
    if isinstance(given, bytes | str):
        raise TypeError("public_keys must be a list of keys")
    keys = frozenset(map(raw_key, given))
    if not keys:
        raise ValueError("public_keys must be one Ed25519 public key or more, each of 32 bytes")
    return keys
