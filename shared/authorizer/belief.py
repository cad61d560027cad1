"""Whom a client believes: the trust documents of one tenant, and the heads that they vouch for.

Everything here is pure. A relay, and the conformance suite, use it as the client does (TRUST-12 to
TRUST-14).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Self

from .answers import Answer
from .formats import ed25519
from .formats.documents import NotTrusted, RootReason, SignedDocument
from .formats.following import JudgedHead, TrustState, follow, judge
from .formats.members import from_base64
from .formats.trust import Roots, TrustDocument, Use
from .formats.wire import Position

# The refusals of a head after which a client reads documents, and checks the head again.
OF_DOCUMENTS: Final = frozenset({RootReason.SIGNATURE, RootReason.TRUST_EXPIRED, RootReason.BEHIND})


@dataclass(frozen=True, slots=True)
class Belief:
    """The belief of a client about one tenant.

    `state` has the pin, and the document that was reached from it. It is None before the first
    document of a client that has no pin: then one of the list signers `vouching` (32 bytes each),
    that it had from the release before, must have signed a document, and the roots of this one are
    the pin from then on (TRUST-20).
    """

    tenant: str
    state: TrustState | None
    vouching: frozenset[bytes] = frozenset()

    @classmethod
    def of(cls, tenant: str, trust_root: str | None, public_keys: Iterable[bytes | str]) -> Self:
        """Return the belief of a client that is given a pin, or list signers, raw or in base64.

        Raises `ValueError` or `TypeError` if it is given neither, or what is none.
        """
        if isinstance(public_keys, bytes | str):
            raise TypeError("public_keys must be a list of keys")
        if trust_root is not None:
            return cls(tenant, TrustState(tenant, trust_root))
        if not (keys := frozenset(map(_raw, public_keys))):
            raise ValueError("pass trust_root, the pin that `rescind trust show` prints")
        return cls(tenant, None, keys)

    def resumed(
        self, saved: TrustState | None, signer: bytes | None, revoked: frozenset[bytes]
    ) -> Self:
        """Return the belief after a restart with what a floor has.

        `signer` signed the newest head, and `revoked` are list signers that the release before knew
        to be stolen.
        """
        if saved is not None:
            return replace(self, state=saved.pinned(self.state.pin) if self.state else saved)
        vouching = frozenset({signer} if signer else ()) - revoked
        return replace(self, vouching=vouching or self.vouching - revoked)

    def followed(self, given: Sequence[SignedDocument], now: datetime) -> Self:
        """Return the belief after the documents of an answer; itself if they are no news.

        Save it before it counts. Raises `NotTrusted`.
        """
        if not given:
            return self
        before = self.state or TrustState(self.tenant, self._vouched(given))
        state = follow(before, given, now)
        return self if state is self.state else replace(self, state=state)

    def verified(self, answer: Answer, now: datetime, likely: bytes | None, /) -> JudgedHead:
        """Return the head of an answer and its key, which the document names. Raises `NotTrusted`.

        After a reason of `OF_DOCUMENTS`, read documents and check the answer again.
        """
        if self.state is None:
            raise NotTrusted(RootReason.SIGNATURE)
        return judge(answer.payload, answer.signature, self.state, now, likely=likely)

    @property
    def version(self) -> int:
        """The version of the held document, 0 without one."""
        return self.state.version if self.state else 0

    @property
    def document(self) -> TrustDocument | None:
        """The held document. From its end on no head clears a warrant."""
        held = self.state.held if self.state else None
        return held.document if held else None

    @property
    def keys(self) -> frozenset[bytes]:
        """The keys that may have signed the saved head."""
        return frozenset(self.state.named(Use.LISTS)) if self.state else self.vouching

    def position(self, signed_by: bytes | None, saved: Position | None) -> Position | None:
        """Return the position below which no head is accepted (TRUST-14)."""
        return self.state.position(signed_by, saved) if self.state else saved

    def _vouched(self, given: Iterable[SignedDocument]) -> str:
        """Return the pin of the first document that a known list signer signed."""
        by = Roots(tuple(self.vouching), 1)
        for each in given:
            if each.is_signed_by(by):
                return each.document.roots.pin
        raise NotTrusted(RootReason.ROOT)


def _raw(given: bytes | str) -> bytes:
    key = given if isinstance(given, bytes) else from_base64(given)
    if not ed25519.is_safe(key):
        raise ValueError("a public key must be one of Ed25519, of 32 bytes")
    return key
